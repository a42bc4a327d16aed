"""How much work a search of plans may be: a count of steps, so that the same question has the same answer on every
machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hwflow.hls.plan.plan import Plan

#: Steps of a search: one takes about a millisecond on a desktop computer.
STEPS = 2500
#: How many times as many steps a search may take where nothing else fits, until it finds something.
LAST_RESORT = 3
#: Steps from one line about the search to the next; shorter searches say nothing.
OFTEN = 500


def quietly(_: str) -> None:
    """Says nothing."""


@dataclass(eq=False)
class Effort:
    """The `steps` that a search may take, and what `say` hears of it while it is long.

    `keep` takes the best plan so far when the search is interrupted, and returns where it is for people.
    """

    steps: float = STEPS
    say: Callable[[str], None] = quietly
    keep: Callable[[Plan], str] | None = None
    spent: int = 0
    #: How many times as many steps there are while there is no plan.
    times: int = 1
    #: About the fewest cycles of a frame that the search left possible because it ended early; else None.
    bound: int | None = None
    #: Makes the fastest plan so far.
    best: Callable[[], Plan] | None = None
    said: int = field(default=0, repr=False)

    def begin(self) -> None:
        """Another search."""
        self.spent, self.times, self.bound, self.best, self.said = 0, 1, None, None, 0

    def last_resort(self) -> None:
        """Nothing else fits."""
        self.times = LAST_RESORT

    @property
    def limit(self) -> float:
        return self.steps * (self.times if self.best is None else 1)

    def spend(self, steps: int) -> None:
        self.spent += steps

    @property
    def ended(self) -> bool:
        return self.spent >= self.limit

    @property
    def early(self) -> str:
        """The words of a plan or a refusal about a search that ended early; "" where it did not."""
        if self.bound is None:
            return ""
        return (f"; the search for shared stages ended early, after {self.limit:,} steps, and at least about "
                f"{self.bound:,} cycles a frame are needed")

    def interrupted(self) -> str:
        """Say what the user is told who interrupts the search, after the best plan so far is kept."""
        if self.best is None or self.keep is None:
            return "and the next run plans anew"
        plan = self.best()
        return (f"the best plan so far, of {plan.interval:,} cycles a frame, is in '{self.keep(plan)}': "
                "--plan takes it")

    def tell(self, bound: int, best: int | None) -> None:
        """Says where a long search is: about the fewest cycles that are possible, and those of its best plan so far."""
        if self.spent >= self.said + OFTEN:
            self.said = self.spent
            so_far = "none found yet" if best is None else f"the fastest one so far has {best:,}"
            self.say(f"shared stages beside others: at least about {bound:,} cycles a frame, {so_far} "
                     f"({min(self.spent, self.limit):,} of {self.limit:,} steps)")
