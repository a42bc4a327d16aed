"""What is done to the board of the small design, so that whatever is wrong in it shows.

Packets of all kinds on a line that is good, that loses bits, and that carries no packets; at several bit rates; every
word of its ROM, and all of its queues several times; its button.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from hwflow_sim.board import RatedPort, SimulatedBoard

from hwflow.host import Patience
from hwflow.host.host_link import HostLink
from hwflow.host.line_rate import bit_time, rates_of, start_safe
from hwflow.host.packets import Kind, Packet, encode
from hwflow.host.wire import framed
from tests.sim.small_board import IDENTITY, ROWS, answers, noise

#: All rows of the ROM but the first, and more rows than its address can count.
DATA, WALK = noise(ROWS - 2), noise(530, 4)
#: The share of bit times with the wrong level, and its seed.
BAD_LINES = (3e-4, 5), (3e-4, 6)
#: Clock cycles without a byte after which nothing more comes.
QUIET = 50_000
#: Bits of the packet LINE.
SETTING_BITS = 32
#: Clock cycles of the shortest bit that the simulated line keeps up with.
SHORTEST = 6
SECONDS = Patience(silence=0.3, stall=0.3)


def play(board: SimulatedBoard, clock_hz: float, options: Mapping[str, int | str]) -> Iterator[object]:
    """Everything that is to be seen of `board`, one thing after the other; LinkFailed where nothing is."""
    port = RatedPort(board, clock_hz)
    link = HostLink(port, patience=SECONDS, clock=port.clock, seed=1)
    board.wait(b"", 10_000)
    yield from start(link, options)
    yield right(link, DATA[:40])
    fastest, *others = rates_of({**options, "fastest": int(clock_hz / SHORTEST)})
    for rate in (*others, fastest):
        yield from start(link, options)
        yield link.settle(bit_time(clock_hz, rate))
        port.set_rate(rate)
        yield right(link, DATA[:20])
    yield right(link, DATA)
    for bit in range(SETTING_BITS):
        taken = link.settle(1 << bit)
        yield taken
        if taken != 0:
            yield from start(link, options)
    yield link.reset().design == IDENTITY
    yield from (link.exchange(WALK), link.exchange(WALK[::-1]), board.exchange(garbage(), quiet=QUIET), board.facts)
    for line in BAD_LINES:
        board.inject(*line)
        yield link.reset().design == IDENTITY
        yield from (link.exchange(DATA), board.facts, link.statistics.losses)
    board.inject(0.0, 0)
    board.reset()
    yield from start(link, options)
    yield right(link, DATA[:40])
    yield board.facts


def start(link: HostLink, options: Mapping[str, int | str]) -> Iterator[object]:
    """At the bit rate of the board file."""
    assert isinstance(link.port, RatedPort)
    link.port.set_rate(int(options["baud"]))
    start_safe(link.port)
    yield link.reset().design == IDENTITY
    yield link.port.board.facts


def right(link: HostLink, data: bytes) -> bool:
    """Whether the answers to these bytes, the first after a reset, are those of the definition."""
    link.reset()
    return link.exchange(data) == answers(data)


def garbage() -> bytes:
    """Packets that are none, or none that a board expects: of all kinds, too long, cut, damaged, out of turn."""
    chance, parts = random.Random(7), list[bytes]()
    for kind in (*Kind, *Kind):
        packet = Packet(kind, chance.randrange(256), chance.randrange(256), chance.randbytes(chance.randrange(200)))
        whole = bytearray(encode(packet))
        if chance.random() < 0.3:
            whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        parts.append(framed(bytes(whole[:chance.choice((len(whole), len(whole), chance.randrange(len(whole))))])))
    return b"".join([*parts, chance.randbytes(300)])
