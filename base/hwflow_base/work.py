"""Work that takes long, in phases: how far it is, judged by what it counts, or by the times of earlier work alone.

Whoever works gets a `Work` from a `Watch` and says what goes on; whoever shows it asks for `share` and `left`.  Nothing
is claimed that is not known: without earlier work, and without a count, both are None.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

#: Of a phase that counts nothing at most this share is done before its end.
MOST = 0.99
#: Below this share nothing is said of the time that is left.
LEAST = 0.02


class Work:
    """`phases` by name in their order; `expected` are the seconds of each by earlier work, empty where there is none.

    `shown` says whether somebody sees it all the time.  The methods may be called in any thread.
    """

    def __init__(self, name: str, phases: Sequence[str], expected: Mapping[str, float],
                 clock: Callable[[], float] = time.monotonic, *, shown: bool = False) -> None:
        self.name, self.phases, self.clock, self.shown = name, tuple(phases), clock, shown
        self.expected = dict(expected) if set(self.phases) <= set(expected) else {}
        self.text = ""
        #: Whether its times say something of later work of its kind.
        self.usual = True
        self.begun = self.entered = clock()
        self.took: dict[str, float] = {}
        self.phase = self.phases[0]
        self.counted: float | None = None
        self.shown_share = 0.0

    def enter(self, phase: str) -> None:
        """Begin `phase`; nothing happens where it goes on already, or is over."""
        if phase == self.phase or self.phases.index(phase) < self.phases.index(self.phase):
            return
        now = self.clock()
        self.took[self.phase] = now - self.entered
        self.phase, self.entered, self.counted = phase, now, None

    def count(self, done: float, total: float) -> None:
        """So much of the phase is done."""
        self.counted = min(1.0, done / total) if total > 0 else None

    def say(self, text: str) -> None:
        """The work that goes on, in a few words."""
        self.text = text

    def unlike_others(self) -> None:
        """Its times say nothing of later work: it also did what is done once."""
        self.usual = False

    def start_over(self) -> None:
        """Its first phase begins anew, which earlier work did not do: nothing is expected of it any more."""
        self.expected, self.usual, self.counted = {}, False, None
        self.phase, self.entered = self.phases[0], self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.begun

    @property
    def late(self) -> bool:
        """Whether it goes on for longer than earlier work lets expect, and counts nothing that says how far it is."""
        return self.counted is None and bool(self.expected) and self.elapsed > sum(self.expected.values())

    @property
    def share(self) -> float | None:
        """How much of the whole is done, from 0 to 1, and never less than before; None where nothing says it."""
        if self.late:
            return None
        if not self.expected:
            return self.counted if len(self.phases) == 1 else None
        whole = sum(self.expected.values())
        within = self.counted
        if within is None:
            within = min(MOST, (self.clock() - self.entered) / max(self.expected[self.phase], 1e-9))
        before = sum(self.expected[phase] for phase in self.phases[:self.phases.index(self.phase)])
        self.shown_share = max(self.shown_share, min(1.0, (before + within * self.expected[self.phase]) / whole))
        return self.shown_share

    @property
    def left(self) -> float | None:
        """Seconds until its end, about; None where nothing says it."""
        share = self.share
        return None if share is None or share < LEAST else self.elapsed * (1 - share) / share

    def end(self) -> Mapping[str, float]:
        """The seconds of each phase; those that it did not come to took none."""
        self.took[self.phase] = self.clock() - self.entered
        return {phase: self.took.get(phase, 0.0) for phase in self.phases}


class Watch(Protocol):
    """Gives a `Work` for the time of a `with`.

    `kind` names work that takes about as long for each unit of `size`; with an empty one no times are kept.
    """

    def __call__(self, name: str, kind: str = "", size: float = 1.0, phases: Sequence[str] = ("all",)
                 ) -> AbstractContextManager[Work]: ...


@contextlib.contextmanager
def unwatched(name: str, kind: str = "", size: float = 1.0, phases: Sequence[str] = ("all",)) -> Iterator[Work]:
    """Work that nobody sees."""
    yield Work(name, phases, {})


def unheard(text: str) -> None:
    """A message that nobody hears."""


@dataclass(frozen=True)
class Audience:
    """Who follows work: `progress` hears what happens now, `watch` shows what takes long."""

    progress: Callable[[str], None] = unheard
    watch: Watch = unwatched
