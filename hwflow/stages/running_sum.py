"""The stage of sums of the channels so far."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.rows.running_sum import MOST_LANES, RunningSumShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.running_sum import RunningSum
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.stage import LayerStage


class RunningSumStage(LayerStage[RunningSum]):
    """Adders in a row, and the sum of the beats before."""

    def shared_problem(self) -> str | None:
        return "a shared stage gives elements of 8 bits, and sums of the channels so far have more"

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels comes and leaves at once, up to `MOST_LANES`."""
        lanes = (lanes for lanes in divisors(self.x.frame.channels) if lanes <= MOST_LANES)
        return (Folding(1, count, count) for count in lanes)

    def shape(self, folding: Folding, technology: Technology) -> RunningSumShape:
        frame, format = self.x.frame, self.layer.input_format
        return RunningSumShape(
            name=self.name, pixels=frame.height * frame.width, channels=frame.channels, lanes=folding.cols,
            operand=Operand(shape_of(format), format.bipolar), output=shape_of(self.y.format),
            zero_point=self.x.zero_point, exclusive=self.layer.exclusive)
