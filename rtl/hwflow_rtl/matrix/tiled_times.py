"""The cycles of a `TiledStage` whose weights arrive as promised, for plans: quick even if there are many passes.

The passes inside of a group are alike: their words are in the stage, their weights come in time, and results always
find room.  So only the first and the last passes of each group are played.  Each pass between them takes the cycles of
`MatrixShape.cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..rescale.rescaler import RescalerConstants
from ..stream.times import StageTimes, Times, in_turn
from ..vendor.base import Technology
from .stage import MatrixStageShape
from .streamed_weights import StreamSource
from .tiled_shape import TiledShape
from .weights import BankWords

#: For times, which do not depend on them.
NO_WEIGHTS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class PromisedSource(StreamSource):
    """A source that lets the passes of a frame start `apart` cycles after the ones before them, at least."""

    apart: tuple[int, ...] = ()

    def starts(self, earliest: Times, pace: int, words: BankWords, arrivals: Times | None) -> tuple[Times, ...]:
        started = earliest.reshape(-1, words.pixels).copy()
        for n, blocks in enumerate(started):
            if n:
                apart = self.apart[n % len(self.apart)]
                blocks[0] = max(blocks[0], started[n - 1, -1] + pace, started[n - 1, 0] + apart)
            blocks[:] = in_turn(blocks, pace)
        return started.reshape(-1), np.zeros(0, dtype=np.int64)


def played_passes(shape: TiledShape) -> npt.NDArray[np.int64]:
    """The passes of a frame that are played: the first two, the last two, and the first and the last of each group."""
    groups = np.arange(shape.layer.frame.groups) * shape.tiles
    return np.unique([*groups, *(groups + shape.tiles - 1), 1, shape.passes - 2])


def promised_times(shape: TiledShape, rescaler: RescalerConstants, technology: Technology, arrivals: Times,
                   left: Times | None) -> StageTimes:
    """The times without arrivals of weights, for frames of more than two passes; `taken` has only `i`."""
    passes, begun, of_pass, replaying = played_passes(shape), None, shape.of_pass, shape.replaying
    steps = np.diff(passes, prepend=passes[-1] - shape.passes)
    # After passes that are left out the next one starts when these have ended.
    left_out = np.where(steps > 1, steps * of_pass.cycles(), 0)
    source = PromisedSource(shape.source.rows, shape.source.interval,
                            tuple(np.maximum(left_out, of_pass.tile_cycles).tolist()))
    played = MatrixStageShape(matrix=replace(of_pass, passes=len(passes), source=source), weights=NO_WEIGHTS,
                              rescaler=shape.constants(rescaler))
    depth = sum(replaying.ring_parts(technology))
    replay = replace(replaying.order, rows=replaying.order.rows[passes])
    replaying = replace(replaying, order=replay)
    while True:  # each round lets words wait longer for those before them; most need two
        replayed = replaying.times_with(depth, technology, arrivals, begun)
        computed = played.times(technology, replayed.departures)
        taken = computed.taken[0].reshape(-1, len(passes), replay.output_words // len(passes)).copy()
        for n in np.flatnonzero(left_out):  # no words ahead of those that are left out
            taken[:, n] = np.maximum(taken[:, n], taken[:, n - 1] + left_out[n])
        if begun is not None and np.array_equal(begun, taken.reshape(-1)):
            break
        begun = taken.reshape(-1)
    results = computed.departures.reshape(-1, len(passes), of_pass.pixels * of_pass.drain)
    every = np.arange(shape.passes)
    before = np.searchsorted(passes, every, side="right") - 1
    whole = results[:, before] + ((every - passes[before]) * of_pass.cycles())[:, None]
    # The ring of the results has room for all that come.
    gathered = shape.gathering.times(technology, whole.reshape(-1), left=left)
    return StageTimes((replayed.taken[0],), gathered.departures)
