"""`hwflow check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option, Section, command_line
from hwflow_base.printable import counted

from ..options import Project

with later():

    from .. import onnx
    from ..facts.plan import clock_of, execution_facts
    from ..hls import Plan
    from ..layers.base import LayerGraph
    from ..onnx import Finding, Severity
    from ..onnx.container.files import read
    from ..onnx.errors import LimitError, ShapeLimitError
    from ..pipeline.build_folders import board_folder
    from ..pipeline.pipeline import Pipeline
    from ..pipeline.planning import plan_for
    from ..synth import Board, load_board
    from ..views.console.model import hardware_facts, show_hardware, show_shared, show_weights, weights_facts
    from ..views.console.plan import show_layers
    from ..views.console.terminal import Console

Result = Mapping[str, object]

#: Rules whose errors name files that must not be read.
UNSAFE = ("EX-02", "EX-09")


@dataclass(frozen=True)
class CheckRequest:
    """The request of `hwflow check`."""

    project: Project
    strict: Annotated[bool, Option(
        "Also refuse what the specification forbids but exporters write.", Section.CHECK)] = False
    hardware: Annotated[bool, Option(
        "Show for every node whether it maps to hardware, if not why, and what to do.  The exit code is 1 if a node "
        "does not map.", Section.CHECK)] = False
    board: Annotated[str | None, Option(
        "With --hardware: plan the design for this board (seconds), and say how it computes the layers.", Section.CHECK,
        "BOARD", needs="hardware", common=True)] = None


def said_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; those that say the same of several places are one, of the first place and the number of the others.
    """
    groups: dict[Finding, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(replace(finding, path=""), []).append(finding)
    for first, *others in groups.values():
        yield replace(first, path=f"{first.path} and {len(others)} more") if others else first


def check(console: Console, request: CheckRequest) -> Result:
    """Check MODEL against the ONNX rules, and say which of its nodes become hardware.

    Exit codes: 0 for a valid ONNX file; 1 if the file breaks a rule; 2 if it is not an ONNX file.  With --hardware: 0
    if the model can become hardware; 1 if not.
    """
    document = read(request.project.model, limits=request.project.limits)
    findings = onnx.check(document, strict=request.strict)
    errors, warnings = ([f for f in findings if f.severity is kind] for kind in (Severity.ERROR, Severity.WARNING))
    for finding in said_once((*errors, *warnings)):
        console.say(f"{finding.severity.value}: {finding}")
    summary = f"{request.project.model}: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"
    facts = {
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in findings],
        "valid": not errors, "errors": len(errors), "warnings": len(warnings),
    }  # fmt: skip
    pipeline, board = Pipeline(console, request.project), None if request.board is None else load_board(request.board)
    if errors and (_unsafe(errors) or not request.hardware):
        return {**facts, **_check_errors(console, pipeline, summary, errors)}
    valid = "" if errors else f"; a valid {document.format} file"
    return {**facts, **_check_nodes(console, pipeline, (summary, valid), errors, board, hardware=request.hardware)}


def _check_errors(console: Console, pipeline: Pipeline, summary: str, errors: Sequence[Finding]) -> Result:
    """More about a file with errors: which operators have no hardware."""
    console.say(summary)
    besides = _without_hardware(pipeline)
    if besides:
        console.say(besides)
    return {"exit_code": 2 if _unsafe(errors) else 1, "besides": besides}


def _check_nodes(console: Console, pipeline: Pipeline, texts: tuple[str, str], errors: Sequence[Finding],
                 board: Board | None, *, hardware: bool) -> Result:
    """Show what becomes of every node; with `hardware` the exit code says whether the model can become hardware.

    `texts` are the summary and, for a file without errors, that it is valid.
    """
    summary, valid = texts
    try:
        _ = pipeline.source
    except HwflowError:
        if not errors:
            raise
        console.say(summary)
        return {"exit_code": 1}
    mapped = pipeline.mapping
    if mapped.beyond is not None and not hardware:
        return _beyond(console, mapped.beyond, summary + valid)
    console.say(f"{summary}{valid}")
    show_hardware(console, str(pipeline.project.model), mapped)
    facts, possible = hardware_facts(mapped), mapped.possible and not errors
    if possible:
        _ = pipeline.model, pipeline.dataset  # what the next command begins with
    if hardware and board is None:
        show_shared(console, mapped)
    elif board is not None and mapped.possible and mapped.graph is not None:
        plan, facts["execution"] = on_board(console, pipeline, mapped.graph, board)
        facts["weights"] = weights_facts(mapped.graph, board, plan)
        show_weights(console, facts["weights"])
        possible = possible and plan is not None
    if possible:
        _say_next(console, pipeline)
    return {"exit_code": 0 if possible or not hardware else 1, **facts}


def _beyond(console: Console, error: LimitError, summary: str) -> Result:
    """A file whose nodes could not be looked at within the limits: no error, unless nothing can be said of it."""
    if isinstance(error, ShapeLimitError):
        console.say(f"error: {error.without_file}")
        return {"exit_code": 1, "valid": False, "errors": 1, "problem": error.without_file}
    console.say(f"warning: {error.without_file}")
    console.say(f"{summary}, and beyond a limit of this run")
    return {"exit_code": 0, "layers": None, "problem": error.without_file}


def _say_next(console: Console, pipeline: Pipeline) -> None:
    """A model that becomes hardware: what it is worth in integers, or without data whether its RTL computes them."""
    console.next(command_line("golden" if pipeline.project.data else "sim", pipeline.project))


def on_board(console: Console, pipeline: Pipeline, graph: LayerGraph, board: Board) -> tuple[Plan | None, Result]:
    """How `board` computes the layers, with the facts; None and the reason where they do not fit it.

    The plan is made and not kept.
    """
    try:
        plan = plan_for(graph, graph, board, say=console.progress)
    except AnswerIsNo as error:
        console.say(f"  {error}")
        return None, {"board": board.name, "problem": str(error)}
    show_layers(console, plan, board, clock_of(plan, graph, board, board_folder(pipeline.folder, board) / "synth"))
    return plan, execution_facts(plan, board)


def _unsafe(errors: Sequence[Finding]) -> bool:
    return any(finding.rule in UNSAFE for finding in errors)


def _without_hardware(pipeline: Pipeline) -> str:
    """Operators without hardware in a model with errors; nothing where the errors keep it from being read at all."""
    try:
        return pipeline.without_hardware().strip()
    except HwflowError:
        return ""
