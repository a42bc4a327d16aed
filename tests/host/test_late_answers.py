"""The driver on lines that keep the order of bytes and nothing else: answers that are late, lost, or come twice."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable

import pytest
from hwflow_base.errors import HwflowError

from hwflow.host import LinkFailed, Patience
from hwflow.host.host_link import HostLink
from tests.host.board import DATA, IDENTITY, POLL, RESET, RESULT, STATUS, ReferenceBoard
from tests.host.test_link import board_of, frames_of

#: What becomes of a packet: how often it passes.
Fate = Callable[[int, bytes], int]


def kind_of(packet: bytes) -> int:
    return packet[1]


class SlowPort:
    """A line on which every byte arrives `delay` seconds after it was sent, in both directions; in order.

    `there` and `back` say for the number of a packet, and its bytes, how often it arrives.
    """

    name = "the slow line"

    def __init__(self, board: ReferenceBoard, delay: float = 0.0, there: Fate = lambda k, data: 1,
                 back: Fate = lambda k, data: 1) -> None:
        self.board, self.delay, self.fates = board, delay, (there, back)
        self.time = 0.0
        self.counts = [0, 0]
        self.going: deque[tuple[float, bytes]] = deque()
        self.coming: deque[tuple[float, bytes]] = deque()

    def clock(self) -> float:
        return self.time

    def passed(self, way: int, data: bytes) -> bytes:
        passed = b""
        for packet in re.findall(rb"\x7e[^\x7e]+\x7e", data):
            passed += packet * self.fates[way](self.counts[way], packet)
            self.counts[way] += 1
        return passed

    def write(self, data: bytes) -> None:
        self.going.append((self.time + self.delay, self.passed(0, data)))

    def arrive(self) -> None:
        """What has reached the board by now, packet by packet."""
        while self.going and self.going[0][0] <= self.time:
            when, data = self.going.popleft()
            answer = self.board.feed(data)
            self.coming.append((when + self.delay, self.passed(1, answer)))

    def read(self, timeout: float) -> bytes:
        end = self.time + max(timeout, 1e-6)
        while True:
            self.arrive()
            if self.coming and self.coming[0][0] <= self.time:
                return self.coming.popleft()[1]
            events = [queue[0][0] for queue in (self.going, self.coming) if queue]
            if min(events, default=end) >= end:
                self.time = end
                return b""
            self.time = max(self.time, min(events))

    def close(self) -> None:
        pass


def run_until_right(link: HostLink, data: bytes, expected: bytes, tries: int = 1) -> int:
    """What comes is right or an error; how many errors came first."""
    for failures in range(tries):
        try:
            found = link.exchange(data)
        except LinkFailed:
            continue
        assert found == expected
        return failures
    raise HwflowError(f"no answer in {tries} tries")


@pytest.mark.quick(20)
@pytest.mark.parametrize("seed", range(40))
def test_a_board_that_started_anew_under_many_packets(seed: int) -> None:
    """It answers each of them with an IDENTITY of its sequence, and these are late: none answers the next RESET."""
    board = board_of(64, 10, room=65535)
    port = SlowPort(board, 0.05)
    link = HostLink(port, clock=port.clock, seed=seed, patience=Patience(5.0, 30.0))
    data, expected = frames_of(board, 400)

    def press(done: int, total: int) -> None:
        if done == 10 * (seed % 7 + 1):
            board.start()

    with pytest.raises(LinkFailed, match="started anew"):
        link.exchange(data, press)
    assert run_until_right(link, data, expected) == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delay", [0.01, 0.1, 0.3, 0.6])
def test_answers_to_earlier_questions_are_none(seed: int, delay: float) -> None:
    """The driver asks again and again before the first answer is there, in one session after the other."""
    board = board_of(64, 10)
    port = SlowPort(board, delay)
    link = HostLink(port, clock=port.clock, seed=seed, patience=Patience(30.0, 60.0))
    for turn in range(4):
        data, expected = frames_of(board, 5, turn)
        assert run_until_right(link, data, expected) == 0
        link.reset()


def test_no_question_has_a_sequence_that_was_sent_lately() -> None:
    board = board_of(128, 10, room=65535)
    sent: list[tuple[int, int]] = []

    def note(k: int, packet: bytes) -> int:
        sequence = packet[2] if packet[2] != 0x7D else packet[3] ^ 0x20
        if kind_of(packet) == RESET:
            assert sequence not in [number for _, number in sent[-150:]]
        sent.append((kind_of(packet), sequence))
        return 1

    port = SlowPort(board, there=note)
    link = HostLink(port, clock=port.clock, seed=1)
    data, expected = frames_of(board, 40)
    for _ in range(30):
        assert link.exchange(data) == expected
        link.reset()
    assert sum(kind == RESET for kind, _ in sent) == 62


@pytest.mark.quick(4)
@pytest.mark.parametrize("places", [range(0, 12, 3), pytest.param(range(12), marks=pytest.mark.slow), pytest.param(
    range(60, 70), marks=pytest.mark.slow), pytest.param(range(250, 270), marks=pytest.mark.slow)])
@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("sizes", [(128, 128), (64, 300)])
@pytest.mark.parametrize("way", ["there", "back"])
def test_each_packet_lost_or_doubled(times: int, sizes: tuple[int, int], way: str, places: range) -> None:
    """At the start, at the edges of windows, where sequences go round; alone, with the next one, and with the one after
    that: the run is right, or says that it is not."""
    for first in places:
        for second in (first, first + 1, first + 2):
            board = board_of(*sizes, room=512)
            fate: Fate = lambda k, packet, hit=(first, second): times if k in hit else 1  # noqa: E731
            port = SlowPort(board, 0.002, **{way: fate})
            link = HostLink(port, clock=port.clock, seed=first, patience=Patience(5.0, 30.0))
            data, expected = frames_of(board, 280 if first > 70 else 70)
            failures = run_until_right(link, data, expected, tries=2)
            assert not (failures and times == 0), (first, second)  # what is lost is sent again


@pytest.mark.parametrize("kinds", [(STATUS,), (RESULT,), (STATUS, RESULT), (DATA,), (POLL,), (DATA, POLL)])
@pytest.mark.parametrize("every", [3, 8])
def test_many_packets_of_a_kind_are_lost(kinds: tuple[int, ...], every: int) -> None:
    chance = random.Random(every)

    def fate(k: int, packet: bytes) -> int:
        return int(kind_of(packet) not in kinds or chance.random() > 1 / every)

    board = board_of(100, 130, room=512, window=4)
    port = SlowPort(board, 0.003, fate, fate)
    link = HostLink(port, clock=port.clock, seed=every, patience=Patience(20.0, 60.0))
    for seed in range(2):
        data, expected = frames_of(board, 150, seed)
        run_until_right(link, data, expected, tries=5)  # where four questions in a row are lost, it gives up


@pytest.mark.parametrize("lost", range(5))
def test_answers_to_resets_are_lost(lost: int) -> None:
    """The first IDENTITYs; and a RESET that comes twice at once."""
    gone = iter(range(lost))
    board = board_of(64, 10)
    port = SlowPort(board, 0.01, lambda k, packet: 1 + (kind_of(packet) == RESET and lost == 0),
                    lambda k, packet: int(kind_of(packet) != IDENTITY or next(gone, None) is None))
    link = HostLink(port, clock=port.clock, seed=lost, patience=Patience(10.0, 30.0))
    data, expected = frames_of(board, 9)
    assert run_until_right(link, data, expected, tries=2) <= (lost == 0)
