"""The section "Accuracy" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """The integers against the float model."""
    return Section("accuracy", "Accuracy", Markup(""), subject.command("golden"))
