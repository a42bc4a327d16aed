"""The simulated chip alone, its pins driven edge by edge: for what no controller would do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Signal
from hwflow_base.errors import ToolFailed
from hwflow_rtl.memory import FlashPart

from ..sdram.program import compile_program
from ..undefined import run_arguments
from .model import MODEL, VIOLATIONS, Flash

PROGRAM = Path(__file__).parent / "chip.cpp"


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
class ChipResult:
    """`lines` are the levels of IO3 to IO0 that the chip shows after each edge, int64[edges]."""

    lines: npt.NDArray[np.int64]
    violations: Mapping[str, int]


@dataclass(frozen=True)
class Chip:
    """A compiled program; `folder` is where runs take place."""

    executable: Path
    folder: Path

    def run(self, edges: Sequence[Edge], contents: npt.NDArray[np.uint8], numbers: Mapping[str, int] | None = None,
            ) -> ChipResult:
        """Drive the pins so; `numbers` are the plusargs of the model."""
        np.array([edge.numbers() for edge in edges], dtype=np.uint32).tofile(self.folder / "trace.bin")
        write_cells(self.folder / "cells.hex", contents, 0)
        command = [self.executable, "trace.bin", "seen.bin", "+cells=cells.hex", *run_arguments(1, numbers)]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise ToolFailed(f"the simulated flash ended with {done.returncode}", done.stderr)
        found = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        seen = np.fromfile(self.folder / "seen.bin", dtype=np.uint32).astype(np.int64)
        counted = {kind: found[f"violation{n}"] for n, kind in enumerate(VIOLATIONS) if found[f"violation{n}"]}
        return ChipResult(seen, counted)


def write_cells(path: Path, contents: npt.NDArray[np.uint8], first: int) -> None:
    """The bytes of `contents` from address `first` on, for $readmemh."""
    path.write_text(f"@{first:x}\n" + "\n".join(f"{octet:02x}" for octet in contents.tolist()) + "\n")


def compile_chip(part: FlashPart, *, folder: Path, cache: Path, say: Callable[[str], None] = print) -> Chip:
    """The program for the chip of `part`; made, or found in `cache`."""
    m = Module()
    m.submodules.chip = chip = Flash(part=part, alone=True)
    ports: list[Signal] = []
    for name in ("sck", "cs_n", "io_o", "io_oe"):
        ports.append(Signal(len(getattr(chip.pins, name)), name=name))
        m.d.comb += getattr(chip.pins, name).eq(ports[-1])
    for name, value in (("io_i", chip.pins.io_i), ("counts", chip.counts), ("first_kind", chip.first_kind)):
        ports.append(Signal(len(value), name=name))
        m.d.comb += ports[-1].eq(value)
    return Chip(compile_program(m, ports, program=PROGRAM, folder=folder, cache=cache, say=say, model=MODEL), folder)
