"""The host's end of the link: bytes of inputs in, bytes of outputs out, over a line that loses and damages bytes.

Everything stands on a `BytePort` or a `Line` and a clock, so tests can have any line and any time.  What comes out is
what the board computed of what went in, or an exception.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NoReturn, TypeVar

from hwflow_base.errors import HwflowError

from hwflow.host.packets import LARGEST_PAYLOAD, VERSION, Identity, Kind, Memory, MemoryState, Packet
from hwflow.host.session import Item, Patience, Progress, Session, without_weights
from hwflow.host.wire import BytePort, Line, LinkFailed, Statistics, Wire

# The first words with a board: start it anew, ask what it is, and what is in its memory.


Answer = TypeVar("Answer")

#: Length of what a line can be set to.
SETTINGS_BYTES = 4
#: A sequence that a board does not expect after a RESET.
UNEXPECTED = 128

#: Seconds that the first question waits for its answer, how much longer each further one, and the longest as a share of
#: all the time: where one bit of 1000 is wrong, every third question has no answer.
FIRST_ANSWER, LONGER, SHARE = 0.15, 1.6, 1 / 8


class Handshake:
    """Questions until the board answers, each for at most `seconds`.

    `chance` makes the sequences of the questions, none of which was sent lately: late answers to earlier questions, and
    those with which a board that started anew answers data, have another one.
    """

    def __init__(self, wire: Wire, seconds: float, chance: random.Random) -> None:
        self.wire, self.seconds, self.chance = wire, seconds, chance
        #: Seconds from the last question to its answer.
        self.round_trip = 0.0
        self.echo = False
        self.before = wire.statistics.bytes_received, wire.statistics.packets_received

    def identity(self, kind: Kind = Kind.RESET) -> Identity:
        """The answer of the board to RESET or CLEAR.  LinkFailed where nothing answers, or nothing that can be used.

        It is asked twice: an answer that is left over from another process has the right sequence once in 256 times.
        """
        first, identity = (self.ask(kind, b"", self.answer) or self.give_up() for _ in range(2))
        name = self.wire.name
        if identity != first:
            raise LinkFailed(
                f"the board on {name} must give the same identity twice, not design {first.design.hex()} and "
                f"then {identity.design.hex()}",
                "load its bitstream again",
            )
        if not (identity.bytes_in and identity.bytes_out and identity.room):
            raise LinkFailed(
                f"the board on {name} must have inputs, outputs and room for data, not {identity.bytes_in}, "
                f"{identity.bytes_out} and {identity.room} bytes",
                "make its bitstream again with `hwflow synth`",
            )
        if not 0 < identity.largest <= LARGEST_PAYLOAD:
            raise LinkFailed(
                f"the board on {name} must have packets with up to {LARGEST_PAYLOAD} bytes of payload, not "
                f"{identity.largest}",
                "make its bitstream again with `hwflow synth`",
            )
        return identity

    def memory(self, digest: bytes) -> Memory:
        """The answer of the board about its memory when it is asked for the image with this digest."""
        memory = self.ask(Kind.IMAGE, digest, lambda packet, sequence: (
            Memory.of(packet) if packet.sequence == sequence else None))
        if memory is None:
            raise LinkFailed(
                f"the board on {self.wire.name} must say what is in its memory, but did not in {self.seconds:g} s",
                "load the bitstream of its design again",
            )
        return memory

    def settings(self, settings: int) -> int | None:
        """Ask the line for other settings, 32 bits that mean what its transport says: what it takes of them, which
        counts from the end of its answer on.  None where no answer comes, and so nothing is known.
        """
        return self.ask(Kind.LINE, settings.to_bytes(SETTINGS_BYTES, "little"), lambda packet, sequence: (
            int.from_bytes(packet.payload, "little") if packet.kind == Kind.SETTINGS and packet.sequence == sequence
            and len(packet.payload) == SETTINGS_BYTES else None))

    def proves(self, rounds: int, largest: int) -> bool:
        """Whether so many questions of each size are answered at once, and nothing else comes: RESET, which has a long
        answer, and DATA of any bytes, which the board does not expect and drops."""
        losses = self.wire.statistics.losses
        for _ in range(rounds):
            for question, answers in (
                (Packet(Kind.RESET, self.chance.randrange(256)), (Kind.IDENTITY,)),
                (Packet(Kind.DATA, UNEXPECTED, 0, self.chance.randbytes(largest)), (Kind.STATUS, Kind.MEMORY)),
            ):
                self.wire.send(question)
                if not self.came(question, answers):
                    return False
        return self.wire.statistics.losses == losses

    def came(self, question: Packet, answers: tuple[Kind, ...]) -> bool:
        """Whether the first packet that comes is an answer to this one question."""
        end = self.wire.clock() + FIRST_ANSWER
        while (left := end - self.wire.clock()) > 0:
            for packet in self.wire.receive(left):
                return packet.kind in answers and (packet.kind != Kind.IDENTITY or packet.sequence == question.sequence)
        return False

    def ask(self, kind: Kind, payload: bytes, answer: Callable[[Packet, int], Answer | None]) -> Answer | None:
        """One answer to one question, which is asked again, with another sequence, where none comes; None at last."""
        wait, clock = FIRST_ANSWER, self.wire.clock
        end = clock() + self.seconds
        while (asked := clock()) < end:
            sequence = self.chance.choice(sorted(set(range(256)).difference(self.wire.recent)))
            self.wire.send(Packet(kind, sequence, payload=payload))
            while (left := min(asked + wait, end) - clock()) > 0:
                for packet in self.wire.receive(left):
                    answered = answer(packet, sequence)
                    if answered is not None:
                        self.round_trip = clock() - asked
                        return answered
            wait = max(wait, min(wait * LONGER, self.seconds * SHARE))
        return None

    def answer(self, packet: Packet, sequence: int) -> Identity | None:
        self.echo |= packet.kind in (Kind.RESET, Kind.CLEAR)
        if packet.kind != Kind.IDENTITY or packet.sequence != sequence:
            return None
        identity = Identity.parse(packet.payload)
        if identity is not None and identity.version != VERSION:
            raise LinkFailed(
                f"the board on {self.wire.name} must speak version {VERSION} of the protocol, not version "
                f"{identity.version}",
                "make its bitstream again with `hwflow synth`",
            )
        return identity

    def give_up(self) -> NoReturn:
        name, seconds, counts = self.wire.name, f"{self.seconds:g} s", self.wire.statistics
        received, packets = counts.bytes_received - self.before[0], counts.packets_received - self.before[1]
        if self.echo:
            raise LinkFailed(
                f"what is sent to {name} comes back: its rx and tx are joined, or it is no board",
                "name the board's port with --port",
            )
        if packets:
            raise LinkFailed(
                f"the board on {name} must answer RESET with its identity, but did not in {seconds}, only with "
                f"{packets} other packets",
                "load its bitstream again",
            )
        if received:
            raise LinkFailed(
                f"{name} must send packets, but sent {received} bytes in {seconds} without any",
                "is the rate that of the board's file (--baud), and the bitstream one of hwflow?",
            )
        raise LinkFailed(
            f"nothing answers on {name} in {seconds}",
            "is it the board's port, is the bitstream loaded (it may be gone after power off) and made by this version "
            "of hwflow, and is the rate that of the board's file (--baud)?",
        )


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

    def settle(self, settings: int) -> int | None:
        """Ask the line for other settings: see `Handshake.settings`."""
        return self._handshake().settings(settings)

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
