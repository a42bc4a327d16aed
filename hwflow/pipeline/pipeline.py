"""`Pipeline`: all steps from a model to its bitstream, for the command line, with every result below `build/<model>/`.

Results that depend on the board are in `build/<model>/<board>/`.

`Pipeline` is lazy: `plan`, for example, quantizes the model first if that has not been done.  Slow steps are cached
with their inputs as the key (`hwflow_base.files.cache`), so a second run without changes skips them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, digest
from hwflow_base.files.durations import Durations
from hwflow_base.files.sources import read_text
from hwflow_base.files.target import same_file, write_atomically
from hwflow_base.options import command_line

from hwflow.stages.other_weights import with_room

from .. import hls, onnx
from ..accuracy import Accuracy, LayerNoise, data_warnings, measured_warnings
from ..data.dataset import Dataset, load_dataset
from ..data.shapes import given_shapes
from ..facts.clock import CoreClock, clock_of
from ..facts.mapping import Mapped, mapped, trial
from ..layers.base import LayerGraph
from ..onnx.about import about
from ..onnx.errors import LimitError
from ..onnx.inference.open_sizes import Shapes, sizes_given
from ..options import HardwareOptions, Project, QuantizationOptions
from ..quantize import Quantized, load_quantized, quantize, save_quantized
from ..quantize.problems import Cause, NoHardware, with_cuts
from ..quantize.settings import QuantizationSettings
from ..quantize.streaming import keep_states
from ..quantize.support import operators_without_hardware, require_small_frames, require_small_model
from ..synth import Board, SynthesisReport, load_board
from ..synth.design import Design, synthesize_design
from ..synth.netlist import make_netlist_of
from ..synth.options import SynthesisOptions
from ..views.console.terminal import Console, Warned
from . import measurements
from .build_folders import board_folder, held
from .choices import settings_of
from .keys import integers_key
from .planning import given_plan, plan_for
from .routed_design import keep_design
from .stimuli import Frames, stimuli
from .verilog import generate, generate_axi_stream

if TYPE_CHECKING:
    from hwflow_sim import RunResult

    from .netlist_proof import NetlistProof


@dataclass
class Pipeline:
    """The steps for one model; `console` shows progress and notes.

    The noise of layers is measured on the first `layer_rows` rows of the data.
    """

    console: Console
    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    layer_rows: int = 100
    folder: Path = field(init=False)
    warned: Warned = field(init=False)

    def __post_init__(self) -> None:
        self.warned = Warned(self.console)
        self.folder = self.project.build / self.project.model.stem
        self.console.watch.durations = Durations(self.project.build / ".cache" / "durations.json")

    @cached_property
    def source(self) -> onnx.Model:
        """The model of the file, unchanged.  HwflowError if --input-shape does not fit it."""
        model = onnx.load(self.project.model, limits=self.project.limits)
        sizes_given(model.graph, dict(self.project.input_shapes))
        return model

    @cached_property
    def shapes(self) -> Shapes:
        """Shapes of the inputs with symbolic sizes: from --input-shape, else from the rows of the data."""
        project, say = self.project, self.console.progress
        return given_shapes(project.data, self.source, dict(project.input_shapes), project.limits, say)

    @cached_property
    def model(self) -> onnx.Model:
        """The model with static shapes and folded constants; recurrent layers keep their states themselves."""
        shapes = self.shapes
        with about(self.source):
            return self._model_of(shapes)

    def _model_of(self, shapes: Shapes) -> onnx.Model:
        """`model` with these shapes of its inputs."""
        require_small_model(self.source.graph)
        try:
            inferred = onnx.infer(self.source, shapes, self.project.limits)
        except HwflowError as error:
            kind = type(error) if isinstance(error, LimitError) else HwflowError
            raise kind(error.without_file + self.without_hardware()) from None
        require_small_frames(inferred.graph)
        model = keep_states(onnx.simplify(inferred), dict(self.project.states))
        for note in model.notes:
            self.console.progress(note)
        return model

    def without_hardware(self) -> str:
        """The end of a message about a model whose shapes cannot be inferred: all operators without hardware."""
        problems = with_cuts(operators_without_hardware(self.source), self.source.graph)
        lines = [f"\n  {problem.where}: {problem.why}; {problem.remedy}" for problem in problems]
        return "".join(["\nbesides, it has operators without hardware:", *lines]) if lines else ""

    @cached_property
    def mapping(self) -> Mapped:
        """What becomes of every node.  HwflowError for a state that is none."""
        project = self.project
        return mapped(self.source, self.shapes, project.limits, dict(project.states))

    @contextlib.contextmanager
    def everything_said(self) -> Iterator[None]:
        """If the quantizer refuses the model, report every problem that it has, as `check --hardware` does."""
        try:
            yield
        except HwflowError as error:
            found, own = self.mapping, error.problems if isinstance(error, NoHardware) else ()
            if found.possible or (not own and found.is_all(error)):  # the settings or the data caused the error
                raise
            tensors = {problem.why: problem.where for problem in own if problem.cause is Cause.TENSOR}
            everything = NoHardware(tuple(replace(problem, where=tensors.get(problem.why, problem.where))
                                          for problem in found.all_problems))
            raise everything.about(self.source.file) from error

    @cached_property
    def dataset(self) -> Dataset | None:
        """The user's data; None without --data."""
        return load_dataset(self.project.data, self.model, self.project.limits) if self.project.data else None

    @cached_property
    def choices(self) -> QuantizationSettings:
        """The user's settings of the quantization: the settings file, or widths for all layers, or the defaults."""
        return settings_of(self.quantization, self.model)

    @cached_property
    def quantize_key(self) -> str:
        """The digest of the inputs of the integer graph: model with weights, data, shapes, settings."""
        return integers_key(self.model, self.choices, self.dataset)

    @cached_property
    def quantized(self) -> Quantized:
        """The integer graph with its host programs (prologue and epilogue)."""
        return self.quantize()

    def quantize(self) -> Quantized:
        """The model quantized with `choices`; from the cache if model, data and settings did not change."""
        folder = self.folder / "quantized"
        model, dataset, choices = self.model, self.dataset, self.choices

        def make(place: Path) -> None:
            with self.console.rows("calibrate and quantize") as progress:
                rows = dataset.calibration if dataset else None
                with self.everything_said():
                    made = quantize(model, rows, settings=choices, progress=progress, original=self.source)
                save_quantized(made, place)

        cached_step(folder, self.quantize_key, make)
        result = load_quantized(folder)
        for note in result.notes:
            self.console.progress(note)
        if dataset is not None and dataset.calibration_is_input:
            self.console.progress(f"'{dataset.path}' has no calib_ arrays: calibration used its first rows")
        self.warned.add(result.warnings if dataset is None else data_warnings(result, dataset))
        return result

    def reproducing(self) -> Path | None:
        """Write the settings file that gives the same integers again; None for a model that was already quantized.

        If the user gave this very file as --settings, it is not changed.
        """
        path, text = self.folder / "quantize.yaml", self.quantized.settings
        if not text:
            return None
        if self.quantization.settings is None or not same_file(path, self.quantization.settings):
            write_atomically(path, text)
        return path

    @property
    def graph(self) -> LayerGraph:
        return self.quantized.graph

    @cached_property
    def structure(self) -> LayerGraph:
        """The graph of which the hardware is made: with --reweightable it has room for other weights."""
        return with_room(self.graph) if self.hardware.reweightable else self.graph

    @cached_property
    def board(self) -> Board:
        return load_board(self.hardware.board).with_transport(self.hardware.transport, self.hardware.address)

    @property
    def board_folder(self) -> Path:
        """The folder of the results that depend on the board."""
        return board_folder(self.folder, self.board)

    @property
    def synthesis(self) -> Path:
        """The folder of the routed design."""
        return self.board_folder / "synth"

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for this run."""
        return held(self.folder, self.project.model, self.console.progress)

    @cached_property
    def plan_text(self) -> str | None:
        """The text of the user's plan; None without --plan."""
        given = self.hardware
        pace = given.interval or given.frames_per_second
        others = pace, given.logic_multipliers, given.stream_weights, given.execution is not HardwareOptions.execution
        if given.plan and any(others):
            raise HwflowError("--plan must not be given together with --interval, --frames-per-second, --logic-"
                              "multipliers, --stream-weights or --execution", "the plan's file decides all of them")
        if given.interval and given.frames_per_second:
            raise HwflowError("--interval must not be given together with --frames-per-second", "give one of them")
        return read_text(given.plan) if given.plan else None

    def prepare(self, *needs: Callable[[], object]) -> None:
        """Fail early: check the board and the file of the plan, and call `needs`, functions that look for programs."""
        _ = self.source, self.board, self.plan_text
        for find in needs:
            find()

    @cached_property
    def plan(self) -> hls.Plan:
        """The user's plan, or the fastest one that fits the board.  It is written to plan.yaml."""
        wanted, board, say = self.hardware, self.board, self.console.progress
        if self.plan_text is None:
            with about(self.source):
                plan = plan_for(self.graph, self.structure, board, interval=wanted.interval,
                                frames_per_second=wanted.frames_per_second, logic=wanted.logic_multipliers,
                                stream_weights=wanted.stream_weights, execution=wanted.execution, say=say,
                                keep=self.keep_plan)
        else:
            plan, warnings = given_plan(self.plan_text, self.structure, board, str(wanted.plan), say)
            self.warned.add(warnings)
        write_atomically(self.board_folder / "plan.yaml", hls.plan_to_yaml(plan))
        return plan

    def keep_plan(self, plan: hls.Plan) -> str:
        """Writes the best plan of a search that is interrupted; the path."""
        path = self.board_folder / "plan-so-far.yaml"
        write_atomically(path, hls.plan_to_yaml(replace(plan, board=self.board.name)))
        return str(path)

    def trial(self) -> Quantized:
        """The model quantized without its data, only to find out which nodes map to hardware."""
        model = self.model
        try:
            with self.everything_said():
                return trial(model)
        except MemoryError:  # a valid model may be larger than any hardware
            raise HwflowError("the model needs more memory than this machine has") from None

    def frames(self, count: int, seed: int = 1) -> dict[str, Frames]:
        """Integer frames [n, height, width, channels] of each input to simulate."""
        return stimuli(self.quantized, self.dataset, count, seed, self.console.progress)

    def generate(self, *, axi_stream: bool = False) -> Path:
        """Write the Verilog, the contents of its ROMs and the ROM module into build/<model>/<board>/rtl.

        With `axi_stream` it also writes a top with AXI4-Stream ports.
        """
        make = generate_axi_stream if axi_stream else generate
        key = digest(self.quantize_key, str(self.hardware.reweightable))
        return make(self.structure, self.plan, self.board_folder, key, self.console.step)

    @property
    def compiled(self) -> Path:
        """The folder of simulations that are compiled already, of all models."""
        return self.project.build / ".cache" / "sim"

    def simulate(self, count: int, *, stalls: float, seed: int, waves: bool) -> dict[str, RunResult]:
        """Simulate `count` frames twice: at full speed, and with random stalls at both ends.  The results by name."""
        from hwflow_sim import StallPattern

        from .simulation import compile_plan, run_plan
        folder = self.board_folder / "sim"
        self.generate()
        with self.console.step("compile the simulation"):
            simulation = compile_plan(self.structure, self.plan, folder, self.compiled, waves=waves,
                                      say=self.console.progress, watch=self.console.watch)
        runs, frames = {}, self.frames(count, seed)
        for name, pattern in (("full speed", None), ("random stalls", StallPattern(stalls, stalls, seed))):
            place = folder / f"{name.replace(' ', '_')}.fst" if waves else None
            kind = f"simulate {self.folder.name} for {self.board.name}, {name}"
            with self.console.step(f"simulate {count} frames, {name}", kind, count * self.plan.interval):
                runs[name] = run_plan(simulation, self.graph, frames, stalls=pattern, waves=place)
        return runs

    @cached_property
    def design(self) -> Design:
        """The design, from which netlist and bitstream are made."""
        return Design(self.graph, self.plan, self.board, self.structure)

    def netlist(self, clock: float | str | None = None) -> Path:
        """The netlist in build/<model>/<board>/synth, from the cache if it is up to date."""
        return make_netlist_of(self.design.on_board(), self.synthesis, apart=self.board_folder / "proof", clock=clock,
                               progress=self.console.progress, watch=self.console.watch)

    def prove(self, count: int, *, seed: int = 1, clock: float | str | None = None) -> NetlistProof:
        """Simulate `count` frames in the netlist, cell by cell, and compare them with the golden model."""
        from .netlist_proof import prove_netlist

        netlist = self.netlist(clock)
        kind = f"simulate the netlist of {self.folder.name} for {self.board.name}"
        with self.console.step(f"simulate {count} frames through the pins of the netlist", kind,
                               count * self.plan.interval):
            return prove_netlist(
                netlist, self.board, self.graph, self.frames(count, seed), identity=self.design.identity(),
                interval=self.plan.interval, weights=self.design.weights(), image=self.design.image(),
                folder=self.board_folder / "netlist", cache=self.compiled,
                say=self.console.progress)

    def synthesize(self, options: SynthesisOptions) -> SynthesisReport:
        """Make the bitstream, its report and `identity.json` for the driver, in build/<model>/<board>/synth."""
        folder, reweightable = self.synthesis, self.hardware.reweightable
        return synthesize_design(
            self.design, folder, options, quantized="../../quantized", progress=self.console.progress,
            keep=lambda: keep_design(self.quantized, self.plan, folder, reweightable=reweightable),
            watch=self.console.watch)

    def clock(self) -> CoreClock:
        """What the cycles of the plan are counted in."""
        return clock_of(self.plan, self.graph, self.board, self.synthesis)

    def next(self, command: str) -> None:
        """Tell the user of a command that may follow, for the same design."""
        self.console.next(command_line(command, self.project, self.quantization, self.hardware))

    def accuracy(self) -> Accuracy | None:
        """The accuracy of float and integer model on all rows of the data, with warnings; None without data."""
        return measurements.accuracy(self)

    def judged(self, accuracy: Accuracy, quantized: Quantized, dataset: Dataset) -> Accuracy:
        """`accuracy` of `quantized` on `dataset` with its warnings; the console shows these."""
        found = measured_warnings(accuracy, self.model, quantized, dataset, self.layer_noise)
        self.warned.add(found)
        return replace(accuracy, warnings=found)

    def layer_noise(self) -> tuple[LayerNoise, ...]:
        """The noise of every layer on the first rows of the data; empty without data, or with `layer_rows` 0."""
        return measurements.layer_noises(self)
