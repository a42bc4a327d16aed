"""The best designs of an exploration, placed and routed: what their clocks really are.

Each design has several runs, one after another; runs of different designs share the machines.  The first is as `hwflow
synth` makes it.  Every further one has the next seed, and knobs of the placer that Optuna proposes: answers are slow
and noisy.  Every run is in the table of the exploration as soon as it is finished, so an interrupted command goes on.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType

from hwflow_base.errors import HwflowError, MissingTool, ToolFailed
from hwflow_base.files.cache import code_fingerprint, digest

from ...host.rate import Rate
from ...pipeline.pipeline import Pipeline
from ...synth.design import Design
from ...synth.options import AS_IT_IS, Placer, SynthesisOptions, placer_of
from ...synth.seeds import default_jobs
from ...synth.toolchain import tools_of_family, versions
from .engine import Engine, Lost, Promise
from .point import Point, Widths
from .space import Explorer, Material
from .store import STORE, Store
from .tasks import DesignTask, Integers, integers_of

#: The kind of facts of a store that are runs of place and route.
RUNS = "runs"
#: Proposals that are random before Optuna learns from what came of them.
RANDOM = 3
#: What is proposed: densities, exponents and weights around those of nextpnr.
BETA, CRITEXP, TIMINGWEIGHT = (0.6, 0.95, 0.05), (1, 6), (5, 40, 5)


@dataclass(frozen=True)
class Run:
    """A run of place and route with a seed and the knobs `placer`, as text.

    `mhz` is the clock of the core within the limits of the device; None where the run failed, and `failed` says why.
    `interval` and `memory_cycles` count cycles of this clock from frame to frame, and of the memory beside the FPGA.
    `lut` to `ram` count the whole design, with the link to the host.
    """

    seed: int
    placer: str
    mhz: float | None
    failed: str = ""
    seconds: float = 0.0
    lut: int = 0
    ff: int = 0
    dsp: int = 0
    ram: int = 0
    interval: int = 0
    memory_cycles: int = 0


@dataclass(frozen=True)
class Routed:
    """A design, and the runs of place and route that it had."""

    point: Point
    runs: tuple[Run, ...]

    @property
    def best(self) -> Run | None:
        """The fastest one; None where all failed."""
        return max((run for run in self.runs if run.mhz is not None), key=lambda run: run.mhz or 0.0, default=None)

    def rate(self, run: Run) -> Rate | None:
        """Frames a second at the clock of a run; None where it failed."""
        return None if run.mhz is None else Rate(run.mhz, run.interval, run.memory_cycles, self.point.link)

    @property
    def frames_per_second(self) -> float | None:
        """Frames a second of the FPGA alone at the clock of the best run; None where there is none."""
        rate = None if self.best is None else self.rate(self.best)
        return None if rate is None else rate.core

    @property
    def error(self) -> float | None:
        """The error of the estimated clock against the first run, with nextpnr's own knobs; None if it failed."""
        first = self.runs[0].mhz if self.runs else None
        return None if first is None else self.point.mhz / first - 1

    def facts(self) -> dict[str, object]:
        """Plain data."""
        return {"board": self.point.board, "design": self.point.design, "error": self.error,
                "frames_per_second": self.frames_per_second, "runs": [asdict(run) for run in self.runs]}


def best_points(frontier: Sequence[Point], count: int) -> tuple[Point, ...]:
    """`count` designs of a frontier, spread evenly over it, with both of its ends."""
    if count >= len(frontier) or not count:
        return tuple(frontier[:count])
    steps = max(1, count - 1)
    return tuple(frontier[round(k * (len(frontier) - 1) / steps)] for k in range(count))


def proposed(runs: Sequence[Run]) -> tuple[int, Placer]:
    """Seed and knobs of the next run after these: nextpnr's own of the first one, then Optuna's proposal.

    It depends on the runs alone, so the same designs have the same runs wherever they are run.
    """
    seed = len(runs) + 1
    if not runs:
        return seed, AS_IT_IS
    optuna = optuna_of()
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=RANDOM, multivariate=True))
    spans = optuna.distributions
    knobs = {"beta": spans.FloatDistribution(*BETA[:2], step=BETA[2]),
             "critexp": spans.IntDistribution(*CRITEXP),
             "timingweight": spans.IntDistribution(*TIMINGWEIGHT[:2], step=TIMINGWEIGHT[2])}
    for run in runs[1:]:
        knobs_of_run = dict(placer_of(run.placer).given())
        study.add_trial(optuna.trial.create_trial(params=knobs_of_run, distributions=knobs, value=run.mhz or 0.0))
    chosen = study.ask(knobs).params
    return seed, Placer(round(chosen["beta"], 2), chosen["critexp"], chosen["timingweight"])


