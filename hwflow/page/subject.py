"""What the sections of a report read: the design, and the records of what was run with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..command_line import command_line
from ..data.dataset import Dataset
from ..hls.plan import Plan
from ..layers.base import LayerGraph
from ..onnx.model import Model
from ..quantize import Quantized
from ..report.clock import CoreClock
from ..request import HardwareOptions, Project, QuantizationOptions
from ..steps.records import Record, kept
from ..synth.boards import Board

__all__ = ["Subject"]

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
        parts = [self.project, self.quantization, self.hardware][:PARTS_TAKEN.get(name, 3)]
        return command_line(name, *parts, options=options)

    def record(self, kind: str) -> Record | None:
        """What the last command of this kind found of the design on its board; None where none was run.

        It may be that of another design: then its key is not `design`.
        """
        return kept(self.board_folder, kind)
