"""`hwflow report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from hwflow_base.later import later
from hwflow_base.options import Option

from ..options import GoalOptions, HardwareOptions, Project, QuantizationOptions

with later():
    from ..pipeline.pipeline import Pipeline
    from ..views.console.terminal import Console
    from ..views.page.document import write_page
    from .widths_search import for_goal


@dataclass(frozen=True)
class ReportRequest:
    """The request of `hwflow report`."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    goal: GoalOptions = field(default_factory=GoalOptions)
    output: Annotated[Path | None, Option(
        "The file to write; default: report.html, beside the plan.", metavar="FILE")] = None


def report(console: Console, request: ReportRequest) -> Mapping[str, object]:
    """Write a page that shows the whole design of MODEL for a board: one HTML file, for any browser.

    It plans the design where that was not done yet, and shows what other commands found: accuracy of `hwflow golden`,
    proofs of `hwflow sim` and `hwflow run`, the placed design of `hwflow synth`.  Of what was not run it names the
    command.

    Exit codes: 0 written; 1 if the model does not fit the board, or no widths reach the goal; 2 if the model, the data
    or the options are invalid.
    """
    pipeline = Pipeline(console, request.project, request.quantization, request.hardware)
    pipeline = for_goal(console, pipeline, request.goal)
    page = write_page(pipeline, request.output)
    console.say(f"report: {page.path}")
    console.next(f"open it in a browser: {page.path.resolve().as_uri()}")
    return {"report": str(page.path), "bytes": page.path.stat().st_size, "warnings": pipeline.warned.facts()}
