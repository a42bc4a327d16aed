"""The simulated chip alone, its pins driven edge by edge or cycle by cycle: for what no controller would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import FlashPart, SdramPart

from .. import flash, sdram
from ..flash import Flash, write_cells
from ..sdram import Sdram
from .program import MemoryProgram, ProgramTop

#: The folder of the C++ programs.
HERE = Path(__file__).parent


def top_of(chip: Flash | Sdram, driven: Sequence[str], answer: str, counters: Sequence[str]) -> ProgramTop:
    """The top with `chip` alone: the program drives the pins `driven` and sees `answer` and the chip's `counters`."""
    top = ProgramTop()
    top.module.submodules.chip = chip
    for name in driven:
        top.drives(name, getattr(chip.pins, name))
    top.shows(answer, getattr(chip.pins, answer))
    for name in counters:
        top.shows(name, getattr(chip, name))
    return top


@dataclass(frozen=True)
class Edge:
    """The pins after `wait` ps; bit 0 of `io` and `driven` is IO0."""

    wait: int
    sck: int = 0
    cs_n: int = 0
    io: int = 0
    driven: int = 0

    def numbers(self) -> list[int]:
        return [self.wait, self.sck, self.cs_n, self.io, self.driven]


@dataclass(frozen=True)
class BareFlashResult:
    """`lines` are the levels of IO3 to IO0 that the chip shows after each edge, int64[edges]."""

    lines: npt.NDArray[np.int64]
    violations: Mapping[str, int]


@dataclass(frozen=True)
class BareFlash:
    """A compiled program."""

    program: MemoryProgram

    def run(self, edges: Sequence[Edge], contents: npt.NDArray[np.uint8], numbers: Mapping[str, object] | None = None,
            ) -> BareFlashResult:
        """Drive the pins so; `numbers` as of `MemoryProgram.run`."""
        folder = self.program.folder
        np.array([edge.numbers() for edge in edges], dtype=np.uint32).tofile(folder / "trace.bin")
        write_cells(folder / "cells.hex", contents, 0)
        printed = self.program.run("trace.bin", "seen.bin", numbers={"cells": "cells.hex", **(numbers or {})})
        seen = np.fromfile(folder / "seen.bin", dtype=np.uint32).astype(np.int64)
        return BareFlashResult(seen, printed.violations)


def compile_bare_flash(part: FlashPart, *, folder: Path, cache: Path) -> BareFlash:
    """The program for the chip of `part`; made, or found in `cache`."""
    top = top_of(Flash(part=part, alone=True), ("sck", "cs_n", "io_o", "io_oe"), "io_i", ("counts", "first_kind"))
    executable = top.compile(HERE / "bare_flash.cpp", flash.MODEL, folder=folder, cache=cache)
    return BareFlash(MemoryProgram(executable, folder, "flash", flash.VIOLATIONS))


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


def compile_bare_sdram(part: SdramPart, *, folder: Path, cache: Path) -> BareSdram:
    """The program for the chip of `part`; made, or found in `cache`."""
    pins = ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq_o", "dq_oe")
    top = top_of(Sdram(part=part), pins, "dq_i", ("counts", "first_kind", "first_cycle"))
    executable = top.compile(HERE / "bare_sdram.cpp", sdram.MODEL, folder=folder, cache=cache)
    return BareSdram(MemoryProgram(executable, folder, "SDRAM", sdram.VIOLATIONS))
