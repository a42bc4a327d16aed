"""The section "Time" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """When each stage works, and what limits the rate."""
    return Section("time", "Time", Markup(""), subject.command("build"))
