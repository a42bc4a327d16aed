"""`--noise` and `--accuracy-drop`: the search for widths as a step of the command line.

It leaves below build/<model>/<board>/precision: `settings.yaml` and `plan.yaml`, which make the chosen design again;
`frontier/` with the settings of each design on the frontier, from the most expensive to the cheapest one;
`frontier.json` with everything measured, and `frontier.svg`, the plot; `answers.jsonl`, from which an interrupted
search goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hwflow_base.errors import HwflowError, MissingTool
from hwflow_base.files.cache import code_fingerprint, content, digest
from hwflow_base.files.sources import read_text
from hwflow_base.files.target import create_folder, same_file, write_atomically

from .. import onnx
from ..hls import Executions, plan_to_yaml
from ..layers.base import LayerGraph
from ..options import GoalOptions, QuantizationOptions
from ..pipeline.pipeline import Pipeline, required_dataset
from ..pipeline.planning import budget_of, executions_of
from ..quantize.settings_file import settings_to_yaml
from ..search.widths import Answers, Goal, Outcome, Point, WidthsQuestion, bits_text, choose_widths
from ..search.widths.knobs import settings_with
from ..search.widths.limits import unreached
from ..synth.expected_clock import outside_of
from ..views.console.search import show_widths, widths_facts
from ..views.console.terminal import Console
from ..views.pictures.frontier import widths_svg

Facts = Mapping[str, object]

SETTINGS, PLAN, FRONTIER, DESIGNS = "settings.yaml", "plan.yaml", "frontier.json", "frontier"
#: The settings of the best design that does not reach the goal; and the question that `SETTINGS` answers.
BEST, CHOSEN = "best.yaml", "chosen.txt"


def for_goal(console: Console, pipeline: Pipeline, asked: GoalOptions) -> Pipeline:
    """`pipeline` with the widths of the design that reaches what is `asked`, or as it is where nothing is asked.

    A search that was made before for the same question is not made again.  HwflowError for a question that has no
    answer; AnswerIsNo where no design reaches the goal.
    """
    goal = goal_of(asked)
    if goal is None:
        return pipeline
    folder = pipeline.board_folder / "precision"
    settings, kept = folder / SETTINGS, folder / CHOSEN
    key = _question(pipeline, goal, asked.search_evaluations)
    if not (settings.is_file() and kept.is_file() and read_text(kept) == _answer(key, settings)):
        quantize_for(console, pipeline, goal, asked.search_evaluations)
    else:
        console.say(f"widths for {goal}: {settings}")
    return replace(pipeline, quantization=replace(pipeline.quantization, settings=settings, bits=None))


def goal_of(asked: GoalOptions) -> Goal | None:
    """The goal that is asked for; None where there is none."""
    return None if asked.noise is None and asked.accuracy_drop is None else Goal(asked.accuracy_drop, asked.noise)


def _question(pipeline: Pipeline, goal: Goal, evaluations: int) -> str:
    """The digest of all that the chosen widths follow from."""
    _require_data(pipeline, goal)
    return digest(_context(pipeline, goal), str(goal), str(evaluations))


def _answer(key: str, settings: Path) -> str:
    """What is kept of an answered question."""
    return f"{key} {digest(read_text(settings))}\n"


def _require_data(pipeline: Pipeline, goal: Goal) -> None:
    measured = "accuracy" if goal.noise is None else "noise"
    required_dataset(pipeline, f"{goal.option} must have data to measure the {measured} on")


def quantize_for(console: Console, pipeline: Pipeline, goal: Goal, evaluations: int
                 ) -> tuple[Facts, QuantizationOptions]:
    """Search the widths of the design of `pipeline` that reaches `goal`, in so many `evaluations`.

    Gives the facts, and the options that make the chosen design.

    HwflowError for a question that has no answer; AnswerIsNo where no design reaches the goal.
    """
    own_settings = pipeline.quantization.settings
    _require_data(pipeline, goal)
    folder = pipeline.board_folder / "precision"
    settings_file = folder / SETTINGS
    if own_settings is not None and same_file(settings_file, own_settings):
        raise HwflowError(f"--settings must not be {settings_file}, which {goal.option} writes",
                          "copy it to another place")
    _ = pipeline.board, pipeline.choices
    with pipeline.locked():
        outcome = _search(console, pipeline, folder, goal, evaluations)
        write_atomically(folder / FRONTIER, json.dumps(widths_facts(outcome), indent=1))
        plot = _plot(console, outcome, folder / "frontier.svg", pipeline.project.model.stem)
        _write_frontier(outcome, folder / DESIGNS)
        show_widths(console, outcome)
        for note in outcome.notes:
            console.say(f"  note: {note}")
        for file in (settings_file, folder / PLAN, folder / BEST, folder / CHOSEN):  # of an earlier search
            file.unlink(missing_ok=True)
        chosen = _chosen(outcome, folder / BEST)
        plan = _write_design(outcome, settings_file, folder / PLAN)
        write_atomically(folder / CHOSEN, _answer(_question(pipeline, goal, evaluations), settings_file))
    _show_chosen(console, f"chosen: {_text(outcome, chosen)}", folder, plot, plan)
    if not plan and outcome.pace.fits and not outcome.pace.without:
        console.say(f"  it does not fit {pipeline.board.name} at this pace: `hwflow build` with these settings plans "
                    "the fastest that does")
    facts = {
        **widths_facts(outcome),
        "settings": str(settings_file),
        "plot": plot and str(plot),
        "plan": str(folder / PLAN) if plan else None,
    }
    return facts, replace(pipeline.quantization, settings=settings_file, bits=None)


def _write_frontier(outcome: Outcome, folder: Path) -> None:
    """The settings of each design on the frontier, in place of those of an earlier search."""
    create_folder(folder)
    for earlier in folder.glob("*.yaml"):
        earlier.unlink()
    for number, point in enumerate(outcome.frontier, 1):
        settings = settings_with(outcome.base, outcome.knobs, point.bits, tuned=point.tuned)
        write_atomically(folder / f"{number:03}.yaml", settings_to_yaml(settings))


def _write_design(outcome: Outcome, settings: Path, plan: Path) -> bool:
    """Write what makes the chosen design again; True where it can be built, so that there is a plan."""
    planned = outcome.pace.plan(outcome.quantized.graph)
    if planned is not None and not outcome.pace.budget.fits(planned.resources):
        planned = None
    if planned is not None:
        write_atomically(plan, plan_to_yaml(planned))
    write_atomically(settings, outcome.quantized.settings)
    return planned is not None


def _search(console: Console, pipeline: Pipeline, folder: Path, goal: Goal, evaluations: int) -> Outcome:
    """The search with the model, data and board of `pipeline`."""
    model, dataset, choices, board = pipeline.model, pipeline.dataset, pipeline.choices, pipeline.board
    assert dataset is not None

    def executions(graph: LayerGraph) -> Executions:
        return executions_of(graph, graph, board, say=console.progress)

    answers = Answers(folder / "answers.jsonl", _context(pipeline, goal))
    with console.rows("search for widths") as progress:
        asked = WidthsQuestion(model, dataset, choices, executions, goal, evaluations)
        return choose_widths(asked, answers, progress)


def _context(pipeline: Pipeline, goal: Goal) -> str:
    """The digest of all that the answers of the search depend on, besides the widths that are asked about."""
    dataset, board = pipeline.dataset, pipeline.board
    assert dataset is not None
    technology = board.technology()
    arrays = [*dict(sorted(dataset.inputs.items())).values(), *([] if dataset.labels is None else [dataset.labels])]
    return digest(
        code_fingerprint(),
        pipeline.quantize_key,
        repr((budget_of(board), outside_of(board), technology.name, technology.timing)),
        onnx.dumps(pipeline.model),
        "noise" if goal.drop is None else "accuracy",
        *map(content, arrays),
    )


def _show_chosen(console: Console, chosen: str, folder: Path, plot: Path | None, has_plan: bool) -> None:
    """The chosen design, and the files of the search."""
    console.say(f"  {chosen}")
    console.say(
        f"  settings: {folder / SETTINGS}; points: {folder / FRONTIER}{f'; plot: {plot}' if plot else ''}"
        f"{f'; plan at this pace, for --plan: {folder / PLAN}' if has_plan else ''}"
    )


def _plot(console: Console, outcome: Outcome, path: Path, title: str) -> Path | None:
    """Write the plot; without matplotlib say how to get it."""
    try:
        picture = widths_svg(outcome, title)
    except MissingTool as missing:
        console.progress(str(missing))
        return None
    write_atomically(path, picture)
    return path


def _chosen(outcome: Outcome, best_settings: Path) -> Point:
    """The design that was found.  AnswerIsNo where there is none; then `best_settings` make the best one."""
    if outcome.winner is not None:
        return outcome.winner
    write_atomically(best_settings, outcome.quantized.settings)
    raise unreached(outcome, f"the settings of the best design are in {best_settings}")


def _text(outcome: Outcome, point: Point) -> str:
    start, name = (outcome.default, "the default widths") if outcome.default else (outcome.widest, "the widest")
    saved = 100 * (1 - point.price / start.price) if start.price else 0.0
    cheaper = (f"bits {bits_text(outcome.knobs, point.bits)}, {abs(saved):.1f} % "
               f"{'cheaper' if saved >= 0 else 'more expensive'} than {name}")  # fmt: skip
    if outcome.goal.noise is not None:
        return f"{cheaper}, {point.accuracy:.1f} dB at the worst output"
    return f"{cheaper}, {point.drop:.2f} {outcome.metric.unit} of {outcome.metric.name} lost"
