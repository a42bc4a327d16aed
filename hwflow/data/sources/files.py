"""Folders of files, one file a row: which files there are, and which class each one has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array

from .source import Preparation, class_numbers
from .tables import TABLES, labels_by_file

#: The words of --labels that name no file and no column.
FOLDERS, NONE = "folders", "none"


@dataclass(frozen=True)
class Files:
    """Files of one kind in the order of their names, and their labels."""

    paths: tuple[Path, ...]
    #: Relative to the folder, with slashes.
    names: tuple[str, ...]
    labels: Array | None
    classes: tuple[str, ...]
    #: How many files of the folder are of other kinds.
    others: int


def files_of(place: Path, endings: Sequence[str], how: Preparation, kind: str) -> Files:
    """The files of `place`, a folder or a single file, whose names end in one of `endings`.

    Without --labels, the folders directly in `place` are the classes, as in torchvision's ImageFolder and Keras'
    image_dataset_from_directory; files inside of further folders belong to the class above.  Hidden files are no rows.
    """
    if place.is_dir():
        names = sorted(_below(place))
        chosen = [name for name in names if name.lower().endswith(tuple(endings))]
        if not chosen:
            raise HwflowError(f"the folder must have {kind} ({', '.join(endings)}), not {len(names)} other files",
                              where=str(place))
    else:
        names = chosen = [place.name]
        place = place.parent
    labels, classes = _labels(place, chosen, how, kind)
    return Files(tuple(place / name for name in chosen), tuple(chosen), labels, classes, len(names) - len(chosen))


def _below(place: Path) -> list[str]:
    """The names of all files in a folder and its folders, links to other folders left out."""
    names = []
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(place)
        names += [(inside / name).as_posix() for name in files if not name.startswith(".")
                  and Path(folder, name).is_file()]  # a pipe would never end
    return names


def _labels(place: Path, names: Sequence[str], how: Preparation, kind: str) -> tuple[Array | None, tuple[str, ...]]:
    """The label of each file."""
    if how.labels == NONE:
        return None, ()
    if how.labels is not None and how.labels != FOLDERS:
        return _labels_in(Path(how.labels), names, how)
    in_folders = sum("/" in name for name in names)
    if not in_folders:
        if how.labels == FOLDERS:
            raise HwflowError(f"the {kind} must be in a folder for each class with --labels folders", where=str(place))
        return None, ()
    if in_folders < len(names):
        loose = next(name for name in names if "/" not in name)
        raise HwflowError(f"the {kind} must all be in a folder for each class, or none, not '{loose}' beside folders",
                          "move it, or give --labels none", where=str(place))
    numbers, classes = class_numbers([Path(name).parts[0] for name in names], how.classes, str(place))
    return numbers, classes


def _labels_in(table: Path, names: Sequence[str], how: Preparation) -> tuple[Array, tuple[str, ...]]:
    """The labels that a table of files and labels gives."""
    if table.suffix.lower() not in TABLES:
        raise HwflowError(f"--labels must be 'folders', 'none' or a table of files and labels (.csv), not '{table}'")
    by_file = labels_by_file(table)
    missing = [name for name in names if name not in by_file]
    if missing:
        raise HwflowError(f"the table must have a line for each file, and has none for '{missing[0]}' "
                          f"({len(missing)} of {len(names)} are missing)", where=str(table))
    texts = [by_file[name] for name in names]
    if how.classes or not all(text.removeprefix("-").isdecimal() for text in texts):
        return class_numbers(texts, how.classes, str(table))
    return np.array(list(map(int, texts)), np.int64), ()
