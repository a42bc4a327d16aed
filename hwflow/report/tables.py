"""The tables and lines of the commands on synthesis, tools, and what went wrong in a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from hwflow_rtl.io.board_top import BoardTop

from ..hls.plan import Plan
from ..layers.base import LayerGraph
from ..synth import Board, SynthesisReport, ToolStatus, ends_of
from .console import Console
from .numbers import number, percent

if TYPE_CHECKING:
    from hwflow_sim import RunResult

__all__ = ["failure_lines", "line_rate", "show_synthesis", "show_tools"]


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
    planned = asdict(plan.resources + BoardTop.cost(board.technology(), ends_of(plan)))
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
    """Frames a second that fit through the serial line: ten bits a byte, the longer of both directions.

    An element takes as many bytes as it needs, and a tensor that has several readers goes over the line once.
    """
    entering = {link.source: link.elements * -(-link.bits // 8) for link in plan.links if link.source < 0}
    leaving = [link.elements * -(-link.bits // 8) for link in plan.links if link.sink < 0]
    return board.baud / 10 / max(sum(entering.values()), sum(leaving))


def show_tools(console: Console, tools: Sequence[ToolStatus]) -> None:
    """One line for each tool, and how to get what is missing."""
    console.table("tools", ("tool", "for", "found", "version", "from"), [
        (tool.name, tool.purpose, "yes" if tool.found else "NO", tool.version, tool.origin) for tool in tools])
    for remedy in dict.fromkeys(tool.remedy for tool in tools if not tool.found):
        missing = ", ".join(tool.name for tool in tools if not tool.found and tool.remedy == remedy)
        console.say(f"  {missing}: {remedy}")
