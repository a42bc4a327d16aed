"""Random and damaged frames at the pins of a PHY: the gateware hears what the reference hears, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_sim.board import CompiledBoard, SimulatedBoard
from hwflow_sim.board.network import Datagram, Host, arp, cut, on_line, received, received_datagram

from .echo import BOARD, START_CYCLES, compile_echo, record, started
from .mutants import Mutants
from .reference import RESET, Reference

pytestmark = pytest.mark.slow  # Verilator and a compiler

FRAMES, AT_ONCE = 100_000, 500
#: Cycles without movement after which all has come back; the longest a store of packets can take to empty.
QUIET = 2000


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> CompiledBoard:
    place: Path = tmp_path_factory.mktemp("echo")
    return compile_echo(place / "board", place / "cache")


def records(lines: list[bytes], mutants: Mutants) -> bytes:
    """With gaps of any length, the shortest of one cycle among them."""
    return b"".join(record(line, mutants.random.choice((1, 2, 3, 12, 12, 12, 40))) for line in lines)


def heard(board: SimulatedBoard, lines: bytes) -> tuple[list[tuple[Host, bytes]], list[Host]]:
    """The packets that came back, each with where it went, and the answers to requests for the MAC."""
    packets, answers = [], []
    for line in cut(board.exchange(lines, quiet=QUIET)):
        frame = received(line)
        assert frame is not None, line.hex()
        if frame[12:14] == b"\x08\x06":
            asker = Host(frame[32:38], ".".join(map(str, frame[38:42])), 0)
            assert frame == arp(2, BOARD, asker, to=asker.mac, asked=asker.mac)
            answers.append(asker)
        else:
            found = received_datagram(frame)
            assert found is not None, frame.hex()
            assert found.source == BOARD
            packets.append((found.target, found.payload))
    return packets, answers


def still_answers(board: SimulatedBoard, reference: Reference) -> None:
    """A request for the MAC, and a RESET of a host that nobody has heard of."""
    host = Host(bytes.fromhex("0a0b0c0d0e0f"), "192.168.1.99", 5)
    packet = bytes([RESET, 7, 0, 0, 0, 1, 2, 3, 4])
    lines = [on_line(arp(1, host, BOARD)), on_line(Datagram(host, BOARD, packet).frame())]
    for line in lines:
        reference.take(line)
    packets, answers = heard(board, b"".join(record(line, 200) for line in lines))
    assert packets == [(host, packet)]
    assert answers == [Host(host.mac, host.ip, 0)]


@pytest.mark.parametrize("seed", [1, 2])
def test_frames_of_all_kinds(echo: CompiledBoard, seed: int) -> None:
    """The peer of a packet that waits may be another one when it is sent: so where packets go is compared only for the
    last of each exchange."""
    mutants, reference = Mutants(BOARD, seed), Reference(BOARD)
    with started(echo, seed=seed) as board:
        board.wait(b"", START_CYCLES)
        for _ in range(FRAMES // 2 // AT_ONCE):
            lines = [mutants.line() for _ in range(AT_ONCE)]
            for line in lines:
                reference.take(line)
            packets, answers = heard(board, records(lines, mutants))
            assert [packet for _, packet in packets] == [packet for _, packet in reference.packets]
            assert not packets or packets[-1][0] == reference.peer
            # Who asks while an answer waits is not answered; the last one is, or the one before.
            assert set(answers) <= set(reference.answers)
            assert bool(answers) == bool(reference.answers)
            still_answers(board, reference)
            reference.packets.clear()
            reference.answers.clear()
        assert board.facts.broken == 0
