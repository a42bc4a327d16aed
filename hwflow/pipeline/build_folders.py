"""The folders of a model's results.

`build/<model>/` has what its data and settings decide, `build/<model>/<board>/` what depends on a board.

Folders are named by the model's name alone.  Each has a file that says which model file it belongs to, because two
models in different folders may share a name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import content, digest, locked, sweep
from hwflow_base.files.sources import open_plain
from hwflow_base.files.target import same_file, write_atomically

from ..data.dataset import Dataset
from ..onnx import dumps
from ..onnx.model import Model
from ..quantize.settings import QuantizationSettings
from ..synth import Board

#: What is in a model's folder beside the folders of its boards.
BESIDE_BOARDS = ("quantized", "golden", "float", "layers", "reweighted", "integers", "records", "exploration")
#: The file that names the model, by its path from the folder: both may be moved together.
MODEL = "model.txt"
#: No path is longer, bytes.
LONGEST = 1 << 14


def board_folder(folder: Path, board: Board) -> Path:
    """The folder for `board` in that of a model.  HwflowError for a board with the name of another result."""
    if board.name in BESIDE_BOARDS or board.name.startswith("."):
        raise HwflowError(
            f"a board must have a name that no other result has, not '{board.name}': its results are in a folder of "
            "that name",
            f"rename the file '{board.path}'",
        )
    return folder / board.name


@contextlib.contextmanager
def held(folder: Path, model: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold `folder` for the results of `model`; `say` hears where it had those of another model of the same name."""
    with locked(folder, say):
        for inner in folder.iterdir():  # those of boards have no lock of their own
            if inner.is_dir() and not inner.is_symlink():
                sweep(inner)
        other = other_model(folder, model)
        if other is not None:
            say(f"'{folder}' had the results of another model of the same name, '{other}'; this run replaces them; to "
                "keep both, give each its own --build")
        text = os.fsencode(os.path.relpath(model, folder)).decode("utf-8", "backslashreplace")
        if owner(folder) != text:
            write_atomically(folder / MODEL, f"{text}\n")
        yield


def other_model(folder: Path, model: Path) -> Path | None:
    """The model file whose results `folder` has, where that file is there still and is not `model`; else None."""
    text = owner(folder)
    other = Path(os.path.normpath(folder / text))
    with contextlib.suppress(OSError, ValueError):
        if text and other.is_file() and model.is_file() and not same_file(other, model):
            return other
    return None


def owner(folder: Path) -> str:
    """The text that `held` wrote; nothing where that cannot be read."""
    with contextlib.suppress(OSError, ValueError), open_plain(folder / MODEL) as file:
        return file.read(LONGEST).decode("utf-8").rstrip("\n")
    return ""


# Keys of integers and of data: digests of all that they depend on.


def integers_key(model: Model, settings: QuantizationSettings, dataset: Dataset | None) -> str:
    """The digest of all that the integers of `model` depend on: weights, calibration rows, shapes, settings."""
    calibration = [] if dataset is None else [array.tobytes() for _, array in sorted(dataset.calibration.items())]
    return digest(dumps(model), repr(asdict(settings)), *calibration)


def data_key(dataset: Dataset | None) -> str:
    """A digest of the rows of the data, their labels and their expected outputs; empty without data."""
    if dataset is None:
        return ""
    labels = [] if dataset.labels is None else [dataset.labels]
    named = [*sorted(dataset.inputs.items()), *sorted(dataset.outputs.items())]
    return digest(*(part for name, array in named for part in (name, content(array))), *map(content, labels))
