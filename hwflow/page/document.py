"""A page as one HTML file: the sections in their frame, with styles and scripts inside.

Jinja2 makes the HTML, because it escapes what a template inserts: names of tensors and files are hostile.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files

import jinja2
from markupsafe import Markup

from .section import Section
from .sections import SECTIONS
from .subject import Subject

__all__ = ["environment", "page_of", "render"]

#: The files with the looks, in order.
STYLES = ("colours.css", "page.css", "chart.css")


@cache
def environment() -> jinja2.Environment:
    """The templates of this package.  All that they insert is escaped; a name that they do not know is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hwflow.page"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def page_of(subject: Subject) -> str:
    """The report of a design as HTML."""
    return render(f"{subject.name} on {subject.board.name}", [section(subject) for section in SECTIONS])


def render(title: str, sections: list[Section]) -> str:
    """The page with this title and these sections."""
    own = files("hwflow.page") / "files"
    styles = "".join((own / name).read_text() for name in STYLES)
    return environment().get_template("page.html.j2").render(
        title=title, sections=sections, version=version("hwflow"),
        style=Markup(styles), script=Markup((own / "page.js").read_text()))
