"""The report of a synthesis: resources used and there, the clock that was reached, the path that limits it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwflow_base.by_value import ByValue
from hwflow_base.files.facts import plain, read_facts
from hwflow_base.files.sources import open_plain
from hwflow_base.short_repr import drawn_html, screen
from hwflow_rtl.vendor import Resources

from hwflow.hls.plan.plan import Plan

from .analysis import Untimed
from .boards import Board
from .defects import FoundDefect
from .design_parts import readable
from .families import FAMILIES, Limit
from .paths import (
    Clock,
    NextpnrReport,
    PartDelay,
    Step,
    TimingPath,
    clocks_of,
    delays_of,
    of_report,
    read_report,
    untimed_of,
)
from .seeds import Attempt

#: The file in the folder of a routed design.
REPORT = "report.json"


@dataclass(frozen=True)
class Usage:
    """Units of one resource that the routed design takes, and that the device has."""

    used: int
    available: int

    def __str__(self) -> str:
        return f"{self.used} of {self.available}"


@dataclass(frozen=True, eq=False)
class PllFacts(ByValue):
    """A PLL of a routed design: in words, its primitive, clocks in MHz, and the primitive's parameters."""

    text: str = ""
    primitive: str = ""
    input_mhz: float = 0.0
    vco_mhz: float = 0.0
    parameters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class RoutedFacts(ByValue):
    """Facts out of nextpnr's report: what the design takes of its device, and its timing.

    `routed_mhz` is what all paths allow of the clock of the stages, those that nextpnr does not time included
    (`untimed` says which pins those are, and whether a figure of hwflow's stands in); `usable_mhz` is the same under
    the device's limits (`limit` says which one is the lowest, and its source). Both are None for a design without a
    path from register to register.  `clocks` are all clocks with their longest paths, that of the stages first;
    `part_delays` the longest path into each part of the design, the slowest first.
    """

    lut: Usage
    ff: Usage
    dsp: Usage
    ram: Usage
    spram: Usage = Usage(0, 0)
    routed_mhz: float | None
    usable_mhz: float | None
    limit: Limit
    critical_path: str
    clocks: tuple[Clock, ...] = ()
    part_delays: tuple[PartDelay, ...] = ()
    untimed: tuple[Untimed, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class BoardClocks(ByValue):
    """The clocks of a design on its board.

    `clock_mhz` is what drives the stages, made by `pll`, or the oscillator where that is None: the figure to compute
    frame rates from.  `memory_mhz` is the clock of a memory beside the FPGA, None where none has a clock of its own.
    `data_margins`, ns: how long before they must be, and how much longer after it than they must, data of a memory with
    the core's clock are at the pads that take them, at the slowest and at the fastest of its chip and of the pads; None
    without such a memory.  `line_clock` is the port and the MHz of the clock that the transport brings, None where it
    has none; `board_mhz`, the oscillator, drives all other clocks.
    """

    board_mhz: float
    clock_mhz: float
    pll: PllFacts | None = None
    memory_mhz: float | None = None
    data_margins: tuple[float, float] | None = None
    line_clock: tuple[str, float] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ToolRuns(ByValue):
    """The runs of the tools: `seed` is the one of `seeds` that was taken, `options` are the words that yosys and
    nextpnr were run with, `defects` the known ones of these tools that the routed design is touched by."""

    seed: int
    seeds: tuple[Attempt, ...] = ()
    tools: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    defects: tuple[FoundDefect, ...] = ()
    logs: Mapping[str, Path]
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class SynthesisReport(RoutedFacts, BoardClocks, ToolRuns):
    """A design with its bitstream for a board; `parts` has what each part of it takes."""

    board: str
    device: str
    bitstream: Path
    parts: Mapping[str, Resources] = field(default_factory=dict)

    _repr_html_ = drawn_html

    def __repr__(self) -> str:
        need = ", ".join(f"{name} {getattr(self, name)}" for name in ("lut", "ff", "dsp", "ram", "spram"))
        mhz = "no paths" if self.usable_mhz is None else f"{self.usable_mhz:.1f} MHz usable"
        fine = "meets its clocks" if self.meets_clock else "does not meet its clocks"
        slow = [f"longest path into {delay.part}: {delay.ns:.2f} ns" for delay in self.part_delays]
        return screen(f"SynthesisReport for {self.board} ({self.device}): {self.clock_mhz:g} MHz, {mhz}, {fine}",
                      [f"resources: {need}", f"limited by: {self.critical_path}", f"seed {self.seed} of "
                       f"{len(self.seeds) or 1}, {sum(self.seconds.values()):.0f} s", f"bitstream: {self.bitstream}",
                       *slow])

    @property
    def meets_clock(self) -> bool:
        """Whether every clock that drives it is slow enough for this design."""
        return self.core_meets_clock and not self.slow_clocks

    @property
    def core_meets_clock(self) -> bool:
        return self.usable_mhz is None or self.usable_mhz >= self.clock_mhz

    @property
    def missing(self) -> tuple[Untimed, ...]:
        """The pins of which neither nextpnr nor hwflow knows a time: paths through them are in no clock here."""
        return tuple(pins for pins in self.untimed if not pins.bounded)

    @property
    def slow_clocks(self) -> tuple[Clock, ...]:
        """The clocks beside the core's whose paths are too long for what drives them."""
        return tuple(clock for clock in self.clocks if not clock.is_core and clock.routed_mhz is not None
                     and clock.routed_mhz < self.source_mhz(clock))

    def source_mhz(self, clock: Clock) -> float:
        """The MHz that drive a clock that is not the core's: the oscillator, the transport, or the PLL of a memory."""
        if self.of_line(clock):
            assert self.line_clock is not None
            return self.line_clock[1]
        return self.memory_mhz if self.memory_mhz is not None and clock.is_memory else self.board_mhz

    def of_line(self, clock: Clock) -> bool:
        """Whether the transport brings it."""
        return self.line_clock is not None and re.search(rf"\b{self.line_clock[0]}\b", clock.net.replace("$", " ")
                                                         ) is not None

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON; `saved_report` reads it."""
        clocks = [plain(clock) | {"path": clock.path and clock.path.to_dict()} for clock in self.clocks]
        parts = {part: used.counts() for part, used in self.parts.items()}
        bare: dict[str, object] = plain(replace(self, parts={}))
        return bare | {"meets_clock": self.meets_clock, "clocks": clocks, "parts": parts}


def saved_report(folder: Path) -> SynthesisReport | None:
    """The report that `synthesize` wrote into `folder`; None where there is nothing, or where it is another file or a
    damaged one."""
    try:
        with open_plain(folder / REPORT) as file:
            return read_facts(file.read(), SynthesisReport)
    except (OSError, ValueError):
        return None


def read_nextpnr_report(path: Path, board: Board, *, flip_flops: int, plan: Plan | None = None) -> RoutedFacts:
    """The facts in nextpnr's JSON report, as it is or `shortened`.

    `flip_flops` is the count in the netlist, for iCE40 whose report has only logic cells.  HwflowError where the file
    is no such report.
    """
    content = read_report(path)
    with of_report(path):
        return routed_facts_of(content, board, flip_flops, plan)


def routed_facts_of(content: NextpnrReport, board: Board, flip_flops: int, plan: Plan | None) -> RoutedFacts:
    family, utilization = FAMILIES[board.family], content["utilization"]

    def used(cells: Mapping[str, int]) -> int:
        return sum(utilization.get(cell, {"used": 0})["used"] * units for cell, units in cells.items())

    usage = {resource: Usage(used(cells) if cells else flip_flops, getattr(board.resources, resource))
             for resource, cells in family.routed_cells.resources().items()}
    clocks = clocks_of(content, plan)
    core = clocks[0] if clocks else None
    limit = family.binding_limit(alu=used(dict.fromkeys(family.routed_cells.alu, 1)),
                                 **{name: usage[name].used for name in ("dsp", "ram", "spram") if name in usage})
    routed = core.routed_mhz if core else None
    return RoutedFacts(
        **usage, routed_mhz=routed, usable_mhz=None if routed is None else min(routed, limit.mhz), limit=limit,
        clocks=clocks, critical_path=path_text(core.path) if core and core.path else "",
        part_delays=delays_of(content, plan), untimed=untimed_of(content))


def path_text(path: TimingPath) -> str:
    """The slowest path between registers: its time in logic and in wires, and the cells it goes through."""
    first = f"{path.logic_ns + path.wires_ns:.2f} ns, {path.logic_ns:.2f} in logic and {path.wires_ns:.2f} in wires"
    rows = [f"  {step.wire_ns:5.2f} wire {step.logic_ns:5.2f} {step.kind:8}  {cell_text(step)}" for step in path.steps]
    return "\n".join([first, *rows])


def cell_text(step: Step) -> str:
    """A cell by its signal, a carry chain by its two ends."""
    return readable(step.cell) if step.last == step.cell else f"{readable(step.cell)} to {readable(step.last)}"
