"""All proofs, in the order of the table."""

from __future__ import annotations

from .crossings import CROSSING_PROOFS
from .links import LINK_PROOFS
from .proof import Proof
from .rescaling import RESCALING_PROOFS
from .sdram import SDRAM_PROOFS
from .streams import STREAM_PROOFS
from .windows import WINDOW_PROOFS

PROOFS: tuple[Proof, ...] = (
    *STREAM_PROOFS, *CROSSING_PROOFS, *RESCALING_PROOFS, *WINDOW_PROOFS, *SDRAM_PROOFS, *LINK_PROOFS)
