"""When to ask again, and when to give up: by measured round trips, so a fast line is asked early, a slow one late."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEVIATIONS", "Pace", "Patience"]

#: The shortest time before the host asks again, in seconds: what an operating system takes now and then.
SHORTEST = 0.05
#: Round trips of the first, short packets that the first answer to a long one may take.
FIRST = 8.0
#: Weights of the newest sample and factor of the deviation, of RFC 6298 (retransmission timer of TCP).
GAIN, DEVIATION_GAIN, DEVIATIONS = 1 / 8, 1 / 4, 4
#: How much longer every further question waits, and how often at least a silent board is asked until it is given up:
#: where one bit of 500 is wrong, every third question has no answer.
BACK_OFF, QUESTIONS = 2.0, 16
#: The share of the board's time that a single answer may take.
SHARE = 1 / 4


@dataclass(frozen=True)
class Patience:
    """Seconds until the host gives up.  `silence`: nothing right comes from the board; `stall`: it answers, but takes
    no data and gives no results."""

    silence: float = 3.0
    stall: float = 30.0


class Pace:
    """The time to wait for an answer: smoothed round trip plus four deviations (RFC 6298), longer after each question
    without an answer, but never so long that the board is given up before it was asked many times."""

    def __init__(self, patience: Patience, first: float) -> None:
        """`first` is the round trip of a short packet, in seconds: the only one known before data are sent."""
        self.longest = patience.silence * SHARE
        self.longest_back_off = patience.silence / QUESTIONS
        self.round_trip, self.deviation = FIRST * first, 0.0
        self.factor = 1.0

    @property
    def usual(self) -> float:
        """Seconds in which nearly every answer comes that is not lost."""
        return max(self.round_trip + DEVIATIONS * self.deviation, SHORTEST)

    @property
    def wait(self) -> float:
        """Seconds until the host asks."""
        return min(self.usual * self.factor, max(self.usual, self.longest_back_off), self.longest)

    @property
    def late(self) -> float:
        """Seconds after which no answer comes any more."""
        return max(4 * self.usual, self.longest / 2)

    def sample(self, seconds: float) -> None:
        """The round trip of a packet that was sent once (a repeated one says nothing: Karn's rule)."""
        off = seconds - self.round_trip
        self.deviation += DEVIATION_GAIN * (abs(off) - self.deviation)
        self.round_trip += GAIN * off

    def asked(self) -> None:
        self.factor *= BACK_OFF

    def answered(self) -> None:
        self.factor = 1.0
