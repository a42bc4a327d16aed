"""The longest paths of a routed design, those through cells that nextpnr does not time included.

nextpnr leaves out pins of which it knows no time, and says nothing: the paths that end there are in no clock.  Here
every pin that a wire leads to is an end of a path, or is known to be none.  The delays of wires are nextpnr's; where it
has no time of a cell, or an invented one, the family's cautious figures stand in.  In: the delays that nextpnr wrote of
a routed design.  Out: which ends and starts it left out, and the longest path to each clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .delays import CellDelays, Delays, Pin
from .families.cell_times import CellTimes, Figure, KindTimes

#: What nextpnr has of a pin in place of its time; of the last two hwflow has no figure, either.
NOTHING, INVENTED = "no timing", "an invented figure"
UNKNOWN, LOOP = "no timing, and hwflow has no figure", "a loop without a register"


@dataclass(frozen=True)
class Untimed:
    """Pins of a kind of cell that nextpnr does not time: `ends` of paths and `starts` of them.

    `lacks` says what it has instead; `bounded` whether a figure of hwflow's stands in.
    """

    kind: str
    lacks: str
    ends: int
    starts: int
    bounded: bool


@dataclass(frozen=True)
class Edge:
    """A clock by the pin that drives it, and which of its edges."""

    clock: Pin
    falling: bool


@dataclass(frozen=True)
class Timed:
    """A pin where paths start or end: `ps` after or before an edge.  `ours` where the figure is hwflow's."""

    pin: Pin
    edge: Edge
    ps: float
    ours: bool


@dataclass(frozen=True)
class Step:
    """A part of a path, ps; `kind` is nextpnr's word: "clk-to-q", "routing", "logic" or "setup"."""

    kind: str
    start: Pin
    end: Pin
    ps: float


@dataclass(frozen=True)
class LongestPath:
    """The path that needs the longest period of a clock, `ps`: twice the path where it has half of it alone.

    `ours` says whether a figure of hwflow's is in it.
    """

    ps: float
    steps: tuple[Step, ...]
    ours: bool


class Arrival(NamedTuple):
    """The longest way from an edge to the pin `pin`, ps; `before` is the pin before it on that way."""

    pin: Pin
    ps: float
    before: Pin | None
    ours: bool


@dataclass
class Arcs:
    """A design as arcs: what leads from pin to pin (True for a wire), and where paths start and end.

    `lacking` counts pins by their kind of cell, what nextpnr has of them, and the side.
    """

    onwards: dict[Pin, list[tuple[Pin, float, bool]]] = field(default_factory=lambda: defaultdict(list))
    starts: list[Timed] = field(default_factory=list)
    ends: list[Timed] = field(default_factory=list)
    lacking: Counter[tuple[str, str, str]] = field(default_factory=Counter)


@dataclass(frozen=True)
class Analysis:
    """What nextpnr does not time; of each clock, by the pin that drives it, the longest path; the clock of each pin
    where paths start; and the longest way to each end."""

    untimed: tuple[Untimed, ...]
    longest: Mapping[Pin, LongestPath]
    clocks: Mapping[Pin, Pin]
    arrivals: tuple[tuple[Timed, Arrival], ...]


def analysis_of(delays: Delays, times: CellTimes) -> Analysis:
    """The paths of a routed design."""
    arcs = arcs_of(delays, times)
    order, looped = in_order(arcs)
    for pin in looped:
        arcs.lacking[delays.cells[pin[0]].kind, LOOP, "end"] += 1
    longest: dict[Pin, LongestPath] = {}
    reached: list[tuple[Timed, Arrival]] = []
    for edge in sorted({start.edge for start in arcs.starts}, key=lambda edge: (edge.clock, edge.falling)):
        arrivals = arrivals_of(arcs, order, edge)
        ends = [end for end in arcs.ends if end.edge.clock == edge.clock and end.pin in arrivals]
        reached += [(end, arrivals[end.pin]) for end in ends if end.edge == edge]
        for end in ends:
            need = (arrivals[end.pin].ps + end.ps) * (1 if end.edge == edge else 2)
            if edge.clock not in longest or need > longest[edge.clock].ps:
                longest[edge.clock] = LongestPath(need, (), end.ours or arrivals[end.pin].ours)
                last = end
        if ends and longest[edge.clock].steps == ():
            found = longest[edge.clock]
            longest[edge.clock] = LongestPath(found.ps, steps_to(last, arrivals, delays), found.ours)
    return Analysis(untimed_of(arcs), longest, {start.pin: start.edge.clock for start in arcs.starts}, tuple(reached))


