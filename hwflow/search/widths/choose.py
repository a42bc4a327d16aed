"""The cheapest widths that keep the accuracy: search, then proof with the full tuning of the weights' rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from hwflow_base.errors import HwflowError

from hwflow.accuracy import float_outputs
from hwflow.data.dataset import Dataset
from hwflow.hls import Executions
from hwflow.layers.base import LayerGraph
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.post_training import Prepared, finish, prepare
from hwflow.quantize.settings import QuantizationSettings, output_choices
from hwflow.search.widths.cost import Pace, pace_of
from hwflow.search.widths.evaluator import ModelEvaluator, Store
from hwflow.search.widths.knobs import Knob, knobs_of
from hwflow.search.widths.metric import Metric
from hwflow.search.widths.points import Point, frontier
from hwflow.search.widths.search import Progress, prove, search

#: With fewer rows than this, the user is told what a row is worth.
FEW_ROWS = 100


@dataclass(frozen=True)
class Outcome:
    """The result of a search.  `winner` is the cheapest proven design; None where nothing reaches the limit.

    `widest` is the design that the search started from, `points` everything measured, and `frontier` those that no
    other beats.  `quantized` is the integer model of the winner.  `notes` are for the user.
    """

    knobs: tuple[Knob, ...]
    metric: Metric
    pace: Pace
    limit: float
    widest: Point
    points: tuple[Point, ...]
    frontier: tuple[Point, ...]
    winner: Point | None
    quantized: Quantized | None
    evaluations: int
    notes: tuple[str, ...]

    @property
    def most_accurate(self) -> Point:
        """The point with the smallest drop, of equals the cheapest."""
        return min(self.points, key=lambda p: (p.drop, p.price, p.bits))


def require_drop(limit: float) -> None:
    """Raise HwflowError for a limit of the accuracy's drop that means nothing."""
    if not (math.isfinite(limit) and limit >= 0):
        raise HwflowError(
            f"--accuracy-drop must be 0 or more points, not {limit:g}", "1.0 lets the model lose one of a hundred rows"
        )


@dataclass(frozen=True)
class WidthsQuestion:
    """Which widths of the float `model` make the cheapest design on a board that loses at most `limit`?

    The shapes of `model` are known and its constants folded.  `base` holds every other choice, and the widest widths.
    `executions` gives the plans of a graph on the board.  So many designs are measured as `evaluations`.
    """

    model: Model
    dataset: Dataset
    base: QuantizationSettings
    executions: Callable[[LayerGraph], Executions]
    limit: float
    evaluations: int


def choose_widths(asked: WidthsQuestion, store: Store | None = None, progress: Progress | None = None) -> Outcome:
    """Search the widths, and prove those that were found.  `store` keeps answers from run to run.

    HwflowError where the model is no float model that can be quantized, where its data allows no accuracy, or the limit
    means nothing.
    """
    model, dataset, base, limit = asked.model, asked.dataset, asked.base, asked.limit
    require_drop(limit)
    start = quantize(model, dataset.calibration, settings=base)
    if not start.settings:
        raise HwflowError(
            "--accuracy-drop must have a float model, not one that is quantized already, whose widths are fixed in the "
            "file",
            "start from the float model",
        )
    metric = Metric.of(model, dataset, float_outputs(model, dataset.inputs))
    prepared = prepare(model, dataset.calibration, base, [])
    knobs = knobs_of(prepared, base)
    pace = pace_of(asked.executions(start.graph))
    evaluator = ModelEvaluator(partial(_make, prepared), base, knobs, pace, metric, {} if store is None else store)
    state = search(knobs, evaluator, limit=limit, evaluations=asked.evaluations, progress=progress)
    proven = prove(state, progress)
    winner = min((p for p in proven if p.reaches(limit)), key=lambda p: (p.price, p.drop), default=None)
    points = (*state.points.values(), *proven)
    return Outcome(
        knobs, metric, pace, limit, next(iter(state.points.values())), points, frontier(points), winner,
        evaluator.quantized(winner.bits, tuned=True) if winner else None, state.used, _notes(metric, pace, limit),
    )  # fmt: skip


def _make(prepared: Prepared, settings: QuantizationSettings, tuned: bool) -> Quantized:
    """The integers that `quantize` gives of the float model, without measuring its ranges again.

    What is not `tuned` gets the integers that lie next to the weights, with no look at the data: a hundredth of the
    time.
    """
    finished = finish(prepared if tuned else replace(prepared, rows=None), settings, [])
    return replace(quantize(finished.qdq, settings=output_choices(settings)), settings=finished.settings_text)


def _notes(metric: Metric, pace: Pace, limit: float) -> tuple[str, ...]:
    notes = []
    if metric.rows < FEW_ROWS:
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
