"""The cheapest widths that reach a goal: search, then proof with the full tuning of the weights' rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from hwflow_base.errors import AnswerIsNo, HwflowError

from hwflow import golden
from hwflow.accuracy import float_outputs
from hwflow.data.dataset import Dataset
from hwflow.hls import Executions
from hwflow.layers.base import LayerGraph
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.problems import NoHardware
from hwflow.quantize.quantization import of_prepared, prepared_for
from hwflow.quantize.settings import Effort, QuantizationSettings
from hwflow.search.widths.by_noise import search_noise
from hwflow.search.widths.cost import Pace, pace_of
from hwflow.search.widths.evaluator import ModelEvaluator, Store
from hwflow.search.widths.goal import Goal
from hwflow.search.widths.knobs import Bits, Knob, knobs_of, settings_with, tuned_at_every_width, wider
from hwflow.search.widths.metric import Metric
from hwflow.search.widths.points import Design, Point, frontier
from hwflow.search.widths.search import Progress, prove, search
from hwflow.search.widths.widest import LEVELS, Held, widest
from hwflow.stages.kinds import hardware_problems
from hwflow.stages.partition import Execution

#: With fewer rows than this, the user is told what a row is worth.
FEW_ROWS = 100
#: With fewer rows than this, noise on them says little of that on others.
FEW_ROWS_OF_NOISE = 10


@dataclass(frozen=True)
class Outcome:
    """The result of a search.  `winner` is the cheapest proven design; None where nothing reaches the goal.

    `base` are the settings whose widths were varied.  `widest` is the design that the search started from, `points`
    everything measured, and `frontier` those that no other beats.  `quantized` is the integer model of the winner, or
    of the most accurate design where there is none.  `held` are the knobs that a part of the model or the board holds
    below what was asked.  `default` is the cost of the default widths, or those of the user, where the search
    started from more.  `notes` are for the user.
    """

    goal: Goal
    base: QuantizationSettings
    knobs: tuple[Knob, ...]
    metric: Metric
    pace: Pace
    widest: Point
    points: tuple[Point, ...]
    frontier: tuple[Point, ...]
    winner: Point | None
    quantized: Quantized
    evaluations: int
    notes: tuple[str, ...]
    held: tuple[Held, ...] = ()
    default: Design | None = None

    @property
    def limit(self) -> float:
        """The drop that is allowed."""
        return self.goal.limit

    @property
    def most_accurate(self) -> Point:
        """The point with the smallest drop, of equals the cheapest."""
        return most_accurate(self.points)


def most_accurate(points: Sequence[Point]) -> Point:
    """The point with the smallest drop, of equals the cheapest."""
    return min(points, key=lambda p: (p.drop, p.price, p.bits))


@dataclass(frozen=True)
class WidthsQuestion:
    """Which widths of the float `model` make the cheapest design on a board that reaches the goal?

    The shapes of `model` are known and its constants folded.  `base` holds every other choice, and the widest widths
    where it says some.  `executions` gives the plans of a graph on the board.  So many designs are measured as
    `evaluations`.
    """

    model: Model
    dataset: Dataset
    base: QuantizationSettings
    executions: Callable[[LayerGraph], Executions]
    goal: Goal
    evaluations: int


def choose_widths(asked: WidthsQuestion, store: Store | None = None, progress: Progress | None = None) -> Outcome:
    """Search the widths, and prove those that were found.  `store` keeps answers from run to run.

    HwflowError where the model is no float model that can be quantized, or where its data allows no accuracy.
    """
    chooser = _Chooser.of(asked, {} if store is None else store, progress)
    if asked.goal.noise is not None:
        return chooser.by_noise()
    outcome = chooser.by_accuracy()
    return outcome if outcome.winner is not None or asked.base.chosen else chooser.by_accuracy_of_more_bits()


@dataclass(frozen=True)
class _Chooser:
    """What all searches of a question share: `start` is the design of the default widths, `make` that of others."""

    asked: WidthsQuestion
    store: Store
    progress: Progress | None
    start: Quantized
    make: Callable[..., Quantized]
    base: QuantizationSettings
    knobs: tuple[Knob, ...]
    metric: Metric
    pace: Pace
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def of(asked: WidthsQuestion, store: Store, progress: Progress | None) -> _Chooser:
        asked = replace(asked, base=replace(asked.base, effort=Effort.QUICK))  # the search compares designs itself
        model, dataset, goal = asked.model, asked.dataset, asked.goal
        start = quantize(model, dataset.calibration, settings=asked.base)
        if not start.settings:
            raise HwflowError(
                f"{goal.option} must have a float model, not one that is quantized already, whose widths are fixed in "
                "the file",
                "start from the float model",
            )
        if goal.noise is None:
            metric = Metric.of(model, dataset, float_outputs(model, dataset.inputs))
        else:
            rows = replace(dataset, inputs=dataset.calibration, labels=None, outputs={})
            metric = Metric.of_noise(model, rows, float_outputs(model, rows.inputs))
        prepared, base = prepared_for(model, dataset.calibration, asked.base)
        return _Chooser(asked, store, progress, start, partial(of_prepared, prepared), base, knobs_of(prepared, base),
                        metric, pace_of(asked.executions(start.graph)))  # fmt: skip

    def evaluator(self, base: QuantizationSettings, knobs: Sequence[Knob], name: str = "") -> ModelEvaluator:
        return ModelEvaluator(lambda settings, tuned: self.make(settings, tuned=tuned), base, knobs, self.pace,
                              self.metric, self.store, name, fine_weights=name == "noise")  # fmt: skip

    def by_accuracy(self) -> Outcome:
        """From the default widths, or those of the user, downwards."""
        return self._proven(self.evaluator(self.base, self.knobs), self.knobs, self.base)

    def by_accuracy_of_more_bits(self) -> Outcome:
        """From as many bits as there are, with weights that are tuned at every width."""
        base = tuned_at_every_width(self.base)
        bits, held = self._widest()
        knobs = wider(self.knobs, bits)
        return replace(self._proven(self.evaluator(base, knobs, "more bits"), knobs, base), held=held)

    def _proven(self, evaluator: ModelEvaluator, knobs: tuple[Knob, ...], base: QuantizationSettings) -> Outcome:
        goal = self.asked.goal
        state = search(knobs, evaluator, limit=goal.limit, evaluations=self.asked.evaluations, progress=self.progress)
        proven = prove(state, self.progress)
        reaching = [point for point in proven if point.reaches(goal.limit)]
        points = (*state.points.values(), *proven)
        return self._outcome(evaluator, knobs, base, points, reaching, state.used, next(iter(state.points.values())))

    def by_noise(self) -> Outcome:
        """From as many bits as there are, or those of the user, downwards."""
        base, goal = tuned_at_every_width(self.base), self.asked.goal
        bits, held = (tuple(knob.widths[0] for knob in self.knobs), ()) if self.asked.base.chosen else self._widest()
        knobs, default = wider(self.knobs, bits), tuple(knob.widths[0] for knob in self.knobs)
        evaluator = self.evaluator(base, knobs, "noise")
        state = search_noise(knobs, evaluator, limit=goal.limit, evaluations=self.asked.evaluations,
                             progress=self.progress)  # fmt: skip
        points = tuple(state.points.values())
        reaching = [point for point in points if point.reaches(goal.limit)]
        outcome = self._outcome(evaluator, knobs, base, points, reaching, state.used, points[0])
        return replace(outcome, held=held, default=evaluator.design(default))

    def _widest(self) -> tuple[Bits, tuple[Held, ...]]:
        """The most bits of all knobs together, that the model and the board take."""
        found, held = widest(self.knobs, self._refusal(self.knobs))
        executions = self.asked.executions(self.start.graph)
        if self.pace.without or not _is_planned(executions):
            return found, held
        for level in LEVELS:
            bits = tuple(min(most, max(level, knob.widths[0])) for knob, most in zip(self.knobs, found, strict=True))
            graph = self.make(settings_with(self.base, self.knobs, bits, tuned=False), tuned=False).graph
            if _is_planned(self.asked.executions(graph)):
                break
        else:
            bits = tuple(knob.widths[0] for knob in self.knobs)
        why = f"more for all tensors have no plan on {self.pace.budget.name}"
        by_board = [Held(knob, now, why) for knob, now, most in zip(self.knobs, bits, found, strict=True) if now < most]
        return bits, (*held, *by_board[:1])

    def _refusal(self, knobs: Sequence[Knob]) -> Callable[[Bits], str]:
        """What the model has against widths; nothing where they become integers, and hardware like the default."""
        has_hardware = not hardware_problems(self.start.graph)

        def refusal(bits: Bits) -> str:
            try:
                graph = self.make(settings_with(self.base, knobs, bits, tuned=False), tuned=False).graph
            except NoHardware as error:
                return error.problems[0].why
            except HwflowError as error:
                return error.why
            problems = hardware_problems(graph) if has_hardware else ()
            return problems[0] if problems else ""

        def known(bits: Bits) -> str:
            key = f"refusal {','.join(map(str, bits))}"
            answer = self.store.get(key)
            if not isinstance(answer, Mapping) or not isinstance(answer.get("why"), str):
                answer = self.store[key] = {"why": refusal(bits)}
            return str(answer["why"])

        return known

    def _outcome(
        self, evaluator: ModelEvaluator, knobs: tuple[Knob, ...], base: QuantizationSettings, points: tuple[Point, ...],
        reaching: Sequence[Point], used: int, start: Point,
    ) -> Outcome:  # fmt: skip
        goal = self.asked.goal
        winner = min(reaching, key=lambda p: (p.price, p.drop), default=None)
        shown = winner or most_accurate(points)
        return Outcome(
            goal, base, knobs, self.metric, self.pace, start, points, frontier(points), winner,
            evaluator.quantized(shown.bits, tuned=shown.tuned), used, self._notes(),
        )  # fmt: skip

    def _notes(self) -> tuple[str, ...]:
        metric, pace, limit = self.metric, self.pace, self.asked.goal.limit
        notes = []
        if self.asked.goal.noise is not None:
            notes += self._notes_of_noise()
        elif metric.rows < FEW_ROWS:
            worth = f"; one row is {metric.resolution:.2f} points" if metric.resolution else ""
            notes.append(f"the accuracy is measured on {metric.rows} rows only{worth}; more rows make it more certain")
        if metric.resolution is not None and 0 < limit < metric.resolution:
            notes.append(f"a drop of {limit:g} points is less than one of {metric.rows} rows: none may be lost")
        if pace.without:
            listed = ", ".join(f"'{name}'" for name in pace.without[:5]) + (", ..." if len(pace.without) > 5 else "")
            notes.append(f"not in the cost, because they have no hardware yet: {listed}")
        if not pace.fits:
            notes.append(f"the widest design does not fit {pace.budget.name}; costs are those of its smallest foldings")
        notes.extend(sorted(pace.notes))
        return tuple(notes)

    def _notes_of_noise(self) -> list[str]:
        metric, notes = self.metric, list[str]()
        output, found = metric.worst(golden.predict(self.start, metric.dataset.inputs))
        notes.append(f"the default widths have {found:.1f} dB at output '{output}'")
        notes.extend(f"{warning.where} {warning.seen}: their noise says little of other rows"
                     for warning in self.start.warnings)
        if metric.rows < FEW_ROWS_OF_NOISE:
            notes.append(f"the noise is measured on {metric.rows} calibration rows only; more rows make it more "
                         "certain")
        return notes


def _is_planned(executions: Executions) -> bool:
    """Whether a graph has a plan on its board."""
    if hardware_problems(executions.graph):
        return False
    try:
        executions.plan(Execution.AUTO, None)
    except AnswerIsNo:
        return False
    return True
