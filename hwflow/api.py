"""hwflow from a script: the steps of the command line as functions of plain frozen data.

    import hwflow

    model = hwflow.load("model.onnx")
    data = hwflow.read_data("data.npz", model)
    quantized = hwflow.quantize_model(model, data)
    plan = hwflow.make_plan(quantized, board="ulx3s_85f")
    result = hwflow.simulate(quantized, plan, data.first(10))  # RTL against golden, every stage
    assert result.equal

Arrays are numpy arrays, everything else is a frozen dataclass.  Failures are `hwflow.HwflowError`.  Inputs and outputs
go by their names in the model, however many there are: `hwflow.run_golden(quantized, {"left": a, "right": b})["sum"]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hwflow_sim import RunResult, StallPattern

from . import golden, hls, onnx
from .accuracy import Accuracy, LayerNoise, layer_noise, measure
from .build import cached_step, digest
from .data_shapes import shapes_of_data
from .dataset import Dataset, load_dataset
from .errors import HwflowError
from .flow import budget_of, settings_of_bits
from .generation import write_rtl
from .onnx import Finding, Model
from .onnx.container.files import read
from .onnx.model import Array
from .onnx.rewrite.passes import remove_unused
from .quantize import Quantized, quantize, save_quantized
from .quantize.settings import QuantizationSettings
from .quantize.settings_file import settings_from_yaml
from .simulation import compile_plan, run_plan
from .sources import read_text
from .synth import Board, SynthesisReport, ends_of, load_board
from .synth import synthesize as synthesize_core
from .synth.identity import DesignFacts, identity

__all__ = ["check", "export_model", "generate", "load", "make_plan", "measure_accuracy", "measure_layers",
           "quantize_model", "read_data", "run_golden", "simulate", "synthesize"]

#: The integer model of a bitstream, in its folder.
QUANTIZED = "quantized"


def load(path: str | Path, input_shapes: Mapping[str, tuple[int, ...]] | None = None, *,
         data: str | Path | None = None) -> Model:
    """The model of an ONNX file with every shape known.

    `input_shapes` fixes those that the file leaves open, and so do the rows of `data`, an NPZ file for `read_data`.
    HwflowError for shapes or rows that contradict the file or each other.
    """
    source, shapes = onnx.load(path), dict(input_shapes or {})
    if data is not None:
        shapes |= shapes_of_data(data, source, shapes)
    return onnx.simplify(onnx.infer(source, shapes))


def check(path: str | Path) -> tuple[Finding, ...]:
    """Everything in an ONNX file that breaks a rule of ONNX or that hwflow cannot evaluate."""
    return onnx.check(read(path))


def read_data(path: str | Path, model: Model) -> Dataset:
    """Inputs, calibration rows and labels of an NPZ file (docs/data-files.md), checked against the model."""
    return load_dataset(path, model)


def quantize_model(model: Model, data: Dataset | None = None, *, bits: int | tuple[int, int] | None = None,
                   settings: str | Path | QuantizationSettings | None = None) -> Quantized:
    """Integers for `model`: of a float model by calibration on `data`, of a quantized model exactly as they stand.

    `bits` are the widths of all weights, or of all weights and all activations; `settings` decides layer by layer, and
    is a YAML file or its content as an object.  HwflowError where both are given or they do not fit the model.
    """
    if bits is not None and settings is not None:
        raise HwflowError("bits and settings must not be given together; write the widths into the settings")
    choices = settings
    if bits is not None:
        choices = settings_of_bits(*((bits, 8) if isinstance(bits, int) else bits))
    elif isinstance(settings, str | Path):
        choices = settings_from_yaml(read_text(Path(settings)), str(settings), model)
    assert choices is None or isinstance(choices, QuantizationSettings)
    return quantize(model, data.calibration if data is not None else None, settings=choices)


def export_model(quantized: Quantized, path: str | Path) -> Path:
    """Write the integers as an ONNX model with QuantizeLinear and DequantizeLinear, which any runtime evaluates."""
    onnx.save(remove_unused(quantized.qdq), path)
    return Path(path)


def measure_accuracy(model: Model, quantized: Quantized, data: Dataset) -> Accuracy:
    """The float `model` and its integers on every row of `data`, by the measures that its labels or outputs ask for."""
    return measure(model, quantized, data)[0]


def measure_layers(quantized: Quantized, data: Dataset) -> tuple[LayerNoise, ...]:
    """How far the tensors of the integer model are from the same computation in reals, on the rows of `data`."""
    return layer_noise(quantized, data.inputs)


def run_golden(quantized: Quantized, inputs: Dataset | Mapping[str, Array]) -> dict[str, Array]:
    """The integer model's outputs by name, [n, *output shape], for rows of inputs [n, *input shape]."""
    return golden.predict(quantized, inputs.inputs if isinstance(inputs, Dataset) else inputs)


def make_plan(quantized: Quantized, board: str | Path | Board = "ulx3s_85f", interval: int | None = None, *,
              logic_multipliers: bool = False) -> hls.Plan:
    """The fastest plan that fits the board, or with `interval` the cheapest one with so few cycles a frame.

    With `logic_multipliers` stages multiply in logic once the board's multiplier blocks are used up.
    """
    board = as_board(board)
    return hls.solve(quantized.graph, board.technology(), budget_of(board, quantized.graph), interval=interval,
                     logic=logic_multipliers)


def generate(quantized: Quantized, plan: hls.Plan, folder: str | Path) -> Path:
    """Write the Verilog and the contents of its ROMs into `folder`."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write_rtl(quantized.graph, plan, place)
    return place


def simulate(quantized: Quantized, plan: hls.Plan, inputs: Dataset | Mapping[str, Array], *,
             stalls: StallPattern | None = None, folder: str | Path = "build/simulation") -> RunResult:
    """Play the rows of `inputs` through the RTL and compare every stage with the golden model; `result.equal` tells."""
    rows = inputs.inputs if isinstance(inputs, Dataset) else inputs
    place = Path(folder)
    simulation = compile_plan(quantized.graph, plan, place, place / "cache")
    return run_plan(simulation, quantized.graph, golden.before(quantized, rows), stalls=stalls)


def synthesize(quantized: Quantized, plan: hls.Plan, board: str | Path | Board = "ulx3s_85f",
               folder: str | Path = "build/synthesis", seed: int = 1, seeds: int = 1, jobs: int | None = None, *,
               clock: float | str | None = None) -> SynthesisReport:
    """The bitstream for `board` in `folder`, and what it takes of the device.

    The fastest of `seeds` placements, `jobs` at a time.  `clock` is the core's in MHz, None for the highest that the
    routed design bears, "board" for the oscillator's.  `hwflow.host.open(port, design=folder)` finds the rest there.
    """
    board, place = as_board(board), Path(folder)
    core, design = hls.lower(quantized.graph, plan, board.technology()), identity(quantized.graph, plan)
    report = synthesize_core(core, board, place, seed=seed, seeds=seeds, jobs=jobs, clock=clock, ends=ends_of(plan),
                             plan=plan, identity=design)
    key = digest(design, onnx.dumps(quantized.prologue), onnx.dumps(quantized.epilogue))
    cached_step(place / QUANTIZED, key, lambda working: save_quantized(quantized, working))
    facts = DesignFacts.of(quantized.graph, plan, board=board.name, baud=board.baud, clock_mhz=report.clock_mhz)
    replace(facts, quantized=QUANTIZED).write(place)
    return report


def as_board(board: str | Path | Board) -> Board:
    return board if isinstance(board, Board) else load_board(board)
