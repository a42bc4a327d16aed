"""The tables and lines of the commands on tools, and what went wrong in a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwflow_base.tool_status import ToolStatus

from ..hls.plan import Plan
from ..layers.base import LayerGraph
from .console import Console

if TYPE_CHECKING:
    from hwflow_sim import RunResult

__all__ = ["failure_lines", "show_tools"]


def failure_lines(graph: LayerGraph, plan: Plan, run: RunResult) -> list[str]:
    """Where a run went wrong: the first differing stage, frame, position and both values; deadlocks; broken rules."""
    if run.equal:
        return []
    stage = run.first_different
    lines = []
    if stage is not None and stage.first_difference is not None:
        difference = stage.first_difference
        layer, frame = graph.producer(stage.tensor), graph.tensors[stage.tensor].frame
        assert layer is not None, "a boundary is made by a layer"
        row, column, channel = difference.position((frame.height, frame.width, frame.channels))
        got = "nothing" if difference.got is None else str(difference.got)
        lines.append(f"stage '{stage.name}' (layer '{layer.name}') differs first in frame {difference.frame} at row "
                     f"{row}, column {column}, channel {channel}: golden {difference.expected}, RTL {got}")
    return lines + list(run.failures())


def show_tools(console: Console, tools: Sequence[ToolStatus]) -> None:
    """One line for each tool, and how to get what is missing."""
    console.table("tools", ("tool", "for", "found", "version", "from"), [
        (tool.name, tool.purpose, "yes" if tool.found else "NO", tool.version, tool.origin) for tool in tools])
    for remedy in dict.fromkeys(tool.remedy for tool in tools if not tool.found):
        missing = ", ".join(tool.name for tool in tools if not tool.found and tool.remedy == remedy)
        console.say(f"  {missing}: {remedy}")
