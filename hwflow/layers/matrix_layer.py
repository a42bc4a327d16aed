"""A kind of layer that multiplies by constant weights: what convolution and dense share."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

from hwflow.layers.base import Layer
from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.threshold_fit import as_multiplication


class MatrixLayer(Layer):
    """Sums of products with `weights`, and what makes elements of them."""

    weights: IntArray
    weight_format: IntFormat
    requantize: Rescale

    @cached_property
    @abstractmethod
    def accumulator(self) -> IntFormat:
        """The format of the exact sums."""

    @cached_property
    def multiplied(self) -> Requantize | None:
        """What makes elements of sums as a multiplication, None where it is none."""
        return as_multiplication(self.requantize, self.accumulator)

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize) and bool((self.weights >= 0).all())
