"""Data files: inputs for a model, and where known its labels, expected outputs and calibration data.

A data file is an NPZ archive (`numpy.savez`) of plain arrays, one run of the model per row:

    in_<input>     [n, *shape of the input]    the batch dimension of 1 is kept: input [1, 1, 8, 8] has [n, 1, 1, 8, 8]
    calib_<input>  [m, *shape of the input]    optional: rows to calibrate with
    out_<output>   [n, *shape of the output]   optional: what the float model must give
    labels         [n], or [n, ...]            optional: the class of each row, integers, texts or one-hot rows; or
                                               what it is worth, floats

An array may also simply be named like the input, and its rows may leave the batch dimension out ([n, 1, 8, 8]).  A "/"
in the name of an input or output may stand as "_", because archives take it for a folder.

The elements of an array of a data file in the type of an input: numbers that keep their value, and texts.

Texts are arrays of a fixed width (`<U4`), as numpy saves them without pickling.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import screen

from hwflow.data.archive import Archive, read_archive
from hwflow.data.layouts import remedy_for
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.run.missing import missing_taken, odd_places
from hwflow.onnx.run.sequences import inputs_of_rows, outputs_of_rows, state_names

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
        result = array.astype(dtype, copy=False)
    if dtype.kind == "f" and array.dtype.kind == "f" and (np.isinf(result) & np.isfinite(array)).any():
        top = np.abs(array[np.isfinite(array)]).max()
        raise HwflowError(f"{file}: array '{name}' must fit {dtype}, not hold values up to {top:g}")
    if dtype.kind in "iub" and array.dtype.kind in "iub" and not np.array_equal(result, array):
        low, high = array.min(), array.max()
        raise HwflowError(f"{file}: array '{name}' must fit {dtype}, not hold values from {low} to {high}")
    return result


def texts(file: Path, name: str, array: Array) -> Array:
    """An array of texts in a fixed width."""
    kinds = {type(item) for item in array.ravel()} if array.dtype.kind == "O" else set()
    if array.dtype.kind in "UT" or (kinds and kinds <= {str, np.str_}):
        return array.astype(np.str_)
    kind = f"objects like {next(iter(kinds)).__name__}" if kinds else str(array.dtype)
    raise HwflowError(f"array '{name}' must hold texts, not {kind}",
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


#: Rows of the inputs that stand in for calibration data where a file has none of its own.
CALIBRATION_ROWS = 100
#: The largest expected number: errors are squared, and what float32 cannot hold is the output of no model here.
LARGEST = float(np.finfo(np.float32).max)
#: The longest value that a message shows.
_SHOWN = 60


@dataclass(frozen=True, eq=False)
class Dataset(ByValue):
    """Rows for a model.  `inputs` and `calibration` map each input to [rows, *shape with batch 1]."""

    path: Path
    inputs: Mapping[str, Array]
    calibration: Mapping[str, Array]
    #: True where `calibration` is the first rows of `inputs`, because the file has no calib_ arrays.
    calibration_is_input: bool
    labels: Array | None
    outputs: Mapping[str, Array]
    #: True where the file has one-hot rows, of which `labels` are the classes.
    labels_one_hot: bool = False

    def __repr__(self) -> str:
        parts = [(f"input '{name}'", array) for name, array in self.inputs.items()]
        if not self.calibration_is_input:
            parts += [(f"calibration of '{name}'", array) for name, array in self.calibration.items()]
        parts += [(f"expected '{name}'", array) for name, array in self.outputs.items()]
        parts += [] if self.labels is None else [("labels", self.labels)]
        calibrated = ["calibration: the first of the inputs' rows"] if self.calibration_is_input else []
        return screen(f"Dataset '{self.path}': {self.rows} rows",
                      [*(f"{what}: {_describe(array)}" for what, array in parts), *calibrated])

    @property
    def rows(self) -> int:
        return min(len(array) for array in self.inputs.values())

    def first(self, count: int) -> Dataset:
        """The first `count` rows; calibration stays whole.  HwflowError where `count` is no number of rows."""
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise HwflowError(f"the number of rows must be a whole number above 0, not {described(count)}")
        return replace(
            self,
            inputs={name: array[:count] for name, array in self.inputs.items()},
            labels=None if self.labels is None else self.labels[:count],
            outputs={name: array[:count] for name, array in self.outputs.items()},
        )


def load_dataset(path: str | Path, model: Model, limits: Limits = DEFAULT_LIMITS) -> Dataset:
    """Read the data file `path` for `model`; its arrays have no more than `limits.total_bytes` together.

    An open dimension of an input takes any size, an open batch 1.  States of a streaming model are not read: its rows
    are one sequence.  HwflowError says what is wrong with the file, which
    array it is about, and what it must be.  Nothing is ever unpickled.
    """
    file = Path(path)
    inputs, outputs = inputs_of_rows(model), outputs_of_rows(model)
    arrays = read_arrays(file, inputs, outputs, limits)
    states = {f"calib_{name}" for name in state_names(model)} | {f"out_{name}" for name in state_names(model).values()}
    arrays.names = [name for name in arrays.names if name not in states]
    return checked_dataset(file, arrays, inputs, outputs, CALIBRATION_ROWS, missing_taken(model.graph))


def described(value: object, *, plain: bool = False) -> str:
    """`value` in a message: its type, and what it is where that is short."""
    if plain and isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, np.ndarray):
        return _describe(value)
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, list | tuple | dict):
        text = " ".join(repr(value).split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    shown = f" {value!r}" if isinstance(value, str | bytes | int | float) else ""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}{shown if len(shown) <= _SHOWN else ''}"


def checked_dataset(file: Path, arrays: Archive, values: Sequence[Value], expected: Sequence[Value],
                    calibration_rows: int | None, missing: Mapping[str, Collection[str]]) -> Dataset:
    """Checked rows for inputs `values` and outputs `expected`; of the inputs the first `calibration_rows`, or all, are
    those to calibrate with where there are no others.  `missing`: what each input may be that is no number."""
    inputs = {value.name: _rows(file, arrays, value, ("in_", ""), missing) for value in values}
    _same_length(file, inputs)
    stated = [value.name for value in values if _named(arrays, "calib_", value) is not None]
    _known(file, arrays, "calib_", values, "an input")
    _known(file, arrays, "out_", expected, "an output")
    if stated:
        calibration = {value.name: _rows(file, arrays, value, ("calib_",), missing) for value in values}
        _same_length(file, calibration)
    else:
        calibration = {name: array[:calibration_rows] for name, array in inputs.items()}
    count = len(next(iter(inputs.values())))
    outputs = _outputs(file, arrays, expected, count)
    named = _classes_of_one_hot(arrays.get("labels"), expected, count)
    labels = _labels(file, arrays, count) if named is None else named
    return Dataset(file, inputs, calibration, not stated, labels, outputs, named is not None)


def read_arrays(file: Path, values: Sequence[Value], outputs: Sequence[Value], limits: Limits) -> Archive:
    """The arrays of the file that a model with such inputs and outputs has a use for."""
    names = {"labels"}
    for prefixes, those in ((("in_", "", "calib_"), values), (("out_",), outputs)):
        names.update(prefix + name for prefix in prefixes for value in those for name in spellings(value))
    return read_archive(file, names, limits)


def spellings(value: Value) -> tuple[str, str]:
    """Archives take a "/" in a name for a folder, so "_" may stand for it."""
    return value.name, value.name.replace("/", "_")


def _describe(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _named(arrays: Mapping[str, Array], prefix: str, value: Value) -> Array | None:
    """The array of an input or output."""
    return next((arrays[prefix + name] for name in spellings(value) if prefix + name in arrays), None)


def _rows(file: Path, arrays: Archive, value: Value, prefixes: tuple[str, ...],
          missing: Mapping[str, Collection[str]]) -> Array:
    """The array of one input, checked, with the batch dimension."""
    name = array_of_input(file, arrays, value, prefixes)
    array = with_batch(file, name, arrays[name], value)
    return converted(file, name, array, value, missing.get(value.name, ()))


def array_of_input(file: Path, arrays: Archive, value: Value, prefixes: tuple[str, ...] = ("in_", "")) -> str:
    """The name of an input's array.  HwflowError where the file has none."""
    name = next((prefix + name for prefix in prefixes for name in spellings(value) if prefix + name in arrays), None)
    if name is None:
        names = [f"{prefix}{value.name}" for prefix in prefixes]
        wish = " or ".join(f"'{w}'" for w in names)
        raise HwflowError(
            f"{file}: there must be an array {wish} for the model's input '{value.name}'; it has {arrays.listed()}"
        )
    return name


