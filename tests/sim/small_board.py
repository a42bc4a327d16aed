"""A core that uses each kind of unit once on a board's pins, and what it answers, in numpy."""

from __future__ import annotations

import numpy as np
from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.io.clocking import Clocking
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.io.transports import Uart
from hwflow_rtl.vendor import Generic, Technology, Timing
from hwflow_sim.board import LinePort, SimulatedBoard

from hwflow.host import Patience
from hwflow.host.host_link import HostLink
from tests.synth.small_core import SmallCore

IDENTITY = b"small.01"
ROWS, PRODUCTS = 300, 2
DIVIDER = 8


def small_core(technology: Technology) -> SmallCore:
    return SmallCore(technology, products=PRODUCTS, rows=ROWS, words=300)


def small_top(shape: LinkShape | None = None) -> tuple[BoardTop, Generic]:
    """Before synthesis; the contents of its ROM are a file.  `shape`: of its link, else what fits the RAM."""
    technology = Generic(timing=Timing(multiply=3), hex_roms=True)
    clocking = Clocking(technology=technology, board_mhz=12.0, has_reset=True, reset_active_low=True)
    transport = Uart(divider=DIVIDER)
    transport.shape = shape
    top = BoardTop(core=small_core(technology), clocking=clocking, transport=transport, identity=IDENTITY,
                   technology=technology, leds=3)
    return top, technology


def answers(data: bytes) -> bytes:
    """What the core makes of so many bytes since its start: each times a row of weights, both halves of the sum."""
    weights = np.random.default_rng(1).integers(0, 256, (ROWS, PRODUCTS), dtype=np.uint8).view(np.int8).astype(int)
    assert len(data) < ROWS
    sums = (np.frombuffer(data, np.int8).astype(int)[:, None] * weights[1:len(data) + 1]).sum(axis=1) & 0xFFFF
    return ((sums >> 8) ^ (sums & 0xFF)).astype(np.uint8).tobytes()


def noise(count: int, seed: int = 3) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8).tobytes()


def linked(board: SimulatedBoard, patience: Patience | None = None) -> HostLink:
    """The host's end of the link to a board that has started."""
    port = LinePort(board)
    board.wait(b"", 10_000)
    return HostLink(port, patience=patience or Patience(0.4, 1.0), clock=port.clock, seed=1)
