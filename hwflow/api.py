"""The functions of the package `hwflow`: the steps of the command line, as functions on frozen data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, Union

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, digest
from hwflow_sim import RunResult, StallPattern

from . import golden, hls, onnx
from .accuracy import Accuracy, LayerNoise, layer_noise, measure
from .arguments import (
    a_model,
    a_quantized,
    as_board,
    constants_of,
    execution_of,
    folder_of,
    objective_of,
    plan_options,
    require_plan,
    require_same,
    rows_of,
    settings_asked,
    states_of,
    widths_of,
)
from .data.arguments import a_list, boolean, instance, megahertz, path_of, positive, shapes_of, whole_number
from .data.dataset import Dataset, described, load_dataset
from .data.given import dataset_for
from .data.shapes import shapes_of_data
from .host.identity import identity
from .host.open_board import OpenBoard
from .onnx import Finding, Model
from .onnx.container.files import read
from .onnx.model import Array
from .onnx.rewrite.fixed import with_constants
from .onnx.rewrite.passes import remove_unused
from .options import BOARD, BUILD, HardwareOptions, Project, QuantizationOptions
from .pipeline.pipeline import Pipeline, settings_of
from .pipeline.simulated_board import compile_design
from .pipeline.simulation import compile_plan, run_plan
from .pipeline.verilog import write_rtl
from .quantize import Quantized, quantize, save_quantized
from .quantize.passes.streaming import keep_states
from .quantize.settings import Effort, QuantizationSettings, settings_of_bits, with_options
from .search.exploration.exploration import Exploration, evaluate, exploration_of
from .search.exploration.point import Widths
from .search.exploration.space import Explorer, Material, Space, with_and_without
from .search.widths import Goal
from .search.widths.settings_for import settings_for
from .synth import Board, SynthesisReport, list_boards
from .synth.design import Design, synthesize_design
from .synth.options import SynthesisOptions
from .views.console.terminal import Console
from .views.page.document import Page, write_page

__all__ = ["check", "explore", "export_model", "generate", "load", "make_plan", "measure_accuracy",
           "measure_layers", "quantize_model", "read_data", "report", "run_golden", "simulate", "simulated_board",
           "synthesize"]

#: The subfolder for the integer model of a bitstream.
QUANTIZED = "quantized"

#: The types that are accepted as rows of data.
Rows: TypeAlias = Union[Dataset, Array, Mapping[str, Array], Sequence[Array], Iterable[object]]


def load(path: str | Path, input_shapes: Mapping[str, tuple[int, ...]] | None = None, *,
         data: str | Path | None = None, states: Mapping[str, str] | None = None,
         constants: Mapping[str, object] | None = None) -> Model:
    """The model of an ONNX file with static shapes.

    If inputs have symbolic sizes, `input_shapes` or the rows of `data` (an NPZ file for `read_data`) decide them.
    `states` maps the inputs that are states of a recurrent layer to the outputs that are their next values; hwflow
    finds them by itself (docs/streaming.md).  `constants` maps inputs that never change to their elements: a number,
    True or False, or a list of them.  HwflowError if shapes, rows or constants contradict the file or each other, and
    for a state that no output gives.
    """
    shapes = shapes_of(input_shapes, "input_shapes")
    source = with_constants(onnx.load(path_of(path, "path")), constants_of(constants))
    if data is not None:
        shapes |= shapes_of_data(path_of(data, "data"), source, shapes)
    return keep_states(onnx.simplify(onnx.infer(source, shapes)), states_of(states))


def check(path: str | Path) -> tuple[Finding, ...]:
    """Findings: everything in an ONNX file that breaks a rule of ONNX or that hwflow cannot evaluate."""
    return onnx.check(read(path_of(path, "path")))


def read_data(path: str | Path | Rows, model: Model) -> Dataset:
    """Inputs, calibration rows and labels of an NPZ file (docs/data-files.md), checked against the model.

    In place of a path it takes arrays or a generator of batches, as every function that takes rows.  All rows of arrays
    are used for calibration, unless there are calib_ arrays.
    """
    model = a_model(model)
    if isinstance(path, str | os.PathLike):
        return load_dataset(path_of(path, "path"), model)
    if path is None or isinstance(path, bool | int | float | bytes):
        path_of(path, "path")
    return dataset_for(path, model)


def quantize_model(model: Model, data: Rows | None = None, *, bits: int | tuple[int, int] | None = None,
                   settings: str | Path | QuantizationSettings | None = None,
                   rescale_bits: int | Literal["auto"] | None = None, effort: str = "normal",
                   noise: float | None = None, accuracy_drop: float | None = None,
                   board: str | Path | Board = BOARD) -> Quantized:
    """Quantize `model`.  A float model is calibrated on `data`; an already quantized model keeps its integers.

    For calibration it uses the calibration rows of a Dataset, or all rows of arrays.  With None it invents rows: speed
    and size are then realistic, the accuracy is ruined.  `bits` is the width of all weights, or a pair with the widths
    of all weights and all activations.  `settings` has widths and other choices for each layer, as a YAML file or as an
    object.  `rescale_bits` is the width of the multipliers that turn sums into elements, in every layer: 18 to 32, or
    "auto" for as many as are exact.  `effort` ("quick", "normal" or "best") is the work for what is left open: ways to
    find ranges and to round weights are compared on calibration rows that are held back, where there are 9 or more.
    HwflowError if both `bits` and `settings` are given, or they do not fit the model.

    `noise` (decibels of signal to noise at every output) or `accuracy_drop` (points) is a goal: the widths are those of
    the cheapest design on `board` that reaches it (docs/mixed-precision.md).  AnswerIsNo where none does.
    """
    a_model(model)
    dataset = None if data is None else dataset_for(data, model)
    asked = settings_asked(bits, settings, rescale_bits, effort)
    choices = None
    if isinstance(settings, QuantizationSettings):
        choices = with_options(settings, rescale_bits, settings.hardware_argmax, asked.effort)
    chosen = choices or settings_of(asked, model)
    if noise is not None or accuracy_drop is not None:
        chosen = settings_for(Goal(accuracy_drop, noise), model, dataset, chosen, as_board(board))
    return quantize(model, None if dataset is None else dataset.calibration, settings=chosen)


def export_model(quantized: Quantized, path: str | Path) -> Path:
    """Write the integers as an ONNX model with QuantizeLinear and DequantizeLinear, for any ONNX runtime."""
    place = path_of(path, "path")
    onnx.save(remove_unused(a_quantized(quantized).qdq), place)
    return place


def measure_accuracy(model: Model, quantized: Quantized, data: Rows) -> Accuracy:
    """The accuracy of the float `model` and of its integers on every row of `data`.

    The labels or expected outputs of the data decide the measure.  Without these, the result is the difference of the
    two models.
    """
    require_same(a_model(model), a_quantized(quantized))
    return measure(model, quantized, dataset_for(data, model))[0]


def measure_layers(quantized: Quantized, data: Rows) -> tuple[LayerNoise, ...]:
    """The noise of each layer: the integer model against the same computation in reals, on the rows of `data`."""
    return layer_noise(quantized, rows_of(quantized, data))


def run_golden(quantized: Quantized, inputs: Rows) -> dict[str, Array]:
    """The integer model's outputs by name, for rows of inputs [n, *input shape].

    They have the shape that ONNX Runtime gives for the rows as one batch: [n, classes] for an output [1, classes].  An
    output without a batch axis is [n, *output shape].
    """
    return golden.as_batch(golden.predict(quantized, rows_of(quantized, inputs)))


def make_plan(quantized: Quantized, board: str | Path | Board = "ulx3s_85f", interval: int | None = None,
              **options: object) -> hls.Plan:
    """The fastest plan that fits the board; with `interval`, the cheapest plan with at most that many cycles a frame.

    Further options are those of `hwflow build --help` under "Plan", with underscores: `logic_multipliers=True` lets
    stages multiply in logic when all multiplier blocks of the board are used; `frames_per_second` asks for the cheapest
    plan for that rate at the clock that routed designs of the board's family reach at least
    (`hwflow.synth.expected_clock`), and it may multiply in logic; `stream_weights=True` lets weights be in the board's
    memory outside of the FPGA also if the design fits without; `execution` "dataflow" is a stage for each layer,
    "shared" one stage that computes one layer after another, "auto" the faster one or a mixture of both, as far as that
    pays.
    `Plan.with_folding` makes a plan with another folding of a stage.
    """
    integers, place = a_quantized(quantized), as_board(board)
    return Pipeline.of_integers(integers, place, plan_options({"interval": interval, **options})).plan


def explore(model: Model, data: Rows | None = None, *, boards: Sequence[str | Path | Board] | None = None,
            bits: Sequence[int | tuple[int, int]] | None = None, intervals: int = 8, frames: float | None = None,
            execution: str = "auto", logic_multipliers: bool = False, stream_weights: bool = False,
            objectives: Sequence[str] = (), workers: int | None = None, scheduler: str | None = None,
            folder: str | Path = "build/exploration") -> Exploration:
    """Compare designs of `model` on many boards: `points`, the `frontier`, and the `answer` to a rate.

    The axes are lists: `boards` (None: all that come with hwflow) and `bits`, each as of `quantize_model` (None: the
    default), with `intervals` designs of each, from the fastest to the smallest one.  With `frames`, the frames a
    second that are needed, `answer` names the smallest board.  `logic_multipliers` and `stream_weights` add designs
    that need them.  `objectives` are names of `hwflow.search.exploration.point.Objective`.  Clocks are estimated.

    Tasks run on `workers` processes (None: one for each core), or on the Dask cluster at `scheduler`.  `folder` keeps
    what is finished, so that the next call goes on.  It needs the extra `explore`.
    """
    rows = None if data is None else dataset_for(data, a_model(model))
    pairs = [(*widths_of(axis), 8) for axis in a_list(bits, "bits")]
    widths = [Widths((weights, activations)) for weights, activations, *_ in pairs] or [Widths()]
    settings = {axis: with_options(QuantizationSettings() if axis.bits is None else settings_of_bits(*axis.bits),
                                   None, effort=Effort.NORMAL) for axis in widths}
    names = a_list(boards, "boards") or list_boards()
    places = {name.name if isinstance(name, Board) else str(name): as_board(name) for name in names}
    space = Space(places, tuple(settings), (execution_of(execution),),
                  with_and_without(boolean(logic_multipliers, "logic_multipliers")),
                  with_and_without(boolean(stream_weights, "stream_weights")),
                  whole_number(intervals, "intervals", 1), None if frames is None else positive(frames, "frames"))
    place, chosen = folder_of(folder), [objective_of(name) for name in a_list(objectives, "objectives")]
    at_once = None if workers is None else whole_number(workers, "workers", 1)
    if scheduler is not None and not isinstance(scheduler, str):
        raise HwflowError(f"scheduler must be an address like tcp://192.168.1.2:8786, not {described(scheduler)}")
    results = evaluate(Explorer(Material(a_model(model), model, rows, settings), space, place, workers=at_once,
                                scheduler=scheduler))
    return exploration_of(space, results, place, objectives=chosen, model=model.graph.name)


def generate(quantized: Quantized, plan: hls.Plan, folder: str | Path) -> Path:
    """Write the Verilog and the contents of its ROMs into `folder`."""
    require_plan(quantized, plan)
    place = folder_of(folder)
    write_rtl(quantized.graph, plan, place)
    return place


def simulate(quantized: Quantized, plan: hls.Plan, inputs: Rows, *, stalls: StallPattern | None = None,
             folder: str | Path = "build/simulation") -> RunResult:
    """Simulate the RTL on the rows of `inputs` and compare every stage with the golden model.

    `result.equal` is True if all stages are equal; `result.values` has the outputs of every stage.
    """
    require_plan(quantized, plan)
    rows = rows_of(quantized, inputs)
    if stalls is not None:
        instance(stalls, StallPattern, "stalls", "hwflow_sim.StallPattern(source, sink, seed)")
    place = folder_of(folder)
    simulation = compile_plan(quantized.graph, plan, place, place / "cache")
    return run_plan(simulation, quantized.graph, golden.run_prologue(quantized, rows), stalls=stalls)


def report(path: str | Path, data: str | Path | None = None, board: str | Path | Board = BOARD, *,
           bits: int | tuple[int, int] | None = None, settings: str | Path | None = None,
           plan: str | Path | None = None, build: str | Path = BUILD, output: str | Path | None = None) -> Page:
    """The page of a design, as `hwflow report` writes it: of the model at `path` with its data file, on `board`.

    It shows what commands left in the folder `build` for this model, board, `bits` or `settings`, and `plan` (a file),
    and makes the integers and the plan where they are not there yet.  `output` is the file to write, None for
    report.html beside the plan.  A notebook shows the page that it gives.
    """
    chosen = None if bits is None else (*widths_of(bits), 8)[:2]
    paths = {name: None if value is None else path_of(value, name) for name, value in (
        ("data", data), ("settings", settings), ("plan", plan), ("output", output))}
    pipeline = Pipeline(
        Console(quiet=True, progress=False),
        Project(path_of(path, "path"), data=paths["data"], build=path_of(build, "build")),
        QuantizationOptions((chosen[0], chosen[1]) if chosen else None, paths["settings"]),
        HardwareOptions(str(board.path if isinstance(board, Board) else path_of(board, "board")), plan=paths["plan"]))
    return write_page(pipeline, paths["output"])


def synthesize(quantized: Quantized, plan: hls.Plan, board: str | Path | Board = "ulx3s_85f",
               folder: str | Path = "build/synthesis", seed: int = 1, seeds: int = 1, jobs: int | None = None, *,
               clock: float | str | None = None, route: int | None = None) -> SynthesisReport:
    """Write the bitstream for `board` into `folder`; the report has its clock and resources.

    It places and routes with `seeds` seeds from `seed` on, `jobs` at a time, and keeps the fastest result; with
    `route`, it routes only so many of them, those whose placements look fastest.  `clock` is the core's clock in MHz;
    None for the highest that the routed design allows; "board" for the oscillator's.
    `hwflow.host.open(port, design=folder)` drives a board with this bitstream.
    """
    board = as_board(board)
    require_plan(quantized, plan, board)
    at_once = None if jobs is None else whole_number(jobs, "jobs", 1)
    first, count = whole_number(seed, "seed", 0), whole_number(seeds, "seeds", 1)
    most = None if route is None else whole_number(route, "route", 1)
    options = SynthesisOptions(first, count, most, at_once, megahertz(clock, "clock"))
    place = folder_of(folder)
    design = Pipeline.of_integers(quantized, board, plan=plan).design
    return synthesize_design(design, place, options, quantized=QUANTIZED,
                             keep=lambda: keep_integers(design, quantized, place))


def simulated_board(quantized: Quantized, plan: hls.Plan | None = None, board: str | Path | Board = "ulx3s_85f",
                    folder: str | Path = "build/simulated", *, transport: str | None = None) -> OpenBoard:
    """A board with this design that is simulated whole, from the line to the core, and opened: see `hwflow.host`.

    Programs for a board can be written and tested with it.  `plan` is the fastest one that fits unless given,
    `transport` the first way to a host of the board's file; `folder` keeps what was compiled.  The seconds of its
    throughput are those of the line and of the board's oscillator.  `close` switches it off.
    """
    place = as_board(board).with_transport(transport)
    pipeline = Pipeline.of_integers(a_quantized(quantized), place, plan=plan)
    require_plan(quantized, pipeline.plan, place)
    design, directory = pipeline.design, folder_of(folder)
    simulated = compile_design(design, directory, directory / "cache", quantized=QUANTIZED,
                               keep=lambda: keep_integers(design, quantized, directory))
    return simulated.open()


def keep_integers(design: Design, quantized: Quantized, folder: Path) -> None:
    """Write the integer model into the folder of a design, unless the folder has the same one."""
    key = digest(identity(design.graph, design.plan), onnx.dumps(quantized.prologue), onnx.dumps(quantized.epilogue))
    cached_step(folder / QUANTIZED, key, lambda working: save_quantized(quantized, working))