def untimed_of(arcs: Arcs) -> tuple[Untimed, ...]:
    kinds = sorted({(kind, lacks) for (kind, lacks, _), count in arcs.lacking.items() if count})
    return tuple(Untimed(kind, lacks, arcs.lacking[kind, lacks, "end"], arcs.lacking[kind, lacks, "start"],
                         lacks not in (UNKNOWN, LOOP)) for kind, lacks in kinds)


def arcs_of(delays: Delays, times: CellTimes) -> Arcs:
    """What nextpnr knows of a design, and the family's figures where it knows less."""
    arcs, builder = Arcs(), _Builder(delays, times)
    for end, (start, ps) in delays.wires.items():
        arcs.onwards[start].append((end, ps, True))
    for name, cell in delays.cells.items():
        builder.add_known(arcs, name, cell)
    for pin, side in list(builder.living()):
        builder.add_unknown(arcs, pin, side)
    return arcs


class _Builder:
    def __init__(self, delays: Delays, times: CellTimes) -> None:
        self.delays, self.times = delays, times
        self.known: set[Pin] = set()
        self.inputs: dict[str, list[str]] = defaultdict(list)
        for cell, pin in delays.wires:
            self.inputs[cell].append(pin)
        self.constant: dict[str, bool] = {}
        self.slowest: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)

    def row(self, cell: str) -> KindTimes:
        kind = self.delays.cells[cell].kind
        return self.times.of(kind) or KindTimes(kind, "")

    def is_constant(self, start: Pin) -> bool:
        """Whether a pin drives a value that never changes: nextpnr knows no time of it, nothing that changes leads to
        its cell, and it is no pad or such."""
        row = self.row(start[0])
        if start in self.known or row.is_aside(start[1]) or row.out_of(start[1]) is not None:
            return False
        if start[0] not in self.constant:
            self.constant[start[0]] = False  # for cells in loops
            self.constant[start[0]] = all(self.is_constant(self.delays.wires[start[0], pin][0])
                                          for pin in self.inputs[start[0]])
        return self.constant[start[0]]

    def living(self) -> Iterator[tuple[Pin, str]]:
        """Both ends of each wire whose value changes."""
        seen = set()
        for end, (start, _) in self.delays.wires.items():
            if not self.is_constant(start):
                yield end, "end"
                if start not in seen:
                    seen.add(start)
                    yield start, "start"

    def timed(self, pin: Pin, clock: str, falling: bool, ps: float, own: Figure | None) -> Iterator[Timed]:
        """The pin with nextpnr's time or the larger one of `own`; nothing where the clock's pin is not connected."""
        wire = self.delays.wires.get((pin[0], clock))
        if wire is not None:
            larger = own is not None and 1e3 * own.ns > ps
            yield Timed(pin, Edge(wire[0], falling), 1e3 * own.ns if own and larger else ps, larger)

    def add_known(self, arcs: Arcs, name: str, cell: CellDelays) -> None:
        """What nextpnr knows of a cell."""
        row, falls = self.row(name), {check.clock: check.falling for check in cell.checks}
        for check in cell.checks:
            self.known.add((name, check.pin))
            arcs.ends += self.timed((name, check.pin), check.clock, check.falling, check.setup,
                                    row.setup_of(check.pin))
        for start, end, ps in cell.paths:
            self.known |= {(name, start), (name, end)}
            if start in falls or row.is_clock(start):
                arcs.starts += self.timed((name, end), start, falls.get(start, False), ps, row.out_of(end))
            else:
                arcs.onwards[name, start].append(((name, end), ps, False))
                slowest = self.slowest[cell.kind]
                slowest[start, end] = max(ps, slowest.get((start, end), 0.0))

    def add_unknown(self, arcs: Arcs, pin: Pin, side: str) -> None:
        """An end of a wire, where nextpnr knows no time of it or has invented one."""
        row, kind = self.row(pin[0]), self.delays.cells[pin[0]].kind
        own = row.setup_of(pin[1]) if side == "end" else row.out_of(pin[1])
        if pin in self.known or row.is_clock(pin[1]):
            arcs.lacking[kind, INVENTED, side] += int(row.made_up and own is not None)
            return
        timed = list(self.timed(pin, own.clock, False, -1.0, own)) if own else []
        (arcs.ends if side == "end" else arcs.starts).extend(timed)
        if timed or self.add_through(arcs, pin, row.like, side):
            arcs.lacking[kind, NOTHING, side] += 1
        elif not row.is_aside(pin[1]):
            arcs.lacking[kind, UNKNOWN, side] += 1

    def add_through(self, arcs: Arcs, pin: Pin, like: str, side: str) -> bool:
        """The ways from or to a pin through its cell, as slow as those of the kind `like`; whether there are any."""
        ways = [(start, end, ps) for (start, end), ps in self.slowest.get(like, {}).items()
                if pin[1] == (start if side == "end" else end)]
        if side == "end":
            arcs.onwards[pin] += [((pin[0], end), ps, False) for _, end, ps in ways]
        return bool(ways)


