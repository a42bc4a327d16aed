"""The command that compares designs: `explore`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.files.cache import locked
from hwflow_base.files.target import write_atomically

from ..command_line import command_line
from ..exploration.exploration import Exploration, evaluate, exploration_of
from ..exploration.frontier import Objective
from ..exploration.point import Point, Widths
from ..exploration.routing import Routed, best_points, route
from ..exploration.space import Material, Space, with_and_without
from ..flow import Flow
from ..layers.partition import Execution
from ..page.exploration import Designs, exploration_page
from ..quantize import comes_quantized
from ..report.console import Console
from ..report.exploration import exploration_facts, point_facts, show_exploration
from ..report.routed import show_routed
from ..request import ExploreRequest, Project, QuantizationOptions
from ..steps.choices import settings_of
from ..synth import Board, list_boards, load_board

__all__ = ["explore"]

Result = Mapping[str, Any]

#: The folder of an exploration in that of the model, its tables for other programs, and its page.
FOLDER, CSV, JSON, PAGE = "exploration", "points.csv", "points.json", "explore.html"
#: Designs of each combination where the user gives no number, and does not ask for a rate.
INTERVALS = 8


def explore(console: Console, request: ExploreRequest) -> Result:
    """The points of the design space, their frontier, and which board does it."""
    flow = Flow(console, request.project, options_of(request, Widths()))
    boards = boards_of(request.boards)
    _ = flow.source
    if request.accuracy_drop is not None and request.project.data is None:
        raise HwflowError("--accuracy-drop must have data to measure the accuracy on",
                          "give an NPZ file with --data (docs/data-files.md)")
    space, material = space_of(request, boards), material_of(flow, request)
    with flow.locked():
        folder = flow.folder / FOLDER
    with locked(folder, console.progress):
        found = evaluate(material, space, folder, console.rows, workers=request.workers, scheduler=request.scheduler)
        exploration = exploration_of(
            space, found, folder, model=flow.folder.name, most_drop=request.accuracy_drop,
            objectives=[Objective(name) for name in request.objectives])
        flow.warned.add(found.warnings)
        require_any(exploration)
        if request.accuracy_drop is not None and all(point.reference is None for point in exploration.points):
            raise HwflowError("--accuracy-drop must have labels to measure the accuracy with",
                              "add labels to the data (docs/data-files.md)", where=str(request.project.data))
        facts = write_tables(exploration, folder, request)
        show_exploration(console, exploration)
        if request.route is not None:
            made = route(material, space, chosen_points(exploration, request.route), folder, request.runs, console.rows,
                         workers=request.workers, scheduler=request.scheduler)
            show_routed(console, made)
            facts = write_tables(exploration, folder, request, made)
    console.say(f"the page: {folder / PAGE}; all points: {folder / CSV}, {folder / JSON}, {exploration.table}")
    best = best_of(exploration)
    if best is not None:
        console.next(f"{command_of(request, best, 'build')} writes this design")
    answered = exploration.answer
    code = 1 if answered is not None and answered.smallest is None else 0
    return {"exit_code": code, **facts, "csv": str(folder / CSV), "page": str(folder / PAGE),
            "table": str(exploration.table), "warnings": flow.warned.facts()}


def boards_of(names: tuple[str, ...]) -> dict[str, Board]:
    """By the names that the user gave; all where none is named."""
    return {name: load_board(name) for name in names or list_boards()}


def options_of(request: ExploreRequest, widths: Widths) -> QuantizationOptions:
    """The options of the commands that make these integers."""
    return QuantizationOptions(widths.bits, widths.settings, request.rescale_bits, request.hardware_argmax)


def widths_of(request: ExploreRequest) -> tuple[Widths, ...]:
    """The axis of bits; the default alone where nothing is said."""
    files = [file for path in request.settings for file in files_of(path)]
    found = [*(Widths(bits=bits) for bits in request.bits), *(Widths(settings=path) for path in files)]
    return tuple(dict.fromkeys(found)) or (Widths(),)


def files_of(path: Path) -> list[Path]:
    """A file of settings, or those of a folder.  HwflowError where the folder has none."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.yaml"))
    if not found:
        raise HwflowError("the folder of --settings must have files of settings (*.yaml)",
                          "`hwflow quantize --accuracy-drop` writes those of its frontier", where=str(path))
    return found


def material_of(flow: Flow, request: ExploreRequest) -> Material:
    """The model and the data.  HwflowError for settings that do not fit the model."""
    if request.bits and comes_quantized(flow.model):
        raise HwflowError("--bits must be left out for a model that is quantized already",
                          "give the float model to compare widths", where=str(request.project.model))
    settings = {widths: settings_of(options_of(request, widths), flow.model) for widths in widths_of(request)}
    return Material(flow.model, flow.source, flow.dataset, settings)


def space_of(request: ExploreRequest, boards: Mapping[str, Board]) -> Space:
    """The axes."""
    intervals = request.intervals or (INTERVALS if request.frames is None else 1)
    return Space(
        boards, widths_of(request), request.executions or (Execution.AUTO,),
        with_and_without(request.logic_multipliers), with_and_without(request.stream_weights), intervals,
        request.frames)


def require_any(exploration: Exploration) -> None:
    """AnswerIsNo where nothing fits, and the reason is the same everywhere."""
    reasons = {point.refused for point in exploration.points}
    if len(reasons) == 1 and None not in reasons:
        raise AnswerIsNo(f"no design of '{exploration.model}' was found: {reasons.pop()}",
                         "`hwflow check --hardware` says more")


def command_of(request: ExploreRequest, point: Point, name: str, *options: str) -> str:
    """The command `hwflow name` for the design of a point, with `options` besides, as a line for a shell."""
    chosen = next(widths for widths in widths_of(request) if str(widths) == point.widths)
    project: Project = request.project
    return command_line(name, project, options_of(request, chosen), point.hardware, options=options)


def chosen_points(exploration: Exploration, count: int) -> tuple[Point, ...]:
    """The designs to route: the one that the user asked for, and others of the frontier."""
    best = best_of(exploration)
    found = best_points(exploration.frontier, count)
    if best is None or best in found:
        return found
    return (best, *best_points([point for point in exploration.frontier if point != best], count - 1))


def write_tables(exploration: Exploration, folder: Path, request: ExploreRequest, routed: Sequence[Routed] = ()
                 ) -> Result:
    """Every point as CSV and JSON, with its command, and the page; the same as plain data."""
    rows = [point_facts(point, best, command_of(request, point, "build"))
            for point, best in zip(exploration.points, exploration.on_frontier, strict=True)]
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomically(folder / CSV, text.getvalue())
    facts = {**exploration_facts(exploration), "points": rows, "routed": [each.facts() for each in routed]}
    write_atomically(folder / JSON, json.dumps(facts, indent=1))
    designs = Designs(exploration, partial(command_of, request), routed)
    write_atomically(folder / PAGE, exploration_page(designs))
    return facts


def best_of(exploration: Exploration) -> Point | None:
    """The design that the user asked for: of the smallest board for a rate, else the first of the frontier."""
    answered = exploration.answer
    if answered is not None:
        return None if answered.smallest is None else answered.smallest.design
    return exploration.frontier[0] if exploration.frontier else None
