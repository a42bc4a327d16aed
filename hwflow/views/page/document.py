"""A page as one HTML file: the sections in their frame, with styles and scripts inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import of_plain
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically
from hwflow_base.printable import counted, number, percent, rate_text
from markupsafe import Markup, escape

from ...accuracy import Accuracy
from ...facts.plan import board_rate, resource_rows
from ...pipeline.pipeline import Pipeline
from ...pipeline.records import ACCURACY
from ..console.accuracy import value_text, whole_text
from ..console.plan import limit_words
from .markup import STEPS, environment
from .sections import SECTIONS
from .subject import Section, Subject, found


class Fact(NamedTuple):
    """A number with its name; `note` is small print."""

    name: str
    text: str
    note: str = ""


def lead_of(subject: Subject) -> str:
    """The subject of the page, in a sentence."""
    board = subject.board
    return (f"{counted(len(subject.graph.layers), 'integer layer')} of {subject.project.model.name} in "
            f"{counted(len(subject.plan.stages), 'stage')} for the FPGA {board.device} of {board.name}")


def time_text(microseconds: float) -> str:
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


def summary_of(subject: Subject) -> tuple[Fact, ...]:
    """Speed, size, and how full the board is."""
    plan, clock = subject.plan, subject.clock
    mhz, rate = clock.mhz, board_rate(plan, subject.board, clock)
    resources = resource_rows(plan, subject.board)
    fullest = max(resources, key=lambda row: row[1] / row[2] if row[2] else 0.0)
    name, need, have = fullest
    latency = max(plan.latency)
    return (
        Fact("frames a second", rate_text(rate.frames_per_second), limit_words(rate, subject.board.transport.title)),
        Fact("of the FPGA alone", rate_text(rate.core), f"at {clock}"),
        Fact("initiation interval", f"{number(plan.interval)} cycles", "from frame to frame"),
        Fact("latency", time_text(latency / mhz), f"{number(latency)} cycles to the first result"),
        Fact("multipliers", number(plan.multipliers), f"{percent(plan.multiplier_use)} of their cycles are useful"),
        accuracy_of(subject),
        Fact("fits", "yes" if all(need <= have for _, need, have in resources) else "no",
             f"{percent(need / have if have else 0.0, 0)} of {name}, the fullest resource: {number(need)} of "
             f"{number(have)}, planned"),)


def accuracy_of(subject: Subject) -> Fact:
    """The accuracy that `hwflow golden` measured of these integers on these rows."""
    record = found(subject.folder, ACCURACY, subject.integers)
    if record.usable is None:
        return Fact("accuracy", "not measured", "`hwflow golden` measures it")
    with record.read():
        if subject.rows and record.usable.facts["data"]["digest"] != subject.rows:
            return Fact("accuracy", "not measured", "`hwflow golden` measures it on these rows")
        accuracy = of_plain(record.usable.facts["accuracy"], Accuracy)
    metric = accuracy.headline
    if metric is None:
        return Fact("accuracy", whole_text(accuracy), "against the float model; without labels")
    return Fact(f"accuracy, {metric.name}", value_text(metric, metric.integer),
                f"float model: {value_text(metric, metric.real)}")


#: The files with the looks, in order.
STYLES = ("colours.css", "page.css", "chart.css", "graph.css", "records.css", "floorplan.css")


def page_of(subject: Subject) -> str:
    """The report of a design as HTML."""
    return render(f"{subject.name} on {subject.board.name}", [section(subject) for section in SECTIONS],
                  lead_of(subject), summary_of(subject))


def render(title: str, sections: Sequence[Section], lead: str = "", facts: Sequence[Fact] = (), *,
           looks: str = "") -> str:
    """The page with this title and these sections.  `lead` is a sentence under the title, `facts` are its numbers, and
    `looks` are rules of style beside those of all pages."""
    own = files("hwflow.views.page") / "files"
    stacked = (own / "stacked.css").read_text()
    styles = "".join([*((own / name).read_text() for name in STYLES), *(
        f"@container table (max-width: {step}rem) {{ .stack-{step} {{\n{stacked}}} }}\n" for step in STEPS), looks])
    return environment().get_template("page.html.j2").render(
        title=title, sections=sections, lead=lead, facts=facts, version=version("hwflow"), style=Markup(styles),
        script=Markup((own / "page.js").read_text()))


# The page as a file.


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


def write_page(pipeline: Pipeline, output: Path | None) -> Page:
    """Write the page into `output`, or beside the plan.  The plan and all before it is made where it is not there."""
    if output is not None:
        require_plain_target(output)
        require_folder(output, "--output")
        if same_file(output, pipeline.project.model):
            raise HwflowError("must not be the model itself", "choose another name with --output", where=str(output))
    pipeline.prepare()
    with pipeline.locked():
        subject = subject_of(pipeline)
        with pipeline.console.step("write the report"):
            text = page_of(subject)
            target = output or pipeline.board_folder / PAGE
            write_atomically(target, text, "--output" if output else "--build")
    return Page(target)


def subject_of(pipeline: Pipeline) -> Subject:
    """The subject of the page: the plan and everything before it is made where it is not there yet."""
    plan = pipeline.plan
    return Subject(
        pipeline.project, pipeline.quantization, pipeline.hardware, pipeline.source, pipeline.quantized, plan,
        pipeline.board, pipeline.clock(), pipeline.dataset, pipeline.folder, pipeline.board_folder,
        pipeline.synthesis, pipeline.quantize_key, pipeline.rows_key, pipeline.design_key)
