"""A section of a page."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

__all__ = ["Section"]


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    `anchor` is its name in links, `title` its heading, `body` its HTML.  `missing` is the command that fills the
    section, or more of it, where that was not run yet; None where there is nothing left to run.
    """

    anchor: str
    title: str
    body: Markup
    missing: str | None = None
