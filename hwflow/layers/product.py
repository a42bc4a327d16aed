"""Products of the golden model: a layer's weights times columns of windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers.bipolar import pack, xnor_popcount
from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.matrix import exact_type, require
from hwflow.layers.rescale import Rescale
from hwflow.layers.rescale_planes import PlanesRescaler


class Product:
    """Weights [cout, kh, kw, depth], ordered once for products with columns [groups, depth * kh * kw, p].

    Where weights and inputs are bipolar the meaning is XNOR and population count; else the matrix product runs in the
    floating-point type in which all partial sums are exact.  `dtype` is the type that columns must have.
    """

    def __init__(self, name: str, weights: IntArray, groups: int, weight_format: IntFormat, input_format: IntFormat,
                 accumulator: IntFormat):
        require(f"layer '{name}': weights", weights, weight_format)
        self.name, self.groups, self.accumulator = name, groups, accumulator
        self.bipolar = weight_format.bipolar and input_format.bipolar
        self.dtype: np.dtype[Any] = np.dtype(np.int8) if self.bipolar else exact_type(accumulator)
        ordered = weights.transpose(0, 3, 1, 2).astype(self.dtype, order="C")
        self.depth = math.prod(weights.shape[1:])
        self.matrices = ordered.reshape(groups, len(weights) // groups, self.depth)
        if self.bipolar:
            self.words = [pack(matrix.T, rest=1) for matrix in self.matrices]

    def planes_rescaler(self, rescale: Rescale, output: IntFormat) -> PlanesRescaler:
        """What makes elements of format `output` of the sums."""
        return PlanesRescaler(rescale, self.accumulator, np.int32 if self.bipolar else self.dtype, output)

    def of(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The exact sums [cout, p] of `columns`; ValueError where one leaves the accumulator."""
        if self.bipolar:
            parts = [xnor_popcount(w, pack(x, rest=0), self.depth) for w, x in zip(self.words, columns, strict=True)]
            sums = np.concatenate(parts)
        else:
            products = np.matmul(self.matrices, columns)
            sums = products.reshape(products.shape[0] * products.shape[1], products.shape[2])
        require(f"layer '{self.name}': accumulator", sums, self.accumulator)
        return sums
