"""All proofs, in the order of the table."""

from __future__ import annotations

from .branches import BRANCH_PROOFS
from .crossings import CROSSING_PROOFS
from .ethernet import ETHERNET_PROOFS
from .flash import FLASH_PROOFS
from .links import LINK_PROOFS
from .netlists import NETLIST_PROOFS
from .proof import Provable
from .rescaling import RESCALING_PROOFS
from .sdram import SDRAM_PROOFS
from .streams import STREAM_PROOFS
from .user_flash import USER_FLASH_PROOFS
from .windows import WINDOW_PROOFS

PROOFS: tuple[Provable, ...] = (
    *STREAM_PROOFS, *BRANCH_PROOFS, *CROSSING_PROOFS, *RESCALING_PROOFS, *WINDOW_PROOFS, *SDRAM_PROOFS,
    *FLASH_PROOFS, *USER_FLASH_PROOFS, *LINK_PROOFS, *ETHERNET_PROOFS, *NETLIST_PROOFS)
