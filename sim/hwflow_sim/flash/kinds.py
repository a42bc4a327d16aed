"""The simulated memory for a part that only a programmer writes: a QSPI flash, or the user flash of an FPGA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import AnyFlash, SealedFlash, UserFlashPart

from ..board import BoardChip
from .model import MODEL, VIOLATIONS, Flash, board_chip
from .user_flash import USER_FLASH_MODEL, USER_FLASH_VIOLATIONS, UserFlash, user_flash_chip


def flash_of(part: AnyFlash | SealedFlash) -> AnyFlash:
    """The flash itself."""
    return part.flash if isinstance(part, SealedFlash) else part


def flash_at(part: AnyFlash, *, image: str = "", words: int = 0, tick: int = 1) -> Flash | UserFlash:
    """The simulated memory at the pins of a controller of `part`; the numbers are those of `Flash`."""
    make = UserFlash if isinstance(part, UserFlashPart) else Flash
    return make(part=part, image=image, words=words, tick=tick)


def flash_model(part: AnyFlash) -> Path:
    """The file of the simulated memory."""
    return USER_FLASH_MODEL if isinstance(part, UserFlashPart) else MODEL


def flash_violations(part: AnyFlash) -> tuple[str, ...]:
    """The counters of the simulated memory."""
    return USER_FLASH_VIOLATIONS if isinstance(part, UserFlashPart) else VIOLATIONS


def flash_chip(part: AnyFlash, contents: bytes, *, words: int) -> BoardChip:
    """The memory at the pins of a board's design: `board_chip`, `user_flash_chip`."""
    if isinstance(part, UserFlashPart):
        return user_flash_chip(part, contents, words=words)
    return board_chip(part, contents, words=words)


def write_cells(path: Path, contents: npt.NDArray[np.uint8], first: int) -> None:
    """The bytes of `contents` from address `first` on, for $readmemh."""
    path.write_text(f"@{first:x}\n" + "\n".join(f"{octet:02x}" for octet in contents.tolist()) + "\n")
