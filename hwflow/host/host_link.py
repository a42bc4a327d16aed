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
from hwflow.host.packets import Identity, Kind, Memory, MemoryState
from hwflow.host.session import Progress, Session, without_weights
from hwflow.host.wire import BytePort, LinkFailed, Statistics, Wire

__all__ = ["HostLink"]

#: Seconds for a byte that the slowest memory takes to write and read an image, with much to spare.
CHECK_SECONDS = 1e-6
#: The same to check an image in a flash: ten clocks of a core.
SEAL_SECONDS = 1e-5


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
        #: The image that frames are for, and what the board said of its memory.
        self._digest: bytes | None = None
        self._memory: Memory | None = None

    @property
    def statistics(self) -> Statistics:
        return self._wire.statistics

    def reset(self) -> Identity:
        """Start the board anew and ask what it is, and for the image of `use`.

        LinkFailed where nothing answers, or in another language, or another board than the first time.
        """
        identity = self._begin(Kind.RESET)
        if self._digest is not None:
            self._memory = self._handshake().memory(self._digest)
        return identity

    def use(self, digest: bytes) -> Memory:
        """Frames are for the image with this digest from now on.  What the board says of its memory."""
        self._digest = digest
        self.reset()
        assert self._memory is not None
        return self._memory

    def fill(self, image: bytes, digest: bytes, progress: Progress | None = None) -> None:
        """Put `image` into the board's memory, and `use` it.  LinkFailed where the memory does not take it."""
        self._begin(Kind.CLEAR)
        session, self._session = self._session, None
        assert session is not None
        session.fill(image, progress)
        wait = self.patience.silence + CHECK_SECONDS * len(image)
        end = self._wire.clock() + wait
        handshake = self._handshake()
        while not handshake.memory(digest).holds(digest):
            if self._wire.clock() > end:
                raise LinkFailed(
                    f"the memory of the board on {self.port.name} must take its weights, but did not in "
                    f"{wait:.3g} s after all had been sent",
                    "load the bitstream of the design again, and see that the board has the memory of its board file",
                )
        if not (memory := self.use(digest)).holds(digest):
            raise without_weights(self.port.name, memory)

    def wait_for_image(self, digest: bytes) -> None:
        """`use` the image in the board's flash, which the board reads once after its start to see that it is whole.

        LinkFailed where it is not that one, or what is wrong with the flash, or where this takes too long.
        """
        memory = self.use(digest)
        wait = self.patience.silence + SEAL_SECONDS * memory.image_bytes
        end = self._wire.clock() + wait
        while memory.state is MemoryState.FILLING:
            if self._wire.clock() > end:
                raise LinkFailed(
                    f"the board on {self.port.name} must have read the {memory.image_bytes} bytes of weights in its "
                    f"flash in {wait:.3g} s, but has not",
                    "load the bitstream of the design again, and see that its clock runs",
                )
            memory = self._memory = self._handshake().memory(digest)
        if not memory.holds(digest):
            raise without_weights(self.port.name, memory)

    def exchange(self, data: bytes, progress: Progress | None = None) -> bytes:
        """The outputs of the whole frames `data`, in order.  LinkFailed where they do not come or might be others."""
        if self._session is None:
            self.reset()
        session, self._session = self._session, None
        assert session is not None
        if len(data) % session.identity.bytes_in:
            raise ValueError(f"data must be whole frames of {session.identity.bytes_in} bytes, not {len(data)} bytes")
        if self._digest is not None and self._memory is not None and not self._memory.holds(self._digest):
            raise without_weights(self.port.name, self._memory)
        results = session.exchange(data, progress)
        self._session = session
        return results

    def close(self) -> None:
        self.port.close()

    def _handshake(self) -> Handshake:
        return Handshake(self._wire, self.patience.silence, self._chance)

    def _begin(self, kind: Kind) -> Identity:
        """A session after RESET or CLEAR."""
        self._session = None
        handshake = self._handshake()
        identity = handshake.identity(kind)
        if self._identity not in (None, identity):
            raise LinkFailed(
                f"the board on {self.port.name} was given another bitstream while its port was open", "open it again"
            )
        self._identity = identity
        self._session = Session(self._wire, identity, self.patience, handshake.round_trip)
        return identity
