"""Where the memories of a design are: in RAM blocks, or in tables where blocks are short.

Every stage's cost names its memories, each in the place that the family prefers for it.  Where all of them take more
blocks than there are, some move to tables: those that give up enough blocks for the least logic, which is a
multiple-choice knapsack like the choice of multipliers (`styles`), solved exactly.  A place changes no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.short_repr import fields_repr
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.known import once_known
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind, Place

from hwflow.hls.schedule.links import LinkPlan


@dataclass(frozen=True)
class Option:
    """One way to make a stage: the multiplier blocks it takes, and the price of everything else."""

    blocks: int
    price: float


def cheapest_options(stages: Sequence[Sequence[Option]], blocks: int) -> list[int]:
    """For each stage the position of its option: all together take at most `blocks` blocks, at the lowest price.

    This is a multiple-choice knapsack, solved exactly by dynamic programming over the number of blocks.  If no choice
    takes so few blocks, each stage gets the option with the fewest.  Of equal options the first is taken.
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


#: Share of its RAM blocks that a memory fills at most which is better in tables, and share of all blocks from which on
#: such memories matter.
NEARLY_EMPTY, SCATTERED = 0.25, 0.25

#: By the name of a memory in its stage, the place that it has instead of the one that the family prefers.
Places = Mapping[str, Place]


@dataclass(frozen=True)
class MemoryPlan:
    """A memory of the design.

    `part` is the stage, or the link, that it belongs to; `place` is where it is, one of `places`, of which the family
    prefers the first; `resources` is what it takes there.  `block_bits`: of a RAM block.
    """

    part: str
    memory: Memory
    place: Place
    places: tuple[Place, ...]
    resources: Resources
    block_bits: int

    __repr__ = fields_repr

    @property
    def name(self) -> str:
        """Unique in the design."""
        return f"{self.part}/{self.memory.name}"

    @property
    def wasted_bits(self) -> int:
        """Bits of its RAM blocks that hold nothing."""
        return max(0, self.resources.ram * self.block_bits - self.memory.bits) if self.resources.ram else 0


def difference(a: Resources, b: Resources) -> Resources:
    return Resources.of_counts({kind: count - b.counts()[kind] for kind, count in a.counts().items()})


def moved(memory: Memory, place: Place, technology: Technology) -> Resources:
    """Count what a design takes more with `memory` in `place` than where the family prefers it."""
    return moved_once((memory, place), technology)


@once_known
def moved_once(what: tuple[Memory, Place], technology: Technology) -> Resources:
    memory, place = what
    return difference(technology.memory_cost(memory, place),
                      technology.memory_cost(memory, technology.places(memory)[0]))


def with_places(cost: Resources, places: Places, technology: Technology) -> Resources:
    """`cost` with its memories in `places`."""
    return sum((moved(memory, places[memory.name], technology) for memory in cost.memories if memory.name in places),
               cost)


@once_known
def can_leave_blocks(memory: Memory, technology: Technology) -> bool:
    possible = technology.places(memory)
    return possible[0] is Place.BLOCKS and Place.TABLES in possible


def relieved(costs: Sequence[Resources], blocks: int, technology: Technology,
             price: Callable[[Resources], float]) -> list[dict[str, Place]]:
    """For each stage, given its cost, which of its memories are in tables so that `blocks` fewer blocks are taken.

    The choice with the lowest total `price` of what tables take more; where no choice gives up so many, the one that
    gives up the most.
    """
    places: list[dict[str, Place]] = [{} for _ in costs]
    if blocks <= 0:
        return places
    movable = [(k, memory) for k, cost in enumerate(costs) for memory in cost.memories
               if can_leave_blocks(memory, technology)]
    options = []
    for _, memory in movable:
        extra = moved(memory, Place.TABLES, technology)
        there = technology.memory_cost(memory, Place.BLOCKS).ram
        options.append([Option(there, 0.0), Option(there + extra.ram, price(replace(extra, ram=0)))])
    taken = sum(stay.blocks for stay, _ in options)
    for (k, memory), choice in zip(movable, cheapest_options(options, taken - blocks), strict=True):
        if choice:
            places[k][memory.name] = Place.TABLES
    return places


def gathered(costs: Sequence[Resources], places: Sequence[Mapping[str, Place]], blocks: int, room: Resources,
             technology: Technology) -> list[dict[str, Place]]:
    """`places`, and more memories in tables where many RAM blocks, of `blocks` that there are, hold next to nothing.

    That is where memories which fill at most `NEARLY_EMPTY` of their blocks, weights aside, have `SCATTERED` of all
    blocks.  Those of them that can leave do, the ones that take the fewest tables for a block first, as far as `room`
    for more tables and flip-flops goes.
    """
    placed = [dict(of_stage) for of_stage in places]
    nearly_empty = [
        (k, memory, taken) for k, cost in enumerate(costs) for memory in cost.memories
        if (taken := technology.memory_cost(memory, placed[k].get(memory.name, technology.places(memory)[0])).ram)
        and memory.holds is not Holds.WEIGHTS and memory.bits <= NEARLY_EMPTY * taken * technology.ram_block_bits]
    if sum(taken for _, _, taken in nearly_empty) < SCATTERED * blocks:
        return placed
    leaving = [(moved(memory, Place.TABLES, technology), k, memory.name, taken) for k, memory, taken in nearly_empty
               if can_leave_blocks(memory, technology)]
    lut, ff = 0, 0
    for more, k, name, _ in sorted(leaving, key=lambda entry: entry[0].lut / entry[3]):
        if lut + more.lut <= room.lut and ff + more.ff <= room.ff:
            placed[k][name] = Place.TABLES
            lut, ff = lut + more.lut, ff + more.ff
    return placed


def memories_of_stage(stage: str, cost: Resources, places: Places, technology: Technology) -> tuple[MemoryPlan, ...]:
    """The memories of a stage with this cost, each where `places` or the family has it."""
    plans = []
    for memory in cost.memories:
        possible = technology.places(memory)
        place = places.get(memory.name, possible[0])
        plans.append(MemoryPlan(stage, memory, place, possible, technology.memory_cost(memory, place),
                                technology.ram_block_bits))
    return tuple(plans)


def memories_of_link(part: str, link: LinkPlan, technology: Technology) -> tuple[MemoryPlan, ...]:
    """The FIFOs of a link, which is called `part`; those of a few words are shift registers and no memories."""
    plans = []
    for name, choice in (("queue", link.queue(technology)), ("queue_after", link.queue_after(technology))):
        if choice.depth > Queue.SHIFT_DEPTH:
            memory = Memory(name, MemoryKind.RAM, Holds.QUEUE, choice.width, choice.depth)
            plans.append(MemoryPlan(part, memory, choice.memory, (choice.memory,), choice.cost,
                                    technology.ram_block_bits))
    return tuple(plans)
