"""The command that makes a data file: `data`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.target import replacing, require_folder, require_plain_target, same_file

from .. import onnx
from ..data.sources.making import Choice, MadeData, made_data
from ..report.console import Console
from ..report.numbers import counted
from ..request import DataRequest

__all__ = ["data"]

#: How many classes are listed.
LISTED = 20


def data(console: Console, request: DataRequest) -> Mapping[str, Any]:
    """Make a data file for a model, and say how: everything that decides the numbers in it."""
    target = request.output
    require_target(request)
    model = onnx.load(request.model, limits=request.limits)
    choice = Choice(request.rows, request.calibration, request.in_order, request.seed)
    with console.rows("read the rows") as progress:
        made = made_data(model, request.sources, request.how, choice, calibration_data=request.calibration_data,
                         limits=request.limits, progress=progress)
    with replacing(target, "--output") as working, working.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **made.arrays)
    show(console, made)
    size = target.stat().st_size
    console.say(f"{target}: written, {size} bytes")
    console.next(shlex.join(["hwflow", "golden", str(request.model), "--data", str(target)]))
    return {"exit_code": 0, "path": str(target), "bytes": size, "notes": list(made.notes),
            "rows": made.dataset.rows, "calibration_rows": calibration_rows(made), "classes": list(made.classes),
            "arrays": {name: [str(array.dtype), *array.shape] for name, array in made.arrays.items()}}


def require_target(request: DataRequest) -> None:
    """HwflowError where the data file would replace the model or a source."""
    require_plain_target(request.output)
    require_folder(request.output, "--output")
    files = [request.model, *(Path(text.partition("=")[2] or text) for text in request.sources)]
    if any(same_file(request.output, file) or same_file(request.output, Path(str(file).partition(".npz:")[0] + ".npz"))
           for file in files):
        raise HwflowError("must not be the model or a source of its own rows", "choose another name with --output",
                          where=str(request.output))


def calibration_rows(made: MadeData) -> int:
    """The rows to calibrate with that are rows of their own."""
    return 0 if made.dataset.calibration_is_input else len(next(iter(made.dataset.calibration.values())))


def show(console: Console, made: MadeData) -> None:
    for note in made.notes:
        console.say(note)
    for name, array in made.arrays.items():
        if array.dtype.kind in "biuf":
            low, high = (f"{value:.4g}" for value in (array.min(), array.max()))
            console.say(f"  {name}: {array.dtype}{list(array.shape)}, from {low} to {high}")
    if made.classes and any(name != str(k) for k, name in enumerate(made.classes)):
        more = f", ... ({len(made.classes)} in all)" if len(made.classes) > LISTED else ""
        listed = ", ".join(f"{k} = {name}" for k, name in enumerate(made.classes[:LISTED]))
        console.say(f"classes: {listed}{more}; their order must be that of the training (--classes)")
    calibrating = calibration_rows(made)
    kept = f"{counted(calibrating, 'other row')} to calibrate" if calibrating else "the first rows calibrate, too"
    console.say(f"{counted(made.dataset.rows, 'row')} to run and measure; {kept}")
