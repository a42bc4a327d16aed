"""The lines of a run, on a board or simulated: equal or not, how fast, what the line lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hwflow_base.printable import number, rate_text
from hwflow_base.tool_status import ToolStatus

from hwflow.hls.plan.plan import Plan

from ...accuracy import Accuracy
from ...host import Statistics
from ...host.identity import DesignFacts, TransportFacts
from ...host.line_rate import rates_of
from ...host.rate import Rate, rate_of_design
from ...host.stream import Throughput
from ...layers.base import LayerGraph
from ...layers.formats import IntArray
from ...synth.defects import ToolDefect
from .accuracy import say_accuracy
from .terminal import Console

if TYPE_CHECKING:
    from hwflow_sim import RunResult

@dataclass(frozen=True)
class OutputDifference:
    """An output whose elements are not all those of the golden model: how many, in how many frames, and the first."""

    output: str
    elements: int
    frames: int
    frame: int
    row: int
    column: int
    channel: int
    golden: int
    board: int

    def __str__(self) -> str:
        return (f"output '{self.output}' differs in {number(self.elements)} elements of {number(self.frames)} frames, "
                f"first in frame {self.frame} at row {self.row}, column {self.column}, channel {self.channel}: golden "
                f"{self.golden}, board {self.board}")


def differences(graph: LayerGraph, golden: Mapping[str, IntArray], board: Mapping[str, IntArray]
                ) -> tuple[OutputDifference, ...]:
    """The outputs of `graph` that are not equal."""
    differing = []
    for name in dict.fromkeys(graph.outputs):
        places = np.argwhere(golden[name] != board[name])
        if len(places):
            frame, row, column, channel = map(int, places[0])
            first = (frame, row, column, channel)
            differing.append(OutputDifference(name, len(places), len(np.unique(places[:, 0])), *first,
                                              int(golden[name][first]), int(board[name][first])))
    return tuple(differing)


@dataclass(frozen=True)
class BoardRun:
    """The rows of a file on the board at `port`.

    `filled`: the weights of the design were sent into the memory beside the FPGA first.  `simulated`: the board is, and
    the seconds of `throughput` are its own.
    """

    design: DesignFacts
    port: str
    transport: TransportFacts
    throughput: Throughput
    statistics: Statistics
    differences: tuple[OutputDifference, ...]
    accuracy: Accuracy | None
    filled: bool = False
    simulated: bool = False

    @property
    def equal(self) -> bool:
        return not self.differences

    @property
    def rate(self) -> float:
        """Frames a second, the line included."""
        return self.throughput.rate

    @property
    def rows(self) -> int:
        return self.throughput.frames

    @property
    def alone(self) -> Rate:
        """The pace of the FPGA and of the line, each alone."""
        return rate_of_design(self.design, self.transport.bytes_per_second)

    @property
    def line_rate(self) -> float:
        """Frames a second whose bytes the line can carry, by the longer of both directions."""
        return self.alone.line

    @property
    def core_rate(self) -> float:
        """Frames a second that the core computes where data never wait."""
        return self.alone.core

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        weights = self.design.weights
        return {
            "equal": self.equal, "rows": self.rows, "model": self.design.model, "board": self.design.board,
            "design": self.design.identity.hex(), "port": self.port,
            "transport": self.transport.facts(), "simulated": self.simulated,
            "seconds": self.throughput.seconds, "shares": self.throughput.shares(),
            "frames_per_second": self.rate, "line_frames_per_second": self.line_rate,
            "core_frames_per_second": self.core_rate, "link": self.statistics.facts(),
            "differences": [vars(difference) for difference in self.differences],
            "accuracy": self.accuracy.facts() if self.accuracy else None,
            "weights": weights and {**weights.facts(), "sent": self.filled},
        }  # fmt: skip


def say_weights(console: Console, folder: Path) -> None:
    """Where the weights outside of the FPGA are of the design in `folder`, and how they get to the board."""
    weights = DesignFacts.read(folder).weights
    if weights is not None:
        how = "`hwflow program --weights` writes them into its flash, once" if weights.in_flash else (
            "`hwflow run` sends them")
        console.say(f"  weights outside of the FPGA: {number(weights.size)} bytes, {folder / weights.file}; {how}")


def show_run(console: Console, run: BoardRun) -> None:
    """The result for people; differences are failures."""
    design, link = run.design, run.statistics
    console.say(f"{design.model} on {design.board}, {run.port} at {run.transport}, design {design.identity.hex()}")
    console.say(f"  {rate_text(run.rate)} frames/s measured, from the host and back; the line carries at most "
                f"{rate_text(run.line_rate)} frames/s, the FPGA alone computes {rate_text(run.core_rate)} at "
                f"{design.clock_mhz:g} MHz")
    highest = next(iter(rates_of(design.transport.options)), 0)
    if (baud := int(run.transport.options.get("baud", highest))) < highest:
        console.say(f"  the board could have {highest} baud: this line has no bit rate of its own, was held at {baud} "
                    "by --baud, or lost packets above it")
    if design.weights is not None:
        what = "sent into" if run.filled else "already in"
        where = "flash of the board" if design.weights.in_flash else "memory beside the FPGA"
        console.say(f"  weights: {number(design.weights.size)} bytes, {what} the {where}")
    say_accuracy(console, run.accuracy)
    console.say(f"  link: {number(link.packets_sent)} packets sent, {number(link.resent)} of them again; "
                f"{number(link.packets_received)} received, {number(link.repeated)} of them again; "
                f"{number(link.dropped)} dropped")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in run.throughput.shares().items())
    console.say(f"  shares of the time, side by side: {shares}" + (
        "; a simulated board stands still while the host computes" if run.simulated else ""))
    for difference in run.differences:
        console.fail(str(difference))
    if run.equal:
        outputs = f"{number(run.rows)} frame{'s' if run.rows != 1 else ''}"
        console.say(f"equal: {outputs}, every output of the board is that of the golden model, bit for bit")


# The tables and lines of the commands on tools, and what went wrong in a simulation.


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


def show_defects(console: Console, defects: Sequence[ToolDefect]) -> None:
    """Known defects of the installed tools with what hwflow does about each, and those that these versions are without.
    """
    present = [found for found in defects if found.present]
    if present:
        console.say("known defects of these tools, and what hwflow does about them:")
    for found in present:
        threads = f" ({', '.join(found.threads)})" if found.threads else ""
        console.say(f"  {found.key}, {found.program}{threads}: {found.breaks}. {found.state.capitalize()}: "
                    f"{found.cure}.")
    gone = ", ".join(f"{found.key} ({found.program} {found.fixed})" for found in defects if not found.present)
    if gone:
        console.say(f"  gone, the installed versions have them no more: {gone}")


def show_tools(console: Console, tools: Sequence[ToolStatus]) -> None:
    """One line for each tool, and how to get what is missing."""
    console.table("tools", ("tool", "for", "found", "version", "from"), [
        (tool.name, tool.purpose, "yes" if tool.found else "NO", tool.version, tool.origin) for tool in tools])
    for remedy in dict.fromkeys(tool.remedy for tool in tools if not tool.found):
        missing = ", ".join(tool.name for tool in tools if not tool.found and tool.remedy == remedy)
        console.say(f"  {missing}: {remedy}")
