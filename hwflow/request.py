"""What a user asks of each command: a frozen request, with exactly the options that the command takes.

Options that several commands share are parts of their requests.  The help of the command line says what each option
means; `hwflow.cli.requests` makes a request of the command line's options, and the tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .data.sources.source import Preparation
from .host.pace import Patience
from .layers.partition import Execution
from .onnx.limits import DEFAULT_LIMITS, Limits
from .serve.limits import MEBIBYTE, ServeLimits
from .synth.options import SynthesisOptions

__all__ = ["BOARD", "BUILD", "PARTS", "BuildRequest", "CheckRequest", "DataRequest", "ExploreRequest", "GoldenRequest",
           "HardwareOptions", "InfoRequest", "ProgramRequest", "Project", "QuantizationOptions", "QuantizeRequest",
           "ReportRequest", "ReweightRequest", "RunRequest", "ServeRequest", "SimRequest", "SynthRequest"]

#: The board where none is named, and where every intermediate result is written.
BOARD, BUILD = "ulx3s_85f", Path("build")


@dataclass(frozen=True)
class Project:
    """A model, its data, and the folder of its results."""

    model: Path
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    states: tuple[tuple[str, str], ...] = ()
    data: Path | None = None
    build: Path = BUILD
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class QuantizationOptions:
    """How a model becomes integers."""

    bits: tuple[int, int] | None = None
    settings: Path | None = None
    rescale_bits: int | Literal["auto"] | None = None
    hardware_argmax: bool = False


@dataclass(frozen=True)
class HardwareOptions:
    """For which board, and with which plan, integers become hardware."""

    board: str = BOARD
    transport: str | None = None
    address: str | None = None
    plan: Path | None = None
    interval: int | None = None
    frames_per_second: float | None = None
    logic_multipliers: bool = False
    stream_weights: bool = False
    execution: Execution = Execution.AUTO
    reweightable: bool = False


#: The fields of requests whose own fields are options.
PARTS = (Project, QuantizationOptions, HardwareOptions, SynthesisOptions, Preparation)


@dataclass(frozen=True)
class CheckRequest:
    """`hwflow check`."""

    project: Project
    strict: bool = False
    hardware: bool = False
    board: str | None = None


@dataclass(frozen=True)
class DataRequest:
    """`hwflow data`; `sources` and `calibration_data` are files and folders, each after the name of its input and "="
    where the model has several."""

    model: Path
    sources: tuple[str, ...]
    how: Preparation = field(default_factory=Preparation)
    output: Path = Path("data.npz")
    rows: int | None = None
    calibration: int | None = None
    calibration_data: tuple[str, ...] = ()
    in_order: bool = False
    seed: int = 0
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class InfoRequest:
    """`hwflow info`."""

    project: Project
    board: str | None = None
    svg: Path | None = None


@dataclass(frozen=True)
class QuantizeRequest:
    """`hwflow quantize`."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    export: Path | None = None
    accuracy_drop: float | None = None
    search_evaluations: int = 200
    board: str = BOARD


@dataclass(frozen=True)
class GoldenRequest:
    """`hwflow golden`."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    layer_rows: int = 100


@dataclass(frozen=True)
class BuildRequest:
    """`hwflow build`."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    hardware: HardwareOptions = HardwareOptions()
    axi_stream: bool = False
    export: tuple[str, ...] = ()
    output: Path | None = None


@dataclass(frozen=True)
class SimRequest:
    """`hwflow sim`; `frames` is None for 10, 3 with `netlist`, or with `streaming` all rows of the data, up to 100."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    hardware: HardwareOptions = HardwareOptions()
    frames: int | None = None
    stalls: float = 0.4
    seed: int = 1
    waves: bool = False
    netlist: bool = False
    streaming: bool = False
    clock: float | str | None = None


@dataclass(frozen=True)
class SynthRequest:
    """`hwflow synth`."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    hardware: HardwareOptions = HardwareOptions()
    synthesis: SynthesisOptions = field(default_factory=SynthesisOptions)


@dataclass(frozen=True)
class ReportRequest:
    """`hwflow report`; `output` is None for report.html in the folder of the board."""

    project: Project
    quantization: QuantizationOptions = QuantizationOptions()
    hardware: HardwareOptions = HardwareOptions()
    output: Path | None = None


@dataclass(frozen=True)
class ExploreRequest:
    """`hwflow explore`; `boards` is empty for all of them, `intervals` None for 8, or with `frames` for 1."""

    project: Project
    boards: tuple[str, ...] = ()
    bits: tuple[tuple[int, int], ...] = ()
    settings: tuple[Path, ...] = ()
    rescale_bits: int | Literal["auto"] | None = None
    hardware_argmax: bool = False
    intervals: int | None = None
    frames: float | None = None
    executions: tuple[Execution, ...] = ()
    logic_multipliers: bool = False
    stream_weights: bool = False
    accuracy_drop: float | None = None
    objectives: tuple[str, ...] = ()
    route: int | None = None
    runs: int = 3
    workers: int | None = None
    scheduler: str | None = None


@dataclass(frozen=True)
class ProgramRequest:
    """`hwflow program`."""

    model: Path
    board: str = BOARD
    flash: bool = False
    weights: bool = False
    port: str | None = None
    baud: int | None = None
    build: Path = BUILD


@dataclass(frozen=True)
class ReweightRequest:
    """`hwflow reweight`; `base` is the first model, or its build folder."""

    project: Project
    base: Path
    board: str = BOARD
    netlist: bool = False
    frames: int = 3


@dataclass(frozen=True)
class RunRequest:
    """`hwflow run`."""

    project: Project
    port: str | None = None
    baud: int | None = None
    board: str | None = None
    rows: int | None = None
    patience: float = Patience().silence
    simulate: bool = False
    terminal: bool = False
    transport: str | None = None


@dataclass(frozen=True)
class ServeRequest:
    """`hwflow serve`; `simulate` is a number of simulated boards, `max_body` in MiB."""

    project: Project
    ports: tuple[str, ...] = ()
    baud: int | None = None
    board: str | None = None
    patience: float = Patience().silence
    simulate: int = 0
    transport: str | None = None
    host: str = "127.0.0.1"
    http_port: int = 8000
    token_file: Path | None = None
    queue: int = ServeLimits.queue
    max_batch: int = ServeLimits.max_batch
    batch_wait: float = ServeLimits.batch_wait
    timeout: float = ServeLimits.timeout
    max_body: int = ServeLimits.max_body // MEBIBYTE
    verbose: bool = False
