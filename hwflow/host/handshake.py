"""The first words with a board: start it anew, ask what it is, and what is in its memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NoReturn, TypeVar

from hwflow.host.packets import LARGEST_PAYLOAD, VERSION, Identity, Kind, Memory, Packet
from hwflow.host.wire import LinkFailed, Wire

__all__ = ["Handshake"]

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
        """What the board says after RESET or CLEAR.  LinkFailed where nothing answers, or nothing that can be used.

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
        """What the board says of its memory when it is asked for the image with this digest."""
        memory = self.ask(Kind.IMAGE, digest, lambda packet, sequence: (
            Memory.of(packet) if packet.sequence == sequence else None))
        if memory is None:
            raise LinkFailed(
                f"the board on {self.wire.name} must say what is in its memory, but did not in {self.seconds:g} s",
                "load the bitstream of its design again",
            )
        return memory

    def settings(self, wanted: int) -> int | None:
        """Ask the line for other settings, 32 bits that mean what its transport says: what it takes of them, which
        counts from the end of its answer on.  None where no answer comes, and so nothing is known.
        """
        return self.ask(Kind.LINE, wanted.to_bytes(SETTINGS_BYTES, "little"), lambda packet, sequence: (
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
                    found = answer(packet, sequence)
                    if found is not None:
                        self.round_trip = clock() - asked
                        return found
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
