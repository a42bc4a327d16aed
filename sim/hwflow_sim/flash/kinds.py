"""The simulated memory for a part that only a programmer writes: a QSPI flash, or the user flash of an FPGA."""

from __future__ import annotations

from pathlib import Path

from hwflow_rtl.memory import AnyFlash, SealedFlash, UserFlashPart

from ..board import BoardChip
from .model import MODEL, VIOLATIONS, Flash
from .on_board import board_chip
from .user_flash import USER_FLASH_MODEL, USER_FLASH_VIOLATIONS, UserFlash, user_flash_chip


def flash_of(part: AnyFlash | SealedFlash) -> AnyFlash:
    """The flash itself."""
    return part.flash if isinstance(part, SealedFlash) else part


def flash_at(part: AnyFlash, *, image: str = "", words: int = 0, tick: int = 1) -> Flash | UserFlash:
    """The simulated memory at the pins of a controller of `part`; the numbers are those of `Flash`."""
    make = UserFlash if isinstance(part, UserFlashPart) else Flash
    return make(part=part, image=image, words=words, tick=tick)


def flash_model(part: AnyFlash) -> Path:
    """Its file."""
    return USER_FLASH_MODEL if isinstance(part, UserFlashPart) else MODEL


def flash_violations(part: AnyFlash) -> tuple[str, ...]:
    """What it counts."""
    return USER_FLASH_VIOLATIONS if isinstance(part, UserFlashPart) else VIOLATIONS


def flash_chip(part: AnyFlash, contents: bytes, *, words: int) -> BoardChip:
    """At the pins of a board's design: `board_chip`, `user_flash_chip`."""
    if isinstance(part, UserFlashPart):
        return user_flash_chip(part, contents, words=words)
    return board_chip(part, contents, words=words)
