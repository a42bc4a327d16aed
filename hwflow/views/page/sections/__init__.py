"""The sections of a report in their order.  Each is a file with a function `section`."""

from __future__ import annotations

from collections.abc import Callable

from ..subject import Section, Subject
from . import accuracy, fits, graph, proof, silicon, time

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Subject], Section], ...] = (
    graph.section, fits.section, time.section, accuracy.section, proof.section, silicon.section)
