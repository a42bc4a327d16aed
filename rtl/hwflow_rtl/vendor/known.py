"""Costs that are known: what follows from a shape and a technology alone is computed once for each technology."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, wraps
from typing import Any, TypeVar

Shaped = TypeVar("Shaped", bound=Hashable)
Known = TypeVar("Known")


class KeepsCosts:
    """Keeps what `once_known` computes: the solver asks for the same costs again and again."""

    @cached_property
    def known(self) -> dict[Hashable, Any]:
        """The costs by what they are of."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the costs: other processes cannot be sent them."""
        return {name: value for name, value in vars(self).items() if name != "known"}


Keeper = TypeVar("Keeper", bound=KeepsCosts)


def once_known(cost: Callable[[Shaped, Keeper], Known]) -> Callable[[Shaped, Keeper], Known]:
    """`cost` of a shape on a technology, which depends on nothing else and is computed once for each technology."""
    @wraps(cost)
    def known(shape: Shaped, technology: Keeper) -> Known:
        found: Known | None = technology.known.get((cost, shape))
        if found is None:
            found = technology.known[cost, shape] = cost(shape, technology)
        return found

    return known
