"""The design space: the axes that a user gives, and the tasks that evaluate it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from hwflow_base.files.cache import code_fingerprint, digest
from hwflow_base.files.facts import of_plain

from hwflow.stages.partition import Execution

from ...data.dataset import Dataset
from ...onnx.model import Model
from ...outcome import OutcomeWarning
from ...pipeline.build_folders import data_key, integers_key
from ...quantize.settings import QuantizationSettings
from ...synth import Board
from .engine import Engine, Lost, Promise, engine
from .point import Point, Widths
from .store import OF_WIDTHS, Store
from .tasks import DesignTask, designs, integers_of, judgement, reference_outputs

#: The kind of facts of a store that are about the integers of some widths.
INTEGERS = "integers"


@dataclass(frozen=True)
class Material:
    """Subject of an exploration: the model, the model of its file (`source`), the data, the settings of each widths."""

    model: Model
    source: Model
    dataset: Dataset | None
    settings: Mapping[Widths, QuantizationSettings]

    def key(self, widths: Widths) -> str:
        """The key of the integers."""
        return integers_key(self.model, self.settings[widths], self.dataset)


@dataclass(frozen=True)
class Space:
    """The axes.  `boards` are by the names that the user gives; every combination of the axes is one task.

    `intervals` is the number of designs of each, from the fastest to the smallest; `rate` the frames a second for which
    the smallest design is wanted besides.
    """

    boards: Mapping[str, Board]
    widths: tuple[Widths, ...] = (Widths(),)
    executions: tuple[Execution, ...] = (Execution.AUTO,)
    logic_multipliers: tuple[bool, ...] = (False,)
    stream_weights: tuple[bool, ...] = (False,)
    intervals: int = 1
    rate: float | None = None

    def tasks(self, material: Material) -> Iterator[tuple[Widths, DesignTask]]:
        """In the order of the axes."""
        keys = {widths: material.key(widths) for widths in self.widths}
        for (name, board), widths, execution, logic, streams in product(
                self.boards.items(), self.widths, self.executions, self.logic_multipliers, self.stream_weights):
            yield widths, DesignTask(name, board, str(widths), keys[widths], execution, logic, streams, self.intervals,
                                 self.rate)


#: What shows how many tasks are done, of how many: a context with a function of both.
Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@contextlib.contextmanager
def silent(_text: str) -> Iterator[Callable[[int, int], None]]:
    """No progress is shown."""
    yield lambda done, total: None


@dataclass(frozen=True)
class Explorer:
    """A run over a design space: `folder` keeps what is finished, so that the next run goes on.

    Tasks run on `workers` processes of this machine (None: one for each core), or on the cluster at `scheduler`.
    """

    material: Material
    space: Space
    folder: Path
    progress: Progress = silent
    workers: int | None = None
    scheduler: str | None = None

    @contextlib.contextmanager
    def running(self, title: str, processes: int | None = None) -> Iterator[tuple[Engine, Callable[[int, int], None]]]:
        """The engine, with `processes` where `workers` are not given, and what shows how many tasks are done."""
        workers = self.workers or processes
        with self.progress(title) as show, engine(workers, self.scheduler, self.folder / "workers.log") as running:
            yield running, show


@dataclass(frozen=True)
class Results:
    """The points of a space in the order of its tasks, the warnings about the data, and the tasks that were lost."""

    points: tuple[Point, ...]
    warnings: tuple[OutcomeWarning, ...]
    lost: tuple[Lost, ...] = ()


class Work:
    """The tasks of a space: those that are finished are read from the store, the others are run."""

    def __init__(self, material: Material, space: Space, store: Store):
        self.material, self.store = material, store
        self.tasks = list(space.tasks(material))
        self.keys = {task: task_key(task) for _, task in self.tasks}
        self.points = {task: store.points(key) for task, key in self.keys.items()}
        self.facts = {widths: store.get(INTEGERS, self.facts_key(widths)) for widths in space.widths}
        self.lost: list[Lost] = []

    def facts_key(self, widths: Widths) -> str:
        """The key of what the data says of the integers."""
        return digest(code_fingerprint(), self.material.key(widths), data_key(self.material.dataset))

    @property
    def left(self) -> int:
        """Tasks that are not finished."""
        return sum(points is None for points in self.points.values()) + len(self.unjudged)

    @property
    def unjudged(self) -> list[Widths]:
        """Widths whose accuracy is not known, where there is data to measure it on."""
        if self.material.dataset is None:
            return []
        return [widths for widths, facts in self.facts.items() if facts is None]

    def run(self, engine: Engine, progress: Callable[[int, int], None]) -> None:
        """Run what is left; every result is in the store before the next one is waited for."""
        promises = self.promises(engine)
        for done, (job, result) in enumerate(engine.finished(promises), 1):
            progress(done, len(promises))
            if isinstance(result, Lost):
                self.lost.append(result)
            elif isinstance(job, Widths):
                assert isinstance(result, dict), "what the data says of integers"
                self.store.put(INTEGERS, self.facts_key(job), result)
                self.facts[job] = result
            else:
                assert isinstance(result, tuple), "the designs of a board"
                self.store.finish(self.keys[job], result)
                self.points[job] = result

    def promises(self, engine: Engine) -> dict[Widths | DesignTask, Promise]:
        """Promises by job, which is a task, or the widths whose accuracy is wanted."""
        material, dataset = self.material, self.material.dataset
        missing = [(widths, task) for widths, task in self.tasks if self.points[task] is None]
        rows = None if dataset is None else dict(dataset.calibration)
        needed = dict.fromkeys([*(widths for widths, _ in missing), *self.unjudged])
        integers = {widths: engine.later(integers_of, material.model, material.source, rows, settings)
                    for widths, settings in material.settings.items() if widths in needed}
        promises: dict[Widths | DesignTask, Promise] = {
            task: engine.later(designs, integers[widths], task) for widths, task in missing}
        if dataset is not None and self.unjudged:
            reference = engine.later(reference_outputs, material.model, dataset)
            promises |= {widths: engine.later(judgement, material.model, dataset, integers[widths], reference)
                         for widths in self.unjudged}
        return promises

    def found(self) -> Results:
        """Everything that is finished."""
        points = tuple(replace(point, **self.accuracy(widths))
                       for widths, task in self.tasks for point in self.points[task] or ())
        warnings = tuple(of_plain(warning, OutcomeWarning) for facts in self.facts.values() if facts is not None
                         for warning in facts["warnings"])
        return Results(points, warnings, tuple(self.lost))

    def accuracy(self, widths: Widths) -> dict[str, Any]:
        """The fields of a point that the data decides."""
        facts = self.facts[widths]
        return {} if facts is None else {name: facts[name] for name in OF_WIDTHS}


def with_and_without(option: bool) -> tuple[bool, ...]:
    """The axis of a flag: where it is set, designs that need it are compared with those that do not."""
    return (False, True) if option else (False,)


def task_key(task: DesignTask) -> str:
    """Everything that the points of a task depend on; where the board's file is changes nothing."""
    return digest(code_fingerprint(), repr(replace(task, board=replace(task.board, path=Path()))))