def optuna_of() -> ModuleType:
    """The package, without its remarks.  MissingTool where it is not installed."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise MissingTool("routing of explored designs must have Optuna to choose seeds and knobs",
                          "install it with `pip install 'hwflow[explore]'`") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def routed(integers: Integers, task: DesignTask, point: Point, seed: int, placer: str, folder: str | None
           ) -> dict[str, object]:
    """One run: the facts of a `Run`.  `folder` keeps what runs of the same design share; None where it is not here."""
    assert integers.quantized is not None, "a point that fits has integers"
    hardware = replace(task.hardware, interval=point.asked)
    pipeline = Pipeline.of_integers(integers.quantized, task.board, hardware)
    if pipeline.design_key != point.design:
        raise HwflowError(f"the design on {point.board} must be the one that was explored, and is another one",
                          "run the command again: designs of another version of hwflow are not used")
    with ExitStack() as stack:
        place = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="hwflow-routed-"))
        return asdict(made(pipeline.design, Path(place), seed, placer))


def made(design: Design, folder: Path, seed: int, placer: str) -> Run:
    """Synthesize, place and route `design` in `folder`."""
    from ...synth.bitstream import synthesize

    try:
        report = synthesize(design.on_board(), folder, SynthesisOptions(seed, placer=placer_of(placer)))
    except ToolFailed as error:
        return Run(seed, placer, None, str(error).splitlines()[0])
    mhz, plan = report.usable_mhz, design.plan
    cycles = (0, 0) if mhz is None else (plan.interval_at(mhz), plan.memory_cycles(mhz))
    return Run(seed, placer, mhz, "", sum(report.seconds.values()), report.lut.used, report.ff.used,
               report.dsp.used, report.ram.used, *cycles)


class Runs:
    """The runs of each design: those that are finished are read from the store."""

    def __init__(self, tasks: Mapping[Point, DesignTask], store: Store, count: int):
        self.tasks, self.store, self.count = tasks, store, count
        tools = {task.board.family: versions(tools_of_family(task.board.family)) for task in tasks.values()}
        self.tools = {point: str(tools[task.board.family]) for point, task in tasks.items()}
        self.done: dict[Point, list[Run]] = {}
        for point in tasks:
            runs = self.done[point] = list[Run]()
            while len(runs) < count and (facts := store.get(RUNS, self.key(point, *proposed(runs)))) is not None:
                runs.append(Run(**facts))

    def board_of(self, point: Point) -> str:
        """All that its file says of the board; where the file is changes nothing."""
        return repr(replace(self.tasks[point].board, path=Path()))

    def key(self, point: Point, seed: int, placer: Placer) -> str:
        """Everything that a run depends on."""
        return digest(code_fingerprint(), point.design, self.board_of(point), self.tools[point], str(seed), str(placer))

    def folder_of(self, point: Point) -> str:
        """The name of the folder that all runs of a design share."""
        return f"{point.design}-{digest(self.board_of(point))[:8]}"

    @property
    def left(self) -> int:
        return sum(self.count - len(runs) for runs in self.done.values())

    def go(self, running: Engine, integers: Mapping[str, object], folder: Path | None,
           show: Callable[[int, int], None]) -> list[Lost]:
        """Run what is left: of each design one run at a time, because a proposal depends on the runs before it."""
        total, lost = self.left, list[Lost]()

        def submitted(point: Point) -> dict[Point, Promise]:
            runs = self.done[point]
            if len(runs) == self.count:
                return {}
            seed, placer = proposed(runs)
            place = None if folder is None else str(folder / self.folder_of(point))
            return {point: running.later(routed, integers[point.widths], self.tasks[point], point, seed, str(placer),
                                         place)}

        def then(point: Point, result: object) -> dict[Point, Promise]:
            if isinstance(result, Lost):
                lost.append(result)
                return {}
            assert isinstance(result, dict), "the facts of a run"
            runs = self.done[point]
            self.store.put(RUNS, self.key(point, *proposed(runs)), result)
            runs.append(Run(**result))
            return submitted(point)

        first = {point: promise for first_point in self.tasks for point, promise in submitted(first_point).items()}
        for _ in running.finished(first, then):
            show(total - self.left, total)
        return lost


def route(run: Explorer, points: Sequence[Point], count: int) -> tuple[Routed, ...]:
    """Place and route each of `points`, designs of its space, in `count` runs; what its folder has is not run again.

    Runs share the engine as the tasks of an exploration do, on this machine no more than the free memory holds at 2 GB
    each.  MissingTool before anything starts where a tool is not installed; HwflowError where runs are lost, after all
    others are finished.
    """
    tasks = {task_of(task): (widths, task) for widths, task in run.space.tasks(run.material)}
    chosen = {point: on_its_line(point, *tasks[asked_of(point)]) for point in points}
    with Store(run.folder / STORE) as store:
        runs = Runs({point: task for point, (_, task) in chosen.items()}, store, count)
        lost: list[Lost] = []
        if runs.left:
            with run.running("place and route", default_jobs(len(points))) as (running, show):
                integers = later_integers(running, run.material, {widths for widths, _ in chosen.values()})
                lost = runs.go(running, integers, None if run.scheduler else run.folder / "routed", show)
    if lost:
        raise HwflowError(f"{len(lost)} runs of place and route were not finished: {lost[0].why}",
                          "what is finished is kept: run the command again, with fewer --workers")
    return tuple(Routed(point, tuple(runs.done[point])) for point in points)


def later_integers(running: Engine, material: Material, widths: set[Widths]) -> dict[str, object]:
    """Promises of the integers, by the widths as points have them."""
    rows = None if material.dataset is None else dict(material.dataset.calibration)
    return {str(bits): running.later(integers_of, material.model, material.source, rows, material.settings[bits])
            for bits in widths}


def on_its_line(point: Point, widths: Widths, task: DesignTask) -> tuple[Widths, DesignTask]:
    """The task with the transport that the point has."""
    return widths, replace(task, board=task.board.with_transport(point.transport or None))


def asked_of(point: Point) -> tuple[object, ...]:
    """The name of the task that a point belongs to."""
    return point.board, point.widths, point.execution, point.logic_multipliers, point.stream_weights


def task_of(task: DesignTask) -> tuple[object, ...]:
    return (task.name, task.widths, task.execution.value, task.logic_multipliers, task.stream_weights)
