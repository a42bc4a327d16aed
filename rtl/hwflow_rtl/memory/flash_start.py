"""What a QSPI flash is told and asked after a reset, and what is wrong with its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Mux, Value
from amaranth.lib import enum

from .flash_part import FlashPart

__all__ = ["FlashError", "Step", "start_steps"]

LEAVE_CONTINUOUS, RELEASE, READ_ID = 0xFF, 0xAB, 0x9F
VOLATILE_WRITE, WRITE_STATUS_2, READ_STATUS_2 = 0x50, 0x31, 0x35
#: Bit QE of status register 2.
QUAD_ENABLE = 1


class FlashError(enum.Enum, shape=3):
    """Why a flash cannot be read: no error; all lines stayed at one level; another JEDEC identifier; QE stays 0.

    Or why what it holds is no image for this design (`seal`): nothing was written; another design's; cut or damaged."""

    NONE = 0
    NO_ANSWER = 1
    WRONG_PART = 2
    NOT_QUAD = 3
    EMPTY = 4
    OTHER_DESIGN = 5
    DAMAGED = 6


@dataclass(frozen=True)
class Step:
    """A command on one line: `send` are its first 16 bits, `clocks` how many it lasts, `rest` how many chip select is
    high after it.  `wrong` says what is wrong if the last bits that arrived are these.
    """

    send: int
    clocks: int
    rest: int
    wrong: Callable[[Value], Value] | None = None


def start_steps(part: FlashPart) -> tuple[Step, ...]:
    """All steps in order.

    A chip in continuous read mode takes the ones as an address and a mode that leaves it: bit 4 of the mode comes on
    IO0, whatever the other lines are, after 8 clocks with four lines and 16 with two (Winbond W25Q128JV-DTR data sheet,
    fast read quad I/O).
    Any other chip ignores them, and one in power-down ignores all but the release.
    """
    clocks, rest = part.clocks, part.clocks.deselect
    steps = [Step(LEAVE_CONTINUOUS << 8 | LEAVE_CONTINUOUS, 32 // part.lines, rest),
             Step(RELEASE << 8, 8, max(clocks.release, rest)),
             Step(READ_ID << 8, 32, rest, lambda word: wrong_id(part, word[:24]))]
    if part.lines == 4:
        steps += [Step(VOLATILE_WRITE << 8, 8, rest), Step(WRITE_STATUS_2 << 8 | 1 << QUAD_ENABLE, 16, rest),
                  Step(READ_STATUS_2 << 8, 16, rest, not_quad)]
    return tuple(steps)


def wrong_id(part: FlashPart, number: Value) -> Value:
    right = Value.cast(0)
    for expected in part.jedec_ids:
        right |= number == expected
    silent = number.all() | ~number.any()
    return Mux(right, FlashError.NONE, Mux(silent, FlashError.NO_ANSWER, FlashError.WRONG_PART))


def not_quad(word: Value) -> Value:
    return Mux(word[QUAD_ENABLE], FlashError.NONE, FlashError.NOT_QUAD)
