"""The resources that a board has for a core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hwflow_rtl.vendor import Resources

RESOURCE_NAMES = {"lut": "logic cells", "ff": "flip-flops", "dsp": "multipliers", "ram": "block RAMs",
                  "spram": "single-port RAMs"}


@dataclass(frozen=True)
class Budget:
    """The resources of a board for a core.  `name` is for messages; `reserved` is for the design around the core.

    `usable_logic` is the share of tables and flip-flops that a routable design can use; other resources can be used up.
    """

    name: str
    available: Resources
    reserved: Resources
    usable_logic: float

    def limit(self, resource: str) -> int:
        if resource == "spram":  # how many the frames around the core need is known only with the lanes
            return self.available.spram
        share = self.usable_logic if resource in ("lut", "ff") else 1.0
        return int(getattr(self.available, resource) * share) - int(getattr(self.reserved, resource))

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
