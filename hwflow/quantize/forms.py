"""How tensors of a float model become integers: what calibration and tuning decide, and `insert_quantizers` writes."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class WeightForm(EqualByValue):
    """Integer weights of a Conv or Gemm node, of the shape of the float ones, output channels first, zero point 0.

    `scales` is float32 [cout], `bits` the width (1: the integers are -1 and +1).
    """

    integers: IntArray
    scales: npt.NDArray[np.float32]
    bits: int
