"""What every kind of source has in common, and what the user says of how it becomes rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, Value

__all__ = ["Input", "Interpolation", "Layout", "Preparation", "Progress", "Source", "class_numbers", "require_room"]

#: Is told the rows that were read, and all of them.
Progress = Callable[[int, int], None]


class Layout(Enum):
    """The place of the channels in an input that takes pictures."""

    NCHW = "nchw"
    NHWC = "nhwc"


class Interpolation(Enum):
    """How pictures get another size; the names are those of Pillow's filters in small letters."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


@dataclass(frozen=True)
class Preparation:
    """How files become numbers: everything that the training of the model did with its own files.

    A number `v` of a file becomes `(v / scale - mean) / std`.  `scale` None is 1, but must be given for pictures of a
    model that takes floats.  `mean` and `std` have one entry, or one for each channel.
    """

    scale: float | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    #: Width and height of pictures, or the length of the shorter side.
    resize: tuple[int, int] | int | None = None
    crop: bool = False
    interpolation: Interpolation = Interpolation.BILINEAR
    layout: Layout | None = None
    bgr: bool = False
    #: Samples a second of recordings; None: as they are.
    rate: int | None = None
    #: "folders", "none", a column of a table, an array of an archive, or a file; None: what the kind of source offers.
    labels: str | None = None
    #: The names of classes in the order of their numbers; without them they are sorted.
    classes: tuple[str, ...] = ()

    def apply(self, values: Array, where: str) -> Array:
        """float32 `(values / scale - mean) / std`; the channels of `values` are its last axis."""
        found = values.astype(np.float32)
        for numbers, name in ((self.mean, "--mean"), (self.std, "--std")):
            if len(numbers) > 1 and found.shape[-1:] != (len(numbers),):
                raise HwflowError(f"{name} must have one number, or one for each of the {found.shape[-1]} channels, "
                                  f"not {len(numbers)}", where=where)
        with np.errstate(all="ignore"):  # the data file's own check refuses what is not finite
            scaled = found / np.float32(self.scale or 1.0)
            return np.asarray((scaled - np.array(self.mean, np.float32)) / np.array(self.std, np.float32))

    @property
    def formula(self) -> str:
        """What `apply` computes, for the user: "v / 255 - 0.5"; "v" where nothing changes."""
        text = "v" if self.scale in (None, 1) else f"v / {self.scale:g}"
        if any(self.mean):
            text += f" - {_shown(self.mean)}"
        if any(number != 1 for number in self.std):
            text = f"({text})" if any(self.mean) else text
            text += f" / {_shown(self.std)}"
        return text


def _shown(numbers: Sequence[float]) -> str:
    listed = ", ".join(f"{number:g}" for number in numbers)
    return f"[{listed}]" if len(numbers) > 1 else listed


@dataclass(frozen=True)
class Input:
    """An input of the model that rows are made for."""

    value: Value
    dtype: np.dtype[np.generic]
    #: Of one row, without the batch; None for an open size.
    shape: tuple[int | None, ...]

    @classmethod
    def of(cls, value: Value) -> Input:
        """HwflowError for an input that is no tensor of numbers or texts, or whose number of axes the file does not
        state."""
        tensor = value.tensor
        if tensor is None or tensor.shape is None or tensor.dtype.kind not in "biufO":
            raise HwflowError(f"the model's input '{value.name}' must be a tensor of numbers or texts with a known "
                              "number of axes", "make its array with numpy (docs/data-files.md)")
        first = tensor.shape[0] if tensor.shape else 1
        if isinstance(first, int) and first != 1:
            raise HwflowError(f"the model's input '{value.name}' must have a batch of 1 or an open one, not {first}",
                              "export the model with a batch of 1")
        return cls(value, tensor.dtype, tuple(n if isinstance(n, int) else None for n in tensor.shape[1:]))

    @property
    def name(self) -> str:
        return self.value.name

    @property
    def shown(self) -> str:
        """The shape with its batch, for a message."""
        return f"[{', '.join(['1', *(str(n or 'any') for n in self.shape)])}]"

    def numbers(self, values: Array, where: str) -> Array:
        """`values` in the element type of the input.  HwflowError for an integer input and values that are none."""
        if self.dtype.kind == "f":
            return values.astype(self.dtype)
        with np.errstate(invalid="ignore"):
            made = np.rint(values).astype(self.dtype)
        if not np.array_equal(made, values):
            raise HwflowError(f"the numbers must be whole ones that fit {self.dtype}, the type of the model's input "
                              f"'{self.name}', not {values.min():g} to {values.max():g} with fractions or beyond",
                              "give the --scale and --mean of the quantized input", where=where)
        return made


@dataclass
class Source(ABC):
    """Rows that can be counted before they are read."""

    #: How many rows there are.
    rows: int = 0
    #: [rows]: classes as int64, or numbers as float64; None where there are none.
    labels: Array | None = None
    #: The names of the classes by their numbers.
    classes: tuple[str, ...] = ()
    #: Where each row is from; empty where rows have no names.
    names: tuple[str, ...] = ()
    #: What was done, for the user, a line each.
    notes: list[str] = field(default_factory=list)

    @abstractmethod
    def read(self, chosen: Sequence[int], progress: Progress) -> Array:
        """The rows with these numbers, [len(chosen), *shape of the input without the batch]."""


def class_numbers(texts: Sequence[str], classes: Sequence[str], where: str) -> tuple[Array, tuple[str, ...]]:
    """The number of each name of a class, int64, and the names by number: `classes`, or sorted where there are none."""
    names = tuple(classes or sorted(set(texts)))
    number = {name: k for k, name in enumerate(names)}
    unknown = sorted(set(texts) - set(names))
    if unknown:
        raise HwflowError(f"the classes must be those of --classes ({', '.join(names)}), not '{unknown[0]}'",
                          where=where)
    return np.array([number[text] for text in texts], np.int64), names


def require_room(rows: int, shape: Sequence[int], dtype: np.dtype[np.generic], limits: Limits, where: str) -> None:
    """HwflowError where so many rows are larger than the data file may be."""
    size = rows * math.prod(shape) * dtype.itemsize
    if size > limits.total_bytes:
        raise HwflowError(f"{rows} rows of {list(shape)} must have at most {limits.total_bytes:,} bytes, not {size:,}",
                          f"take fewer with --rows, or --limit total_bytes={size}", where=where)
