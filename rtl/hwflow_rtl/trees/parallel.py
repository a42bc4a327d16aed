"""All nodes of all trees compared in every cycle: a frame a cycle where its elements come in one beat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..join.tree import holding
from ..pool.results import Results
from ..rescale.ranges import shape_range
from ..stream.pipeline import Nest, delay
from ..stream.queue import Queue
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times, in_turn
from ..vendor.base import Resources, Rom, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .forest import Aggregate, Combiner, Forest, TreesShape, packed

#: Choices in a row between two registers.
CHOICES = 2


@dataclass(frozen=True)
class Side:
    """Holds what is known of the leaves below a child: `codes` of the leaves `leaves`, `size` is above all codes.

    `node` makes the code, None for a leaf.  It is there `cycle` cycles after the comparisons, and has come through
    `choices` choices since the last register.
    """

    node: int | None
    codes: npt.NDArray[np.int64]
    leaves: npt.NDArray[np.int64]
    size: int
    cycle: int = 0
    choices: int = 0

    @property
    def width(self) -> int:
        return (self.size - 1).bit_length()


@dataclass(frozen=True)
class Merge:
    """A node chooses between the codes of `low`, which stay as they are, and `offset` + those of `high`.

    `high_holds`: it chooses `high` where its comparison holds.  The choice is made `start` cycles after the
    comparisons, and `registered` behind it or not.
    """

    node: int
    low: Side
    high: Side
    offset: int
    high_holds: bool
    start: int
    registered: bool
    made: Side

    @property
    def is_comparison(self) -> bool:
        """The code is the comparison itself, or its opposite."""
        return self.low.node is None and self.high.node is None


def merges(forest: Forest) -> tuple[Merge, ...]:
    """The merges of all nodes, children first."""
    sides: dict[int, Side] = {}
    found = []
    for level in reversed(forest.levels):
        for node in level.tolist():
            children = []
            for child in forest.children[node].tolist():
                leaf = np.array([-1 - child])
                children.append(sides.pop(child) if child >= 0 else Side(None, np.zeros(1, np.int64), leaf, 1))
            merge = merged(node, *children)
            sides[node] = merge.made
            found.append(merge)
    return tuple(found)


def merged(node: int, fails: Side, holds: Side) -> Merge:
    low, high = (holds, fails) if holds.size > fails.size else (fails, holds)
    step = 1 << high.width
    offset = -(-low.size // step) * step
    codes, leaves = (np.concatenate(pair) for pair in ((low.codes, offset + high.codes), (low.leaves, high.leaves)))
    size = offset + high.size
    if low.node is None and high.node is None:
        return Merge(node, low, high, offset, high is holds, 0, False, Side(node, codes, leaves, size))
    start = max(low.cycle, high.cycle)
    choices = 1 + max(side.choices for side in (low, high) if side.cycle == start)
    last = choices == CHOICES
    made = Side(node, codes, leaves, size, start + last, 0 if last else choices)
    return Merge(node, low, high, offset, high is holds, start, last, made)


IntArray = npt.NDArray[np.int64]


class ParallelPlan:
    """Plans what follows from the trees alone: the comparisons, the codes of the leaves and when they are there.

    Nodes that compare the same are compared once: `comparisons` are (channel, threshold, equal), `comparison_of` has
    the number of each node's.
    """

    def __init__(self, forest: Forest, element: Shape, output: Shape):
        self.forest, self.element, self.output = forest, element, output
        keys = np.stack([forest.features, forest.clamped(element), forest.equal], axis=1)
        self.comparisons, self.comparison_of = np.unique(keys, axis=0, return_inverse=True)
        self.comparison_of = self.comparison_of.reshape(-1)
        self.merges = merges(forest)
        made = {merge.node: merge.made for merge in self.merges}
        #: The codes of each tree's leaves.
        self.trees = tuple(made[root] for root in forest.roots.tolist())
        #: Cycles from the comparisons to the codes of all trees.
        self.cycles = max(side.cycle for side in self.trees)
        ends = tuple((int(low), int(high)) for low, high in forest.leaf_ends)
        self.combiner = Combiner(ends, forest.aggregate, output)
        self.votes = tuple(output if forest.aggregate is not Aggregate.SUM else holding(*pair) for pair in ends)

    def word(self, tree: int, lanes: int) -> int:
        """Bits of a word of the ROM of a tree's leaves."""
        return lanes * self.votes[tree].width

    def depth(self, tree: int, groups: int) -> int:
        side = self.trees[tree]
        return ((groups - 1) << side.width) + side.size

    def contents(self, tree: int, lanes: int) -> npt.NDArray[np.uint8]:
        """The votes of a tree's leaves, `lanes` targets in a word; the address is a leaf's code, above it the group."""
        side, groups = self.trees[tree], self.forest.targets // lanes
        words = np.zeros((self.depth(tree, groups), lanes), np.int64)
        for group in range(groups):
            words[(group << side.width) + side.codes] = self.forest.leaves[side.leaves, group * lanes:][:, :lanes]
        return packed([(words[:, lane], self.votes[tree].width) for lane in range(lanes)])

    @cached_property
    def waits(self) -> int:
        """Bits that wait for others: comparisons for their choices, codes for longer ones."""
        last = np.zeros(len(self.comparisons), np.int64)
        bits = sum((self.cycles - side.cycle) * side.width for side in self.trees)
        for merge in self.merges:
            number = self.comparison_of[merge.node]
            last[number] = max(last[number], merge.start)
            bits += sum((merge.start - side.cycle) * side.width for side in (merge.low, merge.high)
                        if side.node is not None)
        return int(bits + last.sum())

    @cached_property
    def registers(self) -> int:
        return sum(merge.made.width for merge in self.merges if merge.registered)

    @cached_property
    def choices(self) -> int:
        """Bits that are chosen between two."""
        return sum(merge.made.width for merge in self.merges if not merge.is_comparison)

    @property
    def compared_bits(self) -> int:
        """Bits that all comparisons look at."""
        return len(self.comparisons) * self.element.width


