"""How tensors of a float model become integers: what calibration and tuning decide, and `insert_quantizers` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import EqualByValue, IntArray, IntFormat

__all__ = ["ActivationForm", "WeightForm"]


@dataclass(frozen=True)
class ActivationForm:
    """One scale and zero point for a tensor; its integers are inside `low` to `high`, a part of `format`."""

    scale: np.float32
    zero_point: int
    format: IntFormat
    low: int
    high: int

    def integers(self, values: npt.NDArray[np.floating[Any]]) -> IntArray:
        """What `values`, of any float type and shape, become: as ONNX's QuantizeLinear, then limited."""
        if self.format.bipolar:
            return np.where(values >= 0, 1, -1).astype(np.int64)
        steps = np.rint(values / values.dtype.type(self.scale)) + self.zero_point  # float32 divides as runtimes do
        result: IntArray = np.clip(steps, self.low, self.high).astype(np.int64)
        return result

    def reals(self, integers: IntArray) -> npt.NDArray[np.float64]:
        """What `integers` mean."""
        return np.asarray((integers - self.zero_point) * float(self.scale), np.float64)


@dataclass(frozen=True, eq=False)
class WeightForm(EqualByValue):
    """Integer weights of a Conv or Gemm node, of the shape of the float ones, output channels first, zero point 0.

    `scales` is float32 [cout], `bits` the width (1: the integers are -1 and +1).
    """

    integers: IntArray
    scales: npt.NDArray[np.float32]
    bits: int

    @property
    def reals(self) -> npt.NDArray[np.float32]:
        """The weights that the integers mean."""
        scales = self.scales.reshape(-1, *[1] * (self.integers.ndim - 1))
        return np.asarray(self.integers.astype(np.float32) * scales)
