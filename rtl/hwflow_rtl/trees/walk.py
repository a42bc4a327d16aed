"""A walk through trees, one level of a tree a cycle in each walker.

From the address of a node to that of its child it takes `SLOTS` cycles: the ROM of the nodes, the RAM of the elements,
a choice of lanes, and the comparison.  So a walker has as many trees under way, a cycle apart.  After `depth` levels
all of them have reached their leaves; the address of a leaf then goes on counting through the votes for its targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..join.tree import holding
from ..pool.results import Results
from ..rescale.ranges import shape_range
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .forest import Aggregate, Combiner, Forest, TreesShape, packed

IntArray = npt.NDArray[np.int64]

#: Trees that a walker has under way.
SLOTS = 6


@dataclass(frozen=True, eq=False)
class Walker:
    """The trees that one walker walks through.

    Node k is the root of the tree that it begins as number k; a tree that only fills a slot has a root with
    two empty leaves.  Children are places here: node k as k, the first vote of a leaf, `leaves[k]`, as -1 - k.
    """

    features: IntArray
    thresholds: IntArray
    equal: IntArray
    fails: IntArray
    holds: IntArray
    leaves: IntArray


class WalkPlan:
    """How `rows` walkers share the trees of `forest`, `groups` of targets one after the other."""

    def __init__(self, forest: Forest, element: Shape, output: Shape, rows: int, lanes: int):
        self.forest, self.element, self.output, self.rows, self.lanes = forest, element, output, rows, lanes
        self.groups = forest.targets // lanes
        self.rounds = rounds_of(len(forest.roots), rows)
        self.walkers = tuple(self._walker(row) for row in range(rows))
        ends = [(int(walker.leaves.min()), int(walker.leaves.max())) for walker in self.walkers]
        self.votes = tuple(output if forest.aggregate is not Aggregate.SUM else holding(*pair) for pair in ends)
        self.combiner = Combiner(tuple(ends), forest.aggregate, output)

    @cached_property
    def empty(self) -> int:
        """A vote that counts nothing."""
        low, high = shape_range(self.output)
        return {Aggregate.SUM: 0, Aggregate.MIN: high, Aggregate.MAX: low}[self.forest.aggregate]

    def _walker(self, row: int) -> Walker:
        """Every `rows`-th tree: the roots come first, empty trees behind them, then all other nodes."""
        forest, groups = self.forest, self.groups
        mine = np.arange(row, len(forest.roots), self.rows)
        of_node, of_leaf = forest.tree_of
        roots = forest.roots[mine]
        others = np.setdiff1d(np.flatnonzero(np.isin(of_node, mine)), roots)
        leaves = np.flatnonzero(np.isin(of_leaf, mine))
        count = self.rounds * SLOTS
        nodes = np.concatenate([roots, np.full(count - len(roots), -1), others])
        there = nodes >= 0
        place = np.zeros(len(forest.features), np.int64)
        place[nodes[there]] = np.flatnonzero(there)
        leaf_place = np.zeros(len(forest.leaves), np.int64)
        leaf_place[leaves] = np.arange(len(leaves)) * groups
        child = forest.children[np.where(there, nodes, 0)]
        target = np.where(child >= 0, place[np.maximum(child, 0)], -1 - leaf_place[np.maximum(-1 - child, 0)])
        target = np.where(there[:, None], target, -1 - len(leaves) * groups)
        votes = forest.leaves[leaves]
        if count > len(roots):
            votes = np.concatenate([votes, np.full((1, forest.targets), self.empty)])
        clamped = forest.clamped(self.element)

        def of(values: IntArray) -> IntArray:
            return np.where(there, values[np.where(there, nodes, 0)], 0)

        return Walker(of(forest.features), of(clamped), of(forest.equal), target[:, 0], target[:, 1],
                      votes.reshape(-1, self.lanes))

    @property
    def levels(self) -> int:
        """Levels of a round: those of the nodes, and one for each group of targets."""
        return self.forest.depth + self.groups

    @property
    def cycles(self) -> int:
        """The cycles of the walk through all trees."""
        return self.rounds * SLOTS * self.levels

    @cached_property
    def address(self) -> int:
        """Bits of the address of a node or of a leaf."""
        most = max(max(len(walker.features), len(walker.leaves)) for walker in self.walkers)
        return max(1, (most - 1).bit_length())

    @cached_property
    def threshold(self) -> Shape:
        return signed(self.element.width + 1 + (not self.element.signed))

    def word(self, cols: int, channels: int) -> tuple[int, int, int, int, int, int]:
        """Bits of the fields of a node: row of elements, lane, threshold, equal, and the children."""
        return (max(1, (channels // cols - 1).bit_length()), (cols - 1).bit_length(), self.threshold.width, 1,
                self.address + 1, self.address + 1)

    def nodes(self, row: int, cols: int, channels: int) -> npt.NDArray[np.uint8]:
        """The ROM of a walker's nodes.  The top bit of a child says that it is a leaf."""
        walker = self.walkers[row]
        children = [np.where(to >= 0, to, (1 << self.address) + (-1 - to)) for to in (walker.fails, walker.holds)]
        fields = (walker.features // cols, walker.features % cols, walker.thresholds, walker.equal, *children)
        return packed(list(zip(fields, self.word(cols, channels), strict=True)))

    def leaves(self, row: int) -> npt.NDArray[np.uint8]:
        """The ROM of the votes of a walker's leaves."""
        votes = self.walkers[row].leaves
        return packed([(votes[:, lane], self.votes[row].width) for lane in range(self.lanes)])


def rounds_of(trees: int, rows: int) -> int:
    """How often `rows` walkers begin with new trees."""
    return -(-trees // (rows * SLOTS))


IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WalkedTreesShape(TreesShape):
    """The walk through the trees, with the number of walkers and the targets of a beat, and the beats of the input."""

    plan: WalkPlan

    def __post_init__(self) -> None:
        self.check_sizes(self.plan.lanes)

    @property
    def forest(self) -> Forest:
        return self.plan.forest

    @property
    def groups(self) -> int:
        return self.plan.groups

    @property
    def cycles(self) -> int:
        """A pixel is taken, walked through, and only then is the next one taken."""
        return self.pixels * (self.beats + self.plan.cycles)

    def results(self, technology: Technology) -> Results:
        """After the walk come the ROM of the leaves, the sum over the walkers and that over slots and rounds."""
        plan = self.plan
        latency = plan.cycles + technology.timing.rom + plan.combiner.latency + 1
        return Results(words=plan.groups, interval=self.beats + plan.cycles, latency=latency, technology=technology)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        (come,), results, beats, plan = arrivals, self.results(technology), self.beats, self.plan
        earliest = come.copy()
        earliest[beats - 1::beats] = results.starts(come[beats - 1::beats], left)
        pixel, beat = np.divmod(np.arange(len(come), dtype=np.int64), beats)
        place = pixel * (beats + plan.cycles) + beat
        taken: Times = np.maximum.accumulate(earliest - place) + place
        last = taken[beats - 1::beats] + results.latency + Queue.latency_of(results.depth)
        return StageTimes((taken,), (last[:, None] - np.arange(plan.groups - 1, -1, -1) * SLOTS).ravel())

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        plan, cols, rows = self.plan, self.cols, self.beats
        word, width, total = sum(plan.word(cols, self.channels)), plan.element.width, Resources()
        for row, walker in enumerate(plan.walkers):
            total += technology.rom_cost(width=word, depth=len(walker.features), name=f"nodes{row}", holds=Holds.TABLE)
            total += technology.rom_cost(width=plan.lanes * plan.votes[row].width, depth=len(walker.leaves),
                                         name=f"leaves{row}", holds=Holds.WEIGHTS)
            if rows > 1:
                total += technology.ram_cost(width=cols * width, depth=rows, name=f"elements{row}", holds=Holds.FRAMES)
        if rows == 1:
            total += Resources(ff=cols * width)
        step = Resources(
            lut=(cols - 1) * width + 2 * adder_luts(width + 2, technology) + adder_luts(plan.address, technology)
            + 4 * plan.address, ff=5 * word // 2 + 7 * (plan.address + 1) + width)
        total += step.copies(plan.rows)
        acc = plan.output.width * plan.lanes
        total += Resources(lut=acc + plan.lanes * adder_luts(plan.output.width, technology),
                           ff=acc * (1 + (plan.groups if plan.rounds > 1 else 0)))
        for _ in range(plan.lanes):
            total += plan.combiner.cost(technology)
        results = self.results(technology)
        counters = Nest.bits((SLOTS, plan.levels, plan.rounds)) + (rows - 1).bit_length() + plan.address
        return (total + results.cost(acc) + Resources(lut=2 * counters, ff=2 * counters)
                + fitted("WalkedTrees", walkers=plan.rows))

    def build(self, technology: Technology, name: str) -> WalkedTrees:
        return WalkedTrees(shape=self, technology=technology, name=name)


class WalkedTrees(wiring.Component):
    """The votes of all trees for each target, combined.  `name` begins the names of the ROMs.

    Initiation interval channels / cols + `plan.cycles`.  The last result of a pixel enters the queue
    `WalkedTreesShape.results(...).latency` cycles after its last beat was taken, those before it `SLOTS` cycles apart.
    `busy` says that a beat goes in or trees are walked through.
    """

    def __init__(self, *, shape: WalkedTreesShape, technology: Technology, name: str):
        self.shape, self.plan, self.forest = shape, shape.plan, shape.forest
        self.channels, self.cols = shape.channels, shape.cols
        self.technology, self.name = technology, name
        timing = technology.timing
        if timing.rom + timing.ram + 2 > SLOTS:
            raise ValueError(f"latencies of the memories of {technology.name} must leave two cycles of {SLOTS}, not be "
                             f"{timing.rom} and {timing.ram}")
        self.results = shape.results(technology)
        super().__init__({"i": In(stream_of(self.plan.element, self.cols)),
                          "o": Out(stream_of(self.plan.output, self.plan.lanes)), "busy": Out(1)})

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        plan, made = self.plan, []
        combine = {Aggregate.SUM: np.add, Aggregate.MIN: np.minimum, Aggregate.MAX: np.maximum}[self.forest.aggregate]
        for pixel in np.asarray(frames).reshape(-1, self.channels):
            sums = [np.full(plan.lanes, plan.empty) for _ in range(plan.groups)]
            for start in range(plan.rounds * SLOTS):
                for walker in plan.walkers:
                    here = start
                    for _ in range(self.forest.depth):
                        if here >= 0:
                            x, limit = pixel[walker.features[here]], walker.thresholds[here]
                            right = x == limit if walker.equal[here] else x >= limit
                            here = int((walker.holds if right else walker.fails)[here])
                    for group in range(plan.groups):
                        sums[group] = combine(sums[group], walker.leaves[-1 - here + group])
            made += sums
        return np.array(made, np.int64).reshape(-1, plan.lanes)

    def elaborate(self, platform):
        m = Module()
        plan, timing = self.plan, self.technology.timing
        take, go, walking = Signal(), Signal(), Signal()
        beats = Nest(m, (self.channels // self.cols,), name="left")
        beats.advance(take)
        walk = Nest(m, (SLOTS, plan.levels, plan.rounds), name="step")
        walk.advance(walking)
        with m.If(go):
            m.d.sync += walking.eq(1)
        with m.Elif(walking & walk.last[0] & walk.last[1] & walk.last[2]):
            m.d.sync += walking.eq(0)
        begins, counts = Signal(), Signal()
        m.d.comb += [begins.eq(walk.at(1, [0])), counts.eq(walk.at(1, range(self.forest.depth, plan.levels)))]
        root = self.root(m, walking & begins, go)
        read = self.memories(m, take)
        words = []
        for row in range(plan.rows):
            here = self.walker(m, row, begins, counts, root, read[row])
            m.submodules[f"leaves{row}"] = rom = self.technology.rom(
                width=plan.lanes * plan.votes[row].width, contents=plan.leaves(row), name=f"{self.name}_leaves{row}")
            m.d.comb += rom.addr.eq(here)
            words.append(rom.data)
        after = timing.rom + plan.combiner.latency
        flags = delay(m, Cat(walking & counts, walk.at(0, [0]), walk.last[0], walk.at(2, [0]), walk.last[2]), after,
                      "flags", reset_less=False)
        valid, sums = self.sums(m, words, flags)
        credit = self.results.build(m, go, valid, Cat(*sums), wiring.flipped(self.o),
                                    data.ArrayLayout(plan.output, plan.lanes))
        m.d.comb += [
            self.i.ready.eq(~walking & (credit | ~beats.last[0])), take.eq(self.i.valid & self.i.ready),
            go.eq(take & beats.last[0]), self.busy.eq(take | walking),
        ]
        return m

    def root(self, m: Module, begins: Value, go: Value) -> Signal:
        """The roots follow each other in the ROMs of the nodes."""
        root = Signal(self.plan.address)
        with m.If(go):
            m.d.sync += root.eq(0)
        with m.Elif(begins):
            m.d.sync += root.eq(root + 1)
        return root

    def memories(self, m: Module, take: Value) -> list:
        """Build what gives each walker elements: a RAM with the beats of the pixel, or the register of its only beat.
        """
        count = self.channels // self.cols
        if count == 1:
            kept = Signal.like(Value.cast(self.i.payload), name="beat", reset_less=True)
            with m.If(take):
                m.d.sync += kept.eq(Value.cast(self.i.payload))
            return [kept] * self.plan.rows
        place = Signal(range(count))
        with m.If(take):
            m.d.sync += place.eq(Mux(place == count - 1, 0, place + 1))
        rams = []
        for row in range(self.plan.rows):
            m.submodules[f"elements{row}"] = ram = self.technology.ram(
                width=self.cols * self.plan.element.width, depth=count, name=f"elements{row}")
            m.d.comb += [ram.write_en.eq(take), ram.write_addr.eq(place),
                         ram.write_data.eq(Value.cast(self.i.payload))]
            rams.append(ram)
        return rams

    def walker(self, m: Module, row: int, begins: Value, counts: Value, root: Value, read) -> Value:
        """The address in the ROM of the leaves, while `counts`.  Bit `plan.address` of `here` says that it is one."""
        plan, timing = self.plan, self.technology.timing
        back = Signal(plan.address + 1, name=f"back{row}", reset_less=True)
        here = Signal.like(back, name=f"here{row}")
        m.d.comb += here.eq(Mux(begins, root, back))
        m.submodules[f"nodes{row}"] = rom = self.technology.rom(
            width=sum(plan.word(self.cols, self.channels)), contents=plan.nodes(row, self.cols, self.channels),
            name=f"{self.name}_nodes{row}")
        m.d.comb += rom.addr.eq(here)
        fields, start = [], 0
        for width in plan.word(self.cols, self.channels):
            fields.append(rom.data[start:start + width])
            start += width
        line, lane, *others = fields
        if isinstance(read, Signal):
            word = read
        else:
            m.d.comb += read.read_addr.eq(line)
            word = read.read_data
        width = plan.element.width
        choices = [word[k * width:(k + 1) * width] for k in range(self.cols)]
        lane = delay(m, lane, timing.ram, f"lane{row}")
        value = Signal(plan.element, name=f"value{row}", reset_less=True)
        m.d.sync += value.eq(Array(choices)[lane] if self.cols > 1 else choices[0])
        threshold, equal, fails, holds = (
            delay(m, part, timing.ram + 1, f"{name}{row}")
            for part, name in zip(others, ("threshold", "equal", "fails", "holds"), strict=True))
        spare = SLOTS - timing.rom - timing.ram - 2
        before = delay(m, Cat(here, counts), timing.rom + timing.ram, f"before{row}")
        stays = Signal(plan.address + 1, name=f"stays{row}", reset_less=True)
        m.d.sync += stays.eq(before[:-1] + before[-1])
        limit = Signal(plan.threshold, name=f"limit{row}")
        m.d.comb += limit.eq(threshold)
        right = Mux(equal, value == limit, value >= limit)
        child = Signal.like(back, name=f"child{row}")
        m.d.comb += child.eq(Mux(stays[-1], stays, Mux(right, holds, fails)))
        m.d.sync += back.eq(delay(m, child, spare, f"child{row}"))
        return here[:-1]

    def sums(self, m: Module, words: list[Value], flags: Value) -> tuple[Value, list[Signal]]:
        """Votes of the slots one after the other, of a round and the rounds before it."""
        plan = self.plan
        counted, first, last, first_round, last_round = flags
        totals = []
        for lane in range(plan.lanes):
            votes = []
            for word, shape in zip(words, plan.votes, strict=True):
                vote = word[lane * shape.width:(lane + 1) * shape.width]
                votes.append(vote.as_signed() if shape.signed else vote)
            vote = plan.combiner.build(m, votes, f"votes{lane}")
            total = Signal(plan.output, name=f"total{lane}", reset_less=True)
            added = Signal(plan.output, name=f"added{lane}")
            # Totals of the groups in the round before, the oldest last: that of the group whose first slot comes.
            kept = [Signal(plan.output, name=f"kept{lane}_{group}", reset_less=True)
                    for group in range(plan.groups if plan.rounds > 1 else 0)]
            earlier = Mux(first, kept[-1], total) if kept else total
            alone = first & first_round
            if self.forest.aggregate is Aggregate.SUM:
                m.d.comb += added.eq(vote + Mux(alone, 0, earlier))
            else:
                m.d.comb += added.eq(Mux(alone, vote, plan.combiner.best(vote, earlier)))
            with m.If(counted):
                m.d.sync += total.eq(added)
            with m.If(counted & last):
                m.d.sync += [to.eq(value) for to, value in zip(kept, [added, *kept], strict=False)]
            totals.append(total)
        return delay(m, counted & last & last_round, 1, "done", reset_less=False), totals
