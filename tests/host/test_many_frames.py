"""Ten thousand frames over lines that lose and double packets and damage bits: no wrong answer, every loss repaired.

Lines of bytes keep the order of what they carry, so nothing comes out of order here.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hwflow_rtl.io.transports import Spi, Uart
from hwflow_sim.board import LinePort, SimulatedBoard, SpiLine, UartLine

from hwflow.host.host_link import HostLink
from tests.host.digest_core import IDENTITY, digest_board, digests, frames

BYTES_IN, BYTES_OUT, FRAMES = 60, 10, 10_000
#: Probabilities for a packet to be lost, and to come twice, in each direction; for a bit to be wrong.
LOST, DOUBLED, WRONG = 1e-3, 1e-3, 2e-6
FLAG = b"\x7e"


class MangledPort(LinePort):
    """A line that loses and doubles whole packets."""

    def __init__(self, board: SimulatedBoard) -> None:
        super().__init__(board)
        self.chance = random.Random(1)
        self.lost = self.doubled = 0
        self.coming = b""

    def write(self, data: bytes) -> None:
        super().write(self.mangled(data))

    def read(self, timeout: float) -> bytes:
        whole, flag, self.coming = (self.coming + super().read(timeout)).rpartition(FLAG)
        return self.mangled(whole + flag)

    def mangled(self, data: bytes) -> bytes:
        out = b""
        for packet in filter(None, data.split(FLAG)):
            chance = self.chance.random()
            self.lost += chance < LOST
            self.doubled += LOST <= chance < LOST + DOUBLED
            times = 0 if chance < LOST else 2 if chance < LOST + DOUBLED else 1
            out += (FLAG + packet + FLAG) * times
        return out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uart", "spi"])
def test_ten_thousand_frames(kind: str, tmp_path: Path, cache: Path) -> None:
    transport, line = (Uart(divider=8), UartLine(8)) if kind == "uart" else (Spi(), SpiLine(4))
    compiled = digest_board(transport, tmp_path, cache, BYTES_IN, BYTES_OUT, line=type(line))
    with SimulatedBoard(compiled, line=line) as board:
        while board.facts.cycles < 10_000:
            board.wait(b"", 1000)
        port = MangledPort(board)
        link = HostLink(port, clock=port.clock, seed=1)
        assert link.reset().design == IDENTITY
        board.inject(WRONG, 1)
        data = frames(FRAMES, BYTES_IN)
        made = b"".join(link.exchange(data[at:at + 500 * BYTES_IN]) for at in range(0, len(data), 500 * BYTES_IN))
        seen, facts = link.statistics, board.facts
    assert made == digests(data, BYTES_IN, BYTES_OUT)
    print(f"{kind}: {seen.packets_sent} packets sent, {seen.packets_received} came; lost {port.lost}, doubled "
          f"{port.doubled}, bits wrong {facts.flipped_to_board} and {facts.flipped_from_board}; sent again "
          f"{seen.resent}, came again {seen.repeated}, gaps {seen.gaps}, dropped {seen.dropped}, asked {seen.polls}, "
          f"{facts.cycles} cycles")
    assert port.lost > 10
    assert port.doubled > 10
    assert seen.resent > 0
    assert seen.losses > 0
