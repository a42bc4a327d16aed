"""What a synthesized design says to its user: planned against used, clocks, what limits them, frames a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.vendor import Resources

from ..hls.links import links_cost
from ..hls.outside import reading_cost, telling_cost
from ..hls.plan import Plan
from ..host.identity import element_bytes
from ..synth import Board, SynthesisReport, ends_of
from ..synth.parts import LINKS, MEMORY, title_of
from .console import Console
from .numbers import number, percent

__all__ = ["line_rate", "planned_and_used", "planned_in_all", "rates", "show_synthesis", "synthesis_facts",
           "too_slow"]

#: Parts of the design whose longest path is shown; --json has all.
MOST_DELAYS = 8


def planned_and_used(plan: Plan, board: Board, report: SynthesisReport | None
                     ) -> list[tuple[str, Resources, Resources]]:
    """By part of the design: its title, what the plan says, what the netlist has; nothing where there is no report.

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
    around = sum((each for part, each in used.items() if not part.startswith("stage") and part not in (LINKS, MEMORY)),
                 Resources())
    telling = telling_cost(plan.outside, plan.streams, technology)
    rows.append(("around the core", technology.placed(around_cost(plan, board) + telling), around))
    return rows


def planned_in_all(plan: Plan, board: Board) -> Resources:
    """Of the whole design; the plan has what weights outside take, and nothing else around the core."""
    technology = board.technology()
    return plan.resources + technology.placed(around_cost(plan, board))


def around_cost(plan: Plan, board: Board) -> Resources:
    """What the core's surroundings on the board take by their costs."""
    technology = board.technology()
    return BoardTop.cost(technology, ends_of(plan), transport=board.transport.cost(technology),
                         shape=board.transport.shape)


def synthesis_facts(plan: Plan, board: Board, report: SynthesisReport) -> dict[str, Any]:
    """The report and what it makes of the plan, as plain data for JSON."""
    rows = planned_and_used(plan, board, report)
    planned = planned_in_all(plan, board)
    return {
        **report.to_dict(), "planned": planned.counts(), "frames_per_second": rates(plan, board, report),
        "by_part": [{"part": title, "planned": need.counts(), "used": used.counts()} for title, need, used in rows]}


def rates(plan: Plan, board: Board, report: SynthesisReport) -> Mapping[str, float]:
    """Frames a second: at the clock that drives the stages, at the one that was reached, and on the serial line."""
    def rate(mhz: float) -> float:
        return mhz * 1e6 / plan.interval_at(mhz)

    found = {"clock": rate(report.clock_mhz), "serial_line": line_rate(plan, board)}
    if report.usable_mhz is not None:
        found["usable_clock"] = rate(report.usable_mhz)
    return found


def show_synthesis(console: Console, plan: Plan, board: Board, report: SynthesisReport) -> None:
    """Resources by part and in all, the clocks with what limits them, and what they make of frames."""
    parts = planned_and_used(plan, board, report)
    usages = {"lut": report.lut, "ff": report.ff, "dsp": report.dsp, "ram": report.ram}
    usages |= {"spram": report.spram} if report.spram.available else {}
    console.table("planned and used", (
        "part", *(text for name in usages for text in (f"{name.upper()} planned", "used"))), [
            (title, *(text for name in usages for text in (number(getattr(need, name)), number(getattr(used, name)))))
            for title, need, used in parts])
    planned = planned_in_all(plan, board).counts()
    rows = [(name.upper(), number(planned[name]), number(usage.used), number(usage.available),
             percent(usage.used / usage.available if usage.available else 0.0)) for name, usage in usages.items()]
    console.table(f"routed for {board.name}", ("resource", "plan", "used", "available", "share"), rows)
    show_seeds(console, report)
    show_clocks(console, report)
    if report.usable_mhz is not None:
        source = f"the PLL's clock on {board.name}" if report.pll else f"the clock of {board.name}"
        for text, mhz in ((f"at {report.clock_mhz:.6g} MHz, {source}", report.clock_mhz),
                          (f"at {report.usable_mhz:.1f} MHz, the highest that the layout allows", report.usable_mhz)):
            console.say(f"  {mhz * 1e6 / plan.interval_at(mhz):,.0f} frames/s {text}")
    console.say(f"  {board.transport.title} carries {line_rate(plan, board):,.0f} frames/s")
    console.say(f"  tools: {', '.join(report.tools.values())}")
    console.say("  time: " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in report.seconds.items()))
    console.say(f"  bitstream: {report.bitstream}")


