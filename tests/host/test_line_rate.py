"""A serial line goes up to the highest rate that carries packets: the driver on the RTL of a board, in line time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hwflow_rtl.io.transports import Uart
from hwflow_sim.board import CompiledBoard, RatedPort, SimulatedBoard, UartLine

from hwflow.host import LinkFailed, Patience
from hwflow.host.host_link import HostLink
from hwflow.host.line_rate import bit_time, raise_rate, rates_of, start_safe
from tests.host.digest_core import IDENTITY, digest_board, digests, frames

#: tiny_resnet8: 32 x 32 x 3 bytes in, 10 out.
BYTES_IN, BYTES_OUT = 3072, 10
CLOCK, SAFE = 25e6, 1_000_000
OPTIONS = {"baud": SAFE, "fastest": 3_000_000, "clock_hz": int(CLOCK)}
#: Bits of a byte on the line.
BITS = 10


def test_rates_are_those_of_bridge_and_clock() -> None:
    assert rates_of(OPTIONS) == [3_000_000, 2_000_000, 1_500_000]
    assert rates_of(OPTIONS | {"fastest": 12_000_000}) == [6_000_000, 4_000_000, 3_000_000, 2_000_000, 1_500_000]
    assert rates_of({"baud": 2_000_000, "fastest": 12_000_000, "clock_hz": 100_000_000})[0] == 12_000_000
    assert rates_of({"baud": 1_000_000, "fastest": 12_000_000, "clock_hz": 12_000_000})[0] == 3_000_000
    assert rates_of({"baud": 115200}) == []
    assert bit_time(25e6, 3_000_000) == 133 * 16


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    line = Uart(divider=CLOCK / SAFE, settable=True)
    return digest_board(line, tmp_path_factory.mktemp("board"), cache, BYTES_IN, BYTES_OUT)


@pytest.fixture
def board(compiled: CompiledBoard) -> Iterator[SimulatedBoard]:
    with SimulatedBoard(compiled, line=UartLine(CLOCK / SAFE)) as board:
        board.wait(b"", 10_000)
        yield board


class WeakPort(RatedPort):
    """A line that carries nothing well above `limit` bits a second."""

    limit = 0

    def set_rate(self, baud: int) -> None:
        super().set_rate(baud)
        self.board.inject(0.02 if baud > self.limit else 0.0, 7)


def linked(port: RatedPort) -> HostLink:
    """A driver at the safe rate, as `open_board` begins."""
    link = HostLink(port, clock=port.clock, patience=Patience(silence=0.5, stall=1.0), seed=1)
    port.set_rate(SAFE)
    start_safe(port)
    assert link.reset().design == IDENTITY
    return link


def require_frames(link: HostLink, count: int) -> None:
    data = frames(count, BYTES_IN)
    assert link.exchange(data) == digests(data, BYTES_IN, BYTES_OUT)


@pytest.mark.slow
def test_the_frames_that_three_megabaud_allow(board: SimulatedBoard) -> None:
    """95 % of 3 Mbit/s / (10 bits x 3072 bytes): the rest is headers, escapes and what the first packets wait for."""
    port = RatedPort(board, CLOCK)
    link = linked(port)
    assert raise_rate(link, OPTIONS) == 3_000_000
    began, count = port.clock(), 100
    require_frames(link, count)
    rate, allowed = count / (port.clock() - began), 3_000_000 / BITS / BYTES_IN
    print(f"{rate:.2f} frames/s of {allowed:.2f}, {rate / allowed:.1%}")
    assert link.statistics.losses == 0
    assert rate >= 0.95 * allowed


@pytest.mark.slow
def test_a_rate_that_loses_packets_is_not_trusted(board: SimulatedBoard) -> None:
    port = WeakPort(board, CLOCK)
    port.limit = 2_000_000
    link = linked(port)
    assert raise_rate(link, OPTIONS) == 2_000_000
    assert port.rates == [SAFE, 3_000_000, SAFE, 2_000_000]
    require_frames(link, 3)
    port.limit = SAFE
    with pytest.raises(LinkFailed, match="must carry 3000000 baud, but packets were lost at it; leave --baud out"):
        raise_rate(linked(port), OPTIONS, 3_000_000)


@pytest.mark.slow
def test_a_board_that_another_host_left_at_its_rate(board: SimulatedBoard) -> None:
    """A break brings it back, whatever it does."""
    first = RatedPort(board, CLOCK)
    assert raise_rate(linked(first), OPTIONS, 2_000_000) == 2_000_000
    first.write(bytes(300))
    second = RatedPort(board, CLOCK)
    link = linked(second)
    assert second.rates == [SAFE]
    require_frames(link, 3)
    assert raise_rate(link, OPTIONS) == 3_000_000
    require_frames(link, 3)


@pytest.mark.slow
def test_what_the_board_cannot_have_is_refused_and_changes_nothing(board: SimulatedBoard) -> None:
    port = RatedPort(board, CLOCK)
    link = linked(port)
    assert link.settle(2 * 256) == 0
    assert link.settle(1 << 20) == 0
    require_frames(link, 2)
