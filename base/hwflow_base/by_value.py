"""Frozen objects that hold arrays and mappings: equal by value, hashable, and to be sent to other processes.

The hash that `dataclass` makes fails for such fields, and its equality does for arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import numpy.typing as npt


class ByValue:
    """The base of dataclasses with `frozen=True, eq=False`: same class, and equal fields, but those with compare=False.

    Arrays are equal in element type, shape and every bit, so NaN equals itself.  The hash follows from all contents,
    in time in proportion to them: equal objects have equal hashes, in one process.  Nobody may write into the arrays.
    A pickle has the fields alone, not what was computed of them and kept.
    """

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in compared(self))

    def __hash__(self) -> int:
        return hash((type(self), *(hash_of(getattr(self, name)) for name in compared(self))))

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def compared(value: object) -> list[str]:
    return [field.name for field in fields(value) if field.compare]  # type: ignore[arg-type]


def same(a: object, b: object) -> bool:
    """Whether two values of a field are equal."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape)
                and same(contents(a), contents(b)))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    if isinstance(a, tuple | list) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))  # NaN


def hash_of(value: object) -> int:
    """The hash of a value of a field: equal where values are the `same`."""
    if isinstance(value, np.ndarray):
        return hash((value.dtype, value.shape, hash_of(contents(value))))
    if isinstance(value, Mapping):
        return hash(frozenset((name, hash_of(item)) for name, item in value.items()))
    if isinstance(value, tuple | list):
        return hash(tuple(map(hash_of, value)))
    return hash(value) if value == value else 0  # NaN has the hash of its identity


def contents(array: npt.NDArray[np.generic]) -> object:
    """All elements, of texts as objects, else as bytes."""
    return array.ravel().tolist() if array.dtype.hasobject else array.tobytes()
