"""The command that shows a design: `report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically
from markupsafe import escape

from ..flow import Flow
from ..page import Subject, page_of
from ..report.clock import clock_of
from ..report.console import Console
from ..request import ReportRequest
from ..steps.keys import design_key, rows_key

__all__ = ["Page", "report", "write_page"]

Result = Mapping[str, Any]

#: The page in the folder of the board, where the user names no file.
PAGE = "report.html"


@dataclass(frozen=True)
class Page:
    """The page of a design in the file `path`, which a notebook shows."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        """The page in a frame: it has styles and scripts of its own."""
        page = escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 50rem; border: 0"></iframe>'


def report(console: Console, request: ReportRequest) -> Result:
    """The page of a design, of what there is in the build folder."""
    page, flow = write_page(console, request)
    console.say(f"report: {page.path}")
    console.next(f"open it in a browser: {page.path.resolve().as_uri()}")
    return {"report": str(page.path), "bytes": page.path.stat().st_size, "warnings": flow.warned.facts()}


def write_page(console: Console, request: ReportRequest) -> tuple[Page, Flow]:
    """The page of what there is in the build folder, and the flow that it is of."""
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
    return Page(target), flow


def subject_of(flow: Flow) -> Subject:
    """What the page is about: the plan and everything before it is made where it is not there yet."""
    plan = flow.plan
    return Subject(
        flow.project, flow.quantization, flow.hardware, flow.source, flow.quantized, plan, flow.board,
        clock_of(plan, flow.graph, flow.board, flow.synthesis), flow.dataset, flow.folder, flow.board_folder,
        flow.synthesis, flow.quantize_key, rows_key(flow), design_key(flow))
