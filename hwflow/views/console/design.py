"""The text about a synthesized design: planned against used, clocks, what limits them, frames a second."""

from __future__ import annotations

from collections.abc import Sequence

from hwflow_base.printable import counted, number, percent, rate_text
from hwflow_rtl.vendor import Resources

from hwflow.hls.plan.plan import Plan

from ...facts.design import planned_and_used, planned_in_all
from ...facts.plan import CoreClock
from ...host.rate import rate_of
from ...synth import Board, SynthesisReport
from .plan import WORDS, show_rate
from .terminal import Console

#: Parts of the design whose longest path is shown; --json has all.
MOST_DELAYS = 8


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
    for pins in report.missing:
        console.say(f"  NOT in these clocks: paths to {pins.ends} and from {pins.starts} pins of {pins.kind}: "
                    f"{pins.lacks}")
    for found in report.defects:
        console.say(f"  {found.state}: a known defect of the tools in {counted(found.cells, 'cell')} ({found.key}, "
                    f"{' '.join(found.threads) or 'no thread'}): {found.breaks}; {found.cure}")
    for clock in report.clocks:
        if not clock.is_core and clock.routed_mhz is not None and (console.verbose or clock in report.slow_clocks):
            against = ": TOO FAST" if clock in report.slow_clocks else ""
            title = "clock of the way to the host" if report.of_line(clock) else clock.title
            console.say(f"  {title}: {report.source_mhz(clock):g} MHz; up to {clock.routed_mhz:.1f} MHz would be "
                        f"safe{against}")


def show_paths(console: Console, report: SynthesisReport) -> None:
    """Show what limits each clock: its longest path, the limits of the device, and the slowest parts."""
    if report.usable_mhz is not None:
        console.say(f"  all paths allow {report.routed_mhz:.1f} MHz{nextpnr_says(report)}; limit of the device: "
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
    if report.untimed:
        head = ("cells", "nextpnr has", "ends of paths", "starts", "in the clocks above")
        console.table("what nextpnr does not time", head, [
            (pins.kind, pins.lacks, number(pins.ends), number(pins.starts),
             "by hwflow's figure" if pins.bounded else "NO") for pins in report.untimed])
    if report.part_delays:
        console.table("longest path into each part", ("part", "ns", "MHz", "into", "from"), [
            (delay.part, f"{delay.ns:.2f}", f"{1e3 / delay.ns:.0f}", delay.end, delay.before)
            for delay in report.part_delays[:MOST_DELAYS]])


def nextpnr_says(report: SynthesisReport) -> str:
    """nextpnr's own figure of the clock of the stages, where that is another one."""
    core = next((clock for clock in report.clocks if clock.is_core), None)
    if core is None or core.nextpnr_mhz in (None, core.routed_mhz):
        return ""
    figure = ", a cautious figure of hwflow's among them" if core.ours else ""
    return f" (nextpnr, which does not time all of them, says {core.nextpnr_mhz:.1f}{figure})"


def too_slow(report: SynthesisReport, asked_mhz: float | str | None) -> str:
    """Why the design must not run at its clock, and the remedy; "" if it can.  `asked_mhz` is --clock."""
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
    why = f"the {asked_mhz:g} MHz of --clock" if isinstance(asked_mhz, float) else "the board's oscillator"
    return (f"the core must run at no more than the {report.usable_mhz:.1f} MHz that the routed design allows, not at "
            f"{report.clock_mhz:.6g} MHz ({why}): on the board its numbers may be wrong; choose a slower clock with "
            "--clock, or leave it out for the fastest that is safe")