def in_order(arcs: Arcs) -> tuple[list[Pin], list[Pin]]:
    """All pins that lead somewhere, each after those that lead to it; and those in loops."""
    waiting: Counter[Pin] = Counter(end for onward in arcs.onwards.values() for end, _, _ in onward)
    ready = [pin for pin in arcs.onwards if not waiting[pin]]
    order = []
    while ready:
        pin = ready.pop()
        order.append(pin)
        for end, _, _ in arcs.onwards.get(pin, ()):
            waiting[end] -= 1
            if not waiting[end]:
                ready.append(end)
    return order, [pin for pin, count in waiting.items() if count > 0]


def arrivals_of(arcs: Arcs, order: Iterable[Pin], edge: Edge) -> dict[Pin, Arrival]:
    """The longest way from an edge of a clock to each pin that it reaches."""
    found: dict[Pin, Arrival] = {}
    for start in arcs.starts:
        if start.edge == edge and (start.pin not in found or start.ps > found[start.pin].ps):
            found[start.pin] = Arrival(start.pin, start.ps, None, start.ours)
    for pin in order:
        here = found.get(pin)
        if here is None:
            continue
        for end, ps, _ in arcs.onwards.get(pin, ()):
            if end not in found or here.ps + ps > found[end].ps:
                found[end] = Arrival(end, here.ps + ps, pin, here.ours)
    return found


def steps_to(end: Timed, arrivals: Mapping[Pin, Arrival], delays: Delays) -> tuple[Step, ...]:
    """The longest way to an end, step by step."""
    steps = [Step("setup", end.pin, end.pin, end.ps)]
    here = arrivals[end.pin]
    while here.before is not None:
        before = arrivals[here.before]
        wire = delays.wires.get(here.pin)
        kind = "routing" if wire is not None and wire[0] == before.pin else "logic"
        steps.append(Step(kind, before.pin, here.pin, here.ps - before.ps))
        here = before
    steps.append(Step("clk-to-q", here.pin, here.pin, here.ps))
    return tuple(reversed(steps))
