"""The concatenation of tensors along the channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame
from hwflow.layers.planes import Planes


@dataclass(frozen=True, eq=False)
class Concat(Layer):
    """y[..., :] = the channels of the first input, then those of the second, and so on.

    All tensors have one format, one scale and one zero point, so that the integers pass unchanged.
    """

    kind: ClassVar[str] = "concat"

    name: str
    inputs: tuple[str, ...]
    output: str

    def output_frame(self, *inputs: Frame) -> Frame:
        sizes = {(frame.height, frame.width) for frame in inputs}
        if len(sizes) != 1:
            raise ValueError(
                f"layer '{self.name}': the inputs must have one height and width, not {', '.join(map(str, inputs))}"
            )
        ((height, width),) = sizes
        return Frame(height, width, sum(frame.channels for frame in inputs))

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_as_output(graph, self.inputs)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        return np.concatenate(inputs)

    @property
    def rises(self) -> bool:
        return True

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