@dataclass(frozen=True, kw_only=True, eq=False)
class ParallelTreesShape(TreesShape):
    """Says what follows from the trees, the beats of the input, and `lanes` targets of a beat of the output."""

    plan: ParallelPlan
    lanes: int

    def __post_init__(self) -> None:
        self.check_sizes(self.lanes)

    @property
    def forest(self) -> Forest:
        return self.plan.forest

    @property
    def groups(self) -> int:
        return self.forest.targets // self.lanes

    @property
    def cycles(self) -> int:
        return self.pixels * max(self.beats, self.groups)

    @property
    def work(self) -> int:
        return self.pixels * self.beats

    def results(self, technology: Technology) -> Results:
        """The comparisons, the codes, the ROM and the sums come between the last beat of a pixel and its results."""
        latency = 1 + self.plan.cycles + technology.timing.rom + self.plan.combiner.latency + self.groups - 1
        return Results(words=self.groups, interval=max(self.beats, self.groups), latency=latency, technology=technology)

    def latency(self, technology: Technology) -> int:
        """From the last beat of a pixel to its first result."""
        results = self.results(technology)
        return results.latency - (self.groups - 1) + Queue.latency_of(results.depth)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        (come,), beats, groups = arrivals, self.beats, self.groups
        earliest = come.copy()
        earliest[beats - 1::beats] = self.results(technology).starts(come[beats - 1::beats], left)
        if groups > beats:
            behind = np.arange(beats - 1, -1, -1)
            ends = (earliest.reshape(-1, beats) + behind).max(axis=1)
            earliest[beats - 1::beats] = in_turn(ends, groups)
        taken = in_turn(earliest)
        first = taken[beats - 1::beats] + self.latency(technology)
        return StageTimes((taken,), (first[:, None] + np.arange(groups)).ravel())

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        plan, lanes, groups = self.plan, self.lanes, self.groups
        total = Resources(
            ff=(self.channels - self.cols) * plan.element.width + len(plan.comparisons) + plan.registers + plan.waits)
        for tree in range(len(plan.trees)):
            total += technology.rom_cost(width=plan.word(tree, lanes), depth=plan.depth(tree, groups),
                                         name=f"leaves{tree}", holds=Holds.WEIGHTS)
        for _ in range(lanes):
            total += plan.combiner.cost(technology)
        results = self.results(technology)
        steps = results.latency if groups == 1 else 2 * results.latency + 2 * groups.bit_length()
        return (total + results.cost(lanes * plan.output.width) + Resources(ff=steps)
                + fitted("ParallelTrees", compared_bits=plan.compared_bits, choices=plan.choices,
                         beat_bits=(self.beats - 1).bit_length()))

    def build(self, technology: Technology, name: str) -> ParallelTrees:
        return ParallelTrees(shape=self, technology=technology, name=name)


