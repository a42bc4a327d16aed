"""Two products in one multiplier: an element times two narrow weights, side by side in one operand."""

from __future__ import annotations

from abc import abstractmethod

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .base import Resources, product_shape

#: Cycles that pairs take more than `timing.multiply`.
LATENCY = 1


def ends_of(shape: Shape) -> tuple[int, int]:
    """The lowest and the highest integer of `shape`."""
    return (-1 << (shape.width - 1), (1 << (shape.width - 1)) - 1) if shape.signed else (0, (1 << shape.width) - 1)


def low_shape(a: Shape, b: Shape) -> Shape:
    """The narrowest shape of all products of `a` and `b`."""
    ends = [x * y for x in ends_of(a) for y in ends_of(b)]
    return Shape.cast(range(min(ends), max(ends) + 1))


def packed_shape(b: Shape, shift: int) -> Shape:
    """The shape of high * 2**shift + low, two numbers of shape `b`."""
    low, high = ((end << shift) + end for end in ends_of(b))
    return Shape.cast(range(low, high + 1))


def packing(a: Shape, b: Shape, limit: int) -> int | None:
    """The shift s with which P = a * (high * 2**s + low) holds both products of an element `a` with weights `b`.

    None where `a` or high * 2**s + low, each of its own signedness, is wider than the `limit` of an operand.

    P = (a * high) * 2**s + a * low.  With s bits, as many as a * low needs (a sign included where it can be negative),
    the low s bits of P are the bits of a * low, and give a * low.  The rest, P - a * low, is a * high * 2**s; so
    floor(P / 2**s) is a * high, or one less where a * low is negative, which bit s - 1 says:
    a * high = (P >> s) + P[s - 1].  Where no product is negative, bit s - 1 is a bit of a number, and nothing is added.
    """
    shift = low_shape(a, b).width
    return shift if max(a.width, packed_shape(b, shift).width) <= limit else None


def decremented(value: Value, borrow: Value) -> Value:
    """`value` less `borrow`, one bit more, in tables: a carry chain would be larger and slower for so few bits."""
    bits = []
    for bit in Cat(value, value[-1]):
        bits.append(bit ^ borrow)
        borrow = ~bit & borrow
    return Cat(*bits)


class PairMultipliers(wiring.Component):
    """`count` products a cycle, two in a block: p[n] = a[n // 2] * b[n], `LATENCY` cycles after `timing.multiply`.

    Never stalls.  `shift` is from `packing`.  The bits above the first weight hold the second one, less one where the
    first is negative.  This subtraction has a register after it, because the way from a ROM to a multiplier's column is
    long: without it 64 products of an ECP5 were routed for 144 MHz, not 223.
    """

    def __init__(self, *, count: int, a: Shape, b: Shape, shift: int | None):
        if shift is None:
            raise ValueError(f"operands of two products in one multiplier must be narrow enough to fit side by side, "
                             f"not {a!r} and {b!r}; use one multiplier for each")
        if count % 2:
            raise ValueError(f"products made in pairs must be an even number, not {count}")
        self.count = count
        self.shift = shift
        self.low = low_shape(a, b)
        super().__init__({
            "a": In(data.ArrayLayout(a, count // 2)),
            "b": In(data.ArrayLayout(b, count)),
            "p": Out(data.ArrayLayout(product_shape(a, b), count)),
        })

    @abstractmethod
    def block(self, m: Module, n: int, a: Value, packed: Value) -> Value:
        """The product of pair `n`, `timing.multiply` - 1 cycles later: the bits that both operands have together."""

    @staticmethod
    def cost(*, count: int, elements: int, a: Shape, b: Shape, chain: int) -> Resources:
        """A block for two products; FF exact where `elements` of the `count` // 2 operands `a` differ, or all of them
        where `elements` is more; LUT estimated, `chain` for the carry chain of a correction."""
        width, signed = product_shape(a, b).width, low_shape(a, b).signed
        decrement = 2 * b.width if b.signed else 0
        operands = 2 * b.width + b.signed
        return Resources(dsp=count // 2, lut=count // 2 * (decrement + (chain if signed else 0)),
                         ff=count // 2 * (operands + low_shape(a, b).width + width)
                         + min(elements, count // 2) * a.width)

    def operands(self, m: Module, n: int) -> tuple[Value, Value]:
        """The element and the packed weights of pair `n`, from registers."""
        low, high = Value.cast(self.b[2 * n]), Value.cast(self.b[2 * n + 1])
        signed = low.shape().signed
        element = Signal.like(self.a[n], name=f"element{n}", reset_less=True)
        lower = Signal(len(low), name=f"lower{n}", reset_less=True)
        upper = Signal(len(high) + signed, name=f"upper{n}", reset_less=True)
        m.d.sync += [element.eq(self.a[n]), lower.eq(low), upper.eq(decremented(high, low[-1]) if signed else high)]
        between = (lower[-1] if signed else Const(0, 1)).replicate(self.shift - len(low))
        packed = Cat(lower, between, upper)
        return element, packed.as_signed() if signed else packed

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count // 2):
            product = self.block(m, n, *self.operands(m, n))
            low = Signal(self.low, name=f"low{n}", reset_less=True)
            high = Signal(self.p.shape().elem_shape, name=f"high{n}", reset_less=True)
            rest = product[self.shift:self.shift + len(high)]
            m.d.sync += [low.eq(product[:self.shift]),
                         high.eq(rest + product[self.shift - 1] if self.low.signed else rest)]
            m.d.comb += [self.p[2 * n].eq(low), self.p[2 * n + 1].eq(high)]
        return m
