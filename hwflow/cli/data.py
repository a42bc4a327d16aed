"""`hwflow data`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import replacing, require_folder, require_plain_target, same_file
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section
from hwflow_base.printable import counted

from ..data.sources.source import Preparation
from ..onnx.limits import DEFAULT_LIMITS
from ..options import LimitsOption, ModelFile
from ..synth.options import LAST_SEED

with later():
    import numpy as np

    from .. import onnx
    from ..data.sources.making import Choice, MadeData, made_data
    from ..views.console.terminal import Console

#: How many classes are listed.
LISTED = 20


@dataclass(frozen=True)
class DataRequest:
    """The request of `hwflow data`; `sources` and `calibration_data` are files and folders, each after the name of its
    input and "=" where the model has several."""

    model: ModelFile
    sources: Annotated[tuple[str, ...], Option(metavar="SOURCE...", argument=True)]
    output: Annotated[Path, Option("The NPZ file to write.")] = Path("data.npz")
    how: Preparation = field(default_factory=Preparation)
    rows: Annotated[int | None, Option(
        "Take at most so many rows to run and measure.", Section.ROWS, parse=Range(1))] = None
    calibration: Annotated[int | None, Option(
        "Keep so many rows apart to calibrate with; default: 100, or a fifth of fewer rows.", Section.ROWS, "ROWS",
        parse=Range(0))] = None
    calibration_data: Annotated[tuple[str, ...], Option(
        "Take the rows to calibrate with from here, as from training data, and run all rows of SOURCE.", Section.ROWS,
        "SOURCE")] = ()
    in_order: Annotated[bool, Option("Keep the order of the rows, which is random otherwise.", Section.ROWS)] = False
    seed: Annotated[int, Option("Seed of the order of rows.", Section.ROWS, parse=Range(0, LAST_SEED))] = 0
    limits: LimitsOption = DEFAULT_LIMITS


def data(console: Console, request: DataRequest) -> Mapping[str, object]:
    """Make a data file for MODEL of tables, NumPy files, or folders of pictures or recordings (docs/data-files.md).

    A number v of a file becomes (v / SCALE - MEAN) / STD, which must be what the training of the model did.  For a
    model with several inputs, SOURCE is NAME=SOURCE for each of them.  Rows are drawn at random, none of them twice.

    Exit codes: 0 written; 2 if a file cannot be read or does not fit the model.
    """
    target = request.output
    require_target(request)
    model = onnx.load(request.model, limits=request.limits)
    choice = Choice(request.rows, request.calibration, request.in_order, request.seed, request.calibration_data)
    with console.rows("read the rows") as progress:
        rows = made_data(model, request.sources, request.how, choice, limits=request.limits, progress=progress)
    with replacing(target, "--output") as working, working.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **rows.arrays)
    show(console, rows)
    size = target.stat().st_size
    console.say(f"{target}: written, {size} bytes")
    console.next(shlex.join(["hwflow", "golden", str(request.model), "--data", str(target)]))
    return {"exit_code": 0, "path": str(target), "bytes": size, "notes": list(rows.notes),
            "rows": rows.dataset.rows, "calibration_rows": calibration_rows(rows), "classes": list(rows.classes),
            "arrays": {name: [str(array.dtype), *array.shape] for name, array in rows.arrays.items()}}


def require_target(request: DataRequest) -> None:
    """HwflowError where the data file would replace the model or a source."""
    require_plain_target(request.output)
    require_folder(request.output, "--output")
    files = [request.model, *(Path(text.partition("=")[2] or text) for text in request.sources)]
    if any(same_file(request.output, file) or same_file(request.output, Path(str(file).partition(".npz:")[0] + ".npz"))
           for file in files):
        raise HwflowError("must not be the model or a source of its own rows", "choose another name with --output",
                          where=str(request.output))


def calibration_rows(data_file: MadeData) -> int:
    """The rows to calibrate with that are rows of their own."""
    return 0 if data_file.dataset.calibration_is_input else len(next(iter(data_file.dataset.calibration.values())))


def show(console: Console, data_file: MadeData) -> None:
    for note in data_file.notes:
        console.say(note)
    for name, array in data_file.arrays.items():
        if array.dtype.kind in "biuf":
            low, high = (f"{value:.4g}" for value in (array.min(), array.max()))
            console.say(f"  {name}: {array.dtype}{list(array.shape)}, from {low} to {high}")
    if data_file.classes and any(name != str(k) for k, name in enumerate(data_file.classes)):
        more = f", ... ({len(data_file.classes)} in all)" if len(data_file.classes) > LISTED else ""
        listed = ", ".join(f"{k} = {name}" for k, name in enumerate(data_file.classes[:LISTED]))
        console.say(f"classes: {listed}{more}; their order must be that of the training (--classes)")
    calibrating = calibration_rows(data_file)
    calibrated = f"{counted(calibrating, 'other row')} to calibrate" if calibrating else "the first rows calibrate, too"
    console.say(f"{counted(data_file.dataset.rows, 'row')} to run and measure; {calibrated}")
