"""The tables and facts of the commands: plan, simulation, synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hwflow_rtl.io.board_top import BoardTop

from ..hls.plan import Plan, StagePlan
from ..layers.base import LayerGraph
from ..synth import Board, SynthesisReport, ToolStatus
from .console import Console

if TYPE_CHECKING:
    from hwflow_sim import RunResult

__all__ = ["failure_lines", "number", "plan_facts", "show_plan", "show_simulation", "show_synthesis",
           "show_tools", "simulation_facts"]


def number(value: int) -> str:
    """12345 as "12 345"."""
    return f"{value:,}".replace(",", " ")


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def folding_text(stage: StagePlan) -> str:
    if stage.schedule.multipliers:
        return f"{stage.folding.rows} x {stage.folding.cols}"
    return f"{stage.folding.cols} lanes" if stage.folding.cols > 1 else "1 lane"


def show_plan(console: Console, plan: Plan, board: Board) -> None:
    """The stages with their foldings, cycles and resources, then the whole against the board."""
    rows = []
    for stage in plan.stages:
        r = stage.resources
        rows.append((stage.name, stage.kind, folding_text(stage), number(stage.schedule.interval),
                     percent(stage.multiplier_use(plan.interval)), number(r.lut), number(r.ff), number(r.dsp),
                     number(r.ram)))
    console.table(f"plan for {board.name}", ("stage", "layer", "rows x cols", "cycles", "multiplier use", "LUT", "FF",
                                             "DSP", "RAM"), rows)
    for name, need, have in resource_rows(plan, board):
        console.say(f"  {name}: {number(need)} of {number(have)} ({percent(need / have if have else 0.0)})")
    rate = board.clock_mhz * 1e6 / plan.interval
    console.say(f"  interval {number(plan.interval)} cycles = {rate:,.0f} frames/s at {board.clock_mhz:g} MHz, the "
                f"clock of {board.name}; multiplier use {percent(plan.multiplier_use)}")


def resource_rows(plan: Plan, board: Board) -> list[tuple[str, int, int]]:
    need, have = asdict(plan.resources), asdict(board.resources)
    return [(name.upper(), need[name], have[name]) for name in need]


def plan_facts(plan: Plan, board: Board) -> dict[str, Any]:
    return {
        "board": board.name, "interval": plan.interval, "multipliers": plan.multipliers,
        "multiplier_use": plan.multiplier_use, "resources": asdict(plan.resources),
        "stages": [{"stage": s.name, "layer": s.layer, "kind": s.kind, **asdict(s.folding),
                    "work": s.schedule.work, "interval": s.schedule.interval,
                    "multiplier_use": s.multiplier_use(plan.interval), "resources": asdict(s.resources)}
                   for s in plan.stages]}


def show_simulation(console: Console, plan: Plan, board: Board, runs: Mapping[str, RunResult]) -> None:
    """A row per stage: predicted and simulated cycles of the run at full speed, and equality in every run."""
    full = next(iter(runs.values()))
    frames = max(len(full.frame_done_cycles), 1)
    rows = []
    for k, stage in enumerate(plan.stages):
        results = [run.stages[k] for run in runs.values()]
        rows.append((
            stage.name, stage.kind, folding_text(stage), number(stage.schedule.work),
            number(results[0].busy_cycles // frames), percent(stage.multiplier_use(plan.interval)),
            *("equal" if result.equal else "DIFFERENT" for result in results)))
    console.table("simulation", ("stage", "layer", "rows x cols", "cycles predicted", "simulated", "multiplier use",
                                 *runs), rows)
    interval = full.interval
    console.say(f"  interval between frames: predicted {number(plan.interval)}, simulated "
                f"{number(interval) if interval else 'none'} cycles; first output after "
                f"{number(full.first_output_cycle or 0)} cycles")
    if interval:
        console.say(f"  {board.clock_mhz * 1e6 / interval:,.0f} frames/s at {board.clock_mhz:g} MHz, the clock of "
                    f"{board.name}; multiplier use of the whole design {percent(plan.multiplier_use)}")


def simulation_facts(plan: Plan, board: Board, runs: Mapping[str, RunResult]) -> dict[str, Any]:
    facts = plan_facts(plan, board)
    for name, run in runs.items():
        frames = max(len(run.frame_done_cycles), 1)
        facts[name] = {
            "equal": run.equal, "interval": run.interval, "first_output_cycle": run.first_output_cycle,
            "cycles": run.cycles, "failures": list(run.failures()),
            "stages": [{"stage": s.name, "equal": s.equal, "busy_cycles_per_frame": s.busy_cycles / frames}
                       for s in run.stages]}
    return facts


def failure_lines(graph: LayerGraph, plan: Plan, run: RunResult) -> list[str]:
    """Where a run went wrong: the first differing stage, frame, position and both values; deadlocks; broken rules."""
    if run.equal:
        return []
    stage = run.first_different
    lines = []
    if stage is not None and stage.first_difference is not None:
        difference = stage.first_difference
        layer = graph.layers[[s.name for s in plan.stages].index(stage.name)]
        frame = graph.tensors[layer.output].frame
        row, column, channel = difference.position((frame.height, frame.width, frame.channels))
        got = "nothing" if difference.got is None else str(difference.got)
        lines.append(f"stage '{stage.name}' (layer '{layer.name}') differs first in frame {difference.frame} at row "
                     f"{row}, column {column}, channel {channel}: golden {difference.expected}, RTL {got}")
    return lines + list(run.failures())


def show_synthesis(console: Console, plan: Plan, board: Board, report: SynthesisReport) -> None:
    """Resources planned (serial line included), used and available, the routed clock, and what it makes of frames."""
    planned = asdict(plan.resources + BoardTop.cost(board.technology()))
    rows = [(name.upper(), number(planned[name]), number(usage.used), number(usage.available),
             percent(usage.used / usage.available if usage.available else 0.0))
            for name, usage in (("lut", report.lut), ("ff", report.ff), ("dsp", report.dsp), ("ram", report.ram))]
    console.table(f"routed for {board.name}", ("resource", "plan", "used", "available", "share"), rows)
    if report.usable_mhz is not None:
        against = "enough for" if report.meets_clock else "TOO SLOW for"
        console.say(f"  clock: routed {report.routed_mhz:.1f} MHz, usable {report.usable_mhz:.1f} MHz "
                    f"({against} the board's {report.clock_mhz:g} MHz)")
        for text, mhz in ((f"at {board.clock_mhz:g} MHz, the clock of {board.name}", board.clock_mhz),
                          (f"at {report.usable_mhz:.1f} MHz", report.usable_mhz)):
            console.say(f"  {mhz * 1e6 / plan.interval:,.0f} frames/s {text}")
    console.say(f"  the serial line ({board.baud} baud) carries {line_rate(plan, board):,.0f} frames/s")
    console.say(f"  bitstream: {report.bitstream}")


def line_rate(plan: Plan, board: Board) -> float:
    """Frames a second that fit through the serial line: ten bits a byte, the longer of both directions."""
    return board.baud / 10 / max(plan.input_elements, plan.stages[-1].output_elements)


def show_tools(console: Console, tools: Sequence[ToolStatus]) -> None:
    """One line for each tool, and how to get what is missing."""
    console.table("tools", ("tool", "for", "found", "version", "from"), [
        (tool.name, tool.purpose, "yes" if tool.found else "NO", tool.version, tool.origin) for tool in tools])
    for remedy in dict.fromkeys(tool.remedy for tool in tools if not tool.found):
        missing = ", ".join(tool.name for tool in tools if not tool.found and tool.remedy == remedy)
        console.say(f"  {missing}: {remedy}")
