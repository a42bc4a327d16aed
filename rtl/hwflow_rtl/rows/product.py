"""A product of two numbers as a unit of its own, so that each lane has its registers under its own name."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..join.multiply import BlockProduct, RowProduct
from ..join.tree import holding
from ..vendor.base import Technology


class ExactProduct(wiring.Component):
    """`p` = `a` * `b`, `product.latency(technology)` cycles later."""

    def __init__(self, product: RowProduct | BlockProduct, technology: Technology):
        self.product = product
        self.technology = technology
        a, b = product.shapes
        ends = [x * y for x in product.ends[0] for y in product.ends[1]]
        super().__init__({"a": In(a), "b": In(b), "p": Out(holding(min(ends), max(ends)))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.p.eq(self.product.build(m, self.a, self.b, self.technology))
        return m
