"""The host's port for UDP, sockets and all, with the transport `udp` at the pins of a simulated PHY."""

from __future__ import annotations

import random

import pytest
from hwflow_sim.board import NetworkPort

from hwflow.host.ports import open_port
from hwflow.host.wire import Line
from tests.ethernet.echo import ADDRESS, START_CYCLES, compile_echo, started
from tests.ethernet.loopback import served

pytestmark = pytest.mark.slow  # Verilator and a compiler

RESET = bytes((1, 0, 0, 0, 0, 1, 2, 3, 4))


def test_packets_through_sockets(tmp_path) -> None:
    source = random.Random(4)
    packets = [RESET, *(b"\2" + source.randbytes(source.choice((0, 1, 100, 1471))) for _ in range(200))]
    with started(compile_echo(tmp_path / "board", tmp_path / "cache")) as board:
        board.wait(b"", START_CYCLES)
        with served(NetworkPort(board, ADDRESS.ip, ADDRESS.port)) as name:
            line = open_port(name, 0)
            assert isinstance(line, Line)
            back: list[bytes] = []
            for k in range(0, len(packets), 10):  # what waits in the echo has its bounds
                line.send(packets[k:k + 10])
                while len(back) < min(k + 10, len(packets)):
                    came = line.receive(20.0)
                    assert came
                    back += came
            line.close()
    assert back == packets
