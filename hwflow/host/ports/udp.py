"""A board at UDP: one packet of the link in each datagram."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from hwflow.host.packets import Drop
from hwflow.host.wire import LinkFailed

#: Where a board listens if its design says nothing else.
DEFAULT_PORT = 17510
#: Bytes of a datagram that an Ethernet frame of 1500 carries.
LARGEST = 1472
#: Bytes that the system keeps for us while we compute.
BUFFER = 1 << 22
#: Datagrams that one call takes at most.
MOST = 512
#: Seconds in which the network must take a datagram.
WRITE_TIMEOUT = 10.0
#: Linux' IP_MTU_DISCOVER and IP_PMTUDISC_DO (linux/in.h), which Python does not name: a datagram that is too large for
#: the network is an error then, and not fragments, which a board drops.
MTU_DISCOVER, ALWAYS = 10, 2
FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
NO_WAY = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL)


def open_udp(name: str) -> UdpLine:
    """The board at `udp://host[:port]`.  LinkFailed where the name or the network is not so."""
    return UdpLine(*parsed(name))


def parsed(name: str) -> tuple[str, int]:
    """Host and port of a name; LinkFailed where it has another form."""
    try:
        parts = urlsplit(name)
        host, port = parts.hostname, DEFAULT_PORT if parts.port is None else parts.port
        plain = not (parts.path or parts.query or parts.fragment or parts.username or parts.password)
    except ValueError:
        host, port, plain = None, 0, False
    if not host or not plain or not port:
        raise LinkFailed(f"the port '{name}' must be udp://HOST or udp://HOST:PORT, with a PORT from 1 to 65535",
                         f"a board is at port {DEFAULT_PORT} unless its board file says otherwise")
    return host, port


class UdpLine:
    """A `hwflow.host.wire.Line` to the board at `host` and `port`.  What others send is not heard."""

    ordered = False

    def __init__(self, host: str, port: int) -> None:
        self.name = f"udp://{host}:{port}"
        self.bytes_sent = self.bytes_received = 0
        self.drops: Counter[Drop] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            with contextlib.suppress(OSError):  # what a system allows
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            if sys.platform == "linux":
                self._socket.setsockopt(socket.IPPROTO_IP, MTU_DISCOVER, ALWAYS)
            self._socket.connect((host, port))
        except socket.gaierror as error:
            self._socket.close()
            raise LinkFailed(f"the port '{self.name}' must name a host of the network, which it does not "
                             f"({error.strerror})", "give the address of the board") from None
        except OSError as error:
            self._socket.close()
            raise self._failure(error) from None

    def send(self, packets: Sequence[bytes]) -> None:
        """Send each in a datagram; LinkFailed where there is no way to the board."""
        for packet in packets:
            if len(packet) > LARGEST:
                raise ValueError(f"a packet must have at most {LARGEST} bytes, not {len(packet)}")
            self._send(packet)
            self.bytes_sent += len(packet)

    def receive(self, timeout: float) -> list[bytes]:
        """The datagrams that have come; waits at most `timeout` seconds for the first."""
        packets: list[bytes] = []
        try:
            select.select([self._socket], [], [], max(timeout, 0.0))
            while len(packets) < MOST:
                packets.append(self._socket.recv(LARGEST + 1))
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:  # ValueError: of a socket that was closed
            raise self._failure(error) from None
        self.bytes_received += sum(map(len, packets))
        self.drops[Drop.TOO_LONG] += sum(len(packet) > LARGEST for packet in packets)
        return [packet for packet in packets if len(packet) <= LARGEST]

    def close(self) -> None:
        """Let the port go.  May be called twice."""
        self._socket.close()

    def _send(self, packet: bytes) -> None:
        until = time.monotonic() + WRITE_TIMEOUT
        while True:
            try:
                self._socket.send(packet)
                return
            except OSError as error:
                if error.errno not in FULL or time.monotonic() > until:
                    raise self._failure(error) from None
            select.select([], [self._socket], [], 0.01)

    def _failure(self, error: Exception) -> LinkFailed:
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.ECONNREFUSED:
            return LinkFailed(f"there must be a board at {self.name}, but the host there says that nothing listens",
                              "see that the address is that of the board, and of nothing else in the network")
        if number == errno.EMSGSIZE:
            return LinkFailed(f"the network to {self.name} must carry datagrams of {LARGEST} bytes (an MTU of 1500)",
                              "set the MTU of the interface to 1500 or more; take the board out of tunnels")
        if number in NO_WAY:
            return LinkFailed(f"there must be a way to {self.name}, but there is none ({os.strerror(number)})",
                              "give this machine's interface an address in the network of the board")
        text = os.strerror(number) if number else str(error)
        return LinkFailed(f"the port {self.name} is gone ({text})", "see that the network is up, and run again")
