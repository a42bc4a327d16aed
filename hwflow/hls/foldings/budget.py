"""The target of a plan: a technology, the resources that a board has, and the error where a design needs more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import Resources, Technology

from hwflow.hls.plan.outside_memory import OutsideMemory

RESOURCE_NAMES = {"lut": "logic cells", "ff": "flip-flops", "dsp": "multipliers", "ram": "block RAMs",
                  "spram": "single-port RAMs"}

#: What would help, whatever is short.
HELP = "Fewer channels or layers, fewer bits, or a larger board would help (`hwflow boards` lists them)"


@dataclass(frozen=True)
class Budget:
    """The resources of a board for a core.  `name` is for messages; `reserved` is for the design around the core.

    `usable_logic` is the share of tables and flip-flops that a routable design can use; other resources can be used up.
    """

    name: str
    available: Resources
    reserved: Resources
    usable_logic: float

    def without(self, percent: int) -> Budget:
        """The budget where other logic takes `percent` of all that the board has."""
        if not percent:
            return self
        left = Resources.of_counts({kind: count * (100 - percent) // 100
                                    for kind, count in self.available.counts().items()})
        return replace(self, name=f"{self.name} less {percent} %", available=left)

    def limit(self, resource: str) -> int:
        if resource == "spram":  # how many the frames around the core need is known only with the lanes
            return self.available.spram
        share = self.usable_logic if resource in ("lut", "ff") else 1.0
        return max(0, int(getattr(self.available, resource) * share) - int(getattr(self.reserved, resource)))

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The `limit` of each kind."""
        return {kind: self.limit(kind) for kind in Resources.KINDS}

    def price(self, resources: Resources, weights: Mapping[str, float] | None = None) -> float:
        """The sum over the kinds of resources of the share of the budget; the solver minimizes it.

        `weights` has a factor for each kind; None means 1 for all.
        """
        return float(sum(
            (1.0 if weights is None else weights[kind]) * getattr(resources, kind) / max(limit, 1)
            for kind, limit in self.limits.items()))

    def exceeded(self, resources: Resources) -> list[str]:
        """The kinds of which `resources` takes more than there is."""
        return [kind for kind, limit in self.limits.items() if getattr(resources, kind) > limit]

    def fits(self, resources: Resources) -> bool:
        return not self.exceeded(resources)


@dataclass(frozen=True)
class Target:
    """The target of a plan: a `technology`, the `budget` of a board, and its memory `outside` for weights, if it has
    one.

    Stages multiply in logic with `logic`, or where nothing fits without.  Weights are in the memory outside with
    `stream_weights`, or where nothing fits without.
    """

    technology: Technology
    budget: Budget
    outside: OutsideMemory | None = None
    logic: bool = False
    stream_weights: bool = False


class DoesNotFit(AnswerIsNo):
    """No plan fits.  `outside_helps`: it would with so many bytes of weights in a memory outside of the FPGA, which the
    board lacks or which is too small; else 0.
    `lacking`: the resources that are short, and how many are needed.  `facts`: the message without what would help.
    """

    outside_helps = 0
    lacking = ""
    facts = ""

    @classmethod
    def of(cls, facts: str, *, lacking: str, outside_helps: int) -> DoesNotFit:
        """The error for `facts`, sentences that end with a space."""
        error = cls(f"{facts}{HELP}")
        error.facts, error.lacking, error.outside_helps = facts, lacking, outside_helps
        return error

    def beside(self, facts: str) -> DoesNotFit:
        """The same error, where something else does not fit either."""
        return DoesNotFit.of(f"{self.facts}{facts}. ", lacking=self.lacking, outside_helps=self.outside_helps)
