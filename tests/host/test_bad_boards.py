"""Boards that do what they must not: each is one message, soon, and never an answer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hwflow_base.errors import HwflowError

from hwflow.host.host_link import HostLink
from hwflow.host.session import Patience
from hwflow.host.wire import LinkFailed
from tests.host.board import DATA, IDENTITY, POLL, RESULT, STATUS, MemoryPort, ReferenceBoard, framed
from tests.host.test_link import board_of, frames_of


class Talker(ReferenceBoard):
    """A board whose answer to each packet goes through `say(board, kind, answer)`."""

    say: Callable[[ReferenceBoard, int, bytes], bytes]

    def packet(self, body: bytes, *, whole: bool) -> bytes:
        return self.say(self, body[0], super().packet(body, whole=whole))


def talker(say: Callable[[ReferenceBoard, int, bytes], bytes], **more) -> HostLink:
    board = Talker(lambda frame: frame[:10], 64, 10, **more)
    board.say = say
    return link_of(board)


def link_of(board: ReferenceBoard) -> HostLink:
    port = MemoryPort(board)
    return HostLink(port, clock=port.clock, seed=1, patience=Patience(silence=1.0, stall=5.0))


def fails(link: HostLink, message: str, frames: int = 50) -> None:
    with pytest.raises(LinkFailed, match=message):
        link.exchange(random.Random(1).randbytes(frames * 64))
    assert issubclass(LinkFailed, HwflowError)
    assert LinkFailed("").exit_code == 2


def changed(**values) -> HostLink:
    """A board that has something else in place of its own."""
    board = board_of()
    vars(board).update(values)
    return link_of(board)


def largest_packets(size: int) -> HostLink:
    said = b"\2" + bytes(8) + b"\1\0\0\0" * 2 + b"\1\0" + size.to_bytes(2, "little")
    return changed(identity=lambda sequence: framed(IDENTITY, sequence, 0, said))


def another_design(board: ReferenceBoard, kind: int, answer: bytes) -> bytes:
    board.design = bytes([board.resets]) * 8
    return answer


NOISE = random.Random(3)
#: Boards, and what is said of them.
STRANGE: dict[str, tuple[Callable[[], HostLink], str]] = {
    "nothing": (lambda: talker(lambda board, kind, answer: b""),
                "nothing answers on the line of the test in 1 s; is it the board's port"),
    "garbage": (lambda: talker(lambda board, kind, answer: NOISE.randbytes(100)),
                r"the line of the test must send packets, but sent \d+ bytes in 1 s without any; is the rate"),
    "an echo": (lambda: changed(feed=bytes),
                "what is sent to the line of the test comes back: its rx and tx are joined"),
    "another version": (lambda: talker(lambda board, kind, answer: answer, version=3),
                        "must speak version 2 of the protocol, not version 3"),
    "two designs in turn": (lambda: talker(another_design),
                            "must give the same identity twice, not design 68.* and then 0101010101010101"),
    **{f"no {size}": (lambda size=size: changed(**{size: 0}), "must have inputs, outputs and room for data, not")
       for size in ("bytes_in", "bytes_out", "room")},
    **{f"packets of {size}": (lambda size=size: largest_packets(size), "must have packets with up to 1463 bytes of "
                              f"payload, not {size}; make its bitstream") for size in (0, 1464, 65535)},
    **{f"an identity of {len(said)} bytes": (
        lambda said=said: talker(lambda board, kind, answer: framed(IDENTITY, 0x99, 0, said)),
        "must answer RESET with its identity, but did not in 1 s, only with")
       for said in (b"", b"\2", b"\2" + bytes(19), b"\2" + bytes(21))},
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_boards(name):
    make, message = STRANGE[name]
    fails(make(), message)


def after(count: int, what: bytes) -> Callable[[ReferenceBoard, int, bytes], bytes]:
    """`what` in place of the answer to packets of data behind the first `count`."""
    return lambda board, kind, answer: what if kind in (DATA, POLL) and board.taken > count else answer


@pytest.mark.parametrize("what, message", [
    (b"", "does not answer any more; run again when it is powered"),
    (b"noise", "does not answer any more"),
    (framed(IDENTITY, 0, 0, bytes(21)), "started anew; it was reset, or another program uses the port: no"),
    (framed(STATUS, 0, 200, b"\0\2"), "asks for data that was never sent to it, or that it has already"),
    (framed(STATUS, 0, 5, b"\0\0"), "answers, but took no data and gave no results for 5 s"),
    (framed(STATUS, 0, 5, b"\0"), "answers, but took no data and gave no results for 5 s"),
    (framed(0x55, 0, 5, b"\0"), "answers, but took no data and gave no results for 5 s"),
    (framed(DATA, 0, 5, b"\0"), "answers, but took no data and gave no results for 5 s"),
    (framed(RESULT, 0, 5, bytes(129)), "answers, but took no data and gave no results for 5 s"),
    (framed(RESULT, 100, 5, b"\0"), "answers, but took no data and gave no results for 5 s"),
    (b"".join(framed(RESULT, k, 5, bytes(11)) for k in range(20)), "sent results across the end of a frame of 10 "),
])
def test_in_the_middle(what, message):
    fails(talker(after(4, what)), message)


def test_results_nobody_asked_for():
    def say(board: ReferenceBoard, kind: int, answer: bytes) -> bytes:
        return answer + (b"".join(framed(RESULT, k, 0, bytes(10)) for k in range(9)) if kind == DATA else b"")

    fails(talker(say), "sent more than the 20 bytes of results that were asked for", frames=2)


@pytest.mark.parametrize("when", range(1, 12))
def test_a_board_that_starts_anew(when):
    """By its power or its button: it says so to whatever comes next."""
    board = board_of()
    link = link_of(board)
    first, expected = frames_of(board, 5)
    assert link.exchange(first) == expected
    count = 0

    def before(data: bytes) -> None:
        nonlocal count
        count += 1
        if count == when:
            board.start()

    link.port.before_write = before
    data, expected = frames_of(board, 200, seed=7)
    with pytest.raises(LinkFailed, match="started anew"):
        link.exchange(data)
    assert link.exchange(data) == expected, "the next call starts the board anew"


@pytest.mark.parametrize("when", range(1, 27, 3))
def test_another_program_that_resets_the_board(when):
    """A RESET by somebody else: both sequences are 0 again, and old results must not stand among new ones."""
    board = board_of(128, 128)
    link = link_of(board)
    data, expected = frames_of(board, 100)
    count = 0

    def before(written: bytes) -> None:
        nonlocal count
        count += 1
        if count == when + 2:  # two for the handshake
            board.feed(framed(1, 0, 0))

    link.port.before_write = before
    try:
        assert link.exchange(data) == expected  # before anything was sent
        assert when == 1
    except LinkFailed:
        assert when > 1
    assert link.exchange(data) == expected


def test_another_bitstream_while_the_port_is_open():
    board = board_of()
    link = link_of(board)
    link.reset()
    board.design = b"another!"
    with pytest.raises(LinkFailed, match="was given another bitstream while its port was open; open it again"):
        link.reset()


def test_data_that_are_no_frames():
    link = link_of(board_of())
    with pytest.raises(ValueError, match="data must be whole frames of 64 bytes, not 65 bytes"):
        link.exchange(bytes(65))
