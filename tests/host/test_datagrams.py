"""The driver on a line of datagrams, which come late, twice, in another order, damaged, or not at all."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from hwflow.host.host_link import HostLink
from hwflow.host.session import Patience
from hwflow.host.wire import LinkFailed
from tests.host.board import ReferenceBoard
from tests.host.test_link import board_of, frames_of

#: Seconds on the way at least, and at most where a datagram is late.
DELAY, LATE = 1e-4, 8e-4


class DatagramLine:
    """A `Line` on a board in memory.  `trouble`: how many of all datagrams it loses, and as many that it doubles, holds
    back and damages."""

    name = "the line of datagrams"
    ordered = False

    def __init__(self, board: ReferenceBoard, trouble: float = 0.0, seed: int = 0) -> None:
        self.board, self.trouble = board, trouble
        self.noise = random.Random(seed)
        self.time, self.counter = 0.0, itertools.count()
        self.bytes_sent = self.bytes_received = 0
        self.drops: Counter = Counter()
        #: (when, number, to the board, data)
        self.under_way: list[tuple[float, int, bool, bytes]] = []
        self.coming: list[bytes] = []
        self.seen: Counter = Counter()

    def clock(self) -> float:
        return self.time

    def send(self, packets: Sequence[bytes]) -> None:
        for packet in packets:
            self.bytes_sent += len(packet)
            self.pass_on(packet, to_board=True)

    def pass_on(self, packet: bytes, *, to_board: bool) -> None:
        what = int(self.noise.random() / self.trouble) if self.trouble else 4
        delays = [DELAY, DELAY]
        if what == 0:
            delays = []
        elif what == 2:
            delays = [self.noise.uniform(DELAY, LATE)]
        elif what == 3:
            hit = self.noise.randrange(len(packet))
            packet = packet[:hit] + bytes([packet[hit] ^ 1 << self.noise.randrange(8)]) + packet[hit + 1:]
        self.seen[min(what, 4)] += 1
        for delay in delays[:2 if what == 1 else 1]:
            heapq.heappush(self.under_way, (self.time + delay, next(self.counter), to_board, packet))

    def receive(self, timeout: float) -> list[bytes]:
        end = self.time + max(timeout, 1e-6)
        while not self.coming and self.under_way and self.under_way[0][0] <= end:
            self.time, _, to_board, packet = heapq.heappop(self.under_way)
            if to_board:
                for answer in self.board.datagram(packet):
                    self.pass_on(answer, to_board=False)
            else:
                self.coming.append(packet)
        if not self.coming:
            self.time = end
        came, self.coming = self.coming, []
        self.bytes_received += sum(map(len, came))
        return came

    def close(self) -> None:
        pass


def linked(board: ReferenceBoard, trouble: float = 0.0, seed: int = 0) -> HostLink:
    line = DatagramLine(board, trouble, seed)
    return HostLink(line, clock=line.clock, seed=seed, patience=Patience(2.0, 5.0))


@pytest.mark.parametrize("sizes", [(64, 10), (3072, 10), (1463, 1463), (5, 4000)])
def test_a_good_line_of_datagrams(sizes: tuple[int, int]) -> None:
    board = board_of(*sizes, largest=1463, room=8192)
    link = linked(board)
    data, expected = frames_of(board, 40)
    assert link.exchange(data) == expected
    assert link.statistics.losses == link.statistics.repeated == 0
    assert link.statistics.bytes_sent == link.port.bytes_sent


@pytest.mark.parametrize("trouble, frames", [
    (1e-3, 1000), (2e-2, 200), (0.1, 60), pytest.param(1e-3, 10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(3))
def test_no_wrong_answer_on_a_bad_one(trouble: float, frames: int, seed: int) -> None:
    """What is lost, doubled, damaged or late is repaired: no exchange fails."""
    board = board_of(700, 300, largest=1463, room=8192)
    link = linked(board, trouble, seed)
    data, expected = frames_of(board, frames, seed)
    assert link.exchange(data) == expected
    assert min(link.port.seen[what] for what in range(4)) > 0 or frames * trouble < 5
    if link.port.seen[0] + link.port.seen[3] > 5:
        assert link.statistics.losses > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_board_that_starts_anew_is_found(seed: int) -> None:
    board = board_of(largest=1463, room=8192)
    link = linked(board, 1e-3, seed)
    data, expected = frames_of(board, 400)

    def press(done: int, total: int) -> None:
        if done == 1000:
            board.start()

    with pytest.raises(LinkFailed, match="started anew"):
        link.exchange(data, press)
    assert link.exchange(data) == expected
