"""The text about a synthesized design: planned against used, clocks, what limits them, frames a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwflow_base.printable import number, percent, rate_text
from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.vendor import Resources

from hwflow.hls.plan.outside_memory import reading_cost, telling_cost
from hwflow.hls.plan.plan import Plan
from hwflow.hls.schedule.links import links_cost

from ...facts.clock import CoreClock
from ...host.rate import rate_of
from ...synth import Board, SynthesisReport, ends_of
from ...synth.design_parts import LINKS, MEMORY, title_of
from .plan import WORDS, show_rate
from .terminal import Console

#: Parts of the design whose longest path is shown; --json has all.
MOST_DELAYS = 8


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
    around = sum((each for part, each in used.items() if not part.startswith("stage") and part not in (LINKS, MEMORY)),
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
    found = {"arriving": rate.frames_per_second, "limit": rate.limit.value, "clock": rate.core, "line": rate.line}
    if report.usable_mhz is not None:
        found["usable_clock"] = rate_of(plan, report.usable_mhz).core
    return found


def show_synthesis(console: Console, plan: Plan, board: Board, report: SynthesisReport) -> None:
    """Say what arrives, the clock, and what the design takes of the device; with --verbose also by part, and why."""
    clock = CoreClock(report.clock_mhz, "of the oscillator" if report.pll is None else "of the PLL", True)
    show_rate(console, plan, board, clock)
    show_clocks(console, report)
    usages = {"lut": report.lut, "ff": report.ff, "dsp": report.dsp, "ram": report.ram}
    usages |= {"spram": report.spram} if report.spram.available else {}
    planned = planned_in_all(plan, board).counts()
    rows = [(f"{WORDS[name.upper()]} ({name.upper()})", number(planned[name]), number(usage.used),
             number(usage.available), percent(usage.used / usage.available if usage.available else 0.0))
            for name, usage in usages.items()]
    head = ("resource", "planned", "used", "available", "share")
    console.table(f"what the design takes of {board.name}", head, rows)
    if console.verbose:
        show_parts(console, planned_and_used(plan, board, report), list(usages))
        show_details(console, plan, report)
    console.say(f"  bitstream: {report.bitstream}")


def show_parts(console: Console, parts: Sequence[tuple[str, Resources, Resources]], names: Sequence[str]) -> None:
    """A table of the parts of the design, planned and used."""
    console.table("planned and used", (
        "part", *(text for name in names for text in (f"{name.upper()} planned", "used"))), [
            (title, *(text for name in names for text in (number(getattr(need, name)), number(getattr(used, name)))))
            for title, need, used in parts])


def show_details(console: Console, plan: Plan, report: SynthesisReport) -> None:
    """Say what --verbose adds: the runs of place and route, the longest paths, the tools and their time."""
    show_seeds(console, report)
    show_paths(console, report)
    if report.usable_mhz is not None:
        console.say(f"  {rate_text(rate_of(plan, report.usable_mhz).core)} frames/s of the FPGA alone at "
                    f"{report.usable_mhz:.1f} MHz, the highest clock that place and route allows")
    console.say(f"  tools: {', '.join(report.tools.values())}")
    console.say("  time: " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in report.seconds.items()))


def show_seeds(console: Console, report: SynthesisReport) -> None:
    """The result of each seed, if there are several."""
    if len(report.seeds) > 1:
        console.table("seeds", ("seed", "MHz", "seconds", ""), [
            (str(attempt.seed), "" if attempt.routed_mhz is None else f"{attempt.routed_mhz:.1f}",
             f"{attempt.seconds:.0f}",
             attempt.failed.splitlines()[0] if attempt.failed else "taken" if attempt.seed == report.seed else "")
            for attempt in report.seeds])


def show_clocks(console: Console, report: SynthesisReport) -> None:
    """Show the clock of the design beside the highest that is safe; others where they are too fast, or --verbose."""
    if report.usable_mhz is not None:
        against = "" if report.core_meets_clock else ": TOO FAST"
        console.say(f"  clock of the design: {report.clock_mhz:.6g} MHz; up to {report.usable_mhz:.1f} MHz would be "
                    f"safe{against}")
    for clock in report.clocks:
        if not clock.is_core and clock.routed_mhz is not None and (console.verbose or clock in report.slow_clocks):
            against = ": TOO FAST" if clock in report.slow_clocks else ""
            title = "clock of the way to the host" if report.of_line(clock) else clock.title
            console.say(f"  {title}: {report.source_mhz(clock):g} MHz; up to {clock.routed_mhz:.1f} MHz would be "
                        f"safe{against}")


def show_paths(console: Console, report: SynthesisReport) -> None:
    """Show what limits each clock: its longest path, the limits of the device, and the slowest parts."""
    if report.usable_mhz is not None:
        console.say(f"  place and route reached {report.routed_mhz:.1f} MHz; limit of the device: "
                    f"{report.limit.mhz:g} MHz for {report.limit.what}; {report.limit.source}")
        if report.pll is not None:
            console.say(f"  PLL: {report.pll.text}")
    for clock in report.clocks:
        if clock.path is not None:
            console.say(f"  longest path of the clock '{clock.net}': {clock.path}")
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
