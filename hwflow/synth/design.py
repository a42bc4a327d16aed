"""A design, and the end of every way to its bitstream: `identity.json`, which names the design to a driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from hwflow_base.work import Audience
from hwflow_rtl.core import Core

from hwflow.stages.folding import Folding

from ..hls import Plan, lower, weight_image
from ..host.identity import BoardFacts, DesignFacts, hardware_identity_of, identity, sums_outside
from ..host.weight_image import WeightImage
from ..layers.base import LayerGraph
from .bitstream import synthesize
from .board_weights import BoardWeights
from .boards import Board
from .options import SynthesisOptions
from .report import SynthesisReport
from .top import CoreOnBoard, ends_of


@dataclass(frozen=True)
class Design:
    """A plan with its weights, for a board.

    `graph` has the integers, which the identity is made of.  `structure` is the graph in the form of the hardware where
    that is another one: with room for other weights.
    """

    graph: LayerGraph
    plan: Plan
    board: Board
    structure: LayerGraph | None = None

    def core(self) -> Core:
        """The hardware, in the primitives of the board's family; made anew by every call."""
        return lower(self.structure or self.graph, self.plan, self.board.technology())

    def on_board(self) -> CoreOnBoard:
        """The hardware, and what goes around it on the board; made anew by every call."""
        return CoreOnBoard(self.core(), self.board, ends_of(self.plan), self.identity(), self.weights(), self.plan)

    def identity(self) -> bytes:
        """The name of the bitstream to the host (docs/host-link.md); weights beside the FPGA are not in it."""
        partition = self.plan.partition
        sums = sums_outside(self.structure or self.graph, self.foldings, partition)
        return hardware_identity_of(self.graph, self.foldings, partition, sums)

    @property
    def foldings(self) -> tuple[Folding, ...]:
        """The foldings of the stages, in order."""
        return tuple(stage.folding for stage in self.plan.stages)

    def weights(self) -> BoardWeights | None:
        """The weights in a memory of the board; None where all of them are in the FPGA."""
        return BoardWeights.of(self.board, self.plan)

    def image(self) -> bytes | None:
        """The contents of that memory, the low byte of each word first; of a flash without the seal."""
        weights = self.weights()
        if weights is None:
            return None
        words, width = weight_image(self.structure or self.graph, self.plan), weights.memory.part.width
        return (words[:, None] >> np.arange(0, width, 8) & 0xFF).astype(np.uint8).tobytes()


class _Report(Protocol):
    @property
    def clock_mhz(self) -> float: ...


Report = TypeVar("Report", bound=_Report)


def finish_design(design: Design, folder: Path, make: Callable[[], Report], *, quantized: str,
                  keep: Callable[[], object]) -> Report:
    """The report of `make`, which puts the bitstream of `design` into `folder`.

    `keep` saves what belongs to the bitstream; then `identity.json` says which design it is, and that its integer model
    is in the folder `quantized`, a path from `folder`.  That file is the last one: what it names is there.
    """
    report = make()
    keep()
    image, outside = design.image(), design.weights()
    weights = None
    if image is not None and outside is not None:
        weights = WeightImage.write(folder, image, identity(design.graph, design.plan),
                                    mark=outside.mark if outside.flash else b"")
    board = BoardFacts(design.board.name, design.board.transport.facts(), report.clock_mhz)
    DesignFacts.of(design.graph, design.plan, board, quantized=quantized, weights=weights,
                   structure=design.structure).write(folder)
    return report


def synthesize_design(design: Design, folder: Path, options: SynthesisOptions, *, quantized: str,
                      keep: Callable[[], object], audience: Audience = Audience()) -> SynthesisReport:
    """The bitstream of `design` in `folder` by place and route; errors as of `synthesize`, the rest as `finish_design`.
    """
    def make() -> SynthesisReport:
        return synthesize(design.on_board(), folder, options, audience=audience)

    return finish_design(design, folder, make, quantized=quantized, keep=keep)
