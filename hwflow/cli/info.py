"""`hwflow info`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically
from hwflow_base.later import later
from hwflow_base.options import Option, Section, command_line

from ..options import Project

with later():
    from ..facts.model import describe_model
    from ..facts.states import states_of_graph
    from ..onnx.container.files import read
    from ..pipeline.pipeline import Pipeline
    from ..synth import load_board
    from ..views.console.model import show_model, show_states
    from ..views.console.terminal import Console
    from ..views.pictures.model import svg
    from .check import on_board


@dataclass(frozen=True)
class InfoRequest:
    """The request of `hwflow info`."""

    project: Project
    board: Annotated[str | None, Option(
        "Plan the design for this board (seconds), and say how it computes the layers, and in how many cycles.",
        Section.BOARD, "BOARD", common=True)] = None
    svg: Annotated[Path | None, Option("Write a picture of the graph to this file.")] = None


def info(console: Console, request: InfoRequest) -> Mapping[str, object]:
    """Show the inputs, operators, parameters and multiplications of MODEL, and where each node runs."""
    if request.svg is not None:
        require_plain_target(request.svg)
        require_folder(request.svg, "--svg")
        if same_file(request.svg, request.project.model):
            raise HwflowError("must not be the model itself", "choose another name with --svg", where=str(request.svg))
    board = None if request.board is None else load_board(request.board)
    pipeline = Pipeline(console, request.project)
    annotations = len(read(request.project.model, limits=request.project.limits).proto.graph.quantization_annotation)
    source, trial = pipeline.source, cache(pipeline.trial)
    facts, types, where = describe_model(source, lambda: pipeline.model, trial, annotations, pipeline.shapes)
    show_model(console, str(request.project.model), facts)
    if request.svg is not None:
        write_atomically(request.svg, svg(source.graph, types.values, where.nodes, request.project.model.name), "--svg")
        console.say(f"picture: {request.svg}")
    facts["layers_in_hardware"] = None if where.problem else [layer.name for layer in trial().graph.layers]
    plan = None
    if board is not None and not where.problem:
        plan, facts["execution"] = on_board(console, pipeline, trial().graph, board)
    facts["states"] = states_of_graph(trial().graph, plan) if where.golden else None
    show_states(console, facts["states"] or ())
    console.next(command_line("check", request.project, options=["--hardware"]))
    return {**facts, "svg": None if request.svg is None else str(request.svg)}
