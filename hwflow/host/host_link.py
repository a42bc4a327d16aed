"""The host's end of the link: bytes of inputs in, bytes of outputs out, over a line that loses and damages bytes.

Everything stands on a `BytePort` and a clock, so tests can have any line and any time.  What comes out is what the
board computed of what went in, or an exception.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from hwflow.host.handshake import Handshake
from hwflow.host.pace import Patience
from hwflow.host.packets import Identity
from hwflow.host.session import Progress, Session
from hwflow.host.wire import BytePort, LinkFailed, Statistics, Wire

__all__ = ["HostLink"]


class HostLink:
    """The board on `port`.  Its line belongs to this object until `close`.

    An exception out of `exchange`, also an interrupt, leaves frames half-way: the next call starts the board anew.
    """

    def __init__(self, port: BytePort, *, patience: Patience | None = None,
                 clock: Callable[[], float] = time.monotonic, seed: int | None = None) -> None:
        self.port = port
        self.patience = patience or Patience()
        self._wire = Wire(port, clock)
        self._chance = random.Random(seed)
        self._session: Session | None = None
        self._identity: Identity | None = None

    @property
    def statistics(self) -> Statistics:
        return self._wire.statistics

    def reset(self) -> Identity:
        """Start the board anew and ask what it is.

        LinkFailed where nothing answers, or in another language, or another board than the first time.
        """
        self._session = None
        handshake = Handshake(self._wire, self.patience.silence, self._chance)
        identity = handshake.identity()
        if self._identity not in (None, identity):
            raise LinkFailed(
                f"the board on {self.port.name} was given another bitstream while its port was open", "open it again"
            )
        self._identity = identity
        self._session = Session(self._wire, identity, self.patience, handshake.round_trip)
        return identity

    def exchange(self, data: bytes, progress: Progress | None = None) -> bytes:
        """The outputs of the whole frames `data`, in order.  LinkFailed where they do not come or might be others."""
        if self._session is None:
            self.reset()
        session, self._session = self._session, None
        assert session is not None
        if len(data) % session.identity.bytes_in:
            raise ValueError(f"data must be whole frames of {session.identity.bytes_in} bytes, not {len(data)} bytes")
        results = session.exchange(data, progress)
        self._session = session
        return results

    def close(self) -> None:
        self.port.close()