class ParallelTrees(wiring.Component):
    """The votes of all trees for each target, combined.  `name` begins the names of the ROMs.

    Latency `ParallelTreesShape.latency` from the last beat of a pixel to its first result; initiation interval the
    larger one of channels / cols and targets / lanes.  `busy` says that a beat goes in.
    """

    def __init__(self, *, shape: ParallelTreesShape, technology: Technology, name: str):
        self.shape, self.plan, self.forest = shape, shape.plan, shape.forest
        self.channels, self.cols, self.lanes, self.groups = shape.channels, shape.cols, shape.lanes, shape.groups
        self.technology, self.name = technology, name
        self.results = shape.results(technology)
        super().__init__({"i": In(stream_of(self.plan.element, self.cols)),
                          "o": Out(stream_of(self.plan.output, self.lanes)), "busy": Out(1)})

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        pixels = np.asarray(frames).reshape(-1, self.channels)
        features, thresholds, equal = self.plan.comparisons.T
        x = pixels[:, features]
        holds = np.where(equal != 0, x == thresholds, x >= thresholds)[:, self.plan.comparison_of]
        codes: dict[int, IntArray] = {}
        none = np.zeros(len(pixels), np.int64)
        for merge in self.plan.merges:
            low, high = (none if side.node is None else codes.pop(side.node) for side in (merge.low, merge.high))
            codes[merge.node] = np.where(holds[:, merge.node] == merge.high_holds, merge.offset + high, low)
        beats = []
        for group in range(self.groups):
            votes = []
            for tree, side in enumerate(self.plan.trees):
                assert side.node is not None
                rom, shape = self.plan.contents(tree, self.lanes), self.plan.votes[tree]
                bits = np.unpackbits(rom, axis=1, bitorder="little")[:, :self.lanes * shape.width]
                words = bits.reshape(len(bits), self.lanes, -1).astype(np.int64) @ (1 << np.arange(shape.width))
                words = words - (words >> (shape.width - 1) << shape.width if shape.signed else 0)
                votes.append(words[(group << side.width) + codes[side.node]])
            combine = {Aggregate.SUM: np.sum, Aggregate.MIN: np.min, Aggregate.MAX: np.max}[self.forest.aggregate]
            beats.append(combine(np.stack(votes), axis=0))
        return np.stack(beats, axis=1).reshape(-1, self.lanes)

    def elaborate(self, platform):
        m = Module()
        take, go = Signal(), Signal()
        nest = Nest(m, (self.channels // self.cols,), name="left")
        nest.advance(take)
        last = nest.last[0]
        running, group, free = self.sequence(m, go)
        comparisons = self.comparisons(m, self.elements(m, take), go)
        codes = self.codes(m, comparisons)
        wait = self.plan.cycles
        address_group = delay(m, group, wait, "group") if group is not None else None
        words = self.leaves(m, codes, address_group)
        found = [self.plan.combiner.build(m, [word[lane] for word in words], f"votes{lane}")
                 for lane in range(self.lanes)]
        lanes = [Signal(self.plan.output, name=f"result{lane}") for lane in range(self.lanes)]
        m.d.comb += [result.eq(value) for result, value in zip(lanes, found, strict=True)]
        after = wait + self.technology.timing.rom + self.plan.combiner.latency
        valid = delay(m, running, after, "valid", reset_less=False)
        credit = self.results.build(m, go, valid, Cat(*lanes), wiring.flipped(self.o),
                                    data.ArrayLayout(self.plan.output, self.lanes))
        m.d.comb += [
            self.i.ready.eq((credit & free) | ~last), take.eq(self.i.valid & self.i.ready), go.eq(take & last),
            self.busy.eq(take),
        ]
        return m

    def sequence(self, m: Module, go: Value) -> tuple[Value, Value | None, Value]:
        """Whether a group of targets is looked up, which one, and whether a pixel may end: the last group is the next.

        The comparisons stay until the next pixel ends.
        """
        if self.groups == 1:
            return delay(m, go, 1, "running", reset_less=False), None, Const(1)
        running, free = Signal(), Signal(init=1)
        group = Signal(range(self.groups))
        with m.If(go):
            m.d.sync += [running.eq(1), group.eq(0), free.eq(0)]
        with m.Elif(running):
            m.d.sync += [group.eq(group + 1), free.eq(group >= self.groups - 2)]
            with m.If(group == self.groups - 1):
                m.d.sync += running.eq(0)
        return running, group, free

    def elements(self, m: Module, take: Value) -> list[Value]:
        """The channels of a pixel in the cycle of its last beat: those of the beats before are in a shift register."""
        beats = [self.i.payload]
        for n in range(self.channels // self.cols - 1):
            kept = Signal.like(self.i.payload, name=f"beat{n}", reset_less=True)
            with m.If(take):
                m.d.sync += kept.eq(beats[-1])
            beats.append(kept)
        return [beat[k] for beat in reversed(beats) for k in range(self.cols)]

    def comparisons(self, m: Module, elements: list[Value], go: Value) -> list[Signal]:
        made = []
        for n, (feature, threshold, equal) in enumerate(self.plan.comparisons.tolist()):
            holds = Signal(name=f"holds{n}", reset_less=True)
            value = elements[feature]
            with m.If(go):
                m.d.sync += holds.eq(value == threshold if equal else reaches(value, threshold))
            made.append(holds)
        return made

    def codes(self, m: Module, comparisons: list[Signal]) -> list[Value]:
        """The code of the leaf that each tree reaches, `plan.cycles` cycles after the comparisons."""
        late: dict[tuple[int, int], Value] = {(n, 0): holds for n, holds in enumerate(comparisons)}

        def comparison(number: int, cycle: int) -> Value:
            if (number, cycle) not in late:
                late[number, cycle] = delay(m, comparison(number, cycle - 1), 1, f"holds{number}_{cycle}")
            return late[number, cycle]

        made: dict[int, Value] = {}
        for merge in self.plan.merges:
            holds = comparison(int(self.plan.comparison_of[merge.node]), merge.start)
            made[merge.node] = self.choice(m, merge, holds if merge.high_holds else ~holds, made)
        found = []
        for tree, side in enumerate(self.plan.trees):
            assert side.node is not None
            found.append(delay(m, made[side.node], self.plan.cycles - side.cycle, f"code{tree}"))
        return found

    def choice(self, m: Module, merge: Merge, takes_high: Value, made: dict[int, Value]) -> Value:
        if merge.is_comparison:
            return takes_high

        def code(side: Side, name: str) -> Value:
            if side.node is None:
                return Const(0, 0)
            return delay(m, made.pop(side.node), merge.start - side.cycle, f"{name}{side.node}")

        low, high = code(merge.low, "low"), code(merge.high, "high")
        chosen = Signal(merge.made.width, name=f"code_of{merge.node}", reset_less=True)
        domain = m.d.sync if merge.registered else m.d.comb
        domain += chosen.eq(Mux(takes_high, Cat(high, Const(merge.offset >> len(high), merge.made.width)), low))
        return chosen

    def leaves(self, m: Module, codes: list[Value], group: Value | None) -> list[list[Value]]:
        """The votes of the leaf with each tree's code, for the targets of a group."""
        words = []
        for tree, code in enumerate(codes):
            rom: Rom = self.technology.rom(
                width=self.plan.word(tree, self.lanes), contents=self.plan.contents(tree, self.lanes),
                name=f"{self.name}_leaves{tree}")
            m.submodules[f"leaves{tree}"] = rom
            m.d.comb += rom.addr.eq(code if group is None else Cat(code, group))
            shape = self.plan.votes[tree]
            votes = [rom.data[lane * shape.width:(lane + 1) * shape.width] for lane in range(self.lanes)]
            words.append([vote.as_signed() if shape.signed else vote for vote in votes])
        return words


def reaches(value: Value, threshold: int) -> Value:
    """value >= threshold, in tables of three bits and what the bits below decide: no carry chain, which takes more."""
    shape = value.shape()
    low, high = shape_range(shape)
    if not low < threshold <= high:
        return Const(threshold <= low, 1)
    bits = [value[k] for k in range(shape.width)]
    if shape.signed:
        bits[-1] = ~bits[-1]
    found: Value = Const(1)
    for k, bit in enumerate(bits):
        found = bit & found if (threshold - low) >> k & 1 else bit | found
    return found
