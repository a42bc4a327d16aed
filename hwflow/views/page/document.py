"""A page as one HTML file: the sections in their frame, with styles and scripts inside."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import NamedTuple

from hwflow_base.files.facts import of_plain
from hwflow_base.printable import counted, number, percent, rate_text
from markupsafe import Markup

from ...accuracy import Accuracy
from ...facts.plan import board_rate, resource_rows
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
