"""Facts of a routed design on a board: planned against used, and its frames a second; as data for JSON too."""

from __future__ import annotations

from collections.abc import Mapping

from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.vendor import Resources

from ..hls.plan.outside_memory import reading_cost, telling_cost
from ..hls.plan.plan import Plan
from ..hls.schedule.links import links_cost
from ..host.rate import rate_of
from ..synth import Board, SynthesisReport, ends_of
from ..synth.design_parts import LINKS, MEMORY, title_of


def planned_and_used(plan: Plan, board: Board, report: SynthesisReport | None
                     ) -> list[tuple[str, Resources, Resources]]:
    """The parts of the design: title, resources by the plan and in the netlist; nothing where there is no report.

    The stages first, then the streams between them, what reads weights from a memory outside, and what is around the
    core.
    """
    technology = board.technology()
    used = report.parts if report is not None else {}
    rows = [(title_of(f"stage{k}", plan), technology.placed(stage.resources), used.get(f"stage{k}", Resources()))
            for k, stage in enumerate(plan.stages)]
    rows.append(("between the stages", technology.placed(links_cost(plan.links, technology)),
                 used.get(LINKS, Resources())))
    if plan.streams:
        rows.append(("weights outside", technology.placed(reading_cost(plan.outside, plan.streams, technology)),
                     used.get(MEMORY, Resources())))
    around = sum((need for part, need in used.items() if not part.startswith("stage") and part not in (LINKS, MEMORY)),
                 Resources())
    telling = telling_cost(plan.outside, plan.streams, technology)
    rows.append(("around the core", technology.placed(around_cost(plan, board) + telling), around))
    return rows


def planned_in_all(plan: Plan, board: Board) -> Resources:
    """The resources of the whole design; the plan has what weights outside take, and nothing else around the core."""
    technology = board.technology()
    return plan.resources + technology.placed(around_cost(plan, board))


def around_cost(plan: Plan, board: Board) -> Resources:
    """The resources of the core's surroundings on the board, by their costs."""
    technology = board.technology()
    return BoardTop.cost(technology, ends_of(plan), transport=board.transport.cost(technology),
                         shape=board.transport.shape)


def synthesis_facts(plan: Plan, board: Board, report: SynthesisReport) -> dict[str, object]:
    """The report and what it makes of the plan, as plain data for JSON."""
    rows = planned_and_used(plan, board, report)
    planned = planned_in_all(plan, board)
    return {
        **report.to_dict(), "planned": planned.counts(), "frames_per_second": rates(plan, board, report),
        "by_part": [{"part": title, "planned": need.counts(), "used": used.counts()} for title, need, used in rows]}


def rates(plan: Plan, board: Board, report: SynthesisReport) -> Mapping[str, float | str]:
    """Frames a second: those that arrive and what limits them, at the clock that drives the stages and at the one that
    was reached, and of the line to the host."""
    rate = rate_of(plan, report.clock_mhz, board.transport.bytes_per_second)
    facts = {"arriving": rate.frames_per_second, "limit": rate.limit.value, "clock": rate.core, "line": rate.line}
    if report.usable_mhz is not None:
        facts["usable_clock"] = rate_of(plan, report.usable_mhz).core
    return facts
