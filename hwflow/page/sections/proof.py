"""The section "Proof" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """What was compared with the golden model, and how."""
    return Section("proof", "Proof", Markup(""), subject.command("sim"))
