"""Rows that a script gives: a Dataset, a dictionary of arrays, the array of the only input, or batches of arrays."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError

from ..onnx.limits import DEFAULT_LIMITS
from ..onnx.model import Array, Model, Value
from ..onnx.run.missing import missing_taken
from ..onnx.run.sequences import inputs_of_rows, outputs_of_rows
from .archive import Archive
from .dataset import Dataset, checked_dataset, described, spellings

#: What messages call arrays that came from no file.
GIVEN = Path("the given arrays")


def dataset_for(rows: object, model: Model) -> Dataset:
    """The `dataset_of` the inputs and outputs of `model`."""
    return dataset_of(rows, inputs_of_rows(model), outputs_of_rows(model), missing_taken(model.graph))


def dataset_of(rows: object, values: Sequence[Value], outputs: Sequence[Value],
               missing: Mapping[str, Collection[str]]) -> Dataset:
    """A Dataset of whatever a script gives for a model with these inputs and outputs, checked as a file's arrays are.

    `rows` is a Dataset, a dictionary of arrays with the names of a data file, or, of a model with one input, the array
    (or list) of its rows; or a generator or list of batches (`joined`).  Without calib_ arrays all rows are those to
    calibrate with.  HwflowError says which array is wrong, and what it must be.
    """
    if not isinstance(rows, Dataset):
        return checked_dataset(GIVEN, as_arrays(rows, values, outputs), values, outputs, None, missing)
    dataset = checked_dataset(rows.path, arrays_of(rows), values, outputs, None, missing)
    return replace(dataset, calibration_is_input=rows.calibration_is_input, labels_one_hot=rows.labels_one_hot)


def arrays_of(dataset: Dataset) -> Archive:
    """The arrays of a data file with these rows."""
    held = {f"in_{name}": array for name, array in dataset.inputs.items()}
    held |= {f"calib_{name}": array for name, array in dataset.calibration.items()}
    held |= {f"out_{name}": array for name, array in dataset.outputs.items()}
    return Archive.of(held if dataset.labels is None else {**held, "labels": dataset.labels})


def as_arrays(rows: object, values: Sequence[Value], outputs: Sequence[Value]) -> Archive:
    """The arrays of a dictionary by their names there, or the array of the only input."""
    names = " and ".join(f"'{value.name}'" for value in values)
    if isinstance(rows, Iterable) and are_batches(rows, values):
        rows = joined(rows, values)
    if not isinstance(rows, Mapping):
        array = array_of(values[0].name, rows)
        if array.ndim == 0 or (array.dtype.kind not in "biufU" and not isinstance(rows, np.ndarray)):
            raise HwflowError("rows must be a Dataset of hwflow.read_data, an array, or a dictionary of arrays by "
                              f"name ({names}), not {described(rows)}")
        if len(values) != 1:
            raise HwflowError(f"rows of a model with {len(values)} inputs must be a dictionary of arrays by name "
                              f"({names}), not {described(rows)}")
        return Archive.of({values[0].name: array})
    known = {prefix + name for prefixes, those in ((("in_", "", "calib_"), values), (("out_",), outputs))
             for prefix in prefixes for value in those for name in spellings(value)} | {"labels"}
    for name in rows:
        if name not in known:
            near = difflib.get_close_matches(str(name), sorted(known), 1)
            guess = f"; did you mean '{near[0]}'?" if near else ""
            raise HwflowError(f"{GIVEN}: array {described(name, plain=True)} must be named like an input of the model: "
                              f"{names}{guess}")
    return Archive.of({name: array_of(name, array) for name, array in rows.items()})


def are_batches(rows: Iterable[object], values: Sequence[Value]) -> bool:
    """Whether `rows` is a generator or loader, or a list of batches and not of rows.

    Batches of a list are dictionaries, tuples with arrays, or arrays with an axis of rows.
    """
    if isinstance(rows, Mapping | str | bytes) or hasattr(rows, "__array__"):
        return False
    if not isinstance(rows, Sequence):
        return True
    first = rows[0] if len(rows) else None
    if isinstance(first, tuple | list):
        return any(hasattr(part, "__array__") for part in first)
    shape = values[0].tensor.shape if values[0].tensor is not None else None
    if not hasattr(first, "__array__") or shape is None or len(values) > 1:
        return isinstance(first, Mapping)
    return array_of(values[0].name, first).ndim >= len(shape) + (shape[:1] != (1,))


def array_of(name: str, value: object) -> Array:
    try:
        array = np.asarray(value)
    except Exception as error:  # of somebody's own type; lists of unequal lengths
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HwflowError(f"{GIVEN}: '{name}' must be an array, which it does not become ({reason:.120})") from None
    return array


def joined(batches: Iterable[object], values: Sequence[Value]) -> dict[str, Array]:
    """The arrays of all batches, joined along their first axis.

    A batch is a dictionary of arrays, the array of the only input, or a tuple with an array for each input and, if one
    is left, the labels.  So a PyTorch DataLoader, a Keras generator and a representative dataset of TFLite are batches.
    HwflowError where there are none, one is not like the first, or they are too large: a generator must end.
    """
    parts: dict[str, list[Array]] = {}
    size = 0
    for k, batch in enumerate(batches):
        part = batch_of(batch, values)
        if parts and part.keys() != parts.keys():
            raise HwflowError(f"{GIVEN}: batch {k} must have {', '.join(parts)} like the first one, not "
                              f"{', '.join(part)}")
        for name, array in part.items():
            if array.ndim == 0 or (name in parts and array.shape[1:] != parts[name][0].shape[1:]):
                like = f" like the first one's, {described(parts[name][0])}" if name in parts else ""
                raise HwflowError(f"{GIVEN}: '{name}' of batch {k} must be an array of rows{like}, not "
                                  f"{described(array)}")
            parts.setdefault(name, []).append(array)
            size += array.nbytes
        if size > DEFAULT_LIMITS.total_bytes:
            raise HwflowError(f"{GIVEN}: the batches must end, and have at most {DEFAULT_LIMITS.total_bytes:,} bytes",
                              "take some of them: itertools.islice(batches, 10)")
    if not parts:
        raise HwflowError(f"{GIVEN}: there must be at least one batch, not none")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def batch_of(batch: object, values: Sequence[Value]) -> dict[str, Array]:
    """The arrays of one batch by name."""
    if isinstance(batch, Mapping):
        return {str(name): array_of(str(name), array) for name, array in batch.items()}
    names = [*(value.name for value in values), "labels"]
    parts = list(batch) if isinstance(batch, tuple | list) else [batch]
    if len(parts) not in (len(names) - 1, len(names)):
        raise HwflowError(f"{GIVEN}: a batch must be a tuple of {', '.join(names[:-1])} and, if there are any, the "
                          f"labels, not {len(parts)} arrays")
    return {name: array_of(name, part) for name, part in zip(names, parts, strict=False)}
