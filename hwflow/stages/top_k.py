"""The stage of the largest or smallest channels."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow_rtl.rows.top_k import MOST, TopKShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.top_k import TopK
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.stage import LayerStage


class TopKStage(LayerStage[TopK]):
    """Comparisons, and a chain of the best so far."""

    def hardware_problem(self) -> str | None:
        k = self.layer.k
        return None if k <= MOST else f"k must be at most {MOST} in hardware, not {k}; leave it to the host"

    def shared_problem(self) -> str | None:
        return "a shared stage compares elements of one channel, not channels with each other"

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels comes at once where one is looked for, else one channel; all k leave at once."""
        k = self.layer.k
        return (Folding(1, cols, k) for cols in (divisors(self.x.frame.channels) if k == 1 else [1]))

    def shape(self, folding: Folding, technology: Technology) -> TopKShape:
        layer, frame = self.layer, self.x.frame
        return TopKShape(
            pixels=frame.height * frame.width, channels=frame.channels, lanes=folding.cols,
            element=shape_of(layer.input_format), output=shape_of(self.y.format), k=layer.k, largest=layer.largest,
            gives_indices=layer.gives_indices, last_index=layer.last_index)