def show_seeds(console: Console, report: SynthesisReport) -> None:
    """The result of each seed, if there are several."""
    if len(report.seeds) > 1:
        console.table("seeds", ("seed", "MHz", "seconds", ""), [
            (str(attempt.seed), "" if attempt.routed_mhz is None else f"{attempt.routed_mhz:.1f}",
             f"{attempt.seconds:.0f}",
             attempt.failed.splitlines()[0] if attempt.failed else "taken" if attempt.seed == report.seed else "")
            for attempt in report.seeds])


def show_clocks(console: Console, report: SynthesisReport) -> None:
    """Show each clock with its longest path, the limits of the device, and the slowest parts."""
    if report.usable_mhz is not None:
        against = "enough for" if report.core_meets_clock else "TOO SLOW for"
        console.say(f"  clock: routed {report.routed_mhz:.1f} MHz, usable {report.usable_mhz:.1f} MHz "
                    f"({against} the {report.clock_mhz:.6g} MHz of its source)")
        if report.pll is not None:
            console.say(f"  PLL: {report.pll['text']}")
        console.say(f"  limit of the device: {report.limit.mhz:g} MHz for {report.limit.what}; {report.limit.source}")
    for clock in report.clocks:
        if not clock.is_core and clock.routed_mhz is not None:
            against = "TOO SLOW for" if clock in report.slow_clocks else "enough for"
            title = "the clock of the way to the host" if report.of_line(clock) else clock.title
            console.say(f"  {title}: routed {clock.routed_mhz:.1f} MHz ({against} the "
                        f"{report.source_mhz(clock):g} MHz of its source)")
        if clock.path is not None:
            console.say(f"  its longest path: {clock.path}")
    if report.data_margins is not None:
        setup, hold = report.data_margins
        console.say(f"  the memory has the same clock; its data are at the pads {setup:.1f} ns before they must be, "
                    f"and {hold:.1f} ns longer than they must, at the slowest and the fastest of chip and pads")
    if report.part_delays:
        console.table("longest path into each part", ("part", "ns", "MHz", "into", "from"), [
            (delay.part, f"{delay.ns:.2f}", f"{1e3 / delay.ns:.0f}", delay.end, delay.before)
            for delay in report.part_delays[:MOST_DELAYS]])


def too_slow(report: SynthesisReport, wanted: float | str | None) -> str:
    """Why the design must not run at its clock, and the remedy; "" if it can.  `wanted` is --clock."""
    if report.meets_clock:
        return ""
    if report.core_meets_clock:
        slow = report.slow_clocks[0]
        whose = ("way to the host" if report.of_line(slow) else "memory" if slow.is_memory
                 else "board's oscillator")
        what = "weights may be wrong" if slow.is_memory else "the board may not answer"
        return (f"the clock '{slow.net}' must run at no more than the {slow.routed_mhz:.1f} MHz that the routed design "
                f"allows, not at the {report.source_mhz(slow):g} MHz of the {whose}: {what}; "
                "take another --seed, or several with --seeds")
    why = f"the {wanted:g} MHz of --clock" if isinstance(wanted, float) else "the board's oscillator"
    return (f"the core must run at no more than the {report.usable_mhz:.1f} MHz that the routed design allows, not at "
            f"{report.clock_mhz:.6g} MHz ({why}): on the board its numbers may be wrong; choose a slower clock with "
            "--clock, or leave it out for the fastest that is safe")


def line_rate(plan: Plan, board: Board) -> float:
    """Frames a second that fit through the line to the host, by the longer of both directions.

    An element takes as many bytes as it needs, and a tensor that has several readers goes over the line once.
    """
    entering = {link.source: link.elements * element_bytes(link.bits) for link in plan.links
                if not link.source.of_stage}
    leaving = [link.elements * element_bytes(link.bits) for link in plan.links if not link.sink.of_stage]
    return board.transport.bytes_per_second / max(sum(entering.values()), sum(leaving))
