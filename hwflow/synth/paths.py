"""nextpnr's timing in terms of the plan: what limits each clock, and how far every stage is from being the limit.

nextpnr writes one path for each pair of clocks, step by step.  With `--detailed-timing-report` it also says of every
register how long the longest path to it takes; `shortened` keeps the worst of each part of the design.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from hwflow_base.errors import HwflowError

from hwflow.hls.plan.plan import Plan

from .analysis import Analysis, Untimed
from .analysis import Step as PathPart
from .design_parts import LINKS, part_of, place_of, title_of
from .families import FAMILIES
from .toolchain import REMEDY

#: What nextpnr calls the other end of a way to or from a pin.
OUTSIDE = "<async>"

#: ns by which a path must be longer than nextpnr's to be another one.
ROUNDING = 0.002

#: Pins through which a carry chain goes on, of all families.
CARRY_PINS = tuple(family.carry_pin for family in FAMILIES.values())


@dataclass(frozen=True)
class Step:
    """A cell on a path, or a carry chain from `cell` to `last`; ns in it, and in the wire that leads to it.

    `kind` is nextpnr's: "clk-to-q", "logic" or "setup".
    """

    kind: str
    cell: str
    last: str
    logic_ns: float
    wire_ns: float


@dataclass(frozen=True)
class TimingPath:
    """The longest path of a clock: from where to where in words, and its steps.

    `part` is a stage of the plan ("stage 3 '3_conv2d_1'"), or what else the path ends in; `layers` are the stage's.
    """

    part: str
    layers: tuple[str, ...]
    start: str
    end: str
    steps: tuple[Step, ...]

    @property
    def logic_ns(self) -> float:
        return sum(step.logic_ns for step in self.steps)

    @property
    def wires_ns(self) -> float:
        return sum(step.wire_ns for step in self.steps)

    @property
    def hops(self) -> int:
        """Wires between cells; those within a carry chain do not count."""
        return len(self.steps) - 1

    def __str__(self) -> str:
        return (f"{self.part}: {self.start} -> {self.end}; {self.logic_ns:.1f} ns logic, {self.wires_ns:.1f} ns "
                f"routing, {self.hops} hop{'s' if self.hops != 1 else ''}")

    def to_dict(self) -> dict[str, object]:
        return {"part": self.part, "layers": list(self.layers), "start": self.start, "end": self.end,
                "logic_ns": round(self.logic_ns, 3), "wires_ns": round(self.wires_ns, 3), "hops": self.hops,
                "text": str(self), "steps": [vars(step) for step in self.steps]}


@dataclass(frozen=True)
class Clock:
    """A clock of the design by the name of its net; `is_core` for that of the stages.

    `routed_mhz` is what all paths allow, None where there is none; `nextpnr_mhz` what nextpnr says, which leaves out
    paths through cells that it does not time.  `ours` says whether a figure of hwflow's is in the longest path `path`.
    """

    net: str
    routed_mhz: float | None
    is_core: bool
    path: TimingPath | None
    nextpnr_mhz: float | None = None
    ours: bool = False

    @property
    def is_memory(self) -> bool:
        """Whether the PLL of a memory beside the FPGA makes it."""
        return re.search(r"(^|[.$])memory_", self.net) is not None

    @property
    def title(self) -> str:
        """For people."""
        return "the clock of the memory" if self.is_memory else f"another clock, '{self.net}'"


@dataclass(frozen=True)
class PartDelay:
    """The longest path that ends in a part, ns; `end` is the register, `before` the last signal on the way to it."""

    part: str
    layers: tuple[str, ...]
    ns: float
    before: str
    end: str


class PathEnd(TypedDict):
    """A pin of a cell."""

    cell: str
    port: str


# The keys of these tables are no names in Python.
ReportStep = TypedDict("ReportStep", {"type": str, "delay": float, "from": PathEnd, "to": PathEnd})
ReportPath = TypedDict("ReportPath", {"from": str, "to": str, "path": list[ReportStep]})


class Achieved(TypedDict):
    """The clock that a net reaches, MHz."""

    achieved: float


class UsedCells(TypedDict):
    """The cells of a kind that are used."""

    used: int


class NetEndpoint(TypedDict):
    """A register at the end of a net, and the delays to it."""

    event: str
    cell: str
    delay: NotRequired[float | list[float]]


class NetTiming(TypedDict):
    """A net with its registers; `event` is the clock edge that it comes from."""

    net: str
    event: str
    endpoints: list[NetEndpoint]


class WorstRegister(TypedDict):
    """The register of a part with the longest path, as `shortened` keeps it."""

    event: str
    part: str
    net: str
    cell: str
    ns: float


class Bound(TypedDict):
    """The longest path of a clock as hwflow finds it, where it is longer than nextpnr's; `ours` as `Clock` has it."""

    ns: float
    ours: bool
    path: list[ReportStep]


