"""The settings of the cheapest design that reaches a goal on a board, for callers that keep nothing."""

from __future__ import annotations

from hwflow_base.errors import HwflowError

from hwflow.data.dataset import Dataset
from hwflow.hls import Executions
from hwflow.layers.base import LayerGraph
from hwflow.onnx.model import Model
from hwflow.options import GoalOptions
from hwflow.pipeline.planning import executions_of
from hwflow.quantize.settings import QuantizationSettings
from hwflow.quantize.settings_file import settings_from_yaml
from hwflow.search.widths.choose import WidthsQuestion, choose_widths
from hwflow.search.widths.goal import Goal
from hwflow.search.widths.limits import unreached
from hwflow.synth import Board


def settings_for(goal: Goal, model: Model, dataset: Dataset | None, base: QuantizationSettings, board: Board
                 ) -> QuantizationSettings:
    """The choices of the design, `base` with widths; the shapes of `model` are known and its constants folded.

    HwflowError where there is no data, or the search has no answer; AnswerIsNo where no design reaches `goal`.
    """
    if dataset is None:
        raise HwflowError(f"{goal.option} must have data to measure on", "give the rows as data=")

    def executions(graph: LayerGraph) -> Executions:
        return executions_of(graph, graph, board)

    outcome = choose_widths(WidthsQuestion(model, dataset, base, executions, goal, GoalOptions.search_evaluations))
    if outcome.winner is None:
        raise unreached(outcome)
    return settings_from_yaml(outcome.quantized.settings, "of the search", model)
