"""`hwflow explore`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.files.cache import locked
from hwflow_base.files.target import write_atomically
from hwflow_base.later import later
from hwflow_base.options import OneOf, Option, Range, Section, command_line

from hwflow.quantize.settings import Effort
from hwflow.stages.partition import Execution

from ..layers.rescale import BLOCK_BITS
from ..options import EffortOption, HardwareArgmax, Project, QuantizationOptions, RescaleBits, widths

with later():
    from ..pipeline.pipeline import Pipeline, settings_of
    from ..quantize.quantization import comes_quantized, has_own_integers
    from ..search.exploration.exploration import Exploration, evaluate, exploration_of
    from ..search.exploration.point import Objective, Point, Widths
    from ..search.exploration.routing import Routed, best_points, route
    from ..search.exploration.space import Explorer, Material, Space, with_and_without
    from ..synth import Board, list_boards, load_board
    from ..views.console.search import exploration_facts, point_facts, show_exploration, show_routed
    from ..views.console.terminal import Console
    from ..views.page.exploration import Designs, exploration_page

Result = Mapping[str, object]

#: The folder of an exploration in that of the model, its tables for other programs, and its page.
FOLDER, CSV, JSON, PAGE = "exploration", "points.csv", "points.json", "explore.html"
#: Designs of each combination where the user gives no number, and does not ask for a rate.
INTERVALS = 8
#: The names of `hwflow.search.exploration.point.Objective`, which is imported only to explore.
OBJECTIVES = ("frames", "latency", "accuracy", "lut", "ff", "dsp", "ram", "filled")


def names(text: str) -> tuple[str, ...]:
    """`a,b` as both names."""
    listed = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not listed:
        raise ValueError(f"{text!r} must be names of boards, like icebreaker,ulx3s_85f")
    return listed


@dataclass(frozen=True)
class RoutingOptions:
    """Which designs are placed and routed, and how often."""

    route: Annotated[int | None, Option(
        "Place and route N designs, from the fastest of the frontier to its smallest: minutes to hours.",
        Section.ROUTING, "N", parse=Range(1, 1000))] = None
    runs: Annotated[int, Option(
        "With --route: runs of each design, each with another seed, and from the second on with knobs of the placer "
        "that Optuna proposes.", Section.ROUTING, "COUNT", parse=Range(1, 1000), needs="route")] = 3


@dataclass(frozen=True)
class EngineOptions:
    """Which processes do the work."""

    workers: Annotated[int | None, Option(
        "Processes on this machine; default: one for each core.", Section.ENGINE, "COUNT", parse=Range(1, 1024),
        excludes=["scheduler"])] = None
    scheduler: Annotated[str | None, Option(
        "Run on the Dask cluster of this scheduler, like tcp://192.168.1.2:8786 (docs/explore.md).", Section.ENGINE,
        "ADDRESS")] = None


@dataclass(frozen=True)
class ExploreRequest:
    """The request of `hwflow explore`; `boards` is empty for all of them, `intervals` None for 8, or with `frames` for
    1."""

    project: Project
    boards: Annotated[tuple[str, ...], Option(
        "Boards, or their YAML files; default: all that come with hwflow.", Section.SPACE, "NAME,NAME,...",
        parse=names, repeated=False)] = ()
    bits: Annotated[tuple[tuple[int, int], ...], Option(
        "Bits of all weights, and of all activations (default 8): 4 or 8,16.  Repeat it for several widths.",
        Section.SPACE, "W[,A]", parse=widths, replaces=["settings"], common=True)] = ()
    settings: Annotated[tuple[Path, ...], Option(
        "YAML file with settings for each layer, or a folder of such files, as the frontier of `hwflow quantize "
        "--accuracy-drop`.  Each file is one more value of --bits (repeatable).", Section.SPACE, of_model=True)] = ()
    rescale_bits: RescaleBits = None
    effort: EffortOption = Effort.NORMAL
    hardware_argmax: HardwareArgmax = False
    intervals: Annotated[int | None, Option(
        "How many designs of each board and width, from the fastest to the smallest; default: 8, or the fastest alone "
        "with --frames.", Section.SPACE, "COUNT", parse=Range(1, 1000))] = None
    frames: Annotated[float | None, Option(
        "Name the smallest board that does N frames/s, and what the next smaller one lacks.", Section.SPACE, "N",
        parse=Range(above=0))] = None
    executions: Annotated[tuple[Execution, ...], Option(
        "dataflow, shared, or the better of both (auto, the default).  Repeat it for several.", Section.SPACE,
        name="execution", common=True)] = ()
    logic_multipliers: Annotated[bool, Option(
        "Also designs that multiply in logic when all multiplier blocks are used.", Section.SPACE, common=True)] = False
    stream_weights: Annotated[bool, Option(
        "Also designs with weights outside of the FPGA where those inside fit.", Section.SPACE, common=True)] = False
    accuracy_drop: Annotated[float | None, Option(
        "With --frames: only designs count that lose at most POINTS of accuracy on the data.", Section.SPACE, "POINTS",
        parse=Range(0), needs="frames")] = None
    objectives: Annotated[tuple[str, ...], Option(
        "What makes a design better than another one (repeatable); default: frames, accuracy where there is data, and "
        "lut.", Section.SPACE, name="objective", parse=OneOf(OBJECTIVES))] = ()
    routing: RoutingOptions = RoutingOptions()
    engine: EngineOptions = EngineOptions()


def explore(console: Console, request: ExploreRequest) -> Result:
    """Compare the designs of MODEL on many boards, widths and intervals, at estimated clocks: which are the best?

    What is finished is kept in build/<model>/exploration: a run that was interrupted goes on.

    Exit codes: 0 success; 1 if no design fits, or with --frames no board does it; 2 if the model, the data or the
    options are invalid, or the cluster does not answer.
    """
    pipeline = Pipeline(console, request.project, options_of(request, Widths()))
    boards = boards_of(request.boards)
    _ = pipeline.source
    if request.accuracy_drop is not None and request.project.data is None:
        raise HwflowError("--accuracy-drop must have data to measure the accuracy on",
                          "give an NPZ file with --data (docs/data-files.md)")
    request = with_common_integers(pipeline, request)
    space, material = space_of(request, boards), material_of(pipeline, request)
    with pipeline.locked():
        folder = pipeline.folder / FOLDER
    explorer = Explorer(material, space, folder, console.rows, request.engine.workers, request.engine.scheduler)
    with locked(folder, console.progress):
        results = evaluate(explorer)
        exploration = exploration_of(
            space, results, folder, model=pipeline.folder.name, most_drop=request.accuracy_drop,
            objectives=[Objective(name) for name in request.objectives])
        pipeline.warned.add(results.warnings)
        require_any(exploration, request)
        facts = write_tables(exploration, folder, request)
        show_exploration(console, exploration)
        if request.routing.route is not None:
            designs = route(explorer, chosen_points(exploration, request.routing.route), request.routing.runs)
            show_routed(console, designs)
            facts = write_tables(exploration, folder, request, designs)
    console.say(f"the page: {folder / PAGE}; all points: {folder / CSV}, {folder / JSON}, {exploration.table}")
    best = best_of(exploration)
    if best is not None:
        console.next(f"{command_of(request, best, 'build')} writes this design")
    answered = exploration.answer
    code = 1 if answered is not None and answered.smallest is None else 0
    return {"exit_code": code, **facts, "csv": str(folder / CSV), "page": str(folder / PAGE),
            "table": str(exploration.table), "warnings": pipeline.warned.facts()}


def with_common_integers(pipeline: Pipeline, request: ExploreRequest) -> ExploreRequest:
    """`request` with the same bits of rescaling on all boards, which commands would choose by the board otherwise."""
    unsaid = request.rescale_bits is None and has_own_integers(pipeline.model)
    return replace(request, rescale_bits=BLOCK_BITS) if unsaid else request


def boards_of(names: tuple[str, ...]) -> dict[str, Board]:
    """The boards by the names that the user gave; all where none is named."""
    return {name: load_board(name) for name in names or list_boards()}


def options_of(request: ExploreRequest, widths: Widths) -> QuantizationOptions:
    """The options of the commands that make these integers."""
    return QuantizationOptions(widths.bits, widths.settings, request.rescale_bits, request.hardware_argmax,
                               request.effort)


def widths_of(request: ExploreRequest) -> tuple[Widths, ...]:
    """The axis of bits; the default alone where nothing is said."""
    files = [file for path in request.settings for file in files_of(path)]
    axis = [*(Widths(bits=bits) for bits in request.bits), *(Widths(settings=path) for path in files)]
    return tuple(dict.fromkeys(axis)) or (Widths(),)


def files_of(path: Path) -> list[Path]:
    """A file of settings, or those of a folder.  HwflowError where the folder has none."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.yaml"))
    if not files:
        raise HwflowError("the folder of --settings must have files of settings (*.yaml)",
                          "`hwflow quantize --accuracy-drop` writes those of its frontier", where=str(path))
    return files