class UntimedPins(TypedDict):
    """`Untimed` in JSON."""

    kind: str
    lacks: str
    ends: int
    starts: int
    bounded: bool


class NextpnrReport(TypedDict, total=False):
    """nextpnr's JSON report, as it is or `shortened`; `of_report` is for files that are none.

    `untimed` and `bounds`, by the net of the clock, are what hwflow adds.
    """

    critical_paths: list[ReportPath]
    fmax: dict[str, Achieved]
    utilization: dict[str, UsedCells]
    detailed_net_timings: list[NetTiming]
    worst: list[WorstRegister]
    untimed: list[UntimedPins]
    bounds: dict[str, Bound]


def read_report(path: Path) -> NextpnrReport:
    """nextpnr's JSON report, as it is or `shortened`.  HwflowError where the file is no JSON."""
    with of_report(path):
        report: NextpnrReport = json.loads(path.read_text(encoding="utf-8"))
        return report


@contextlib.contextmanager
def of_report(path: Path) -> Iterator[None]:
    """HwflowError that names the file, where the body does not find in a report of nextpnr what it looks for."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"it lacks the key {error}" if isinstance(error, KeyError) else f"it is another one ({error})"
        raise HwflowError(
            f"'{path}' must be a report of nextpnr in the form that hwflow knows, and {what}",
            f"install the nextpnr that comes with `{REMEDY}`, delete '{path.parent}', and run `hwflow synth` again",
        ) from None


def shortened(content: NextpnrReport, analysis: Analysis | None = None) -> dict[str, object]:
    """nextpnr's report with the worst register of each part and clock in place of all of them, as `worst`; and what
    nextpnr leaves out, from `analysis`."""
    worst: dict[tuple[str, str], WorstRegister] = {}
    for end in (*nextpnr_ends(content), *(own_ends(content, analysis) if analysis else ())):
        if end["ns"] > worst.get((end["event"], end["part"]), {"ns": 0.0})["ns"]:
            worst[end["event"], end["part"]] = end
    short: dict[str, object] = {
        name: content[name] for name in ("critical_paths", "fmax", "utilization") if name in content}
    short["worst"] = [worst[key] for key in sorted(worst)]
    return short | (left_out(content, analysis) if analysis else {})


def nextpnr_ends(content: NextpnrReport) -> Iterator[WorstRegister]:
    """The registers at the ends of nextpnr's paths within a clock."""
    for net in content.get("detailed_net_timings", ()):
        for end in net["endpoints"]:
            if net["event"] == end["event"]:
                yield {"event": end["event"], "part": part_of(end["cell"]), "net": net["net"], "cell": end["cell"],
                       "ns": longest(end.get("delay"))}


def own_ends(content: NextpnrReport, analysis: Analysis) -> Iterator[WorstRegister]:
    """The same of all paths."""
    nets = clock_nets(content, analysis)
    for end, arrival in analysis.arrivals:
        event = f"{'negedge' if end.edge.falling else 'posedge'} {nets[end.edge.clock]}"
        source = arrival.before[0] if arrival.before else end.pin[0]
        yield {"event": event, "part": part_of(end.pin[0]), "net": source, "cell": end.pin[0],
               "ns": round(arrival.ps / 1e3, 3)}


def clock_nets(content: NextpnrReport, analysis: Analysis) -> dict[tuple[str, str], str]:
    """nextpnr's name of the net of each clock, by the pin that drives it; of one that it has no path of, the pin."""
    nets = {clock: ".".join(clock) for clock in (*analysis.longest, *analysis.clocks.values())}
    for path in content.get("critical_paths", ()):
        first = path["path"][0]["to"] if is_inner(path) and path["path"] else {"cell": "", "port": ""}
        clock = analysis.clocks.get((first["cell"], first["port"]))
        if clock is not None:
            nets[clock] = net_of(path["from"])
    return nets


def left_out(content: NextpnrReport, analysis: Analysis) -> dict[str, object]:
    """`untimed` and `bounds` of a shortened report."""
    nets, bounds = clock_nets(content, analysis), {}
    for clock, path in analysis.longest.items():
        reached = content.get("fmax", {}).get(nets[clock])
        ns = round(path.ps / 1e3, 3)
        if reached is None or ns > 1e3 / float(reached["achieved"]) + ROUNDING:
            bounds[nets[clock]] = {"ns": ns, "ours": path.ours, "path": [step_of(step) for step in path.steps]}
    return {"untimed": [vars(pins) for pins in analysis.untimed], "bounds": bounds}


def step_of(step: PathPart) -> ReportStep:
    (cell, port), (last, end) = step.start, step.end
    return {"type": step.kind, "delay": round(step.ps / 1e3, 3), "from": {"cell": cell, "port": port},
            "to": {"cell": last, "port": end}}


