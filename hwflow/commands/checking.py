"""The commands that read a model and say what is in it and what becomes of it: `check` and `info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically

from .. import onnx
from ..command_line import command_line
from ..flow import Flow
from ..hls import Plan
from ..layers.base import LayerGraph
from ..onnx import Finding, Severity
from ..onnx.container.files import read
from ..onnx.errors import LimitError, ShapeLimitError
from ..report.clock import clock_of
from ..report.console import Console
from ..report.execution import execution_facts, show_layers
from ..report.hardware import hardware_facts, show_hardware, show_shared, show_weights, weights_facts
from ..report.info import describe_model
from ..report.model import show_model
from ..report.numbers import counted
from ..report.picture import svg
from ..request import CheckRequest, InfoRequest
from ..steps.folders import board_folder
from ..steps.planning import plan_for
from ..synth import Board, load_board

__all__ = ["check", "info"]

Result = Mapping[str, Any]

#: Rules whose errors name files that must not be read.
UNSAFE = ("EX-02", "EX-09")


def check(console: Console, request: CheckRequest) -> Result:
    """Findings about the file, then whether every node can become hardware.

    The exit code judges the file alone: 0 valid, 1 with errors, 2 where it points at what must not be read.
    """
    if request.board is not None and not request.hardware:
        raise HwflowError("--board of check must be given together with --hardware")
    findings = onnx.check(read(request.project.model, limits=request.project.limits), strict=request.strict)
    errors, warnings = ([f for f in findings if f.severity is kind] for kind in (Severity.ERROR, Severity.WARNING))
    for finding in (*errors, *warnings):
        console.say(f"{finding.severity.value}: {finding}")
    summary = f"{request.project.model}: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"
    facts = {
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in findings],
        "valid": not errors, "errors": len(errors), "warnings": len(warnings),
    }  # fmt: skip
    flow, board = Flow(console, request.project), None if request.board is None else load_board(request.board)
    if errors and (_unsafe(errors) or not request.hardware):
        return {**facts, **_check_errors(console, flow, summary, errors)}
    return {**facts, **_check_nodes(console, flow, summary, errors, board, hardware=request.hardware)}


def _check_errors(console: Console, flow: Flow, summary: str, errors: Sequence[Finding]) -> Result:
    """What else is to be said of a file with errors: which operators have no hardware."""
    console.say(summary)
    besides = _without_hardware(flow)
    if besides:
        console.say(besides)
    return {"exit_code": 2 if _unsafe(errors) else 1, "besides": besides}


def _check_nodes(console: Console, flow: Flow, summary: str, errors: Sequence[Finding], board: Board | None, *,
                 hardware: bool) -> Result:
    """What becomes of every node; with `hardware` the exit code says whether the model can become hardware."""
    try:
        _ = flow.source
    except HwflowError:
        if not errors:
            raise
        console.say(summary)
        return {"exit_code": 1}
    found, valid = flow.mapping, "" if errors else "; a valid ONNX file"
    if found.beyond is not None and not hardware:
        return _beyond(console, found.beyond, summary)
    console.say(f"{summary}{valid}")
    show_hardware(console, str(flow.project.model), found)
    facts, possible = hardware_facts(found), found.possible and not errors
    if possible:
        _ = flow.model, flow.dataset  # what the next command begins with
    if hardware and board is None:
        show_shared(console, found)
    elif board is not None and found.possible and found.graph is not None:
        plan, facts["execution"] = _on_board(console, flow, found.graph, board)
        facts["weights"] = weights_facts(found.graph, board, plan)
        show_weights(console, facts["weights"])
        possible = possible and plan is not None
    if possible:
        _say_next(console, flow)
    return {"exit_code": 0 if possible or not hardware else 1, **facts}


def _beyond(console: Console, error: LimitError, summary: str) -> Result:
    """A file whose nodes could not be looked at within the limits: no error, unless nothing can be said of it."""
    if isinstance(error, ShapeLimitError):
        console.say(f"error: {error.without_file}")
        return {"exit_code": 1, "valid": False, "errors": 1, "problem": error.without_file}
    console.say(f"warning: {error.without_file}")
    console.say(f"{summary}; a valid ONNX file, and beyond a limit of this run")
    return {"exit_code": 0, "layers": None, "problem": error.without_file}


def _say_next(console: Console, flow: Flow) -> None:
    """A model that becomes hardware: what it is worth in integers, or without data whether its RTL computes them."""
    console.next(command_line("golden" if flow.project.data else "sim", flow.project))


def _on_board(console: Console, flow: Flow, graph: LayerGraph, board: Board) -> tuple[Plan | None, Result]:
    """How `board` computes the layers, with the facts; None and the reason where they do not fit it.

    The plan is made and not kept.
    """
    try:
        plan = plan_for(graph, graph, board, say=console.progress)
    except AnswerIsNo as error:
        console.say(f"  {error}")
        return None, {"board": board.name, "problem": str(error)}
    show_layers(console, plan, board, clock_of(plan, graph, board, board_folder(flow.folder, board) / "synth"))
    return plan, execution_facts(plan, board)


def _unsafe(errors: Sequence[Finding]) -> bool:
    return any(finding.rule in UNSAFE for finding in errors)


def _without_hardware(flow: Flow) -> str:
    """Operators without hardware in a model with errors; nothing where the errors keep it from being read at all."""
    try:
        return flow.without_hardware().strip()
    except HwflowError:
        return ""


def info(console: Console, request: InfoRequest) -> Result:
    """What is in a model and where its nodes run, whatever becomes of it; with --svg also as a picture."""
    if request.svg is not None:
        require_plain_target(request.svg)
        require_folder(request.svg, "--svg")
        if same_file(request.svg, request.project.model):
            raise HwflowError("must not be the model itself", "choose another name with --svg", where=str(request.svg))
    board = None if request.board is None else load_board(request.board)
    flow = Flow(console, request.project)
    annotations = len(read(request.project.model, limits=request.project.limits).proto.graph.quantization_annotation)
    source, trial = flow.source, cache(flow.trial)
    facts, types, found = describe_model(source, lambda: flow.model, trial, annotations, flow.shapes)
    show_model(console, str(request.project.model), facts)
    if request.svg is not None:
        write_atomically(request.svg, svg(source.graph, types.values, found.nodes, request.project.model.name), "--svg")
        console.say(f"picture: {request.svg}")
    facts["layers_in_hardware"] = None if found.problem else [layer.name for layer in trial().graph.layers]
    if board is not None and not found.problem:
        facts["execution"] = _on_board(console, flow, trial().graph, board)[1]
    console.next(command_line("check", request.project, options=["--hardware"]))
    return {**facts, "svg": None if request.svg is None else str(request.svg)}
