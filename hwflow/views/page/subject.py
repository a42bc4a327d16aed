"""The subject of a report: the design, the records of what was run with it, and what a section of it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.options import Options, command_line
from markupsafe import Markup

from hwflow.hls.plan.plan import Plan

from ...data.dataset import Dataset
from ...facts.plan import CoreClock
from ...layers.base import LayerGraph
from ...onnx.model import Model
from ...options import HardwareOptions, Project, QuantizationOptions
from ...pipeline.records import Record, kept, path_of
from ...quantize import Quantized
from ...synth.boards import Board


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    `anchor` is its name in links, `title` its heading, `body` its HTML.  `missing` is the command that fills the
    section, or more of it, where that was not run yet; None where there is nothing left to run.
    """

    anchor: str
    title: str
    body: Markup
    missing: str | None = None


# What the sections of a report read: the design, and the records of what was run with it.


#: How many of project, quantization and hardware a command takes, where not all.
PARTS_TAKEN = {"check": 1, "info": 1, "run": 1, "quantize": 2, "golden": 2}


@dataclass(frozen=True)
class Subject:
    """A model, the design that became of it, and where the results of commands are.

    `source` is the model of the file.  `folder` has the results that no board decides, `board_folder` those of `board`,
    `synthesis` the routed design if there is one.  `integers` is the key of the quantized model and `rows` that of its
    data, `design` names the hardware: what was run with others is not shown as current.
    """

    project: Project
    quantization: QuantizationOptions
    hardware: HardwareOptions
    source: Model
    quantized: Quantized
    plan: Plan
    board: Board
    clock: CoreClock
    dataset: Dataset | None
    folder: Path
    board_folder: Path
    synthesis: Path
    integers: str
    rows: str
    design: str

    @property
    def graph(self) -> LayerGraph:
        return self.quantized.graph

    @property
    def name(self) -> str:
        return self.project.model.stem

    def command(self, name: str, *options: str) -> str:
        """The command `hwflow name` for this very design, with `options` besides, as a line for a shell."""
        parts: tuple[Options, ...] = (self.project, self.quantization, self.hardware)[:PARTS_TAKEN.get(name, 3)]
        return command_line(name, *parts, options=options)

    def record(self, kind: str) -> Record | None:
        """The record of the last command of this kind about the design on its board; None where none was run.

        It may be that of another design: then its key is not `design`.
        """
        return kept(self.board_folder, kind)


# Records as sections read them: of this design or of another one, whole or damaged.


#: Errors of facts that are not those that a command wrote: keys are missing, types are others.
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


@dataclass(frozen=True)
class Found:
    """The record of a kind, None where there is none; `current` where it is of what the page is about."""

    path: Path
    record: Record | None
    current: bool

    @property
    def usable(self) -> Record | None:
        """The record where it is current."""
        return self.record if self.current else None

    @property
    def other(self) -> bool:
        """Whether the record is of another design."""
        return self.record is not None and not self.current

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """HwflowError for facts in this context that are not those that a command wrote."""
        try:
            yield
        except DAMAGED as error:
            raise HwflowError(f"'{self.path}' must be a record of hwflow, and is damaged",
                              "delete it, and run the command that makes it again") from error


def found(folder: Path, kind: str, key: str) -> Found:
    """The record of this kind in `folder`, which is current where its key is `key`."""
    record = kept(folder, kind)
    return Found(path_of(folder, kind), record, record is not None and record.key == key)


def when(record: Record) -> str:
    """When it was made, to the minute.  ValueError where it does not say."""
    return f"{datetime.fromisoformat(record.made):%Y-%m-%d %H:%M} UTC"