def with_batch(file: Path, name: str, array: Array, value: Value, what: str = "input") -> Array:
    """The rows with a batch dimension of 1 where the file leaves it out; HwflowError for another shape."""
    shape = value.tensor.shape if value.tensor is not None else None
    if shape is None:
        return array
    fixed = tuple(1 if k == 0 and not isinstance(size, int) else size for k, size in enumerate(shape))

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) == len(fixed) and all(
            not isinstance(want, int) or want == have for want, have in zip(fixed, shape, strict=True)
        )

    if array.ndim and fits(array.shape[1:]):
        rows = array
    elif array.ndim and fixed and fixed[0] == 1 and fits((1, *array.shape[1:])):
        rows = array[:, None]
    else:
        expected = ", ".join("any" if not isinstance(size, int) else str(size) for size in fixed)
        raise HwflowError(
            f"array '{name}' must have the shape [rows, {expected}] for the model's {what} '{value.name}', "
            f"not {list(array.shape)}",
            remedy_for(array.shape, [size if isinstance(size, int) else None for size in fixed]),
            where=str(file),
        )
    if not len(rows):
        raise HwflowError(f"{file}: array '{name}' must have at least one row, not none")
    return rows


def _same_length(file: Path, inputs: Mapping[str, Array]) -> None:
    if len({len(array) for array in inputs.values()}) > 1:
        listed = ", ".join(f"'{name}' has {len(array)}" for name, array in inputs.items())
        raise HwflowError(f"{file}: all inputs must have the same number of rows; {listed}")


