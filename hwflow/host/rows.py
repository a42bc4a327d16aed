"""Rows of a model's inputs in their shapes and types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array
from hwflow.quantize import Quantized

__all__ = ["rows_of"]


def rows_of(quantized: Quantized, x: Array | Mapping[str, Array]) -> dict[str, Array]:
    """Arrays [n, *input shape] by input name, in the types of the inputs, of arrays by name or that of the only input.

    HwflowError for a missing input, another shape, or a number that the type does not hold.
    """
    values = quantized.prologue.graph.inputs
    if not isinstance(x, Mapping):
        if len(values) != 1:
            names = ", ".join(f"'{value.name}'" for value in values)
            raise HwflowError(f"x must be arrays by name for the inputs {names}, not one array")
        x = {values[0].name: x}
    rows = {}
    for value in values:
        if value.name not in x:
            raise HwflowError(f"x must have an array for the input '{value.name}', not only for {sorted(x)}")
        assert value.tensor is not None
        array, shape, dtype = np.asarray(x[value.name]), value.tensor.shape, value.tensor.dtype
        assert shape is not None, "the shapes of a host program are known"
        if array.shape[1:] != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
            wanted = ", ".join(["n", *map(str, shape)])
            raise HwflowError(f"x for the input '{value.name}' must be {dtype} [{wanted}], not {array.dtype} "
                              f"{list(array.shape)}")
        rows[value.name] = _fitting(value.name, array, dtype)
    return rows


def _fitting(name: str, array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Rows of an input in its type.  HwflowError where that has no room for them."""
    with np.errstate(over="ignore"):  # looked for below
        converted = array.astype(dtype)
    if dtype.kind in "iu":
        lost = bool((converted != array).any())
    else:
        lost = bool((~np.isfinite(converted) & np.isfinite(array)).any())
    if lost:
        raise HwflowError(f"x for the input '{name}' must fit {dtype}, not hold values from {array.min()} to "
                          f"{array.max()}")
    return converted
