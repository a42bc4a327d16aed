"""A controller, the simulated chip behind it, and a compiled program that sends requests and measures.

In: a part, requests as numbers.  Out: the words that were read, violations of the data sheet, latencies and gaps in
cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import C, Cat, Signal, Value
from amaranth.lib import wiring
from hwflow_rtl.memory import AnyFlash, FlashError, SdramController, SdramPart, SealedFlash, WeightMemory

from .. import flash, sdram
from ..board import Netlist
from .program import MemoryProgram, NetlistUnit, ProgramTop

PROGRAM = Path(__file__).with_name("traffic.cpp")


@dataclass(frozen=True)
class Request:
    """The words from `first` to `last`, both included; `wait` cycles pass before it is offered.

    After so many words as `drop` says, a restart drops what is left; 0 for none.
    """

    first: int
    last: int
    write: bool = False
    wait: int = 0
    drop: int = 0


@dataclass(frozen=True)
class TrafficResult:
    """The result of a run.

    `words` are those that were read, int64; a flash gives a word piece by piece.  `violations` has the kinds that were
    counted, `error` is that of the controller.  `initialized` is the cycle in which it was, 0 if never; `busy` the time
    from the first request to the end of the last, `reading` from the first piece that was read to the last.  `latency`
    is the longest time from a read request to its first piece, `gap` the longest between two pieces of a request,
    `cycles_a_word` the mean.  `requests` were sent.
    """

    words: npt.NDArray[np.int64]
    violations: Mapping[str, int]
    first_violation: str | None
    error: FlashError
    cycles: int
    initialized: int
    busy: int
    reading: int
    latency: int
    gap: int
    cycles_a_word: float
    requests: int


@dataclass(frozen=True)
class Traffic:
    """A compiled program; a word comes in `pieces` of `bits` bits.  A clock is twice `half_period` ps."""

    program: MemoryProgram
    half_period: int
    pieces: int = 1
    bits: int = 64

    def run(self, requests: Sequence[Request] | npt.NDArray[np.int64], words: npt.ArrayLike = (), *, seed: int = 0,
            write_stall: float = 0.0, read_stall: float = 0.0, numbers: Mapping[str, object] | None = None
            ) -> TrafficResult:
        """Send `requests`, writing `words` one after another.

        `requests` may be an array [count, 4] as well: first, last, write, wait; a fifth column is `drop`.  Where the
        controller rises an error, the requests that are left are not sent.  `numbers` as of `MemoryProgram.run`.
        """
        rows = requests if isinstance(requests, np.ndarray) else np.array(
            [(r.first, r.last, r.write, r.wait, r.drop) for r in requests]).reshape(-1, 5)
        table = np.zeros((len(rows), 5), dtype=np.uint32)
        table[:, :rows.shape[1]] = rows
        folder = self.program.folder
        table.tofile(folder / "requests.bin")
        np.asarray(words, dtype=np.uint32).tofile(folder / "words.bin")
        printed = self.program.run(
            "requests.bin", "words.bin", "read.bin", seed, round(256 * write_stall), round(256 * read_stall),
            self.half_period, self.pieces, seed=seed, numbers=numbers)
        pieces = np.fromfile(folder / "read.bin", dtype=np.uint64).astype(np.int64).reshape(-1, self.pieces)
        pauses = printed["pieces"] - 1
        return TrafficResult(
            words=(pieces << self.bits * np.arange(self.pieces)).sum(axis=1), violations=printed.violations,
            first_violation=printed.first_violation, error=FlashError(printed["error"]), cycles=printed["cycles"],
            initialized=printed["initialized"], busy=printed["ended"] - printed["begun"],
            reading=printed["last_piece"] - printed["first_piece"], latency=printed["latency"], gap=printed["gap"],
            cycles_a_word=printed["between_pieces"] / pauses if pauses > 0 else 0.0, requests=printed["requests"])


@dataclass(frozen=True)
class FlashReads:
    """The same for the flash `part`, whose contents are there from the start."""

    part: AnyFlash
    traffic: Traffic

    def run(self, requests: Sequence[Sequence[int]] | npt.NDArray[np.int64], contents: npt.NDArray[np.uint8], *,
            seed: int = 0, stall: float = 0.0, numbers: Mapping[str, object] | None = None) -> TrafficResult:
        """Send `requests`, [count, 4]: first, last, wait, drop; `contents` are the bytes from the part's offset on."""
        flash.write_cells(self.traffic.program.folder / "cells.hex", contents, self.part.offset)
        rows = np.insert(np.asarray(requests).reshape(-1, 4), 2, 0, axis=1)
        return self.traffic.run(rows, seed=seed, read_stall=stall, numbers={"cells": "cells.hex", **(numbers or {})})


