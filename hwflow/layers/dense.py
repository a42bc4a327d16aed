"""A matrix times all the elements of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import accumulator_format, errors_of, require
from hwflow.layers.matrix_layer import MatrixLayer, Product
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import Rescale, accumulator_of


@dataclass(frozen=True, eq=False)
class Dense(MatrixLayer):
    """y[o] = requantize(sum over k of w[o, k] * x[k]), x the frame's elements in raster order (channels fastest).

    `weights` is [cout, height * width * channels of the input].  As in a convolution the products take the raw input
    integers, and `requantize.bias` holds -zero_point * sum(w) beside the layer's own bias.
    """

    kind: ClassVar[str] = "dense"

    name: str
    inputs: tuple[str, ...]
    output: str
    weights: IntArray
    weight_format: IntFormat
    input_format: IntFormat
    requantize: Rescale

    @cached_property
    def accumulator(self) -> IntFormat:
        """Exactly as wide as the worst case of these weights needs, bias included, or as wide as there is room."""
        needed = accumulator_format(self.weights, self.requantize.whole_bias, self.input_format)
        return accumulator_of(self.requantize, needed)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        cout, cin = self.weights.shape
        if frame.elements != cin:
            raise ValueError(f"layer '{self.name}': the input must have {cin} elements, not {frame} = {frame.elements}")
        return Frame(1, 1, cout)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        require(f"layer '{self.name}': weights", self.weights, self.weight_format)
        with errors_of(self.name):
            self.requantize.check(len(self.weights), self.accumulator, graph.tensors[self.output].format)

    @cached_property
    def product(self) -> Product:
        kernel = self.weights[:, None, None]
        return Product(self.name, kernel, 1, self.weight_format, self.input_format, self.accumulator)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        raster = x.transpose(1, 2, 0, 3).astype(self.product.dtype, order="C")
        sums = self.product.of(raster.reshape(1, self.weights.shape[1], x.shape[3]))
        made = self.product.planes_rescaler(self.requantize, graph.tensors[self.output].format)(sums)
        return made.reshape(len(made), 1, 1, x.shape[3])

    def multiplications(self, graph: LayerGraph) -> int:
        return int(self.weights.size)
