"""The section "Silicon" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ..section import Section
from ..subject import Subject

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """The placed and routed design."""
    return Section("silicon", "Silicon", Markup(""), subject.command("synth"))
