"""The simulated chip alone, its pins driven edge by edge: for what no controller would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_rtl.memory import FlashPart

from ..flash import MODEL, VIOLATIONS, Flash, write_cells
from .program import MemoryProgram, ProgramTop

PROGRAM = Path(__file__).with_name("bare_flash.cpp")


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


def compile_bare_flash(part: FlashPart, *, folder: Path, cache: Path, say: Callable[[str], None] = print) -> BareFlash:
    """The program for the chip of `part`; made, or found in `cache`."""
    top, chip = ProgramTop(), Flash(part=part, alone=True)
    top.module.submodules.chip = chip
    for name in ("sck", "cs_n", "io_o", "io_oe"):
        top.drives(name, getattr(chip.pins, name))
    top.shows("io_i", chip.pins.io_i)
    for name in ("counts", "first_kind"):
        top.shows(name, getattr(chip, name))
    executable = top.compile(PROGRAM, MODEL, folder=folder, cache=cache, say=say)
    return BareFlash(MemoryProgram(executable, folder, "flash", VIOLATIONS))
