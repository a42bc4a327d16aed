"""The section "The graph" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """What each layer becomes, and how the stages are connected."""
    return Section("graph", "The graph", Markup(""), subject.command("build"))
