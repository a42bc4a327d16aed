"""`Pipeline`: all steps from a model to its bitstream.

It is lazy: `plan`, for example, quantizes the model first if that has not been done.  Every user of the steps is a
configuration of it: the command line keeps every result below `build/<model>/` (what depends on the board in
`build/<model>/<board>/`), Python's functions keep nothing, and begin with what their caller has (`Given`); so do the
tasks of an exploration.  A retrained model takes board, settings and plan from the routed design.

Slow steps are cached with their inputs as the key (`hwflow_base.files.cache`), so a second run without changes skips
them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, digest
from hwflow_base.files.durations import Durations
from hwflow_base.files.sources import read_text
from hwflow_base.files.target import same_file, write_atomically
from hwflow_base.options import command_line
from hwflow_base.work import Audience

from hwflow.stages.other_weights import with_room

from .. import hls, onnx
from ..accuracy import Accuracy, LayerNoise, data_warnings, layer_warnings, measured_warnings, question
from ..data.dataset import Dataset, load_dataset
from ..data.shapes import given_shapes
from ..facts.mapping import Mapped, mapped, trial
from ..facts.plan import CoreClock, clock_of, routed_design
from ..host.identity import identity
from ..layers.base import LayerGraph
from ..layers.rescale import BLOCK_BITS
from ..onnx.about import about
from ..onnx.errors import LimitError
from ..onnx.inference.open_sizes import Shapes, sizes_given
from ..onnx.rewrite.fixed import with_constants
from ..options import AUTO, HardwareOptions, Project, QuantizationOptions
from ..quantize import Quantized, load_quantized, quantize, save_quantized
from ..quantize.passes.streaming import keep_states
from ..quantize.problems import Cause, NoHardware, with_cuts
from ..quantize.quantization import has_own_integers
from ..quantize.settings import QuantizationSettings, settings_of_bits, with_options, with_rescale_bits
from ..quantize.settings_file import settings_from_yaml
from ..quantize.support import operators_without_hardware, require_small_frames, require_small_model
from ..synth import Board, SynthesisReport, load_board
from ..synth.bitstream import bitstream_of
from ..synth.clock import layout_clock
from ..synth.design import Design, synthesize_design
from ..synth.families import FAMILIES
from ..synth.netlist import make_netlist_of
from ..synth.options import SynthesisOptions
from ..synth.readback.of_board import netlist_of
from .build_folders import board_folder, data_key, held, integers_key
from .measurements import Measurements
from .planning import executions_of, given_plan, plan_for
from .reporter import Reporter, Silence, Warned
from .routed_design import keep_design
from .stimuli import Frames, stimuli
from .verilog import generate, generate_axi_stream

if TYPE_CHECKING:
    from hwflow_sim import RunResult

    from .netlist_proof import NetlistProof


@dataclass(frozen=True)
class Given:
    """Results that a pipeline does not make from its options: its caller has them, or makes them another way.

    Each is asked for when it is needed, and once.
    """

    board: Callable[[], Board] | None = None
    settings: Callable[[], QuantizationSettings] | None = None
    quantized: Callable[[], Quantized] | None = None
    structure: Callable[[], LayerGraph] | None = None
    plan: Callable[[], hls.Plan] | None = None
    netlist: Callable[[], Path] | None = None


@dataclass
class Pipeline:
    """The steps for one model; `console` hears of progress and notes.

    The noise of layers is measured on the first `layer_rows` rows of the data.
    """

    console: Reporter
    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    layer_rows: int = 100
    #: The folder of the results; None for that of the model in the folder of all results.
    kept_in: Path | None = None
    given: Given = field(default_factory=Given)
    #: Whether results are kept in the folder.
    keeps: bool = True
    folder: Path = field(init=False)
    warned: Warned = field(init=False)

    def __post_init__(self) -> None:
        self.warned = Warned(self.console)
        self.folder = self.kept_in or self.project.build / self.project.model.stem
        if self.keeps:
            self.console.remember(Durations(self.project.build / ".cache" / "durations.json"))

    @staticmethod
    def of_integers(quantized: Quantized, board: Board, hardware: HardwareOptions | None = None,
                    plan: hls.Plan | None = None) -> Pipeline:
        """The steps from integers on, for `board`, without a word and without a folder."""
        sources = Given(board=lambda: board, quantized=lambda: quantized, plan=None if plan is None else lambda: plan)
        return Pipeline(Silence(), Project(Path(quantized.prologue.graph.name)), hardware=hardware or HardwareOptions(),
                        given=sources, keeps=False)

    @cached_property
    def source(self) -> onnx.Model:
        """The model of the file, with the inputs of --constant as constants.

        HwflowError if they, or --input-shape, do not fit it.
        """
        model = onnx.load(self.project.model, limits=self.project.limits)
        model = with_constants(model, {name: np.array(values) for name, values in self.project.constants})
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
            raise kind(error.without_file + self.without_hardware(said=error)) from None
        require_small_frames(inferred.graph)
        model = keep_states(onnx.simplify(inferred), dict(self.project.states))
        for note in model.notes:
            self.console.progress(note)
        return model

    def without_hardware(self, said: HwflowError | None = None) -> str:
        """The end of a message about a model whose shapes cannot be inferred: all operators without hardware, but the
        one that `said` is about.
        """
        problems = with_cuts(operators_without_hardware(self.source), self.source.graph)
        lines = [f"\n  {problem.where}: {problem.why}; {problem.remedy}" for problem in problems
                 if said is None or not said.where.endswith(problem.where)]
        return "".join(["\nbesides, it has operators without hardware:", *lines]) if lines else ""

    @cached_property
    def mapping(self) -> Mapped:
        """The fate of every node.  HwflowError for a state that is none."""
        project = self.project
        return mapped(self.source, self.shapes, project.limits, dict(project.states))

    @contextlib.contextmanager
    def everything_said(self) -> Iterator[None]:
        """If the quantizer refuses the model, report every problem that it has, as `check --hardware` does."""
        try:
            yield
        except HwflowError as error:
            mapping, own = self.mapping, error.problems if isinstance(error, NoHardware) else ()
            if mapping.possible or (not own and mapping.is_all(error)):  # the settings or the data caused the error
                raise
            tensors = {problem.why: problem.where for problem in own if problem.cause is Cause.TENSOR}
            everything = NoHardware(tuple(replace(problem, where=tensors.get(problem.why, problem.where))
                                          for problem in mapping.all_problems))
            raise everything.about(self.source.file) from error

    @cached_property
    def dataset(self) -> Dataset | None:
        """The user's data; None without --data."""
        return load_dataset(self.project.data, self.model, self.project.limits) if self.project.data else None

    @cached_property
    def choices(self) -> QuantizationSettings:
        """The user's settings of the quantization: the settings file, or widths for all layers, or the defaults."""
        if self.given.settings:
            return self.given.settings()
        settings = settings_of(self.quantization, self.model)
        return with_rescale_bits(settings, AUTO) if self.rescales_exactly else settings

    @cached_property
    def rescales_exactly(self) -> bool:
        """Whether sums become the elements of the file's formula to the last one, although nobody asked for it: those
        of a file that has integers of its own, where that costs the board nothing.
        """
        asked = self.quantization
        if asked.rescale_bits is not None or asked.settings is not None or not has_own_integers(self.model):
            return False
        board = self.board
        costs_nothing = FAMILIES[board.family].rescales_exactly
        if not costs_nothing:
            self.console.progress(
                f"sums are rescaled with {BLOCK_BITS} bits, because more cost cycles on {board.name}: some elements "
                "may differ by one from the file's formula; with --rescale-bits auto none do")
        return costs_nothing

    @cached_property
    def quantize_key(self) -> str:
        """The digest of the inputs of the integer graph: model with weights, data, shapes, settings."""
        return integers_key(self.model, self.choices, self.dataset)

    @property
    def rows_key(self) -> str:
        """The digest of the rows of the data, their labels and their expected outputs; empty without data."""
        return data_key(self.dataset)

    @property
    def design_key(self) -> str:
        """The design as hexadecimal digits: all integers of the graph, and the foldings of the plan."""
        return identity(self.graph, self.plan).hex()

    @cached_property
    def quantized(self) -> Quantized:
        """The integer graph with its host programs (prologue and epilogue)."""
        return self.given.quantized() if self.given.quantized else self.quantize()

    def quantize(self) -> Quantized:
        """The model quantized with `choices`; from the cache if model, data and settings did not change."""
        folder = self.folder / "quantized"
        model, dataset, choices = self.model, self.dataset, self.choices

        def make(place: Path) -> None:
            with self.console.rows("calibrate and quantize") as progress:
                rows = dataset.calibration if dataset else None
                with self.everything_said():
                    integers = quantize(model, rows, settings=choices, progress=progress, original=self.source)
                save_quantized(integers, place)

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
        if self.given.structure:
            return self.given.structure()
        return with_room(self.graph) if self.hardware.reweightable else self.graph

    @cached_property
    def board(self) -> Board:
        if self.given.board:
            return self.given.board()
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
        return read_text(self.hardware.plan) if self.hardware.plan else None

    def prepare(self, *needs: Callable[[], object]) -> None:
        """Fail early: check the board and the file of the plan, and call `needs`, functions that look for programs."""
        _ = self.source, self.board, self.plan_text
        for find in needs:
            find()

    @cached_property
    def plan(self) -> hls.Plan:
        """The user's plan, or the fastest one that fits the board.  It is written to plan.yaml."""
        if self.given.plan:
            return self.given.plan()
        board, say = self.board, self.console.progress
        if not self.keeps:
            return plan_for(self.graph, self.structure, board, self.hardware, say=say)
        if self.plan_text is None:
            with about(self.source):
                plan = plan_for(self.graph, self.structure, board, self.hardware, say=say, keep=self.keep_plan)
        else:
            plan, warnings = given_plan(self.plan_text, self.structure, board, str(self.hardware.plan), say)
            self.warned.add(warnings)
        write_atomically(self.board_folder / "plan.yaml", hls.plan_to_yaml(plan))
        return plan

    @cached_property
    def executions(self) -> hls.Executions:
        """The maker of plans for the board, where more than one is needed."""
        return executions_of(self.graph, self.structure, self.board, self.hardware, say=self.console.progress)

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
    def audience(self) -> Audience:
        """Who follows the work of tools."""
        return Audience(self.console.progress, self.console.watch)

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
                                      audience=self.audience)
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
        if self.given.netlist:
            return self.given.netlist()
        return make_netlist_of(self.design.on_board(), self.synthesis, apart=self.board_folder / "proof", clock=clock,
                               audience=self.audience)

    def prove(self, count: int, *, seed: int = 1, clock: float | str | None = None, bitstream: bool = False
              ) -> NetlistProof:
        """Simulate `count` frames in the netlist, cell by cell, and compare them with the golden model.

        With `bitstream` it is the one that the bits configure, read back.
        """
        from .netlist_proof import NetlistBench

        file = self.bitstream() if bitstream else None
        netlist = self.netlist(clock) if file is None else self.read_back(file)
        what = "netlist" if file is None else "bitstream"
        kind = f"simulate the {what} of {self.folder.name} for {self.board.name}"
        with self.console.step(f"simulate {count} frames through the pins of the {what}", kind,
                               count * self.plan.interval):
            bench = NetlistBench(netlist, self.design, self.board_folder / what, self.compiled,
                                 self.console.progress, file)
            return bench.prove(self.frames(count, seed))

    def bitstream(self) -> Path:
        """The bitstream in build/<model>/<board>/synth, whatever its seed and clock; made there if there is none.
        MissingTool where it could not be read back."""
        FAMILIES[self.board.family].require_databases(self.board)
        file = bitstream_of(self.synthesis, self.board)
        same = routed_design(self.plan, self.graph, self.board, self.synthesis)
        if same is None or not file.is_file():
            self.synthesize(SynthesisOptions())
        return file

    def read_back(self, bitstream: Path) -> Path:
        """The netlist of the cells that `bitstream` configures."""
        weights = self.design.weights()
        with self.console.step("read the bitstream back", f"read a bitstream of {self.board.family} back",
                               bitstream.stat().st_size):
            return netlist_of(bitstream, self.board, self.board_folder / "readback",
                              clock=layout_clock(self.synthesis / "layout"),
                              memory=weights.memory if weights else None)

    def synthesize(self, options: SynthesisOptions) -> SynthesisReport:
        """Make the bitstream, its report and `identity.json` for the driver, in build/<model>/<board>/synth."""
        folder, reweightable = self.synthesis, self.hardware.reweightable
        return synthesize_design(
            self.design, folder, options, quantized="../../quantized", audience=self.audience,
            keep=lambda: keep_design(self.quantized, self.plan, folder, reweightable=reweightable))

    def clock(self) -> CoreClock:
        """The clock in which the cycles of the plan are counted."""
        return clock_of(self.plan, self.graph, self.board, self.synthesis)

    def next(self, command: str) -> None:
        """Tell the user of a command that may follow, for the same design."""
        self.console.next(command_line(command, self.project, self.quantization, self.hardware))

    def accuracy(self) -> Accuracy | None:
        """The accuracy of float and integer model on all rows of the data, with warnings; None without data."""
        if self.dataset is None:
            return None
        _ = question(self.model, self.dataset)  # labels that do not fit are refused before anything is computed
        return self.judged(self.measurements.accuracy(), self.quantized, self.dataset)

    def judged(self, accuracy: Accuracy, quantized: Quantized, dataset: Dataset) -> Accuracy:
        """`accuracy` of `quantized` on `dataset` with its warnings; the console shows these."""
        warnings = measured_warnings(accuracy, self.model, quantized, dataset, self.layer_noise)
        self.warned.add(warnings)
        return replace(accuracy, warnings=warnings)

    def layer_noise(self) -> tuple[LayerNoise, ...]:
        """The noise of every layer on the first rows of the data; empty without data, or with `layer_rows` 0."""
        if self.dataset is None or not self.layer_rows:
            return ()
        noises = self.measurements.layer_noises(self.layer_rows)
        self.warned.add(layer_warnings(self.quantized, noises))
        return noises

    @property
    def measurements(self) -> Measurements:
        """Float and integer model on the rows of the data.  HwflowError without data."""
        dataset = required_dataset(self, "accuracy must have data to be measured on")
        return Measurements(self.model, self.quantized, dataset, self.quantize_key, self.folder, self.console)


def settings_of(asked: QuantizationOptions, model: onnx.Model) -> QuantizationSettings:
    """The settings file, or widths for all layers, or the defaults."""
    if asked.settings is not None:
        settings = settings_from_yaml(read_text(asked.settings), str(asked.settings), model)
    else:
        settings = QuantizationSettings() if asked.bits is None else settings_of_bits(*asked.bits)
    return with_options(settings, asked.rescale_bits, asked.hardware_argmax, asked.effort)


def required_dataset(pipeline: Pipeline, need: str) -> Dataset:
    """The user's data.  HwflowError: the model's file is no model, or there is no data; then `need` says what for."""
    _ = pipeline.source
    if pipeline.dataset is None:
        raise HwflowError(need, "give an NPZ file with --data (docs/data-files.md)")
    return pipeline.dataset
