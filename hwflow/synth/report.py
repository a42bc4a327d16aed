"""What synthesis tells: resources used and there, the clock that was reached, the path that limits it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .boards import Board
from .limits import Limit, binding_limit

__all__ = ["SynthesisReport", "Usage", "read_nextpnr_report"]

#: Which of nextpnr's cells make each resource, and how many of the board file's units one of them is.
CELLS: dict[str, dict[str, dict[str, int]]] = {
    "ecp5": {"lut": {"TRELLIS_COMB": 1}, "ff": {"TRELLIS_FF": 1}, "dsp": {"MULT18X18D": 1}, "ram": {"DP16KD": 1}},
    "ice40": {"lut": {"ICESTORM_LC": 1}, "ff": {}, "dsp": {"ICESTORM_DSP": 1}, "ram": {"ICESTORM_RAM": 1}},
    "gowin": {"lut": {"LUT4": 1, "ALU": 1}, "ff": {"DFF": 1}, "dsp": {"MULT9X9": 1, "MULT18X18": 2},
              "ram": {"BSRAM": 1}},
}


#: Pins of a carry chain, iCE40's, ECP5's and Gowin's.
CARRY_PINS = ("CIN", "FCI")


@dataclass(frozen=True)
class Usage:
    """Units of one resource that the routed design takes, and that the device has."""

    used: int
    available: int

    def __str__(self) -> str:
        return f"{self.used} of {self.available}"


@dataclass(frozen=True)
class SynthesisReport:
    """The routed design.

    `routed_mhz` is what nextpnr says; `usable_mhz` is the same under the device's limits (`limit` says which one is the
    lowest, and its source) and the only figure to compute frame rates from.  Both are None for a design without a path
    from register to register.  `clock_mhz` is what drives the design on the board as it is.
    """

    board: str
    device: str
    lut: Usage
    ff: Usage
    dsp: Usage
    ram: Usage
    clock_mhz: float
    routed_mhz: float | None
    usable_mhz: float | None
    limit: Limit
    critical_path: str
    bitstream: Path
    seed: int
    tools: Mapping[str, str]
    logs: Mapping[str, Path]
    seconds: Mapping[str, float]

    @property
    def meets_clock(self) -> bool:
        """Whether the board's own clock is slow enough for this design."""
        return self.usable_mhz is None or self.usable_mhz >= self.clock_mhz

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self) | {"meets_clock": self.meets_clock, "bitstream": str(self.bitstream)}
        plain["logs"] = {step: str(path) for step, path in self.logs.items()}
        return plain


def read_nextpnr_report(path: Path, board: Board, *, flip_flops: int) -> dict[str, Any]:
    """The fields of a SynthesisReport that come from nextpnr's JSON report.

    `flip_flops` is the count in the netlist, for iCE40 whose report has only logic cells.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    fields: dict[str, Any] = {}
    for resource, cells in CELLS[board.family].items():
        used = sum(content["utilization"].get(cell, {}).get("used", 0) * units for cell, units in cells.items())
        fields[resource] = Usage(used if cells else flip_flops, getattr(board.resources, resource))
    clocks = content.get("fmax", {})
    routed = min((float(clock["achieved"]) for clock in clocks.values()), default=None)
    limit = binding_limit(board.family, dsp=fields["dsp"].used, ram=fields["ram"].used)
    fields |= {
        "routed_mhz": routed, "usable_mhz": None if routed is None else min(routed, limit.mhz), "limit": limit,
        "critical_path": critical_path(content.get("critical_paths", [])),
    }
    return fields


def critical_path(paths: list[dict[str, Any]]) -> str:
    """The slowest path between registers: its time in logic and in wires, and the cells it goes through.

    The steps of a carry chain are added up.
    """
    inner = [path["path"] for path in paths if path["from"] == path["to"] and "<async>" not in path["from"]]
    if not inner:
        return ""
    parts = max(inner, key=lambda steps: sum(float(step["delay"]) for step in steps))
    total = sum(float(part["delay"]) for part in parts)
    wires = sum(float(part["delay"]) for part in parts if part["type"] == "routing")
    rows: list[tuple[str, str, float, float]] = []  # kind, cell, in the cell, in the wire to it
    wire = 0.0
    for part in parts:
        delay = float(part["delay"])
        if part["type"] == "routing":
            wire = delay
            continue
        cell = readable(part["from" if part["type"] == "clk-to-q" else "to"]["cell"])
        carried = wire == 0.0 or part["from"]["port"] in CARRY_PINS
        if rows and carried and rows[-1][0] == part["type"] == "logic":
            first = rows[-1][1].partition(" to ")[0]
            rows[-1] = ("logic", f"{first} to {cell}", rows[-1][2] + wire + delay, rows[-1][3])
        else:
            rows.append((part["type"], cell, delay, wire))
        wire = 0.0
    lines = [f"{total:.2f} ns, {total - wires:.2f} in logic and {wires:.2f} in wires"]
    lines += [f"  {wire:5.2f} wire {delay:5.2f} {kind:8}  {cell}" for kind, cell, delay, wire in rows]
    return "\n".join(lines)


def readable(cell: str) -> str:
    """A cell by the name of the design's own signal, without what yosys and nextpnr append to it."""
    return re.sub(r"_(SB_|TRELLIS_|LUT\d|ALU_|DFF|CCU2C|PFUMX|L6MUX|MUX2_).*", "", cell)