def compile_traffic(part: SdramPart, *, folder: Path, cache: Path, netlist: Netlist | None = None) -> Traffic:
    """The program for a controller of `part` and its chip; made, or found in `cache`.

    `netlist` is what yosys made of the controller, which is then simulated instead of it.  Raises MissingTool, and
    ToolFailed with the path of the log.
    """
    controller = SdramController(part=part)
    unit = controller if netlist is None else NetlistUnit(unit=controller, netlist=netlist)
    top, chip = ProgramTop(), sdram.Sdram(part=part)
    top.module.submodules.unit = unit
    top.module.submodules.chip = chip
    wiring.connect(top.module, unit.pins, chip.pins)
    top.port("restart", 1)
    for name in ("first", "last", "write"):
        top.drives(f"request_{name}", unit.request.payload[name])
    for name in ("request", "write"):
        top.drives(f"{name}_valid", getattr(unit, name).valid)
        top.shows(f"{name}_ready", getattr(unit, name).ready)
    top.drives("write_payload", unit.write.payload)
    top.drives("read_ready", unit.read.ready)
    for name, value in (("read_payload", unit.read.payload), ("read_valid", unit.read.valid),
                        ("initialized", unit.initialized), ("error", C(0, 1)), ("counts", chip.counts),
                        ("first_kind", chip.first_kind), ("space", C(part.words, 32))):
        top.shows(name, value)
    executable = top.compile(PROGRAM, sdram.MODEL, folder=folder, cache=cache, netlist=netlist)
    return Traffic(MemoryProgram(executable, folder, "SDRAM", sdram.VIOLATIONS), math.ceil(500 * part.period))


def compile_reads(part: AnyFlash | SealedFlash, *, folder: Path, cache: Path, netlist: Netlist | None = None
                  ) -> FlashReads:
    """The program for a controller of the flash `part` and its chip; the rest as of `compile_traffic`."""
    controller = part.controller()
    unit = controller if netlist is None else NetlistUnit(unit=controller, netlist=netlist)
    request = unit.request
    drives = {"request_first": request.payload.first, "request_last": request.payload.last,
              "request_valid": request.valid, "read_ready": unit.read.ready, "restart": unit.restart}
    shows = {"request_ready": request.ready, "read_payload": unit.read.payload, "read_valid": unit.read.valid,
             "initialized": unit.initialized, "error": unit.error}
    top = ProgramTop()
    if isinstance(part, SealedFlash):
        top.module.d.comb += unit.digest.ready.eq(1)
    top.module.submodules.unit = unit
    finish_flash(top, part, unit.pins, drives, shows)
    executable = top.compile(PROGRAM, flash.flash_model(flash.flash_of(part)), folder=folder, cache=cache,
                             netlist=netlist)
    return flash_reads(part, executable, folder, part.width // part.piece, part.piece)


def compile_beats(memory: WeightMemory, *, folder: Path, cache: Path) -> FlashReads:
    """The program for a memory of weights in a flash; made, or found in `cache`.

    Its streams give a beat each at the same time, together at most 32 bits, the first stream in the low ones.  A
    request is for so many such beats as it has words; where it begins means nothing.
    """
    top = ProgramTop()
    m = top.module
    m.submodules.unit = memory
    if isinstance(memory.part, SealedFlash):
        m.d.comb += memory.digest.ready.eq(1)
    streams = [getattr(memory, f"o{n}") for n in range(len(memory.streams))]
    payload = Cat(Value.cast(stream.payload) for stream in streams)
    first, last, valid, ready, every = Signal(32), Signal(32), Signal(), Signal(), Signal()
    m.d.comb += [every.eq(Cat(stream.valid for stream in streams).all()),
                 *(stream.ready.eq(ready & every) for stream in streams)]
    drives = {"request_first": first, "request_last": last, "request_valid": valid, "read_ready": ready,
              "restart": memory.restart}
    shows = {"request_ready": memory.filled, "read_payload": payload, "read_valid": every, "initialized": memory.filled,
             "error": memory.memory.controller.error}
    finish_flash(top, memory.part, memory.pins, drives, shows)
    model = flash.flash_model(flash.flash_of(memory.part))
    return flash_reads(memory.part, top.compile(PROGRAM, model, folder=folder, cache=cache), folder, 1,
                       len(payload))


def finish_flash(top: ProgramTop, part: AnyFlash | SealedFlash, pins, drives: Mapping[str, Value],
                 shows: Mapping[str, Value]) -> None:
    """Puts the chip at `pins`, and makes all ports of the program; a flash leaves alone those of a write."""
    top.module.submodules.chip = chip = flash.flash_at(flash.flash_of(part))
    wiring.connect(top.module, pins, chip.pins)
    for name, width in (("request_write", 1), ("write_valid", 1), ("write_ready", 1), ("write_payload", 32)):
        top.port(name, width)
    for name, value in drives.items():
        top.drives(name, value)
    for name, value in {**shows, "counts": chip.counts, "first_kind": chip.first_kind, "space": C(0, 32)}.items():
        top.shows(name, value)


def flash_reads(part: AnyFlash | SealedFlash, executable: Path, folder: Path, pieces: int, bits: int) -> FlashReads:
    chip = flash.flash_of(part)
    program = MemoryProgram(executable, folder, "flash", flash.flash_violations(chip))
    return FlashReads(chip, Traffic(program, math.ceil(500 * chip.period), pieces, bits))
