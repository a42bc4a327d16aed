"""A data file made of tables, NumPy files and folders: rows for a model, rows to calibrate with, and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError, MissingTool

from hwflow.data.archive import Archive
from hwflow.data.dataset import Dataset, checked_dataset
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.run.missing import missing_taken
from hwflow.onnx.run.sequences import state_inputs

from .arrays import ARRAYS, array_source, numbered, read_numpy
from .files import FOLDERS, NONE
from .source import Input, Preparation, Progress, Source
from .tables import TABLES, table_source

#: Rows to calibrate with where the user gives no number: so many, and at most this part of all rows.
_CALIBRATION_ROWS, _PART = 100, 5


@dataclass(frozen=True)
class Choice:
    """Which rows of the sources are taken.  They are drawn at random: a folder has one class after another."""

    #: At most so many rows to run; None: all that do not calibrate.
    rows: int | None = None
    #: So many rows to calibrate with, and not to run; None: 100, or a fifth of the rows where these are fewer.
    calibration: int | None = None
    in_order: bool = False
    seed: int = 0
    #: Sources of rows to calibrate with, as those of the rows to run.
    calibration_data: Sequence[str] = ()


@dataclass(frozen=True)
class MadeData:
    """The arrays of a data file, and what was done to make them."""

    arrays: Mapping[str, Array]
    dataset: Dataset
    classes: tuple[str, ...]
    #: Lines for the user.
    notes: tuple[str, ...]


def made_data(model: Model, sources: Sequence[str], how: Preparation, choice: Choice, *,
              limits: Limits = DEFAULT_LIMITS, progress: Progress = lambda done, total: None) -> MadeData:
    """The data file for `model`, as its ONNX file has it, of `sources`.

    A source is a table, a NumPy file or a folder; of a model with several inputs it is NAME=SOURCE for each one, or one
    table that has a column for each.  HwflowError names the file that does not fit the model, and what it must be;
    MissingTool a package that is not installed.
    """
    states = state_inputs(model.graph)
    values = [value for value in model.graph.inputs if value.name not in states]
    inputs = [Input.of(value) for value in values]
    in_numpy = how.labels is not None and Path(how.labels).suffix.lower() == ".npy"
    opened = _sources(inputs, sources, replace(how, labels=NONE) if in_numpy else how, limits)
    ours = _labelled(opened, how, limits)
    calibrating_on = choice.calibration_data
    apart = _sources(inputs, calibrating_on, replace(how, labels=NONE), limits) if calibrating_on else None
    if states:
        choice = replace(choice, in_order=True, calibration=choice.calibration or 0)
    run, calibrate = _chosen(ours.rows, choice, apart is not None)
    arrays, notes = _arrays("in_", inputs, opened, run, progress), [*_said(opened)]
    if apart is not None:
        count = next(iter(apart.values())).rows
        calibrating = _CALIBRATION_ROWS if choice.calibration is None else choice.calibration
        calibrate = _order(count, choice)[:calibrating]
        notes += [f"to calibrate: {line}" for line in _said(apart)]
    if len(calibrate):
        arrays |= _arrays("calib_", inputs, apart or opened, calibrate, progress)
    arrays |= _besides(ours, run)
    outputs = [value for value in model.graph.outputs if value.name not in states]
    _require_classes(ours, outputs)
    dataset = checked_dataset(Path(sources[0]), Archive.of(arrays), values, outputs, None, missing_taken(model.graph))
    arrays |= {f"in_{name}": array for name, array in dataset.inputs.items()}
    if len(calibrate):
        arrays |= {f"calib_{name}": array for name, array in dataset.calibration.items()}
    return MadeData(arrays, dataset, ours.classes, tuple(notes))


def _said(sources: Mapping[str, Source]) -> list[str]:
    """The notes of the sources, after their rows were read."""
    return [f"input '{name}': {note}" for name, source in sources.items() for note in source.notes]


def _sources(inputs: Sequence[Input], texts: Sequence[str], how: Preparation, limits: Limits) -> dict[str, Source]:
    """The source of each input.  HwflowError where one has none, or two, or they have different numbers of rows."""
    names = [target.name for target in inputs]
    named = [(text.partition("=")[0], text.partition("=")[2]) if text.partition("=")[0] in names else ("", text)
             for text in texts]
    if len(named) == 1 and not named[0][0] and (len(inputs) == 1 or Path(named[0][1]).suffix.lower() in TABLES):
        return _opened(named[0][1], inputs, how, limits)
    if sorted(name for name, _ in named) != sorted(names):
        listed = " ".join(f"{name}=SOURCE" for name in names)
        raise HwflowError(f"the sources must be one for each input of the model, {listed}, not {' '.join(texts)}")
    sources: dict[str, Source] = {}
    for name, text in named:
        sources |= _opened(text, [inputs[names.index(name)]], how, limits)
    counts = {name: source.rows for name, source in sources.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        raise HwflowError(f"all inputs must have the same number of rows; {listed}")
    return sources


def _opened(text: str, inputs: Sequence[Input], how: Preparation, limits: Limits) -> dict[str, Source]:
    """The source that a text names, by input."""
    path, _, member = text.rpartition(":")
    if not path.lower().endswith(".npz") or Path(text).exists():
        path, member = text, ""
    place, ending = Path(path), Path(path).suffix.lower()
    if not place.exists():
        raise HwflowError("the source of rows must exist", "name a table, a NumPy file, or a folder of pictures or "
                          "recordings", where=path)
    if ending in TABLES and not place.is_dir():
        return table_source(place, inputs, how, limits)
    target, = inputs
    if ending in ARRAYS and not place.is_dir():
        return {target.name: array_source(place, member, target, how, limits)}
    return {target.name: _of_files(place, target, how, limits)}


def _of_files(place: Path, target: Input, how: Preparation, limits: Limits) -> Source:
    """A folder, or a file of a kind that folders have; the packages are needed here for the first time."""
    try:
        from .pictures import PICTURES, picture_source
        from .sounds import SOUNDS, sound_source
    except ModuleNotFoundError as error:
        raise MissingTool(f"the Python package '{error.name}' must be installed to read pictures and recordings",
                          "run `pip install 'hwflow[data]'`") from None
    kinds: dict[tuple[str, ...], Callable[[Path, Input, Preparation, Limits], Source]] = {
        PICTURES: picture_source, SOUNDS: sound_source}
    names = [place.name] if not place.is_dir() else [path.name for path in place.rglob("*")]
    counts = {endings: sum(name.lower().endswith(endings) for name in names) for endings in kinds}
    most = max(counts, key=lambda endings: counts[endings])
    if not counts[most]:
        raise HwflowError("the source of rows must be a table (.csv, .tsv, .txt), a NumPy file (.npy, .npz), or a "
                          "folder of pictures or recordings", where=str(place))
    return kinds[most](place, target, how, limits)


def _labelled(sources: Mapping[str, Source], how: Preparation, limits: Limits) -> Source:
    """The source whose labels count, with those of a NumPy file where the user gives one."""
    ours = next((source for source in sources.values() if source.labels is not None), next(iter(sources.values())))
    if how.labels is not None and Path(how.labels).suffix.lower() == ".npy":
        ours.labels, ours.classes = numbered(read_numpy(Path(how.labels), limits), how, how.labels)
    if how.labels == FOLDERS and ours.labels is None:
        raise HwflowError("--labels folders must be given for a folder of pictures or recordings")
    if ours.labels is not None and len(ours.labels) != ours.rows:
        raise HwflowError(f"there must be a label for each of the {ours.rows} rows, not {len(ours.labels)}")
    if ours.labels is not None and ours.labels.dtype.kind == "f":
        ours.labels = ours.labels.astype(np.float32)
    return ours


def _order(count: int, choice: Choice) -> Array:
    return np.arange(count) if choice.in_order else np.random.default_rng(choice.seed).permutation(count)


def _chosen(count: int, choice: Choice, apart: bool) -> tuple[Array, Array]:
    """The numbers of the rows to run, and of those to calibrate with; no row is both."""
    drawing = min(_CALIBRATION_ROWS, count // _PART) if choice.calibration is None else choice.calibration
    drawing = 0 if apart else drawing
    if drawing >= count:
        raise HwflowError(f"--calibration must leave rows to run, and be less than the {count} rows that there are, "
                          f"not {drawing}")
    drawn = np.sort(np.random.default_rng(choice.seed).permutation(count)[:drawing])
    order = _order(count, choice)
    return order[~np.isin(order, drawn)][:choice.rows], drawn


def _arrays(prefix: str, inputs: Sequence[Input], sources: Mapping[str, Source], chosen: Array,
            progress: Progress) -> dict[str, Array]:
    """The rows with these numbers, by the name of their array, with the batch of 1."""
    return {f"{prefix}{target.name}": sources[target.name].read(chosen.tolist(), progress)[:, None]
            for target in inputs}


def _besides(source: Source, run: Array) -> dict[str, Array]:
    """Labels, and for people the names of the rows and of the classes."""
    arrays: dict[str, Array] = {} if source.labels is None else {"labels": source.labels[run]}
    if source.names:
        arrays["files"] = np.array([source.names[k] for k in run], str)
    if source.classes:
        arrays["classes"] = np.array(source.classes, str)
    return arrays


def _require_classes(source: Source, outputs: Sequence[Value]) -> None:
    """HwflowError for more classes than an output of several scores has."""
    if source.labels is None or source.labels.dtype.kind not in "iu" or source.labels.ndim != 1 or not outputs:
        return
    shape = outputs[0].tensor.shape if outputs[0].tensor is not None else None
    scores, top = shape[-1] if shape else None, int(source.labels.max())
    if isinstance(scores, int) and scores > 1 and top >= scores:
        known = f" (the classes are {', '.join(source.classes[:12])})" if source.classes else ""
        raise HwflowError(f"labels must be 0 to {scores - 1} for the {scores} scores of the model's output "
                          f"'{outputs[0].name}', not up to {top}{known}",
                          "leave other folders out, or name the classes in their order with --classes")
