"""A flash controller, the simulated chip behind it, and a compiled program that sends requests and measures."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import FlashError, FlashPart, SealedFlash

from ..board import Netlist
from ..sdram.netlist_unit import NetlistUnit
from ..sdram.program import compile_program
from .chip import write_cells
from .model import MODEL, VIOLATIONS, Flash

__all__ = ["ReadResult", "Reads", "compile_reads"]

PROGRAM = Path(__file__).parent / "reads.cpp"


@dataclass(frozen=True)
class ReadResult:
    """What a run gave: the words, int64, and what the chip counted.

    `latency` is the longest time from a request to its first word, `gap` the longest between two words of a request, in
    cycles; `initialized` the cycle in which the controller was, 0 if never; `busy` the cycles from the first word to
    the last.
    """

    words: npt.NDArray[np.int64]
    violations: Mapping[str, int]
    first_violation: str | None
    error: FlashError
    initialized: int
    busy: int
    latency: int
    gap: int
    requests: int


@dataclass(frozen=True)
class Reads:
    """A compiled program; `folder` is where runs take place."""

    part: FlashPart
    executable: Path
    folder: Path

    def run(self, requests: Sequence[Sequence[int]] | npt.NDArray[np.int64], contents: npt.NDArray[np.uint8], *,
            seed: int = 0, stall: float = 0.0, numbers: Mapping[str, int] | None = None) -> ReadResult:
        """Send `requests`, [count, 4]: first, last, cycles before it, words after which a restart drops it (0: none).

        `contents` are the bytes from the part's offset on; `numbers` the plusargs of the model.  Where the controller
        rises an error, the requests that are left are not sent.  Raises ToolFailed where nothing moves any more.
        """
        np.asarray(requests, dtype=np.uint32).tofile(self.folder / "requests.bin")
        write_cells(self.folder / "cells.hex", contents, self.part.offset)
        command = [self.executable, "requests.bin", "words.bin", seed, round(256 * stall),
                   math.ceil(500 * self.part.period), "+cells=cells.hex",
                   *(f"+{name}={value}" for name, value in (numbers or {}).items())]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        if done.returncode or "stuck" in found:
            raise ToolFailed(f"the simulated flash must answer, and did not: {done.stdout}{done.stderr}")
        words = np.fromfile(self.folder / "words.bin", dtype=np.uint32).astype(np.int64)
        counted = {kind: found[f"violation{n}"] for n, kind in enumerate(VIOLATIONS) if found[f"violation{n}"]}
        return ReadResult(
            words, counted, VIOLATIONS[found["first_kind"]] if counted else None, FlashError(found["error"]),
            found["initialized"], found["busy"], found["latency"], found["gap"], found["requests"])


def compile_reads(part: FlashPart | SealedFlash, *, folder: Path, cache: Path, netlist: Netlist | None = None,
                  say: Callable[[str], None] = print) -> Reads:
    """The program for a controller of `part` and its chip; made, or found in `cache`.

    `netlist` is what yosys made of the controller, which is then simulated instead of it.  Raises MissingTool, and
    ToolFailed with the path of the log.
    """
    m = Module()
    flash = part.flash if isinstance(part, SealedFlash) else part
    controller = part.controller()
    unit = controller if netlist is None else NetlistUnit(unit=controller, netlist=netlist)
    m.submodules.unit = unit
    m.submodules.chip = memory = Flash(part=flash)
    wiring.connect(m, unit.pins, memory.pins)
    ports: list[Signal] = []
    request, read = unit.request, unit.read
    for name, value in (("request_first", request.payload.first), ("request_last", request.payload.last),
                        ("request_valid", request.valid), ("read_ready", read.ready), ("restart", unit.restart)):
        ports.append(Signal(len(value), name=name))
        m.d.comb += value.eq(ports[-1])
    for name, value in (("request_ready", request.ready), ("read_payload", read.payload), ("read_valid", read.valid),
                        ("initialized", unit.initialized), ("error", unit.error), ("counts", memory.counts),
                        ("first_kind", memory.first_kind)):
        ports.append(Signal(len(Value.cast(value)), name=name))
        m.d.comb += ports[-1].eq(value)
    executable = compile_program(m, ports, program=PROGRAM, folder=folder, cache=cache, say=say, netlist=netlist,
                                 model=MODEL)
    return Reads(flash, executable, folder)