def _known(file: Path, arrays: Archive, prefix: str, values: Sequence[Value], what: str) -> None:
    """An array of no input or output would be passed over in silence."""
    known = {prefix + name for value in values for name in spellings(value)}
    for name in arrays.names:
        if name.startswith(prefix) and name not in known and name not in arrays:
            names = " or ".join(f"'{prefix}{value.name}'" for value in values)
            raise HwflowError(f"{file}: array '{name}' must be named like {what} of the model: {names}")


def _classes_of_one_hot(labels: Array | None, outputs: Sequence[Value], count: int) -> Array | None:
    """The classes [n] of one-hot labels [n, classes], one 1 and zeros else in every row, for an output of as many
    scores; None where `labels` are anything else.  No regression has such values in every row."""
    if labels is None or labels.dtype.kind not in "biuf" or labels.ndim < 2 or len(labels) != count or not count:
        return None
    rows = labels.reshape(count, -1)
    width = rows.shape[1]
    if width < 2 or width not in labels.shape[1:] or width not in map(_scores, outputs):
        return None
    ones = rows == 1
    if not bool((ones | (rows == 0)).all() and (ones.sum(axis=1) == 1).all()):
        return None
    return np.asarray(ones.argmax(axis=1))


def _scores(output: Value) -> int:
    """Elements of a row of `output`, whose open batch is 1; 0 where that is not known or they are no reals."""
    shape = output.tensor.shape if output.tensor is not None and output.tensor.dtype.kind == "f" else None
    sizes = [1 if k == 0 and not isinstance(size, int) else size for k, size in enumerate(shape or (0,))]
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else 0


def _labels(file: Path, arrays: Mapping[str, Array], count: int) -> Array | None:
    """Integers or texts [n] that name classes, or finite floats [n, ...] as the values of a regression."""
    labels = arrays.get("labels")
    if labels is None:
        return None
    if labels.dtype.kind in "OUT":
        labels = texts(file, "labels", labels)
    if labels.dtype.kind == "f" and labels.ndim and len(labels) == count:
        require_finite(file, "labels", labels, LARGEST)
        return labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (count,) or labels.dtype.kind not in "iuU":
        raise HwflowError(
            f"{file}: labels must be one integer or text per input row, int64[{count}], or real numbers for each, "
            f"float32[{count}, ...], not {_describe(arrays['labels'])}"
        )
    return labels


def _outputs(file: Path, arrays: Mapping[str, Array], values: Sequence[Value], count: int) -> dict[str, Array]:
    """Expected outputs, of the model's shapes as far as these are known; rows may leave the batch dimension out."""
    outputs = {value.name: a for value in values if (a := _named(arrays, "out_", value)) is not None}
    for value in values:
        array = outputs.get(value.name)
        if array is None:
            continue
        name = f"out_{value.name}"
        if array.ndim == 0 or len(array) != count:
            raise HwflowError(f"{file}: {name} must have one row per input row ({count}), not {_describe(array)}")
        outputs[value.name] = with_batch(file, name, array, value, "output")
        if value.tensor is not None and value.tensor.dtype.kind == "O":
            outputs[value.name] = texts(file, name, outputs[value.name])
        elif value.tensor is not None and value.tensor.dtype.kind in "biuf" and array.dtype.kind not in "biuf":
            raise HwflowError(f"{file}: array '{name}' must hold {value.tensor.dtype}, not {array.dtype}")
        if array.dtype.kind == "f":
            require_finite(file, name, array, LARGEST)
    return outputs


def classes(output: Array) -> Array | None:
    """The class that each row of a model's output names: [n] integers; None where the output is no classification.

    An integer output of one element per row is the class itself (ArgMax), else the largest of the scores counts, the
    first one where several are largest.
    """
    rows = output.reshape(len(output), -1)
    if rows.shape[1] == 1:
        return rows[:, 0] if output.dtype.kind in "iu" else None
    return np.asarray(rows.argmax(axis=1))


def accuracy(outputs: Mapping[str, Array], labels: Array) -> float | None:
    """Share of rows, 0 to 1, whose class is the label: top-1 of the first output that is a classification."""
    for output in outputs.values():
        answers = classes(output)
        if answers is not None:
            return float(np.mean(answers == labels[: len(answers)]))
    return None
