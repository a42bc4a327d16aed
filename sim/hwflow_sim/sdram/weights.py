"""A memory of weights with the simulated chip behind it, and a compiled program that fills it and takes its beats.

In: a `WeightMemory`, or a unit with the same ports, and words.  Out: the beats of each stream, violations of the data
sheet, cycles.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal, Value
from amaranth.lib import wiring
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import SdramPart

from ..undefined import run_arguments
from .model import MODEL, VIOLATIONS, Sdram
from .program import compile_program

PROGRAM = Path(__file__).parent / "weights.cpp"
#: Of a memory's clock that nothing uses: its first edge never comes.
NEVER = 1 << 62
WIDEST = 64
#: What the program prints of a chip's counters.
COUNTERS = 24


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
    """What a run gave.

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
    """A compiled program; `folder` is where runs take place, `violations` are what the chip counts."""

    executable: Path
    folder: Path
    crossed: bool
    violations: tuple[str, ...] = VIOLATIONS

    def run(self, images: Sequence[npt.NDArray[np.int64]], streams: Sequence[Taken], *, seed: int = 0,
            fill_stall: float = 0.0, restart: float = 0.0, clear: Sequence[int] = (), ratio: Fraction | int = 1,
            numbers: Mapping[str, int | str] | None = None) -> WeightTrafficResult:
        """Fill the memory with the first of `images`, where it can be filled, and read the streams.

        In each cycle all is restarted with the chance `restart`, for up to 16 cycles.  In the cycles `clear` the images
        are forgotten, and the next of `images` is filled.  `ratio` is the clock of `sync` divided by that of the
        memory, where these are two.  `numbers` are the plusargs of the chip.  Raises ToolFailed where nothing moves any
        more.
        """
        np.concatenate(images).astype(np.uint32).tofile(self.folder / "words.bin")
        period = 1_000_000
        columns = [[each.beats for each in streams], [round(256 * each.stall) for each in streams],
                   [each.stop or 0 for each in streams],
                   [int(each.pace * 2**20) if each.pace else 0 for each in streams]]
        command = [self.executable, "words.bin", len(images[0]), "beats.bin", seed, round(256 * fill_stall),
                   round(65536 * restart), listed(clear), period, round(period * ratio) if self.crossed else NEVER,
                   *map(listed, columns), *run_arguments(seed, numbers)]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        if done.returncode or "stuck" in found:
            raise ToolFailed(f"the simulated memory of weights must answer, and did not: {done.stdout}{done.stderr}")
        return self.result(found, len(streams))

    def result(self, found: Mapping[str, int], count: int) -> WeightTrafficResult:
        records = np.fromfile(self.folder / "beats.bin", dtype=np.uint64).astype(np.int64).reshape(-1, 3)
        beats = []
        for n in range(count):
            own = records[records[:, 0] == n]
            beats.append({int(epoch): own[own[:, 1] == epoch, 2] for epoch in np.unique(own[:, 1])})
        return WeightTrafficResult(
            beats=tuple(beats), cycles=found["cycles"], filled=found["filled"],
            violations={kind: found[f"violation{n}"] for n, kind in enumerate(self.violations)
                        if found[f"violation{n}"]},
            cycles_a_beat=tuple((found[f"last{n}"] - found[f"first{n}"]) / max(found[f"got{n}"] - 1, 1)
                                for n in range(count)),
            gap=tuple(found[f"gap{n}"] for n in range(count)), late=tuple(found[f"late{n}"] for n in range(count)))


def listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def compile_weight_traffic(unit: wiring.Component, part: SdramPart, *, streams: int, folder: Path, cache: Path,
                           domain: str = "sync", say: Callable[[str], None] = print) -> WeightTraffic:
    """The program for `unit`, which has the ports of a `WeightMemory` of `streams` streams with beats of up to 64 bits.

    The chip is in `domain`: `sync` or `memory`.  Raises MissingTool, and ToolFailed with the path of the log.
    """
    made = traffic_program(unit, Sdram(part=part), MODEL, streams=streams, folder=folder, cache=cache, say=say)
    return WeightTraffic(made, folder, domain != "sync")


def traffic_program(unit: wiring.Component, chip: Any, model: Path, *, streams: int, folder: Path, cache: Path,
                    say: Callable[[str], None]) -> Path:
    """The executable for `unit` with `chip` at its pins; `chip` needs the file `model`."""
    m, ports = Module(), []

    def port(name: str, width: int) -> Signal:
        ports.append(Signal(width, name=name))
        return ports[-1]

    m.domains.memory = clock = ClockDomain("memory")
    m.submodules.unit = unit
    m.submodules.chip = chip
    wiring.connect(m, unit.pins, chip.pins)
    outputs = [getattr(unit, f"o{n}") for n in range(streams)]
    words = [Value.cast(each.payload) for each in outputs]
    if max(len(word) for word in words) > WIDEST:
        raise ValueError(f"beats must have at most {WIDEST} bits")
    ready = port("ready", streams)
    m.d.comb += [
        clock.clk.eq(port("memory_clk", 1)), clock.rst.eq(port("memory_rst", 1)),
        *filled_by(unit, port), unit.restart.eq(port("restart", 1)), port("filled", 1).eq(unit.filled),
        port("valid", streams).eq(Cat(each.valid for each in outputs)),
        port("payload", WIDEST * max(streams, 2)).eq(Cat(padded(word) for word in words)),
        *(each.ready.eq(ready[n]) for n, each in enumerate(outputs))]
    for name, width in (("counts", 32 * COUNTERS), ("first_kind", 32)):
        m.d.comb += port(name, width).eq(getattr(chip, name))
    return compile_program(m, ports, program=PROGRAM, folder=folder, cache=cache, say=say, model=model)


def filled_by(unit: Any, port: Callable[[str, int], Signal]) -> list[Any]:
    """Connects what fills the memory to ports, which a memory that cannot be written leaves alone."""
    fills = "fill" in unit.signature.members
    payload, valid, ready, clear = (port(name, width) for name, width in (
        ("fill_payload", len(unit.fill.payload) if fills else 1), ("fill_valid", 1), ("fill_ready", 1), ("clear", 1)))
    if not fills:
        return []
    return [unit.fill.payload.eq(payload), unit.fill.valid.eq(valid), ready.eq(unit.fill.ready), unit.clear.eq(clear)]


def padded(word: Value) -> Value:
    return Cat(word, Const(0, WIDEST - len(word))) if len(word) < WIDEST else word
