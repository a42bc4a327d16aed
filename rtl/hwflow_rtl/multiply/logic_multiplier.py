"""Multipliers in tables and carry chains: a tree of additions with a register after each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.ranges import shape_range
from ..stream.pipeline import adder_luts
from ..vendor.base import WIDEST_IN_LOGIC, Resources, Technology, gated, product_shape


@dataclass(frozen=True)
class Node:
    """A number from `low` to `high` with the weight 2**place, negated where `minus`."""

    low: int
    high: int
    place: int
    minus: bool = False

    @property
    def shape(self) -> Shape:
        return Shape.cast(range(self.low, self.high + 1))

    def plus(self, other: Node) -> Node:
        """The sum with a node of a higher place."""
        step = other.place - self.place
        ends = [sign * end << step for sign in [-1 if other.minus else 1] for end in (other.low, other.high)]
        return Node(self.low + min(ends), self.high + max(ends), self.place)


@dataclass(frozen=True)
class Tree:
    """The additions of `value` times each bit of `factor`, which is the narrower one of the operands.

    levels[0] are the gated values themselves, the bit of a sign with `minus`; those of each next level are sums of two,
    or what was left over.  A gated value is value * bit.
    """

    value: Shape
    factor: Shape
    levels: tuple[tuple[Node, ...], ...]

    @staticmethod
    def of(a: Shape, b: Shape) -> Tree:
        """ValueError where an operand is too narrow or too wide."""
        value, factor = (b, a) if a.width < b.width else (a, b)
        if factor.width < 2 or value.width > WIDEST_IN_LOGIC:
            raise ValueError(f"operands of a multiplier in logic must be 2 to {WIDEST_IN_LOGIC} bits wide, not {a!r} "
                             f"and {b!r}")
        low, high = shape_range(value)
        nodes = [Node(min(low, 0), high, place, factor.signed and place == factor.width - 1)
                 for place in range(factor.width)]
        levels = [tuple(nodes)]
        while len(nodes) > 1:
            nodes = [nodes[k].plus(nodes[k + 1]) if k + 1 < len(nodes) else nodes[k] for k in range(0, len(nodes), 2)]
            levels.append(tuple(nodes))
        return Tree(value, factor, tuple(levels))

    @property
    def latency(self) -> int:
        return len(self.levels)

    def cost(self, technology: Technology) -> Resources:
        """FF exact; LUT estimated."""
        bits, singles = self.value.width * self.factor.width, self.value.width * (self.factor.width % 2)
        if technology.gates_in_chains:
            total = Resources(lut=singles, ff=self.value.width + self.factor.width)
        else:
            total = Resources(lut=bits, ff=bits)
        for before, nodes in zip(self.levels, self.levels[1:], strict=False):
            for k, node in enumerate(nodes):
                total += Resources(ff=node.shape.width)
                if 2 * k + 1 < len(before):
                    gated = technology.gates_in_chains and before is self.levels[0]
                    kept = 0 if gated else before[2 * k + 1].place - node.place
                    total += Resources(lut=adder_luts(node.shape.width - kept, technology))
        return total


@dataclass(frozen=True)
class LogicProductShape:
    """The operands of products in logic."""

    a: Shape
    b: Shape

    @cached_property
    def tree(self) -> Tree:
        """ValueError where an operand is too narrow or too wide."""
        return Tree.of(self.a, self.b)

    @property
    def latency(self) -> int:
        """Cycles: one, and one for each doubling of the bits of the narrower operand."""
        return self.tree.latency

    def cost(self, count: int, elements: int, technology: Technology) -> Resources:
        """FF exact where `elements` of the `count` operands `a` differ; LUT estimated."""
        product = self.tree.cost(technology)
        shared = (count - elements) * self.a.width if technology.gates_in_chains else 0
        return Resources(lut=count * product.lut, ff=count * product.ff - shared)


class LogicMultipliers(wiring.Component):
    """`count` products a cycle without multiplier blocks: p[n] = a[n] * b[n], `latency` cycles later.  Never stalls.

    The first registers hold the gated values, or, where the family's carry chains gate for themselves, the operands;
    after every addition of two there is another register.  So no path is longer than a carry chain with at most a table
    before it.
    """

    def __init__(self, *, shape: LogicProductShape, count: int, technology: Technology):
        a, b = shape.a, shape.b
        self.count = count
        self.tree = shape.tree
        self.swapped = a.width < b.width
        self.technology = technology
        super().__init__({
            "a": In(data.ArrayLayout(a, count)),
            "b": In(data.ArrayLayout(b, count)),
            "p": Out(data.ArrayLayout(product_shape(a, b), count)),
        })

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            value, factor = Value.cast(self.a[n]), Value.cast(self.b[n])
            if self.swapped:
                value, factor = factor, value
            m.d.comb += Value.cast(self.p[n]).eq(self.product(m, value, factor, f"product{n}"))
        return m

    def product(self, m: Module, value: Value, factor: Value, name: str) -> Value:
        levels = self.tree.levels
        if self.technology.gates_in_chains:
            value, factor = registered(m, value, f"{name}_value"), registered(m, factor, f"{name}_factor")
            terms, first = self.gated_sums(m, value, factor, name), 2
        else:
            terms, first = [registered(m, gated(value, bit), f"{name}_gated{k}") for k, bit in enumerate(factor)], 1
        for depth in range(first, len(levels)):
            terms = self.sums(m, depth, terms, name)
        return terms[0]

    def gated_sums(self, m: Module, value: Value, factor: Value, name: str) -> list[Value]:
        """The nodes of level 1, two bits of the factor at a time."""
        gates, sums = self.tree.levels[0], []
        for k, node in enumerate(self.tree.levels[1]):
            pair = factor[2 * k:2 * k + 2]
            total: Value = gated(value, pair[0])
            if len(pair) == 2:
                total = self.technology.gated_sum(m, value, pair, minus=gates[2 * k + 1].minus, shape=node.shape,
                                                  name=f"{name}_gated{k}")
            register = Signal(node.shape, name=f"{name}_sum1_{k}", reset_less=True)
            m.d.sync += register.eq(total)
            sums.append(register)
        return sums

    def sums(self, m: Module, depth: int, terms: list[Value], name: str) -> list[Value]:
        """The nodes of level `depth`, from those of the level before."""
        before, sums = self.tree.levels[depth - 1], []
        for k, node in enumerate(self.tree.levels[depth]):
            total = terms[2 * k]
            if 2 * k + 1 < len(terms):
                kept = before[2 * k + 1].place - node.place
                low, high = terms[2 * k:2 * k + 2]
                rest = low[kept:].as_signed() if low.shape().signed else low[kept:]
                total = Cat(low[:kept], rest - high if before[2 * k + 1].minus else rest + high)
            register = Signal(node.shape, name=f"{name}_sum{depth}_{k}", reset_less=True)
            m.d.sync += register.eq(total)
            sums.append(register)
        return sums


def registered(m: Module, value: Value, name: str) -> Signal:
    register = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register
