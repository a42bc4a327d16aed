"""What a script may give as an argument, checked at the door: one message instead of an error from deep inside."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hwflow_base.errors import HwflowError

from .dataset import described

T = TypeVar("T")


def instance(value: object, kind: type[T], name: str, made_by: str) -> T:
    """`value`, which must be a `kind`; the message says what makes one."""
    if not isinstance(value, kind):
        raise HwflowError(f"{name} must be a {kind.__name__} as {made_by} gives it, not {described(value)}")
    return value


def path_of(value: object, name: str) -> Path:
    """A path of the file system, given as text or as an object that stands for one."""
    try:
        path = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        path = None
    if not isinstance(path, str) or not path or "\0" in path:
        raise HwflowError(f"{name} must be a path, as text or as a pathlib.Path, not {described(value)}")
    return Path(path)


def whole_number(value: object, name: str, least: float, most: float = math.inf) -> int:
    """An integer, also numpy's, of at least `least` and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise HwflowError(f"{name} must be a whole number {bounds}, not {described(value)}")
    return int(value)


def positive(value: object, name: str) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise HwflowError(f"{name} must be a number above 0, not {described(value)}")
    return float(value)


def a_list(value: object, name: str) -> list[Any]:
    """A list or a tuple, as a list; nothing for None."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise HwflowError(f"{name} must be a list, not {described(value)}")
    return list(value)


def boolean(value: object, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise HwflowError(f"{name} must be True or False, not {described(value)}")
    return bool(value)


def megahertz(value: object, name: str) -> float | str | None:
    """A clock: None, "board", or a number above 0."""
    if value is None or (isinstance(value, str) and value == "board"):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise HwflowError(f"{name} must be a number of MHz above 0, \"board\" or None, not {described(value)}")
    return float(value)


def shapes_of(value: object, name: str) -> dict[str, tuple[int, ...]]:
    """Shapes by the names of inputs; None is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise HwflowError(f"{name} must be a dictionary of shapes by the names of inputs, not {described(value)}")
    shapes = {}
    for key, shape in value.items():
        sizes = tuple(shape) if isinstance(shape, list | tuple) else ()
        whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in sizes)
        if not isinstance(key, str) or not isinstance(shape, list | tuple) or not whole:
            raise HwflowError(f"{name} must be a dictionary of shapes by the names of inputs, as "
                              f"{{'x': (1, 3, 32, 32)}}, not have {described(key, plain=True)}: {described(shape)}")
        shapes[key] = tuple(map(int, sizes))
    return shapes