def longest(delay: float | list[float] | None) -> float:
    """nextpnr gives the shortest and the longest delay, older versions the longest alone."""
    return float(max(delay)) if isinstance(delay, list) else float(delay or 0.0)


def core_event(content: NextpnrReport) -> str | None:
    """The clock edge of the stages, as nextpnr calls it ("posedge clk"); None where no path goes through a stage."""
    inner = [(end["ns"], end["event"]) for end in content.get("worst", ())
             if end["part"].startswith("stage") or end["part"] == LINKS]
    if inner:
        return str(max(inner)[1])
    own = [(total(path["path"]), path["from"]) for path in content.get("critical_paths", ()) if is_inner(path)]
    return str(max(own)[1]) if own else None


def is_inner(path: ReportPath) -> bool:
    """From register to register of one clock."""
    return bool(path["from"] == path["to"] and OUTSIDE not in path["from"])


def total(parts: Sequence[ReportStep]) -> float:
    return sum(float(part["delay"]) for part in parts)


def clocks_of(content: NextpnrReport, plan: Plan | None = None) -> tuple[Clock, ...]:
    """Every clock of a routed design, that of the stages first."""
    core = core_event(content)
    paths: dict[str, TimingPath] = {}
    for path in sorted((p for p in content.get("critical_paths", ()) if is_inner(p)), key=lambda p: total(p["path"])):
        paths[net_of(path["from"])] = path_of(path["path"], plan)
    reached = {net: float(value["achieved"]) for net, value in content.get("fmax", {}).items()}
    bounds = content.get("bounds", {})
    allowed = {net: 1e3 / bounds[net]["ns"] if net in bounds else reached[net] for net in (*reached, *bounds)}
    name = net_of(core) if core else min(allowed, key=lambda net: allowed[net], default="")
    clocks = [Clock(net, mhz, net == name, path_of(bounds[net]["path"], plan) if net in bounds else paths.get(net),
                    reached.get(net), net in bounds and bounds[net]["ours"]) for net, mhz in allowed.items()]
    return tuple(sorted(clocks, key=lambda clock: (not clock.is_core, clock.net)))


def untimed_of(content: NextpnrReport) -> tuple[Untimed, ...]:
    """The pins that nextpnr does not time."""
    return tuple(Untimed(**pins) for pins in content.get("untimed", ()))


def net_of(event: str) -> str:
    return event.removeprefix("posedge ").removeprefix("negedge ")


def core_clock(report: Path) -> float | None:
    """MHz that the stages reach, of a report as `shortened` leaves it; None for a design without paths."""
    content = read_report(report)
    with of_report(report):
        return next((clock.routed_mhz for clock in clocks_of(content)), None)


def path_of(parts: Sequence[ReportStep], plan: Plan | None = None) -> TimingPath:
    """A path of nextpnr's report as cells with the wire to each; the steps of a carry chain are added up."""
    steps = steps_of(parts)
    named = [step for step in steps if not step.cell.startswith("$nextpnr")] or steps
    start, end = place_of(named[0].cell), place_of(named[-1].cell)
    begins = "" if start.part == end.part else f"{title_of(start.part, plan)}, "
    return TimingPath(title_of(end.part, plan), layers_of(end.part, plan), f"{begins}{start}", str(end), tuple(steps))


def layers_of(part: str, plan: Plan | None) -> tuple[str, ...]:
    """The layers of a stage, none for other parts."""
    number = int(part.removeprefix("stage")) if part.startswith("stage") else -1
    return plan.stages[number].layers if plan is not None and 0 <= number < len(plan.stages) else ()


def steps_of(parts: Iterable[ReportStep]) -> list[Step]:
    steps: list[Step] = []
    wire = 0.0
    for part in parts:
        delay = float(part["delay"])
        if part["type"] == "routing":
            wire += delay
            continue
        cell = part["from" if part["type"] == "clk-to-q" else "to"]["cell"]
        carried = wire == 0.0 or part["from"]["port"] in CARRY_PINS
        last = steps[-1] if steps else None
        if last is not None and carried and last.kind == part["type"] == "logic":
            steps[-1] = Step("logic", last.cell, cell, last.logic_ns + delay, last.wire_ns + wire)
        else:
            steps.append(Step(part["type"], cell, cell, delay, wire))
        wire = 0.0
    return steps


def delays_of(content: NextpnrReport, plan: Plan | None = None) -> tuple[PartDelay, ...]:
    """The longest path into each part on the clock of the stages, and on every other clock; the slowest first."""
    delays = [
        PartDelay(title_of(end["part"], plan), layers_of(end["part"], plan), round(float(end["ns"]), 3),
                  str(place_of(end["net"])), str(place_of(end["cell"])))
        for end in content.get("worst", ())]
    return tuple(sorted(delays, key=lambda delay: -delay.ns))
