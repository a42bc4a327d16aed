"""The command that shows a design: `report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically

from ..flow import Flow
from ..page import Subject, page_of
from ..report.clock import clock_of
from ..report.console import Console
from ..request import ReportRequest
from ..steps.keys import design_key, rows_key

__all__ = ["report"]

Result = Mapping[str, Any]

#: The page in the folder of the board, where the user names no file.
PAGE = "report.html"


def report(console: Console, request: ReportRequest) -> Result:
    """The page of a design, of what there is in the build folder."""
    flow = Flow(console, request.project, request.quantization, request.hardware)
    if request.output is not None:
        require_plain_target(request.output)
        require_folder(request.output, "--output")
        if same_file(request.output, request.project.model):
            raise HwflowError("must not be the model itself", "choose another name with --output",
                              where=str(request.output))
    flow.prepare()
    with flow.locked():
        subject = subject_of(flow)
        with console.step("write the report"):
            text = page_of(subject)
            target = request.output or flow.board_folder / PAGE
            write_atomically(target, text, "--output" if request.output else "--build")
    console.say(f"report: {target}")
    console.next(f"open it in a browser: {target.resolve().as_uri()}")
    return {"report": str(target), "bytes": len(text.encode()), "warnings": flow.warned.facts()}


def subject_of(flow: Flow) -> Subject:
    """What the page is about: the plan and everything before it is made where it is not there yet."""
    plan = flow.plan
    return Subject(
        flow.project, flow.quantization, flow.hardware, flow.source, flow.quantized, plan, flow.board,
        clock_of(plan, flow.graph, flow.board, flow.synthesis), flow.dataset, flow.folder, flow.board_folder,
        flow.synthesis, flow.quantize_key, rows_key(flow), design_key(flow))
