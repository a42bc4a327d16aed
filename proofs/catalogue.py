"""All proofs, in the order of the table."""

from __future__ import annotations

from .proof import Proof
from .rescaling import RESCALING_PROOFS
from .sdram import SDRAM_PROOFS
from .streams import STREAM_PROOFS

PROOFS: tuple[Proof, ...] = (*STREAM_PROOFS, *RESCALING_PROOFS, *SDRAM_PROOFS)
