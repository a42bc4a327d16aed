"""The simulated chip alone, its pins driven cycle by cycle: for what no controller would do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Signal
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import SdramPart

from ..undefined import run_arguments
from .model import VIOLATIONS, Sdram
from .program import compile_program

PROGRAM = Path(__file__).parent / "chip.cpp"


class Command(IntEnum):
    """Levels of ras_n, cas_n and we_n, ras_n highest (JEDEC 21-C, SDRAM command truth table)."""

    SET_MODE = 0b000
    REFRESH = 0b001
    PRECHARGE = 0b010
    ACTIVATE = 0b011
    WRITE = 0b100
    READ = 0b101
    STOP_BURST = 0b110
    NOTHING = 0b111


@dataclass(frozen=True)
class Pins:
    """The pins in a cycle."""

    command: Command = Command.NOTHING
    bank: int = 0
    address: int = 0
    data: int | None = None
    mask: int = 0
    cke: int = 1
    cs_n: int = 0

    def numbers(self) -> list[int]:
        return [self.cke, self.cs_n, self.command, self.bank, self.address, self.mask, int(self.data is not None),
                self.data or 0]


@dataclass(frozen=True)
class ChipResult:
    """`data` is what the chip shows before each of its rising edges, `early` before each falling one, int64[cycles]."""

    data: npt.NDArray[np.int64]
    early: npt.NDArray[np.int64]
    violations: Mapping[str, int]
    first_cycle: int


@dataclass(frozen=True)
class Chip:
    """A compiled program; `folder` is where runs take place."""

    executable: Path
    folder: Path

    def run(self, cycles: Sequence[Pins], limits: Mapping[str, int] | None = None) -> ChipResult:
        """Drive the pins so in each cycle; `limits` as in `Traffic.run`."""
        np.array([pins.numbers() for pins in cycles], dtype=np.uint32).tofile(self.folder / "trace.bin")
        command = [self.executable, "trace.bin", "seen.bin", *run_arguments(1, limits)]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise ToolFailed(f"the simulated SDRAM ended with {done.returncode}", done.stderr)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        seen = np.fromfile(self.folder / "seen.bin", dtype=np.uint32).astype(np.int64).reshape(-1, 2)
        counted = {kind: found[f"violation{n}"] for n, kind in enumerate(VIOLATIONS) if found[f"violation{n}"]}
        return ChipResult(seen[:, 0], seen[:, 1], counted, found["first_cycle"])


def compile_chip(part: SdramPart, *, folder: Path, cache: Path, say: Callable[[str], None] = print) -> Chip:
    """The program for the chip of `part`; made, or found in `cache`."""
    m = Module()
    m.submodules.chip = chip = Sdram(part=part)
    ports: list[Signal] = []
    for name in ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq_o", "dq_oe"):
        ports.append(Signal(len(getattr(chip.pins, name)), name=name))
        m.d.comb += getattr(chip.pins, name).eq(ports[-1])
    for name, value in (("dq_i", chip.pins.dq_i), ("counts", chip.counts), ("first_kind", chip.first_kind),
                        ("first_cycle", chip.first_cycle)):
        ports.append(Signal(len(value), name=name))
        m.d.comb += ports[-1].eq(value)
    return Chip(compile_program(m, ports, program=PROGRAM, folder=folder, cache=cache, say=say), folder)
