"""A page as one HTML file: the sections in their frame, with styles and scripts inside."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from markupsafe import Markup

from .markup import STEPS, environment
from .sections import SECTIONS
from .subject import Section, Subject
from .summary import Fact, lead_of, summary_of

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
