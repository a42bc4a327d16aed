"""A controller, the simulated chip behind it, and a compiled program that sends requests and measures.

In: a part, requests as numbers.  Out: the words that were read, violations of the data sheet, latencies and gaps in
cycles.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import SdramController, SdramPart

from ..board import Netlist
from ..undefined import run_arguments
from .model import VIOLATIONS, Sdram
from .netlist_unit import NetlistUnit
from .program import compile_program

PROGRAM = Path(__file__).parent / "traffic.cpp"
#: Of a request.
FIELDS = ("first", "last", "write")


@dataclass(frozen=True)
class Request:
    """The words from `first` to `last`, both included; `wait` cycles pass before it is offered."""

    first: int
    last: int
    write: bool = False
    wait: int = 0


@dataclass(frozen=True)
class TrafficResult:
    """What a run gave.

    `words` are those that were read, int64.  `violations` has the kinds that were counted.  `latency` is the longest
    time from a read request to its first word, `gap` the longest between two words of a request, `cycles_a_word` the
    mean.  `busy` is the time from the first request to the end of the last.
    """

    words: npt.NDArray[np.int64]
    violations: Mapping[str, int]
    first_violation: str | None
    cycles: int
    initialized: int
    busy: int
    latency: int
    gap: int
    cycles_a_word: float


@dataclass(frozen=True)
class Traffic:
    """A compiled program; `folder` is where runs take place."""

    executable: Path
    folder: Path

    def run(self, requests: Sequence[Request] | npt.NDArray[np.uint32], words: npt.ArrayLike = (), *, seed: int = 0,
            write_stall: float = 0.0, read_stall: float = 0.0, limits: Mapping[str, int] | None = None
            ) -> TrafficResult:
        """Send `requests`, writing `words` one after another.

        `requests` may be an array [count, 4] as well: first, last, write, wait.  `limits` are numbers of the model, by
        the names of its plusargs, that differ from the part's.  Raises ToolFailed where nothing moves any more.
        """
        table = (np.array([(r.first, r.last, r.write, r.wait) for r in requests], dtype=np.uint32).reshape(-1, 4)
                 if isinstance(requests, Sequence) else requests.astype(np.uint32))
        table.tofile(self.folder / "requests.bin")
        np.asarray(words, dtype=np.uint32).tofile(self.folder / "words.bin")
        command = [self.executable, "requests.bin", "words.bin", "read.bin", seed, round(256 * write_stall),
                   round(256 * read_stall), *run_arguments(seed, limits)]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        if done.returncode or "stuck" in found:
            raise ToolFailed(f"the simulated SDRAM must answer, and did not: {done.stdout}{done.stderr}")
        return self.result(found)

    def result(self, found: Mapping[str, int]) -> TrafficResult:
        read = np.fromfile(self.folder / "read.bin", dtype=np.uint64).astype(np.int64)
        counted = {kind: found[f"violation{n}"] for n, kind in enumerate(VIOLATIONS) if found[f"violation{n}"]}
        pauses = found["read_words"] - 1
        return TrafficResult(
            words=read, violations=counted, first_violation=VIOLATIONS[found["first_kind"]] if counted else None,
            cycles=found["cycles"], initialized=found["initialized"], busy=found["ended"] - found["begun"],
            latency=found["latency"], gap=found["gap"],
            cycles_a_word=found["reading"] / pauses if pauses > 0 else 0.0)


class Bench:
    """The top of the simulation: a controller with the chip, and ports for all that the program drives."""

    def __init__(self, unit: SdramController, chip: SdramPart):
        self.module = m = Module()
        self.ports: list[Signal] = []
        m.submodules.unit = unit
        m.submodules.chip = memory = Sdram(part=chip)
        wiring.connect(m, unit.pins, memory.pins)
        for name in FIELDS:
            self.drives(f"request_{name}", unit.request.payload[name])
        for name in ("request", "write"):
            self.drives(f"{name}_valid", getattr(unit, name).valid)
            self.shows(f"{name}_ready", getattr(unit, name).ready)
        self.drives("write_payload", unit.write.payload)
        self.shows("read_payload", unit.read.payload)
        self.shows("read_valid", unit.read.valid)
        self.drives("read_ready", unit.read.ready)
        self.shows("initialized", unit.initialized)
        for name in ("counts", "first_kind", "first_cycle"):
            self.shows(name, getattr(memory, name))
        self.shows("space", Const(chip.words, 32))

    def port(self, name: str, width: int) -> Signal:
        self.ports.append(Signal(width, name=name))
        return self.ports[-1]

    def drives(self, name: str, value) -> None:
        self.module.d.comb += value.eq(self.port(name, len(value)))

    def shows(self, name: str, value) -> None:
        port = self.port(name, len(value))
        self.module.d.comb += port.eq(value)


def compile_traffic(part: SdramPart, *, folder: Path, cache: Path, netlist: Netlist | None = None,
                    say: Callable[[str], None] = print) -> Traffic:
    """The program for a controller of `part` and its chip; made, or found in `cache`.

    `netlist` is what yosys made of the controller, which is then simulated instead of it.  Raises MissingTool, and
    ToolFailed with the path of the log.
    """
    unit = SdramController(part=part)
    bench = Bench(unit if netlist is None else NetlistUnit(unit=unit, netlist=netlist), part)
    executable = compile_program(bench.module, bench.ports, program=PROGRAM, folder=folder, cache=cache, say=say,
                                 netlist=netlist)
    return Traffic(executable, folder)
