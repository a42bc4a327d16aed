"""The elements of an array of a data file in the type of an input: numbers that keep their value, and texts.

Texts are arrays of a fixed width (`<U4`), as numpy saves them without pickling.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Value
from hwflow.onnx.run.missing import odd_places

#: What to do about missing numbers.
_FILL_IN = "fill missing values in; only trees and an Imputer take them as they are"


def converted(file: Path, name: str, array: Array, value: Value, missing: Collection[str]) -> Array:
    """`array` in the element type of an input, texts in a fixed width; only a change that keeps every value is made.

    `missing` says which numbers the input may be that are none.
    """
    dtype = value.tensor.dtype if value.tensor is not None else array.dtype
    if dtype.kind == "O":
        return texts(file, name, array)
    if array.dtype.kind not in "biuf" and array.dtype != dtype:
        raise HwflowError(f"{file}: array '{name}' must hold {dtype}, not {array.dtype}")
    if array.dtype.kind == "f":
        require_finite(file, name, array, missing=missing, remedy=_FILL_IN)
        if dtype.kind in "iub":
            raise HwflowError(
                f"array '{name}' must hold {dtype} like the model's input '{value.name}', not {array.dtype}",
                "quantize the values first",
                where=str(file),
            )
    with np.errstate(over="ignore"):  # looked for below
        made = array.astype(dtype, copy=False)
    if dtype.kind == "f" and array.dtype.kind == "f" and (np.isinf(made) & np.isfinite(array)).any():
        top = np.abs(array[np.isfinite(array)]).max()
        raise HwflowError(f"{file}: array '{name}' must fit {dtype}, not hold values up to {top:g}")
    if dtype.kind in "iub" and array.dtype.kind in "iub" and not np.array_equal(made, array):
        low, high = array.min(), array.max()
        raise HwflowError(f"{file}: array '{name}' must fit {dtype}, not hold values from {low} to {high}")
    return made


def texts(file: Path, name: str, array: Array) -> Array:
    """An array of texts in a fixed width."""
    kinds = {type(each) for each in array.ravel()} if array.dtype.kind == "O" else set()
    if array.dtype.kind in "UT" or (kinds and kinds <= {str, np.str_}):
        return array.astype(np.str_)
    found = f"objects like {next(iter(kinds)).__name__}" if kinds else str(array.dtype)
    raise HwflowError(f"array '{name}' must hold texts, not {found}",
                      "give an array of numpy's texts: x.astype(str)", where=str(file))


def require_finite(file: Path, name: str, array: Array, largest: float = math.inf, missing: Collection[str] = (),
                   remedy: str = "") -> None:
    """HwflowError for NaN and infinities that are not in `missing`, with `remedy`, and for numbers beyond `largest`."""
    bad = np.argwhere(odd_places(array, missing))
    if len(bad):
        where = [int(k) for k in bad[0]]
        raise HwflowError(
            f"array '{name}' must hold finite numbers, not {array[tuple(bad[0])]} at {where} ({len(bad)} such entries)",
            remedy, where=str(file)
        )
    top = np.abs(array).max(initial=0)
    if top > largest:
        raise HwflowError(f"{file}: array '{name}' must hold numbers up to {largest:.3g}, not {top:.3g}")
