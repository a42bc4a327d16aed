"""The choice of a style (blocks, pairs, logic) for each stage, with the least logic that the blocks allow.

For fixed foldings this is a multiple-choice knapsack: one style for each stage, multiplier blocks as the weight, the
price of all other resources as the value.  Dynamic programming over the number of blocks solves it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Option:
    """One way to make a stage: the multiplier blocks it takes, and the price of everything else."""

    blocks: int
    price: float


def cheapest_options(stages: Sequence[Sequence[Option]], blocks: int) -> list[int]:
    """For each stage the position of its option: all together take at most `blocks` blocks, at the lowest price.

    If no choice takes so few blocks, each stage gets the option with the fewest.  Of equal options the first is taken.
    """
    best = np.zeros(max(blocks, 0) + 1)
    taken = []
    for options in stages:
        prices = np.full((len(options), len(best)), np.inf)
        for row, option in zip(prices, options, strict=True):
            if option.blocks < len(best):
                row[option.blocks:] = best[:len(best) - option.blocks] + option.price
        taken.append(np.argmin(prices, axis=0))
        best = prices.min(axis=0)
    if blocks < 0 or not np.isfinite(best[-1]):
        return [min(range(len(options)), key=lambda k: (options[k].blocks, options[k].price)) for options in stages]
    left, chosen = len(best) - 1, []
    for options, places in zip(reversed(stages), reversed(taken), strict=True):
        place = int(places[left])
        chosen.append(place)
        left -= options[place].blocks
    return chosen[::-1]