def material_of(pipeline: Pipeline, request: ExploreRequest) -> Material:
    """The model and the data.  HwflowError for settings that do not fit the model."""
    if request.bits and comes_quantized(pipeline.model):
        raise HwflowError("--bits must be left out for a model that is quantized already",
                          "give the float model to compare widths", where=str(request.project.model))
    settings = {widths: settings_of(options_of(request, widths), pipeline.model) for widths in widths_of(request)}
    return Material(pipeline.model, pipeline.source, pipeline.dataset, settings)


def space_of(request: ExploreRequest, boards: Mapping[str, Board]) -> Space:
    """The axes."""
    intervals = request.intervals or (INTERVALS if request.frames is None else 1)
    return Space(
        boards, widths_of(request), request.executions or (Execution.AUTO,),
        with_and_without(request.logic_multipliers), with_and_without(request.stream_weights), intervals,
        request.frames)


def require_any(exploration: Exploration, request: ExploreRequest) -> None:
    """AnswerIsNo where nothing fits, and the reason is the same everywhere; HwflowError where the limit of the accuracy
    cannot be judged."""
    reasons = {point.refused for point in exploration.points}
    if len(reasons) == 1 and None not in reasons:
        raise AnswerIsNo(f"no design of '{exploration.model}' was found: {reasons.pop()}",
                         "`hwflow check --hardware` says more")
    if request.accuracy_drop is not None and all(point.reference is None for point in exploration.points):
        raise HwflowError("--accuracy-drop must have labels to measure the accuracy with",
                          "add labels to the data (docs/data-files.md)", where=str(request.project.data))


def command_of(request: ExploreRequest, point: Point, name: str, *options: str) -> str:
    """The command `hwflow name` for the design of a point, with `options` besides, as a line for a shell."""
    chosen = next(widths for widths in widths_of(request) if str(widths) == point.widths)
    project: Project = request.project
    return command_line(name, project, options_of(request, chosen), point.hardware, options=options)


def chosen_points(exploration: Exploration, count: int) -> tuple[Point, ...]:
    """The designs to route: the one that the user asked for, and others of the frontier."""
    best = best_of(exploration)
    points = best_points(exploration.frontier, count)
    if best is None or best in points:
        return points
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
    facts = {**exploration_facts(exploration), "points": rows, "routed": [design.facts() for design in routed]}
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
