"""The weights of a design that are in a memory of its board: the memory's clock and its gateware."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError
from hwflow_rtl.memory import FlashPart, SdramPart, SealedFlash, WeightMemory, WeightSharing, WeightStream
from hwflow_rtl.memory.seal import MARK_BYTES
from hwflow_rtl.vendor.pll import PllSettings

from ..hls import Plan
from .board_memories import BoardMemory
from .boards import Board

__all__ = ["BoardWeights"]

#: The clock domain of a memory and its controller.
DOMAIN = "memory"


@dataclass(frozen=True)
class BoardWeights:
    """What `memory` gives the stages of a design: `streams`, in the order of the stages."""

    memory: BoardMemory
    streams: tuple[WeightStream, ...]

    @staticmethod
    def of(board: Board, plan: Plan) -> BoardWeights | None:
        """Those of `plan`, None where all weights are on the chip.  HwflowError for a memory that `board` lacks."""
        if not plan.streams:
            return None
        assert plan.outside is not None
        for memory in board.memories:
            if memory.part == plan.outside.part:
                return BoardWeights(memory, tuple(each.stream for each in plan.streams))
        raise HwflowError(f"the plan has weights in {plan.outside.part.name}, which {board.name} must have")

    @property
    def mark(self) -> bytes:
        """What images for the same streams have in their seals."""
        return hashlib.sha256(repr(self.streams).encode()).digest()[:MARK_BYTES]

    def pll(self, board: Board) -> PllSettings | None:
        """What makes the memory's clock: the highest that is not above the board file's; None for the oscillator."""
        wanted = self.memory.part.clock_mhz
        if wanted == board.clock_mhz:
            return None
        settings = board.technology().pll_settings(board.clock_mhz, wanted)
        if settings is None:
            raise HwflowError(f"the memory {self.memory.part.name} of {board.name} must have a clock of {wanted:g} MHz "
                              f"or less, which no PLL of {board.device} makes of {board.clock_mhz:g} MHz")
        return settings

    def part(self, board: Board) -> SdramPart | FlashPart:
        """The memory at the clock that it gets: times of its data sheet are other numbers of clocks then."""
        pll = self.pll(board)
        return self.memory.part if pll is None else replace(self.memory.part, clock_mhz=float(pll.output_mhz))

    def gateware(self, board: Board) -> WeightMemory:
        """In the clock domain `memory`.  A flash gives nothing unless it has an image with the seal of this design."""
        part: SdramPart | SealedFlash
        found = self.part(board)
        if isinstance(found, FlashPart):
            part = SealedFlash(found, WeightSharing(found, self.streams).words, self.mark)
        else:
            part = found
        return WeightMemory(part=part, streams=self.streams, technology=board.technology(), domain=DOMAIN)
