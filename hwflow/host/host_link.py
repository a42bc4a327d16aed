"""The host's end of the link: bytes of inputs in, bytes of outputs out, over a line that loses and damages bytes.

Everything stands on a `BytePort` or a `Line` and a clock, so tests can have any line and any time.  What comes out is
what the board computed of what went in, or an exception.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator

from hwflow_base.errors import HwflowError

from hwflow.host.handshake import Handshake
from hwflow.host.pace import Patience
from hwflow.host.packets import Identity, Kind, Memory, MemoryState
from hwflow.host.session import Item, Progress, Session, without_weights
from hwflow.host.wire import BytePort, Line, LinkFailed, Statistics, Wire

__all__ = ["HostLink"]

#: Seconds for a byte that the slowest memory takes to write and read an image, with much to spare.
CHECK_SECONDS = 1e-6
#: The same to check an image in a flash: ten clocks of a core.
SEAL_SECONDS = 1e-5


class HostLink:
    """The board on `port`.  Its line belongs to this object until `close`.

    An exception out of `exchange` or `stream`, also an interrupt, or a stream that was not read to its end, leaves
    frames half-way: the next call starts the board anew.
    """

    def __init__(self, port: BytePort | Line, *, patience: Patience | None = None,
                 clock: Callable[[], float] = time.monotonic, seed: int | None = None) -> None:
        self.port = port
        self.patience = patience or Patience()
        self._wire = Wire(port, clock)
        self._chance = random.Random(seed)
        self._session: Session | None = None
        #: Calls so far: a stream ends with the next one.
        self._calls = 0
        self._identity: Identity | None = None
        #: The image that frames are for, and what the board said of its memory.
        self._digest: bytes | None = None
        self._memory: Memory | None = None

    @property
    def statistics(self) -> Statistics:
        return self._wire.statistics

    @property
    def waited(self) -> float:
        """Seconds in which this end waited for the line."""
        return self._wire.waited

    @property
    def room(self) -> int:
        """Bytes of data for which the board has room; 0 before it said so."""
        return 0 if self._identity is None else self._identity.room

    def clock(self) -> float:
        """Seconds by the clock of the line."""
        return self._wire.clock()

    def reset(self) -> Identity:
        """Start the board anew and ask what it is, and for the image of `use`.

        LinkFailed where nothing answers, or in another language, or another board than the first time.
        """
        identity = self._begin(Kind.RESET)
        if self._digest is not None:
            self._memory = self._handshake().memory(self._digest)
        return identity

    def restart(self) -> None:
        """`reset`, between two calls: a stream that was not read to its end is over."""
        self._calls += 1
        self.reset()

    def settle(self, wanted: int) -> int | None:
        """Ask the line for other settings: see `Handshake.settings`."""
        return self._handshake().settings(wanted)

    def proves(self, rounds: int) -> bool:
        """Whether so many packets of each size go both ways, none of them lost; then the board is as after a RESET."""
        self._session = None
        assert self._identity is not None, "a board that was reset"
        if not self._handshake().proves(rounds, self._identity.largest):
            return False
        self.reset()
        return True

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
        return b"".join(self.stream((data,), progress))

    def stream(self, source: Iterable[Item], progress: Progress | None = None) -> Generator[bytes, None, None]:
        """The outputs of each item of `source`, in order: any number of whole frames, or None where there are none at
        the moment.  LinkFailed as of `exchange`; HwflowError where another call began before this one ended."""
        self._calls += 1
        call = self._calls
        if self._session is None:
            self.reset()
        session, self._session = self._session, None
        assert session is not None
        if self._digest is not None and self._memory is not None and not self._memory.holds(self._digest):
            raise without_weights(self.port.name, self._memory)
        for results in session.stream(self._whole(source, call), progress):
            yield results
            self._require_mine(call)
        self._session = session

    def _whole(self, source: Iterable[Item], call: int) -> Iterator[Item]:
        """The items of `source`, which must be whole frames."""
        assert self._identity is not None
        size = self._identity.bytes_in
        for item in source:
            self._require_mine(call)
            if item is not None and len(item) % size:
                raise ValueError(f"data must be whole frames of {size} bytes, not {len(item)} bytes")
            yield item

    def _require_mine(self, call: int) -> None:
        if call != self._calls:
            raise HwflowError("a stream must end before the next call on the same board begins",
                              "read it to its end, or close it")

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
