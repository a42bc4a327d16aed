"""Sums of products in the fabric, after any family's multipliers."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Shape, Signal, Value

from .base import Multipliers, MultiplyAccumulate, Resources, product_shape

#: Cycles that sums take more than `timing.multiply`.
LATENCY = 2


class FabricMultiplyAccumulate(MultiplyAccumulate):
    """Latency: the latency of `multipliers`, for 2 * count products, plus `LATENCY`: an adder, then an accumulator."""

    def __init__(self, *, multipliers: Multipliers, latency: int, total: Shape):
        self.multipliers = multipliers
        self.latency = latency
        super().__init__(count=multipliers.count // 2, a=multipliers.a.shape().elem_shape,
                         b=multipliers.b.shape().elem_shape, total=total)

    @staticmethod
    def cost(multipliers: Resources, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources:
        """DSP and FF exact but for `more`, which waits as long as a product; LUT without the ends of carry chains."""
        pair = min(product_shape(a, b).width + 1, total.width)
        return multipliers + Resources(lut=count * (pair + total.width), ff=count * (pair + total.width))

    def elaborate(self, platform):
        m = Module()
        m.submodules.multipliers = multipliers = self.multipliers
        m.d.comb += [Value.cast(multipliers.a).eq(Value.cast(self.a)), Value.cast(multipliers.b).eq(Value.cast(self.b))]
        more = self.more
        for k in range(self.latency + 1):
            later = Signal(name=f"more_{k}", reset_less=True)
            m.d.sync += later.eq(more)
            more = later
        for n in range(self.count):
            pair = multipliers.p[2 * n] + multipliers.p[2 * n + 1]
            first = Signal(Shape(min(len(pair), self.total.width), pair.shape().signed), name=f"pair{n}",
                           reset_less=True)
            sums = Signal(self.total, name=f"sum{n}", reset_less=True)
            m.d.sync += [first.eq(pair), sums.eq(Mux(more, sums, 0) + first)]
            m.d.comb += self.t[n].eq(sums)
        return m
