"""A network that loses, doubles and reorders datagrams, in both directions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from hwflow_sim.board import NetworkPort


class FaultyNetwork(NetworkPort):
    """`rate` is the probability of each fault for each packet; `faults` counts them."""

    def __init__(self, *arguments, rate: float, seed: int, **more):
        super().__init__(*arguments, **more)
        self.rate = rate
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.late: dict[str, list[bytes]] = {"out": [], "in": []}

    def send(self, packets: Sequence[bytes]) -> None:
        super().send(self.through(packets, "out"))

    def receive(self, timeout: float) -> list[bytes]:
        return self.through(super().receive(timeout), "in")

    def through(self, packets: Sequence[bytes], way: str) -> list[bytes]:
        """What comes out at the other end; a packet that is late comes behind those of the next call."""
        out, late = [], []
        for packet in packets:
            fault = self.random.choice(("lost", "doubled", "late")) if self.random.random() < 3 * self.rate else ""
            self.faults[fault] += 1
            if fault == "late":
                late.append(packet)
            elif fault != "lost":
                out += [packet] * (2 if fault == "doubled" else 1)
        if packets:
            out, self.late[way] = out + self.late[way], late
        return out
