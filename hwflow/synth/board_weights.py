"""The weights of a design that are in a memory of its board: the memory's clock, its gateware, its seal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError
from hwflow_rtl.memory import (
    AnyFlash,
    FlashPart,
    SealedFlash,
    WeightMemory,
    WeightSharing,
    WeightStream,
)
from hwflow_rtl.memory.seal import MARK_BYTES
from hwflow_rtl.vendor import Technology
from hwflow_rtl.vendor.pll import PllSettings

from ..hls import Plan
from .board_memories import BoardMemory, Part
from .boards import Board

#: The clock domain of an SDRAM and its controller, and of a flash, which has the clock of the core.
DOMAIN, CORE_DOMAIN = "memory", "sync"


@dataclass(frozen=True)
class BoardWeights:
    """The weights that `memory` gives the stages of a design: `streams`, in the order of the stages."""

    memory: BoardMemory
    streams: tuple[WeightStream, ...]

    @staticmethod
    def of(board: Board, plan: Plan) -> BoardWeights | None:
        """The weights of `plan`, None where all weights are on the chip.  HwflowError for a memory that `board`
        lacks."""
        if not plan.streams:
            return None
        assert plan.outside is not None
        for memory in board.memories:
            if memory.part == plan.outside.part:
                return BoardWeights(memory, tuple(planned.stream for planned in plan.streams))
        raise HwflowError(f"the plan has weights in {plan.outside.part.name}, which {board.name} must have")

    @property
    def mark(self) -> bytes:
        """The mark that images for the same streams have in their seals."""
        return hashlib.sha256(repr(self.streams).encode()).digest()[:MARK_BYTES]

    @property
    def flash(self) -> SealedFlash | None:
        """A flash with the image of these streams; None where the memory is another one."""
        part = self.memory.part
        return SealedFlash(part, WeightSharing(part, self.streams).words, self.mark) if isinstance(
            part, AnyFlash) else None

    @property
    def domain(self) -> str:
        """The clock domain of the memory."""
        return CORE_DOMAIN if isinstance(self.memory.part, AnyFlash) else DOMAIN

    @property
    def core_limit_mhz(self) -> float | None:
        """The clock that the core must not exceed because the memory has it, too; None where that has its own."""
        return self.memory.part.clock_mhz if self.domain == CORE_DOMAIN else None

    def data_margins(self, core_mhz: float) -> tuple[float, float] | None:
        """`FlashPart.setup_margin` and `hold_margin` beside a core of `core_mhz`, ns; None for another memory."""
        part = self.memory.part
        return (round(part.setup_margin(core_mhz), 3), part.hold_margin) if isinstance(part, FlashPart) else None

    def own_mhz(self, board: Board) -> float | None:
        """The clock of the memory, None where it has the core's."""
        return self.part(board).clock_mhz if self.domain == DOMAIN else None

    def pll(self, board: Board) -> PllSettings | None:
        """The PLL of the memory's own clock: the highest that is not above the board file's; None for the oscillator or
        the core's clock."""
        mhz = self.memory.part.clock_mhz
        if mhz == board.clock_mhz or self.domain == CORE_DOMAIN:
            return None
        settings = board.technology().pll_settings(board.clock_mhz, mhz)
        if settings is None:
            raise HwflowError(f"the memory {self.memory.part.name} of {board.name} must have a clock of {mhz:g} MHz "
                              f"or less, which no PLL of {board.device} makes of {board.clock_mhz:g} MHz")
        return settings

    def part(self, board: Board) -> Part:
        """The memory at the clock that it gets: times of its data sheet are other numbers of clocks then."""
        pll = self.pll(board)
        return self.memory.part if pll is None else replace(self.memory.part, clock_mhz=float(pll.output_mhz))

    def gateware(self, board: Board, technology: Technology | None = None) -> WeightMemory:
        """In the clock domain `domain`.  A flash gives nothing unless it has an image with the seal of this design.

        `technology` is that of the board's family unless given."""
        return WeightMemory(part=self.flash or self.part(board), streams=self.streams,
                            technology=technology or board.technology(), domain=self.domain)
