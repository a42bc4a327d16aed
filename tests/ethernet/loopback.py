"""A simulated board behind a socket of UDP, as a board in a network is."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from hwflow_sim.board import NetworkPort

#: Seconds of a driver's time that pass between two looks at the socket while nothing comes.
STEP = 0.001


@contextlib.contextmanager
def served(port: NetworkPort) -> Iterator[str]:
    """The name under which a driver opens what is behind `port`; the board runs in a thread of its own."""
    done = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("127.0.0.1", 0))
        ours.setblocking(False)
        thread = threading.Thread(target=serve, args=(port, ours, done))
        thread.start()
        try:
            yield f"udp://127.0.0.1:{ours.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def serve(port: NetworkPort, ours: socket.socket, done: threading.Event) -> None:
    """Datagrams of the last one who sent any to the board, and its packets back."""
    peer = None
    while not done.is_set():
        packets = []
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, peer = ours.recvfrom(2048)
                packets.append(packet)
        port.send(packets)
        for packet in port.receive(STEP):
            assert peer is not None
            ours.sendto(packet, peer)
