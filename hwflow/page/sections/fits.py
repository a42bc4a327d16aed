"""The section "What fits" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """What the design takes of the board."""
    return Section("fits", "What fits", Markup(""), subject.command("build"))
