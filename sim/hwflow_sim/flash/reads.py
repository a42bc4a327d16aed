"""A flash controller, the simulated chip behind it, and a compiled program that sends requests and measures."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import AnyFlash, FlashError, SealedFlash, WeightMemory

from ..board import Netlist
from ..sdram.netlist_unit import NetlistUnit
from ..sdram.program import compile_program
from ..undefined import run_arguments
from .chip import write_cells
from .kinds import flash_at, flash_model, flash_of, flash_violations

PROGRAM = Path(__file__).parent / "reads.cpp"


@dataclass(frozen=True)
class ReadResult:
    """What a run gave: the words, int64, and what the chip counted.

    A unit gives a word piece by piece.  `latency` is the longest time from a request to its first piece, `gap` the
    longest between two pieces of a request, in cycles; `initialized` the cycle in which the controller was, 0 if never;
    `busy` the cycles from the first piece to the last.
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
    """A compiled program; `folder` is where runs take place, `pieces` how many come for a word, each of `bits` bits."""

    part: AnyFlash
    executable: Path
    folder: Path
    pieces: int
    bits: int

    def run(self, requests: Sequence[Sequence[int]] | npt.NDArray[np.int64], contents: npt.NDArray[np.uint8], *,
            seed: int = 0, stall: float = 0.0, numbers: Mapping[str, int] | None = None) -> ReadResult:
        """Send `requests`, [count, 4]: first, last, cycles before it, words after which a restart drops it (0: none).

        `contents` are the bytes from the part's offset on; `numbers` the plusargs of the model.  Where the controller
        rises an error, the requests that are left are not sent.  Raises ToolFailed where nothing moves any more.
        """
        np.asarray(requests, dtype=np.uint32).tofile(self.folder / "requests.bin")
        write_cells(self.folder / "cells.hex", contents, self.part.offset)
        command = [self.executable, "requests.bin", "pieces.bin", seed, round(256 * stall),
                   math.ceil(500 * self.part.period), self.pieces, "+cells=cells.hex", *run_arguments(seed, numbers)]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        if done.returncode or "stuck" in found:
            raise ToolFailed(f"the simulated flash must answer, and did not: {done.stdout}{done.stderr}")
        came = np.fromfile(self.folder / "pieces.bin", dtype=np.uint32).astype(np.int64).reshape(-1, self.pieces)
        words = (came << self.bits * np.arange(self.pieces)).sum(axis=1)
        kinds = flash_violations(self.part)
        counted = {kind: found[f"violation{n}"] for n, kind in enumerate(kinds) if found[f"violation{n}"]}
        return ReadResult(
            words, counted, kinds[found["first_kind"]] if counted else None, FlashError(found["error"]),
            found["initialized"], found["busy"], found["latency"], found["gap"], found["requests"])


def compile_reads(part: AnyFlash | SealedFlash, *, folder: Path, cache: Path, netlist: Netlist | None = None,
                  say: Callable[[str], None] = print) -> Reads:
    """The program for a controller of `part` and its chip; made, or found in `cache`.

    `netlist` is what yosys made of the controller, which is then simulated instead of it.  Raises MissingTool, and
    ToolFailed with the path of the log.
    """
    controller = part.controller()
    unit = controller if netlist is None else NetlistUnit(unit=controller, netlist=netlist)
    request = unit.request
    drives = {"request_first": request.payload.first, "request_last": request.payload.last,
              "request_valid": request.valid, "read_ready": unit.read.ready, "restart": unit.restart}
    shows = {"request_ready": request.ready, "read_payload": unit.read.payload, "read_valid": unit.read.valid,
             "initialized": unit.initialized, "error": unit.error}
    m = Module()
    if isinstance(part, SealedFlash):
        m.d.comb += unit.digest.ready.eq(1)
    m.submodules.unit = unit
    bench = Bench(m, part, unit.pins, drives, shows)
    program = bench.compile(folder, cache, netlist, say)
    return Reads(bench.flash, program, folder, part.width // part.piece, part.piece)


def compile_beats(memory: WeightMemory, *, folder: Path, cache: Path, say: Callable[[str], None] = print) -> Reads:
    """The program for a memory of weights in a flash; made, or found in `cache`.

    Its streams give a beat each at the same time, together at most 32 bits, the first stream in the low ones.  A
    request is for so many such beats as it has words; where it begins means nothing.
    """
    m = Module()
    m.submodules.unit = memory
    if isinstance(memory.part, SealedFlash):
        m.d.comb += memory.digest.ready.eq(1)
    controller = memory.memory.controller
    streams = [getattr(memory, f"o{n}") for n in range(len(memory.streams))]
    payload = Cat(Value.cast(each.payload) for each in streams)
    first, last, valid, ready = Signal(32), Signal(32), Signal(), Signal()
    every = Signal()
    m.d.comb += [every.eq(Cat(each.valid for each in streams).all()),
                 *(each.ready.eq(ready & every) for each in streams)]
    drives = {"request_first": first, "request_last": last, "request_valid": valid, "read_ready": ready,
              "restart": memory.restart}
    shows = {"request_ready": memory.filled, "read_payload": payload, "read_valid": every, "initialized": memory.filled,
             "error": controller.error}
    bench = Bench(m, memory.part, memory.pins, drives, shows)
    return Reads(bench.flash, bench.compile(folder, cache, None, say), folder, 1, len(payload))


class Bench:
    """The top of a simulation: a unit with the chip at its pins, and ports for all that the program drives."""

    def __init__(self, m: Module, part: AnyFlash | SealedFlash, pins, drives: Mapping[str, Value],
                 shows: Mapping[str, Value]):
        self.module = m
        self.flash = flash_of(part)
        self.ports: list[Signal] = []
        m.submodules.chip = chip = flash_at(self.flash)
        wiring.connect(m, pins, chip.pins)
        for name, value in drives.items():
            self.ports.append(Signal(len(value), name=name))
            m.d.comb += value.eq(self.ports[-1])
        for name, value in {**shows, "counts": chip.counts, "first_kind": chip.first_kind}.items():
            self.ports.append(Signal(len(Value.cast(value)), name=name))
            m.d.comb += self.ports[-1].eq(value)

    def compile(self, folder: Path, cache: Path, netlist: Netlist | None, say: Callable[[str], None]) -> Path:
        return compile_program(self.module, self.ports, program=PROGRAM, folder=folder, cache=cache, say=say,
                               netlist=netlist, model=flash_model(self.flash))
