"""`hwflow quantize --accuracy-drop`: the search for widths as a step of the command line.

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

from hwflow_base.errors import AnswerIsNo, HwflowError, MissingTool
from hwflow_base.files.cache import code_fingerprint, content, digest
from hwflow_base.files.target import create_folder, same_file, write_atomically

from .. import onnx
from ..hls import Executions, plan_to_yaml
from ..layers.base import LayerGraph
from ..options import QuantizationOptions
from ..pipeline.pipeline import Pipeline, required_dataset
from ..pipeline.planning import budget_of, executions_of
from ..quantize.settings import QuantizationSettings
from ..quantize.settings_file import settings_to_yaml
from ..search.widths import Answers, Outcome, Point, WidthsQuestion, bits_text, choose_widths, require_drop
from ..search.widths.knobs import settings_with
from ..synth.expected_clock import outside_of
from ..views.console.search import show_widths, widths_facts
from ..views.console.terminal import Console
from ..views.pictures.frontier import widths_svg

Facts = Mapping[str, object]

SETTINGS, PLAN, FRONTIER, DESIGNS = "settings.yaml", "plan.yaml", "frontier.json", "frontier"


def quantize_within(console: Console, pipeline: Pipeline, limit: float, evaluations: int
                    ) -> tuple[Facts, QuantizationOptions]:
    """Search the widths of the design of `pipeline` that loses at most `limit`, in so many `evaluations`.

    Gives the facts, and the options that make the chosen design.

    HwflowError for a question that has no answer; AnswerIsNo where no design keeps the accuracy.
    """
    require_drop(limit)
    own_settings = pipeline.quantization.settings
    required_dataset(pipeline, "--accuracy-drop must have data to measure the accuracy on")
    folder = pipeline.board_folder / "precision"
    settings_file = folder / SETTINGS
    if own_settings is not None and same_file(settings_file, own_settings):
        raise HwflowError(f"--settings must not be {settings_file}, which --accuracy-drop writes",
                          "copy it to another place")
    _ = pipeline.board, pipeline.choices
    with pipeline.locked():
        outcome = _search(console, pipeline, folder, limit, evaluations)
        write_atomically(folder / FRONTIER, json.dumps(widths_facts(outcome), indent=1))
        plot = _plot(console, outcome, folder / "frontier.svg", pipeline.project.model.stem)
        _write_frontier(outcome, pipeline.choices, folder / DESIGNS)
        show_widths(console, outcome)
        for note in outcome.notes:
            console.say(f"  note: {note}")
        for file in (settings_file, folder / PLAN):  # of an earlier search
            file.unlink(missing_ok=True)
        chosen = _chosen(outcome)
        plan = _write_design(outcome, settings_file, folder / PLAN)
    _show_chosen(console, f"chosen: {_text(outcome, chosen)}", folder, plot, plan)
    facts = {
        **widths_facts(outcome),
        "settings": str(settings_file),
        "plot": plot and str(plot),
        "plan": str(folder / PLAN) if plan else None,
    }
    return facts, replace(pipeline.quantization, settings=settings_file, bits=None)


def _write_frontier(outcome: Outcome, base: QuantizationSettings, folder: Path) -> None:
    """The settings of each design on the frontier, in place of those of an earlier search."""
    create_folder(folder)
    for earlier in folder.glob("*.yaml"):
        earlier.unlink()
    for number, point in enumerate(outcome.frontier, 1):
        settings = settings_with(base, outcome.knobs, point.bits, tuned=point.tuned)
        write_atomically(folder / f"{number:03}.yaml", settings_to_yaml(settings))


def _write_design(outcome: Outcome, settings: Path, plan: Path) -> bool:
    """Write what makes the chosen design again; True where it can be built, so that there is a plan."""
    assert outcome.quantized is not None, "something was chosen"
    planned = outcome.pace.plan(outcome.quantized.graph)
    if planned is not None:
        write_atomically(plan, plan_to_yaml(planned))
    write_atomically(settings, outcome.quantized.settings)
    return planned is not None


def _search(console: Console, pipeline: Pipeline, folder: Path, limit: float, evaluations: int) -> Outcome:
    """The search with the model, data and board of `pipeline`."""
    model, dataset, choices, board = pipeline.model, pipeline.dataset, pipeline.choices, pipeline.board
    assert dataset is not None
    technology = board.technology()

    def executions(graph: LayerGraph) -> Executions:
        return executions_of(graph, graph, board, say=console.progress)

    arrays = [*dict(sorted(dataset.inputs.items())).values(), *([] if dataset.labels is None else [dataset.labels])]
    context = digest(
        code_fingerprint(),
        pipeline.quantize_key,
        repr((budget_of(board), outside_of(board), technology.name, technology.timing)),
        onnx.dumps(model),
        *map(content, arrays),
    )
    answers = Answers(folder / "answers.jsonl", context)
    with console.rows("search for widths") as progress:
        asked = WidthsQuestion(model, dataset, choices, executions, limit, evaluations)
        return choose_widths(asked, answers, progress)


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


def _chosen(outcome: Outcome) -> Point:
    if outcome.winner is not None:
        return outcome.winner
    best = outcome.most_accurate
    raise AnswerIsNo(
        f"no design loses at most {outcome.limit:g} {outcome.metric.unit} of {outcome.metric.name}; the best found "
        f"loses {best.drop:.2f} (bits {bits_text(outcome.knobs, best.bits)})",
        "allow a larger --accuracy-drop, give more rows to calibrate with (calib_ arrays), or more "
        "--search-evaluations",
    )


def _text(outcome: Outcome, point: Point) -> str:
    saved = 1 - point.price / outcome.widest.price if outcome.widest.price else 0.0
    return (
        f"bits {bits_text(outcome.knobs, point.bits)}, {100 * saved:.1f} % cheaper than the widest, "
        f"{point.drop:.2f} {outcome.metric.unit} of {outcome.metric.name} lost"
    )
