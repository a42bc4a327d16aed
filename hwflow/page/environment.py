"""The templates of the pages.

Jinja2 makes the HTML, because it escapes what a template inserts: names of tensors and files are hostile.  Characters
that are not printable are shown as escapes, as everywhere in the reports.
"""

from __future__ import annotations

from functools import cache

import jinja2
from hwflow_base.printable import clean
from markupsafe import Markup

__all__ = ["environment"]


@cache
def environment() -> jinja2.Environment:
    """The templates of this package.  All that they insert is escaped; a name that they do not know is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hwflow.page"), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=printable, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
