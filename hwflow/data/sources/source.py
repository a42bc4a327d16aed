"""What every kind of source has in common, and what the user says of how it becomes rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.options import Option, Range, Section

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, Value

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


def numbers(text: str) -> tuple[float, ...]:
    """`0.485,0.456,0.406` as numbers.  ValueError for anything else, as of all functions here that parse words."""
    try:
        parts = tuple(float(number) for number in text.split(","))
    except ValueError:
        parts = ()
    if not parts or not all(map(math.isfinite, parts)):
        raise ValueError(f"{text!r} must be a number, or one for each channel, like 0.485,0.456,0.406")
    return parts


def divisors(text: str) -> tuple[float, ...]:
    """Numbers of which none is 0."""
    parts = numbers(text)
    if not all(parts):
        raise ValueError(f"{text!r} must not have a 0: the numbers are divided by it")
    return parts


def divisor(text: str) -> float:
    """A number that is not 0."""
    parts = divisors(text)
    if len(parts) > 1:
        raise ValueError(f"{text!r} must be one number, like 255")
    return parts[0]


def picture_size(text: str) -> tuple[int, int] | int:
    """`320x240` as width and height, `256` as the length of the shorter side."""
    sides = text.lower().split("x")
    if not 1 <= len(sides) <= 2 or not all(n.isdecimal() and 0 < int(n) <= 1 << 15 for n in sides):
        raise ValueError(f"{text!r} must be WIDTHxHEIGHT, like 320x240, or the length of the shorter side")
    lengths = tuple(map(int, sides))
    return (lengths[0], lengths[1]) if len(lengths) == 2 else lengths[0]


def class_names(text: str) -> tuple[str, ...]:
    """`cat,dog` as names, each of which is there once."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"{text!r} must be the names of the classes in their order, each once, like cat,dog")
    return names


def listed(numbers: Sequence[float]) -> list[str]:
    """Numbers as a word of the command line."""
    return [",".join(f"{number:g}" for number in numbers)]


@dataclass(frozen=True)
class Preparation:
    """How files become numbers: everything that the training of the model did with its own files.

    A number `v` of a file becomes `(v / scale - mean) / std`.  `scale` None is 1, but must be given for pictures of a
    model that takes floats.  `mean` and `std` have one entry, or one for each channel.  `labels` are "folders", "none",
    a column of a table, an array of an archive, or a file; None: what the kind of source offers.
    """

    scale: Annotated[float | None, Option(
        "Divide by this first: 255 makes pixels 0 to 1.  Needed for pictures; 1 where the model divides.",
        Section.NUMBERS, "NUMBER", parse=divisor)] = None
    mean: Annotated[tuple[float, ...], Option(
        "Subtract this then: one number, or one for each channel.", Section.NUMBERS, "NUMBERS", parse=numbers,
        words=listed, repeated=False)] = (0.0,)
    std: Annotated[tuple[float, ...], Option(
        "Divide by this last: one number, or one for each channel.", Section.NUMBERS, "NUMBERS", parse=divisors,
        words=listed, repeated=False)] = (1.0,)
    resize: Annotated[tuple[int, int] | int | None, Option(
        "Resize pictures to this width and height, or with one number the shorter side to it.", Section.FILES, "WxH",
        parse=picture_size)] = None
    crop: Annotated[bool, Option(
        "Cut the middle out of pictures that are larger than the model's input.", Section.FILES)] = False
    interpolation: Annotated[Interpolation, Option(
        "How --resize makes pixels.", Section.FILES)] = Interpolation.BILINEAR
    layout: Annotated[Layout | None, Option(
        "Where the model's input has the channels; default: where its size is 1, 3 or 4.", Section.FILES)] = None
    bgr: Annotated[bool, Option("Give pictures with blue first, as OpenCV has them.", Section.FILES)] = False
    rate: Annotated[int | None, Option(
        "Resample recordings to this rate.", Section.FILES, "HZ", parse=Range(1))] = None
    labels: Annotated[str | None, Option(
        "Where labels are: folders (one for each class; the default where there are folders), none, a column of the "
        "table (its name, its number from 1 on, or last), an array of the archive, an .npy file, or a table of files "
        "and labels.", Section.ROWS, "WHAT")] = None
    classes: Annotated[tuple[str, ...], Option(
        "The names of the classes in the order of the model's scores, with commas; default: sorted.", Section.ROWS,
        "NAMES", parse=class_names, repeated=False)] = ()

    def apply(self, values: Array, where: str) -> Array:
        """float32 `(values / scale - mean) / std`; the channels of `values` are its last axis."""
        prepared = values.astype(np.float32)
        for numbers, name in ((self.mean, "--mean"), (self.std, "--std")):
            if len(numbers) > 1 and prepared.shape[-1:] != (len(numbers),):
                raise HwflowError(f"{name} must have one number, or one for each of the {prepared.shape[-1]} channels, "
                                  f"not {len(numbers)}", where=where)
        with np.errstate(all="ignore"):  # the data file's own check refuses what is not finite
            scaled = prepared / np.float32(self.scale or 1.0)
            return np.asarray((scaled - np.array(self.mean, np.float32)) / np.array(self.std, np.float32))

    @property
    def formula(self) -> str:
        """The computation of `apply`, for the user: "v / 255 - 0.5"; "v" where nothing changes."""
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
            rounded = np.rint(values).astype(self.dtype)
        if not np.array_equal(rounded, values):
            raise HwflowError(f"the numbers must be whole ones that fit {self.dtype}, the type of the model's input "
                              f"'{self.name}', not {values.min():g} to {values.max():g} with fractions or beyond",
                              "give the --scale and --mean of the quantized input", where=where)
        return rounded


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
