"""The section "Proof" of a report: which checks on the way from the golden model to the board were made."""

from __future__ import annotations

from ..ladder import State, html_of, rungs_of
from ..section import Section
from ..subject import Subject
from ..svg import element

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """What was compared with the golden model, and how."""
    rungs = rungs_of(subject)
    climbed = sum(rung.climbed for rung in rungs)
    failed = [rung.title for rung in rungs if rung.failed]
    said = f"{climbed} of {len(rungs)} checks of the hardware were made"
    verdict, tone = (f"{said}; not equal: {', '.join(failed)}.", "bad") if failed else (
        f"{said}; the golden model and the hardware were equal wherever they were compared.", "good") if (
            any(rung.state is State.EQUAL for rung in rungs)) else (
                f"{said}; no hardware was compared with the golden model yet.", "warn")
    body = element("p", verdict, class_=f"verdict {tone}") + element("ol", *map(html_of, rungs), class_="ladder")
    missing = None if any(rung.state is State.EQUAL for rung in rungs) else subject.command("sim")
    return Section("proof", "Proof", body, missing)
