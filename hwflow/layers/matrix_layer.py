"""Layers that multiply by constant weights: what convolution and dense share, and their products."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers.base import Layer
from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.matrix import exact_type, require
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.rescale_planes import PlanesRescaler
from hwflow.layers.threshold_fit import as_multiplication

Words = npt.NDArray[np.uint64]


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
        """The rescaler that makes elements of format `output` of the sums."""
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


def pack(values: npt.NDArray[Any], *, rest: int) -> Words:
    """Integers -1 and +1 [n, p] along the first axis as bits of words [words, p]; unused bits hold `rest` (0 or 1)."""
    n, p = values.shape
    bits = np.full((p, -(-n // 64) * 64), rest, np.uint8)
    bits[:, :n] = (values > 0).T
    return np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)


def xnor_popcount(weights: Words, x: Words, n: int) -> npt.NDArray[np.int32]:
    """Sums [cout, p] of the products of n bipolar weights [words, cout] with n bipolar elements [words, p].

    A bit is 1 for +1 and 0 for -1, and a product is +1 where the bits are equal.  If p of n products are +1, then n - p
    are -1, and the sum is 2 * p - n (Courbariaux et al., "Binarized Neural Networks", 2016).  Unused bits must be 1 in
    the one and 0 in the other, so that they are never equal.
    """
    equal = np.zeros((weights.shape[1], x.shape[1]), np.int32)
    for row, column in zip(weights, x, strict=True):
        equal += np.bitwise_count(~(row[:, None] ^ column[None]))
    return 2 * equal - n


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
        """The multiplication that makes elements of sums as a multiplication, None where it is none."""
        return as_multiplication(self.requantize, self.accumulator)

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize) and bool((self.weights >= 0).all())
