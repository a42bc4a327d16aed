"""NumPy files as sources: a single array, or one of an archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain

from hwflow.data.archive import read_archive
from hwflow.data.layouts import changes_for, remedy_for
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array

from .source import Input, Preparation, Progress, Source, class_numbers

#: The endings of files that are read as arrays.
ARRAYS = (".npy", ".npz")
#: The arrays of an archive that are its labels where the user names none.
_LABELS = ("labels", "label", "y", "y_test")


@dataclass
class Held(Source):
    """Rows that are in memory."""

    array: Array = field(default_factory=lambda: np.empty(0))

    def read(self, chosen: Sequence[int], progress: Progress) -> Array:
        return np.asarray(self.array[np.asarray(chosen, int)])


def array_source(file: Path, member: str, target: Input, how: Preparation, limits: Limits) -> Source:
    """The rows of an array.  `member` is its name in an archive; "" for the one that is named like the input, or the
    only one.

    Axes in another order are moved where the shapes leave no doubt, and the notes say so.  HwflowError for a shape that
    cannot become that of the input.
    """
    if file.suffix.lower() == ".npy":
        name, array = file.name, read_numpy(file, limits)
        labels, classes = None, tuple[str, ...]()
    else:
        name = member or _name_in(file, target, how, limits)
        array = _member(file, name, limits)
        labels, classes = _labels(file, how, limits)
    if how.formula != "v" and array.dtype.kind in "biuf":
        array = how.apply(array, str(file))
    notes = [f"array '{name}', {how.formula}"]
    rows = _rows(file, name, array, target, notes)
    return Held(len(rows), labels, classes, (), notes, rows)


def read_numpy(file: Path, limits: Limits) -> Array:
    """The array of an .npy file, of which nothing is unpickled."""
    try:
        with open_plain(file) as stream:
            size = file.stat().st_size
            if size > limits.total_bytes:
                raise HwflowError(f"the array must have at most {limits.total_bytes:,} bytes, not {size:,}",
                                  f"if you trust the file, --limit total_bytes={size}", where=str(file))
            return np.lib.format.read_array(stream, allow_pickle=False)
    except HwflowError:
        raise
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except Exception as error:  # of hostile headers, for which numpy has no list of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
    raise HwflowError(f"the file must be a plain array as numpy.save writes it ({reason})", where=str(file))


def _names(file: Path, limits: Limits) -> list[str]:
    return read_archive(file, (), limits).names


def _name_in(file: Path, target: Input, how: Preparation, limits: Limits) -> str:
    """The array of an archive that belongs to the input."""
    names = _names(file, limits)
    spelled = target.name.replace("/", "_")
    for name in (f"in_{target.name}", target.name, f"in_{spelled}", spelled):
        if name in names:
            return name
    others = [name for name in names if name != how.labels and name not in _LABELS]
    if len(others) == 1:
        return others[0]
    listed = ", ".join(f"'{name}'" for name in names[:12]) or "nothing"
    raise HwflowError(f"the archive must have one array besides labels, or one with the name of the model's input "
                      f"'{target.name}', not {listed}", f"name it: {file.name}:ARRAY", where=str(file))


def _member(file: Path, name: str, limits: Limits) -> Array:
    arrays = read_archive(file, (name,), limits)
    if name not in arrays:
        raise HwflowError(f"the archive must have an array '{name}'; it has {arrays.listed()}", where=str(file))
    return arrays[name]


def _labels(file: Path, how: Preparation, limits: Limits) -> tuple[Array | None, tuple[str, ...]]:
    """The labels in an archive."""
    if how.labels == "none":
        return None, ()
    name = how.labels or next((name for name in _LABELS if name in _names(file, limits)), None)
    return (None, ()) if name is None else numbered(_member(file, name, limits), how, str(file))


def numbered(labels: Array, how: Preparation, where: str) -> tuple[Array, tuple[str, ...]]:
    """Labels as numbers: names of classes get theirs."""
    if labels.dtype.kind in "US":
        return class_numbers([str(text) for text in labels.ravel()], how.classes, where)
    return labels, ()


def _rows(file: Path, name: str, array: Array, target: Input, notes: list[str]) -> Array:
    """The array as [rows, *shape of the input]; what is done to its axes goes into the notes."""
    fits = [array.ndim == len(shape) + 1 and all(n in (None, m) for n, m in zip(shape, array.shape[1:], strict=True))
            for shape in (target.shape, (1, *target.shape))]
    if not any(fits):
        with_batch = (1, *target.shape)
        changes = changes_for(array.shape, with_batch)
        if len(changes) != 1:
            row = ", ".join(str(n or "any") for n in target.shape)
            raise HwflowError(f"array '{name}' must have the shape [rows, {row}] for the model's input "
                              f"'{target.name}', not {list(array.shape)}", remedy_for(array.shape, with_batch),
                              where=str(file))
        array = changes[0].apply(array)
        notes.append(f"its axes are changed: {changes[0].call()}{changes[0].note}")
    if array.ndim == len(target.shape) + 2:
        array = array[:, 0]
    return array
