"""Weights in a memory outside of the FPGA: which stages read them from there, how fast, and what that takes.

Each stage with a stream of weights reads its image once for each frame.  The streams share the memory in proportion to
their images.  So the images of all streams take the same time, and that time bounds the interval between frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import fields_repr
from hwflow_rtl.io import BoardTop
from hwflow_rtl.memory import (
    AnyFlash,
    MemoryPart,
    SealedFlash,
    WeightMemory,
    WeightSharing,
    WeightStream,
)
from hwflow_rtl.memory.seal import MARK_BYTES, SEAL_WORDS
from hwflow_rtl.vendor import Resources, Technology

from hwflow.hls.plan.choices import Choices
from hwflow.stages.folding import Folding
from hwflow.stages.stage import Stage


class TooManyWeights(HwflowError):
    """They do not fit the memory."""


@dataclass(frozen=True)
class OutsideMemory:
    """A memory of the board for a core that runs at `core_mhz` at most."""

    part: MemoryPart
    core_mhz: float

    __repr__ = fields_repr

    @property
    def bytes(self) -> int:
        """The bytes that weights may take; of a flash without the seal of their image."""
        words = self.part.words - (SEAL_WORDS if isinstance(self.part, AnyFlash) else 0)
        return words * self.part.width // 8

    def built(self, streams: Sequence[WeightStream]) -> MemoryPart:
        """Build what a board has for `streams`: of a flash one with an image and its seal."""
        if isinstance(self.part, AnyFlash):
            return SealedFlash(self.part, self.sharing(streams).words, bytes(MARK_BYTES))
        return self.part

    @property
    def slowdown(self) -> Fraction:
        """The clock of the core divided by that of the memory; 1 where the memory is faster."""
        return max(Fraction(1), Fraction(str(self.core_mhz)) / Fraction(str(self.part.clock_mhz)))

    @property
    def domain(self) -> str:
        """The clock domain of memory and controller: that of the core for a flash."""
        return "memory" if self.part.writable else "sync"

    def intervals(self, streams: Sequence[WeightStream]) -> tuple[Fraction, ...]:
        """For each stream the cycles of the core from beat to beat that it never has to exceed."""
        return self.sharing(streams).guaranteed(self.slowdown)

    def sharing(self, streams: Sequence[WeightStream]) -> WeightSharing:
        """How `streams` share it."""
        return WeightSharing(self.part, tuple(streams))


@dataclass(frozen=True)
class StreamPlan:
    """The weights that `stage` reads from a memory outside, `bytes` for a frame.

    `interval` is the number of cycles from beat to beat that the memory keeps up.
    """

    stage: str
    stream: WeightStream
    interval: Fraction

    __repr__ = fields_repr

    @property
    def bytes(self) -> int:
        """The bytes of a frame."""
        return -(-self.stream.bits // 8)


def paced(stages: Sequence[Stage], foldings: Sequence[Folding], outside: OutsideMemory | None) -> list[Folding]:
    """`foldings` with the `weight_interval` that `outside` keeps up.

    HwflowError where a stage has a stream of weights and `outside` is None, TooManyWeights where it is too small.
    """
    streams = {k: stream for k, (stage, folding) in enumerate(zip(stages, foldings, strict=True))
               if (stream := stage.weight_stream(folding)) is not None}
    if not streams:
        return list(foldings)
    if outside is None:
        name = stages[min(streams)].name
        raise HwflowError(f"stage '{name}' has weight_rows {foldings[min(streams)].weight_rows}, so its weights come "
                          "from a memory outside of the FPGA, but the board has none", "set weight_rows to 0")
    size = sum(-(-stream.bits // 8) for stream in streams.values())
    if size > outside.bytes:
        raise TooManyWeights(f"weights of {size} bytes do not fit the {outside.bytes} bytes of the memory "
                             f"{outside.part.name}")
    place = outside.sharing(list(streams.values())).words * outside.part.width // 8
    if place > outside.bytes:
        raise TooManyWeights(f"weights of {size} bytes, which with the gaps between bursts of {len(streams)} stages "
                             f"take {place}, do not fit the {outside.bytes} bytes of the memory {outside.part.name}")
    intervals = dict(zip(streams, outside.intervals(list(streams.values())), strict=True))
    return [replace(folding, weight_interval=max(Fraction(1), intervals[k])) if k in streams else folding
            for k, folding in enumerate(foldings)]


def slowest_intervals(stages: Sequence[Stage], streamed: Sequence[Choices],
                      outside: OutsideMemory, technology: Technology) -> npt.NDArray[np.int64]:
    """The intervals of the stages when the weights of all come from `outside` that can; none where it is too small.

    `streamed` has the foldings for that; the one with the longest stream counts.
    """
    plans = []
    for stage, choices in zip(stages, streamed, strict=True):
        streams = [(stream.bits, k) for k, choice in enumerate(choices.choices)
                   if (stream := stage.weight_stream(choice.folding)) is not None]
        if streams:
            plans.append((stage, choices.choices[max(streams)[1]].folding))
    try:
        foldings = paced([stage for stage, _ in plans], [folding for _, folding in plans], outside)
    except HwflowError:
        return np.array([], dtype=np.int64)
    return np.array([stage.schedule(folding, technology).interval
                     for (stage, _), folding in zip(plans, foldings, strict=True)], dtype=np.int64)


def streams_of(stages: Sequence[Stage], foldings: Sequence[Folding]) -> tuple[StreamPlan, ...]:
    """The streams of weights of stages with these foldings, in the order of the stages."""
    return tuple(StreamPlan(stage.name, stream, folding.weight_interval)
                 for stage, folding in zip(stages, foldings, strict=True)
                 if (stream := stage.weight_stream(folding)) is not None)


def outside_cost(outside: OutsideMemory | None, streams: Sequence[StreamPlan], technology: Technology) -> Resources:
    """The cost of all that weights outside take; nothing where there are none, or more than the memory has room for:
    which other one would have them is not known."""
    if outside is not None and sum(stream.bytes for stream in streams) > outside.bytes:
        return Resources()
    return reading_cost(outside, streams, technology) + telling_cost(outside, streams, technology)


def reading_cost(outside: OutsideMemory | None, streams: Sequence[StreamPlan], technology: Technology) -> Resources:
    """The cost of controller, readers and queues."""
    if outside is None or not streams:
        return Resources()
    weights = [read.stream for read in streams]
    return WeightMemory.cost(part=outside.built(weights), streams=weights, technology=technology, domain=outside.domain)


def telling_cost(outside: OutsideMemory | None, streams: Sequence[StreamPlan], technology: Technology) -> Resources:
    """The cost of what the host link takes more."""
    if outside is None or not streams:
        return Resources()
    return BoardTop.memory_cost(technology, writable=outside.part.writable, width=outside.part.width)
