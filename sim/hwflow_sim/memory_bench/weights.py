"""A memory of weights with the simulated chip behind it, and a compiled program that fills it and takes its beats.

In: a `WeightMemory`, or a unit with the same ports, and words.  Out: the beats of each stream, violations of the data
sheet, cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, ClockDomain, Const, Value
from amaranth.lib import wiring
from hwflow_rtl.memory import AnyFlash, SdramPart, WeightMemory

from .. import flash, sdram
from .program import MemoryProgram, Printed, ProgramTop

PROGRAM = Path(__file__).with_name("weights.cpp")
#: The period of a memory's clock that nothing uses: its first edge never comes.
NEVER = 1 << 62
WIDEST = 64


@dataclass(frozen=True)
class Taken:
    """How a stream is read: at least `beats` of it are taken; it waits with the chance `stall` in each cycle, for good
    after `stop` beats, and takes at most `pace` beats a cycle."""

    beats: int
    stall: float = 0.0
    stop: int | None = None
    pace: Fraction | None = None


@dataclass(frozen=True)
class WeightTrafficResult:
    """The result of a run.

    `beats` has for each stream those of each stretch between restarts and clears, int64; `cycles_a_beat` the mean from
    the first to the last one, `gap` the longest time between two, `late` in how many cycles one was wanted and did not
    come.
    """

    beats: tuple[Mapping[int, npt.NDArray[np.int64]], ...]
    violations: Mapping[str, int]
    cycles: int
    filled: int
    cycles_a_beat: tuple[float, ...]
    gap: tuple[int, ...]
    late: tuple[int, ...]


@dataclass(frozen=True)
class WeightTraffic:
    """A compiled program; `crossed` where the memory has another clock."""

    program: MemoryProgram
    crossed: bool

    def run(self, images: Sequence[npt.NDArray[np.int64]], streams: Sequence[Taken], *, seed: int = 0,
            fill_stall: float = 0.0, restart: float = 0.0, clear: Sequence[int] = (), ratio: Fraction | int = 1,
            numbers: Mapping[str, object] | None = None) -> WeightTrafficResult:
        """Fill the memory with the first of `images`, where it can be filled, and read the streams.

        In each cycle all is restarted with the chance `restart`, for up to 16 cycles.  In the cycles `clear` the images
        are forgotten, and the next of `images` is filled.  `ratio` is the clock of `sync` divided by that of the
        memory, where these are two.  `numbers` as of `MemoryProgram.run`.
        """
        folder = self.program.folder
        np.concatenate(images).astype(np.uint32).tofile(folder / "words.bin")
        period = 1_000_000
        columns = [[stream.beats for stream in streams], [round(256 * stream.stall) for stream in streams],
                   [stream.stop or 0 for stream in streams],
                   [int(stream.pace * 2**20) if stream.pace else 0 for stream in streams]]
        printed = self.program.run(
            "words.bin", len(images[0]), "beats.bin", seed, round(256 * fill_stall), round(65536 * restart),
            listed(clear), period, round(period * ratio) if self.crossed else NEVER, *map(listed, columns), seed=seed,
            numbers=numbers)
        return self.result(printed, len(streams))

    def result(self, printed: Printed, count: int) -> WeightTrafficResult:
        records = np.fromfile(self.program.folder / "beats.bin", dtype=np.uint64).astype(np.int64).reshape(-1, 3)
        beats = []
        for n in range(count):
            own = records[records[:, 0] == n]
            beats.append({int(epoch): own[own[:, 1] == epoch, 2] for epoch in np.unique(own[:, 1])})
        return WeightTrafficResult(
            beats=tuple(beats), cycles=printed["cycles"], filled=printed["filled"], violations=printed.violations,
            cycles_a_beat=tuple((printed[f"last{n}"] - printed[f"first{n}"]) / max(printed[f"got{n}"] - 1, 1)
                                for n in range(count)),
            gap=tuple(printed[f"gap{n}"] for n in range(count)), late=tuple(printed[f"late{n}"] for n in range(count)))


@dataclass(frozen=True)
class FlashTraffic:
    """The same for the flash `part`, whose contents are there from the start."""

    part: AnyFlash
    traffic: WeightTraffic

    def run(self, contents: npt.NDArray[np.uint8], streams: Sequence[Taken], *, seed: int = 0,
            restart: float = 0.0) -> WeightTrafficResult:
        """Read the streams, as `WeightTraffic.run`; `contents` are the bytes from the part's offset on."""
        flash.write_cells(self.traffic.program.folder / "cells.hex", contents, self.part.offset)
        return self.traffic.run([np.zeros(0, dtype=np.int64)], streams, seed=seed, restart=restart,
                                numbers={"cells": "cells.hex"})


def listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def compile_weight_traffic(unit: wiring.Component, part: SdramPart, *, streams: int, folder: Path, cache: Path,
                           domain: str = "sync") -> WeightTraffic:
    """The program for `unit`, which has the ports of a `WeightMemory` of `streams` streams with beats of up to 64 bits.

    The chip is in `domain`: `sync` or `memory`.  Raises MissingTool, and ToolFailed with the path of the log.
    """
    top = traffic_top(unit, sdram.Sdram(part=part), streams)
    executable = top.compile(PROGRAM, sdram.MODEL, folder=folder, cache=cache)
    return WeightTraffic(MemoryProgram(executable, folder, "memory of weights", sdram.VIOLATIONS), domain != "sync")


def compile_flash_traffic(memory: WeightMemory, *, folder: Path, cache: Path) -> FlashTraffic:
    """The program for `memory`, in one clock domain.  Raises MissingTool, and ToolFailed with the path of the log."""
    part = flash.flash_of(memory.part)
    top = traffic_top(memory, flash.flash_at(part), len(memory.streams))
    executable = top.compile(PROGRAM, flash.flash_model(part), folder=folder, cache=cache)
    program = MemoryProgram(executable, folder, "memory of weights", flash.flash_violations(part))
    return FlashTraffic(part, WeightTraffic(program, crossed=False))


def traffic_top(unit: wiring.Component, chip: wiring.Component, streams: int) -> ProgramTop:
    """The top in which `unit` has `chip` at its pins."""
    top = ProgramTop()
    m, port = top.module, top.port
    m.domains.memory = clock = ClockDomain("memory")
    m.submodules.unit = unit
    m.submodules.chip = chip
    wiring.connect(m, unit.pins, chip.pins)
    outputs = [getattr(unit, f"o{n}") for n in range(streams)]
    words = [Value.cast(output.payload) for output in outputs]
    if max(len(word) for word in words) > WIDEST:
        raise ValueError(f"beats must have at most {WIDEST} bits")
    ready = port("ready", streams)
    m.d.comb += [
        clock.clk.eq(port("memory_clk", 1)), clock.rst.eq(port("memory_rst", 1)), unit.restart.eq(port("restart", 1)),
        port("filled", 1).eq(unit.filled), port("valid", streams).eq(Cat(output.valid for output in outputs)),
        port("payload", WIDEST * max(streams, 2)).eq(Cat(padded(word) for word in words)),
        *(output.ready.eq(ready[n]) for n, output in enumerate(outputs))]
    connect_fill(unit, top)
    top.shows("counts", chip.counts)
    top.shows("first_kind", chip.first_kind)
    return top


def connect_fill(unit: wiring.Component, top: ProgramTop) -> None:
    """The ports that fill the memory, which a memory that cannot be written leaves alone."""
    fills = "fill" in unit.signature.members
    payload, valid, ready, clear = (top.port(name, width) for name, width in (
        ("fill_payload", len(unit.fill.payload) if fills else 1), ("fill_valid", 1), ("fill_ready", 1), ("clear", 1)))
    if fills:
        top.module.d.comb += [unit.fill.payload.eq(payload), unit.fill.valid.eq(valid), ready.eq(unit.fill.ready),
                              unit.clear.eq(clear)]


def padded(word: Value) -> Value:
    return Cat(word, Const(0, WIDEST - len(word))) if len(word) < WIDEST else word
