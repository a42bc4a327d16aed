"""The first words with a board: start it anew, and ask what it is."""

from __future__ import annotations

import random
from typing import NoReturn

from hwflow.host.packets import VERSION, Identity, Kind, Packet
from hwflow.host.wire import LinkFailed, Wire

__all__ = ["Handshake"]

#: Seconds that the first question waits for its answer, how much longer each further one, and the longest as a share of
#: all the time: where one bit of 1000 is wrong, every third question has no answer.
FIRST_ANSWER, LONGER, SHARE = 0.15, 1.6, 1 / 8


class Handshake:
    """RESET until the board answers, twice, each for at most `seconds`.

    `chance` makes the sequences of the questions, none of which was sent lately: late answers to earlier questions, and
    those with which a board that started anew answers data, have another one.  The board is asked twice, because an
    answer that is left over from another process has the right sequence once in 256 times.
    """

    def __init__(self, wire: Wire, seconds: float, chance: random.Random) -> None:
        self.wire, self.seconds, self.chance = wire, seconds, chance
        #: Seconds from the last question to its answer.
        self.round_trip = 0.0
        self.echo = False
        self.before = wire.statistics.bytes_received, wire.statistics.packets_received

    def identity(self) -> Identity:
        """What the board says.  LinkFailed where nothing answers, or nothing that can be used."""
        first, identity = (self.ask(self.wire.clock() + self.seconds) for _ in range(2))
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
        return identity

    def ask(self, end: float) -> Identity:
        """One answer to one question, which is asked again, with another sequence, where none comes."""
        wait, clock = FIRST_ANSWER, self.wire.clock
        while (asked := clock()) < end:
            sequence = self.chance.choice(sorted(set(range(256)).difference(self.wire.recent)))
            self.wire.send(Packet(Kind.RESET, sequence))
            while (left := min(asked + wait, end) - clock()) > 0:
                for packet in self.wire.receive(left):
                    identity = self.answer(packet, sequence)
                    if identity is not None:
                        self.round_trip = clock() - asked
                        return identity
            wait = max(wait, min(wait * LONGER, self.seconds * SHARE))
        self.give_up()

    def answer(self, packet: Packet, sequence: int) -> Identity | None:
        self.echo |= packet.kind == Kind.RESET
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
            "is it the board's port, is the bitstream loaded (it may be gone after power off), and is the rate that "
            "of the board's file (--baud)?",
        )
