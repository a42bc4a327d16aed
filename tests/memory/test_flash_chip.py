"""The simulated flash: what is right passes, and each thing that is wrong is counted as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hwflow_sim.flash import Chip, ChipResult, Edge, compile_chip

from tests.memory.flash_parts import QUAD

CELLS = np.random.default_rng(5).integers(0, 256, QUAD.bytes, dtype=np.uint8)
#: On one line IO0 is driven, IO2 and IO3 are high.
ONE, ALL, NONE = 0b1101, 0b1111, 0
#: Times that break nothing, in ps: half a clock, chip select to clock and back, chip select high.
HALF, AROUND, HIGH = 10_000, 10_000, 70_000
AWAKE = {"asleep": 0}
QUAD_READY = {"asleep": 0, "qe": 1}
#: A clock: the levels of IO3 to IO0 and which of them are driven.
Clock = tuple[int, int]


@pytest.fixture(scope="session")
def chip(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Chip:
    return compile_chip(QUAD, folder=tmp_path_factory.mktemp("flash"), cache=cache)


def one_line(*octets: int) -> list[Clock]:
    return [(0b1100 | octet >> bit & 1, ONE) for octet in octets for bit in range(7, -1, -1)]


def four_lines(*octets: int) -> list[Clock]:
    return [(octet >> bit & 15, ALL) for octet in octets for bit in (4, 0)]


def listen(clocks: int, driven: int = NONE) -> list[Clock]:
    return [(0b1100, driven)] * clocks


def command(clocks: Sequence[Clock], *, high: int = HIGH, setup: int = AROUND, hold: int = AROUND, half: int = HALF,
            data_hold: int = HALF, data_setup: int = HALF) -> list[Edge]:
    """Chip select low, the clocks, chip select high.

    `data_setup` and `data_hold` are the times from a change of the lines to the rising clock, and from there on.
    """
    first = clocks[0] if clocks else (0b1100, ONE)
    edges = [Edge(high - data_setup + HALF, 0, 1, *first), Edge(data_setup, 0, 0, *first)]
    wait = setup
    for lines, after in pairwise([*clocks, (0b1100, NONE)]):
        edges.append(Edge(wait, 1, 0, *lines))
        if data_hold < half:
            edges += [Edge(data_hold, 1, 0, *after), Edge(half - data_hold, 0, 0, *after)]
        else:
            edges.append(Edge(half, 0, 0, *lines))
            edges.append(Edge(0 if data_setup >= half else half - data_setup, 0, 0, *after))
        wait = min(half, data_setup)
    return [*edges[:-1], Edge(hold - half, 0, 1, *first)]


def quad_read(address: int, octets: int, *, mode: int = 0xA0, opcode: bool = True) -> list[Clock]:
    start = one_line(0xEB) if opcode else []
    return [*start, *four_lines(*address.to_bytes(3, "big"), mode), *listen(4 + 2 * octets)]
