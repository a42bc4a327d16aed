"""The driver against a board in memory: clean lines, bad lines, boards that do what they must not."""

from __future__ import annotations

import random

import pytest

from hwflow.host.host_link import HostLink
from hwflow.host.wire import LinkFailed
from tests.host.board import DATA, Line, MemoryPort, ReferenceBoard


def scrambled(frame: bytes, count: int) -> bytes:
    """Bytes of a frame's outputs, which say what its inputs were."""
    return random.Random(frame).randbytes(count)


def board_of(bytes_in: int = 64, bytes_out: int = 10, **more) -> ReferenceBoard:
    return ReferenceBoard(lambda frame: scrambled(frame, bytes_out), bytes_in, bytes_out, **more)


def frames_of(board: ReferenceBoard, count: int, seed: int = 0) -> tuple[bytes, bytes]:
    """Inputs of `count` frames, and the outputs that they must give."""
    data = random.Random(seed).randbytes(count * board.bytes_in)
    parts = (data[k : k + board.bytes_in] for k in range(0, len(data), board.bytes_in))
    return data, b"".join(map(board.network, parts))


def link_to(board: ReferenceBoard, there: Line | None = None, back: Line | None = None, **more) -> HostLink:
    port = MemoryPort(board, there, back, **more)
    return HostLink(port, clock=port.clock, seed=1)


@pytest.mark.quick(42)
@pytest.mark.parametrize("sizes", [(64, 10), (1, 1), (3072, 10), (127, 129), (128, 128), (129, 500), (7, 1000)])
@pytest.mark.parametrize("room, window", [(1, 4), (100, 1), (128, 4), (512, 1), (512, 4), (65535, 4)])
@pytest.mark.parametrize("largest", [128, 1463])
def test_every_result_comes_and_nothing_is_sent_twice(sizes, room, window, largest):
    board = board_of(*sizes, room=room, window=window, largest=largest)
    link = link_to(board)
    for count in (1, 0, 23 if room > 1 else 2):
        data, expected = frames_of(board, count, seed=count)
        assert link.exchange(data) == expected
    assert link.statistics.losses == 0
    assert (board.lost, board.full, board.sent_again) == (0, 0, 0)
    assert link.statistics.repeated == 0


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_bytes_in_pieces(pieces):
    board = board_of(200, 300)
    link = link_to(board, pieces=pieces)
    data, expected = frames_of(board, 40)
    assert link.exchange(data) == expected
    assert link.statistics.losses == 0


def test_sequences_go_round():
    board = board_of(128, 128, room=65535, window=64)
    link = link_to(board)
    for seed in range(3):
        data, expected = frames_of(board, 300, seed)
        assert link.exchange(data) == expected
    assert link.statistics.losses == 0


def test_a_slow_core_is_waited_for():
    board = board_of(300, 20, speed=0.2, room=256)
    link = link_to(board)
    data, expected = frames_of(board, 12)
    assert link.exchange(data) == expected


def test_repeated_data_do_not_repeat_for_ever():
    """Answers that come late, behind questions after a time-out, bring nothing new and must not be taken for losses."""
    board = board_of(128, 10, room=1024)
    link = link_to(board)
    link.reset()
    late, answers = [], board.feed

    def feed(data: bytes) -> bytes:
        late.append(answers(data))
        return late.pop(0) if len(late) > 3 else b""

    board.feed = feed
    data, expected = frames_of(board, 60)
    assert link.exchange(data) == expected
    assert link.statistics.polls > 0
    assert link.statistics.resent == 0


def test_progress_ends_with_everything():
    board = board_of()
    link = link_to(board)
    data, expected = frames_of(board, 9)
    seen = []
    link.exchange(data, lambda done, total: seen.append((done, total)))
    assert seen == [(10 * (k + 1), len(expected)) for k in range(9)]


BAD = {
    "bit errors": {"bits": 1e-4},
    "many bit errors": {"bits": 4e-4},
    "a bit of 1000": {"bits": 1e-3},
    "lost and doubled bytes": {"bytes_": 2e-3},
    "bursts of noise": {"bursts": 2e-3},
    "cuts": {"cuts": 1e-3},
    "everything": {"bits": 1e-4, "bytes_": 1e-3, "bursts": 5e-4, "cuts": 5e-4},
}


@pytest.mark.quick(14)
@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [(64, 10), (200, 300)])
def test_no_wrong_answer_on_a_bad_line(kind, seed, sizes):
    board = board_of(*sizes)
    there, back = Line(2 * seed, **BAD[kind]), Line(2 * seed + 1, **BAD[kind])
    link = link_to(board, there, back, pieces=(0, 1, 50)[seed % 3])
    for count in (30, 10):
        data, expected = frames_of(board, count, seed)
        assert link.exchange(data) == expected
    assert there.damaged + back.damaged


def test_every_loss_is_reported():
    """100 frames with one bit of 10 000 wrong: whatever the line broke stands in the statistics."""
    board = board_of(768, 300)
    there, back = Line(1, bits=1e-4), Line(2, bits=1e-4)
    link = link_to(board, there, back)
    data, expected = frames_of(board, 100)
    assert link.exchange(data) == expected
    seen, packets = link.statistics, len(data) // 128
    assert board.taken == packets
    assert seen.resent >= there.hits[DATA, 128] > 20
    assert seen.dropped >= back.hits.total() > 20
    assert seen.repeated + seen.gaps > 0
    facts = seen.facts()
    assert facts["dropped"] == sum(facts["drops"].values()) >= facts["checksum_errors"] > 0
    assert facts["packets_sent"] == seen.packets_sent > packets


@pytest.mark.parametrize("seed", range(4))
def test_a_line_that_breaks_most_packets_is_not_given_up(seed):
    """One bit of 1000 is wrong: one of three long packets comes through, and results come all the same, each right."""
    board = board_of(200, 300)
    there, back = Line(2 * seed, bits=1e-3), Line(2 * seed + 1, bits=1e-3)
    link = link_to(board, there, back)
    data, expected = frames_of(board, 60, seed)
    assert link.exchange(data) == expected
    assert there.hits[DATA, 128] > len(data) // 128
    assert link.statistics.polls > 50


def test_a_line_that_breaks_everything_is_given_up_in_time():
    board = board_of(200, 300)
    there, back = Line(1), Line(2)
    link = link_to(board, there, back)
    link.reset()
    there.bits = back.bits = 0.03
    began = link.port.clock()
    with pytest.raises(LinkFailed, match="does not answer any more"):
        link.exchange(frames_of(board, 5)[0])
    assert link.port.clock() - began < 2 * link.patience.silence
