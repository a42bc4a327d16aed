"""The simulated chip alone, its pins driven cycle by cycle: for what no controller would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import SdramPart

from ..sdram import MODEL, VIOLATIONS, Sdram
from .program import MemoryProgram, ProgramTop

PROGRAM = Path(__file__).with_name("bare_sdram.cpp")


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
class BareSdramResult:
    """`data` is what the chip shows before each of its rising edges, `early` before each falling one, int64[cycles]."""

    data: npt.NDArray[np.int64]
    early: npt.NDArray[np.int64]
    violations: Mapping[str, int]
    first_cycle: int


@dataclass(frozen=True)
class BareSdram:
    """A compiled program."""

    program: MemoryProgram

    def run(self, cycles: Sequence[Pins], numbers: Mapping[str, object] | None = None) -> BareSdramResult:
        """Drive the pins so in each cycle; `numbers` as of `MemoryProgram.run`."""
        folder = self.program.folder
        np.array([pins.numbers() for pins in cycles], dtype=np.uint32).tofile(folder / "trace.bin")
        printed = self.program.run("trace.bin", "seen.bin", numbers=numbers)
        seen = np.fromfile(folder / "seen.bin", dtype=np.uint32).astype(np.int64).reshape(-1, 2)
        return BareSdramResult(seen[:, 0], seen[:, 1], printed.violations, printed["first_cycle"])


def compile_bare_sdram(part: SdramPart, *, folder: Path, cache: Path, say: Callable[[str], None] = print) -> BareSdram:
    """The program for the chip of `part`; made, or found in `cache`."""
    top, chip = ProgramTop(), Sdram(part=part)
    top.module.submodules.chip = chip
    for name in ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq_o", "dq_oe"):
        top.drives(name, getattr(chip.pins, name))
    top.shows("dq_i", chip.pins.dq_i)
    for name in ("counts", "first_kind", "first_cycle"):
        top.shows(name, getattr(chip, name))
    executable = top.compile(PROGRAM, MODEL, folder=folder, cache=cache, say=say)
    return BareSdram(MemoryProgram(executable, folder, "SDRAM", VIOLATIONS))
