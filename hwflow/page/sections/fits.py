"""The section "What fits" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ...report.clock import routed_design
from ...report.numbers import number, percent
from ...report.synthesis import planned_in_all
from ...synth.kept import kept_report
from ..resources import (
    by_part,
    frames_table,
    kinds_of,
    memories_picture,
    memories_table,
    overview,
    parts_of,
    parts_table,
)
from ..section import Section
from ..subject import Subject
from ..svg import element
from ..tiles import tiles

__all__ = ["section"]


def section(subject: Subject) -> Section:
    """What the design takes of the board."""
    plan, board = subject.plan, subject.board
    routed = routed_design(plan, subject.graph, board, subject.synthesis) is not None
    report = kept_report(subject.synthesis) if routed else None
    parts = parts_of(plan, board, report)
    need, have = planned_in_all(plan, board).counts(), board.resources.counts()
    logic = board.technology().usable_logic
    said = (f"The device of {board.name} is {board.device}. Place and route can use about {percent(logic, 0)} of its "
            "logic. " + ("Used resources are those of the routed design." if report is not None else
                         "These are the resources of the plan; those of the routed design will be beside them."))
    body = Markup("").join([
        tiles([(f"{kind.upper()} planned", number(need[kind]), f"of {number(have[kind])}")
               for kind in kinds_of(board)]),
        element("p", said), overview(plan, board, parts, report), element("h3", "By part of the design"),
        by_part(plan, board, parts), parts_table(parts, board), element("h3", "Memories"), memories_picture(plan),
        memories_table(plan), frames_table(plan)])
    return Section("fits", "What fits", body, None if report is not None else subject.command("synth"))
