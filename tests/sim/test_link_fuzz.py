"""Random and damaged packets into the pins of a simulated board: never a wrong answer, and always one to a RESET."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_sim.board import CompiledBoard, SimulatedBoard, UartLine, compile_board, rtl_design

from tests.rtl.link_host import (
    DATA,
    IDENTITY,
    POLL,
    RESET,
    RESULT,
    STATUS,
    Seen,
    body_of,
    escaped,
    frame_of,
    packet,
    packets_in,
    whole_of,
)
from tests.sim.small_board import DIVIDER, answers, small_top

PAYLOAD, ROOM = 512, 2048
#: Packets between two RESETs, and bytes that the core may get in one session: fewer than it has weights.
ROUND, MOST = 60, 280
#: Cycles of silence after which nothing more comes.
QUIET = 6000


def mutated(noise: random.Random, whole: bytes) -> bytes:
    """Something that is nearly a packet, as bytes of the line; or not even nearly."""
    what = noise.randrange(9)
    place = noise.randrange(len(whole))
    if what == 0:  # a bit
        whole = whole[:place] + bytes([whole[place] ^ 1 << noise.randrange(8)]) + whole[place + 1:]
    elif what == 1:  # cut
        whole = whole[:place]
    elif what == 2:  # more
        whole = whole[:place] + noise.randbytes(noise.choice((1, 1, 3, 40))) + whole[place:]
    elif what == 3:  # another header with a right checksum
        header = bytearray(whole[:5])
        header[noise.randrange(3, 5)] = noise.randrange(256)
        whole = whole_of(bytes(header) + whole[5:-4])
    elif what == 4:  # a kind that the board does not know, or that comes from boards
        whole = whole_of(bytes([noise.choice((0, 4, 5, 6, 0x81, 0x83, noise.randrange(7, 256)))]) + whole[1:-4])
    elif what == 5:
        whole = noise.randbytes(noise.choice((0, 1, 8, 9, 10, 30, 300)))
    line = bytearray(frame_of(whole[:-4])[:1]) + escaped(whole) + b"\x7e"
    if what == 6:  # an escape or a flag where none is, or none where one is
        place = noise.randrange(len(line))
        line[place] = noise.choice((0x7E, 0x7D, noise.randrange(256)))
    elif what == 7:
        del line[noise.randrange(len(line))]
    return bytes(line)


class Oracle:
    """What of some bytes a board takes, written from the page: the data, while there is room for all of them."""

    def __init__(self, line: bytes) -> None:
        self.data, self.expected = b"", 0
        for seen in packets_in(line)[0]:
            if seen.kind == DATA and 0 < len(seen.payload) <= PAYLOAD and seen.sequence == self.expected & 255:
                self.data += seen.payload
                self.expected += 1


def round_of(noise: random.Random) -> bytes:
    """Bytes of the line: packets of a session and what is none, with data that a core has weights for."""
    line, expected = b"", 0
    for _ in range(ROUND):
        kind = noise.choice((DATA, DATA, DATA, POLL))
        payload = noise.randbytes(noise.choice((1, 1, 2, 5, 16))) if kind == DATA else b""
        sequence = noise.choice((expected, expected, expected, expected - 1, expected + 1, noise.randrange(256))) & 255
        acknowledge = noise.choice((0, 0, 0, 1, 4, noise.randrange(256)))
        whole = whole_of(body_of(kind, sequence, acknowledge, payload))
        piece = b"\x7e" + escaped(whole) + b"\x7e" if noise.random() < 0.4 else mutated(noise, whole)
        oracle = Oracle(line + piece)
        if len(Oracle(line + piece + b"\x7e").data) <= MOST and not has_reset(piece):
            line, expected = line + piece, oracle.expected
    return line


def has_reset(piece: bytes) -> bool:
    return any(seen.kind == RESET and not seen.payload for seen in packets_in(piece)[0])


@pytest.fixture(scope="module", params=[
    pytest.param(False, id="slow line"), pytest.param(True, id="fast link", marks=pytest.mark.slow)])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
             ) -> CompiledBoard:
    top, technology = small_top(shape=LinkShape(PAYLOAD, ROOM, fast=request.param))
    folder = tmp_path_factory.mktemp("fuzzed")
    return compile_board(rtl_design(top, technology.roms), folder=folder, cache=cache, jobs=2)


@pytest.mark.parametrize("rounds", [8, pytest.param(1700, marks=pytest.mark.slow)])
def test_anything_at_the_pins_of_a_board(compiled: CompiledBoard, rounds: int) -> None:
    noise, results, packets = random.Random(rounds), 0, 0
    with SimulatedBoard(compiled, line=UartLine(DIVIDER)) as board:
        board.wait(b"", 10_000)
        for token in itertools.islice(itertools.cycle(range(256)), rounds):
            # What was begun before is ended by the flag in front of the RESET.
            found, wrong, rest = packets_in(board.exchange(packet(RESET, token), quiet=QUIET))
            assert (wrong, rest) == (0, b"")
            assert [(seen.kind, seen.sequence) for seen in found] == [(IDENTITY, token)]
            line = round_of(noise) + b"\x7e"
            oracle, packets = Oracle(line), packets + ROUND
            found, wrong, rest = packets_in(board.exchange(line + packet(POLL), quiet=QUIET))
            assert (wrong, rest) == (0, b"")
            results += right_answers(found, oracle)
        found = packets_in(board.exchange(packet(RESET, 7), quiet=QUIET))[0]
        assert [(seen.kind, seen.sequence) for seen in found] == [(IDENTITY, 7)]
    assert results > rounds
    print(f"{packets} packets, {results} results")


def right_answers(found: list[Seen], oracle: Oracle) -> int:
    """Of the answers to one session's packets the results, each of which must be that of its place."""
    expected, results = answers(oracle.data), 0
    assert {seen.kind for seen in found} <= {STATUS, RESULT}, "only what a board of this kind says"
    for seen in found:
        if seen.kind == RESULT:
            assert seen.payload == expected[seen.sequence:seen.sequence + 1]
            results += 1
    last = [seen for seen in found if seen.kind == STATUS][-1]
    assert last.acknowledge == oracle.expected & 255
    return results
