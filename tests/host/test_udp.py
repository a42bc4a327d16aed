"""The port of a board at UDP, against sockets of this machine."""

from __future__ import annotations

import socket

import pytest

from hwflow.host import LinkFailed
from hwflow.host.packets import Drop
from hwflow.host.ports import is_serial, open_port
from hwflow.host.ports.udp import LARGEST, UdpLine, parsed
from hwflow.host.wire import Line


@pytest.fixture
def peer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        other.settimeout(5)
        yield other


def test_a_packet_is_a_datagram(peer) -> None:
    line = open_port(f"udp://127.0.0.1:{peer.getsockname()[1]}", 0)
    assert isinstance(line, Line)
    packets = [b"a", bytes(LARGEST), b"last"]
    line.send(packets)
    found = [peer.recvfrom(2048) for _ in packets]
    assert [data for data, _ in found] == packets
    for data in (*packets, bytes(LARGEST + 1), b"end"):
        peer.sendto(data, found[0][1])
    back: list[bytes] = []
    while len(back) < 4:
        back += line.receive(5.0)
    assert back == [*packets, b"end"]
    assert line.drops == {Drop.TOO_LONG: 1}
    assert line.bytes_sent == LARGEST + 5
    assert line.receive(0.0) == []
    line.close()
    line.close()
    with pytest.raises(LinkFailed, match="is gone"):
        line.receive(0.0)


def test_what_others_send_is_not_heard(peer) -> None:
    line = UdpLine("127.0.0.1", peer.getsockname()[1])
    line.send([b"hello"])
    _, address = peer.recvfrom(100)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"a lie", address)
    peer.sendto(b"true", address)
    assert line.receive(5.0) == [b"true"]
    line.close()


def test_nothing_listens(peer) -> None:
    port = peer.getsockname()[1]
    peer.close()
    line = UdpLine("127.0.0.1", port)
    line.send([b"x"])
    with pytest.raises(LinkFailed, match="nothing listens"):
        line.receive(5.0)
    line.close()


@pytest.mark.parametrize("name, host, port", [
    ("udp://192.168.1.50", "192.168.1.50", 17510), ("udp://board.lan:5", "board.lan", 5)])
def test_names(name: str, host: str, port: int) -> None:
    assert parsed(name) == (host, port)
    assert not is_serial(name)


@pytest.mark.parametrize("name", ["udp:", "udp://", "udp://:5", "udp://a:b", "udp://a:0", "udp://a:70000", "udp://a/b",
                                  "udp://me@a", "udp://[", "udp:192.168.1.50"])
def test_wrong_names(name: str) -> None:
    with pytest.raises(LinkFailed, match=r"must be udp://HOST or udp://HOST:PORT"):
        open_port(name, 0)


def test_a_packet_that_is_too_long() -> None:
    line = UdpLine("127.0.0.1", 9)
    with pytest.raises(ValueError, match="at most 1472 bytes"):
        line.send([bytes(LARGEST + 1)])
    line.close()
