"""The ring of a `RearrangeStage`: how many words it has, and in which memories they are."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds


def ring_parts(words: int, width: int, technology: Technology) -> tuple[int, ...]:
    """The depths of the memories, one or two, of a ring of at least `words` words of `width` bits.

    It is a power of two, unless fewer RAM blocks hold only the words that it needs: in one memory, or in one for the
    first three quarters or half of that power of two and one for the others.  Frames of 7 x 7, 14 x 14 or 28 x 28
    pixels have a little more than three quarters of a power of two.
    """
    whole = 1 << ceil_log2(words)
    found: list[tuple[int, ...]] = [(whole,), (words,)]
    found += [(first, words - first) for first in (whole // 4 * 3, whole // 2) if 0 < first < words]
    return min(found, key=lambda depths: sum(technology.ram_cost(width=width, depth=depth).ram for depth in depths))


@dataclass(frozen=True, kw_only=True)
class RingShape:
    """Words of `width` bits in memories of the depths `parts`, those of `ring_parts`."""

    width: int
    parts: tuple[int, ...]

    def cost(self, technology: Technology, holds: Holds) -> Resources:
        """RAM exact, LUT and FF estimated."""
        total = sum((technology.ram_cost(width=self.width, depth=depth, name=name, holds=holds)
                     for depth, name in zip(self.parts, ("ring", "ring_rest"), strict=False)), Resources())
        return total if len(self.parts) == 1 else total + Resources(lut=self.width + 4, ff=technology.timing.ram)


class Ring(wiring.Component):
    """A `Ram` made of memories, which are called `name` and `name`_rest."""

    def __init__(self, *, shape: RingShape, technology: Technology, name: str):
        self.width, self.parts = shape.width, shape.parts
        self.technology = technology
        self.name = name
        depth = sum(self.parts)
        super().__init__({
            "write_en": In(1), "write_addr": In(range(depth)), "write_data": In(self.width),
            "read_addr": In(range(depth)), "read_data": Out(self.width)})

    def elaborate(self, platform):
        m = Module()
        rams = []
        for depth, name in zip(self.parts, (self.name, f"{self.name}_rest"), strict=False):
            m.submodules[name] = ram = self.technology.ram(width=self.width, depth=depth, name=name)
            m.d.comb += [ram.write_en.eq(self.write_en), ram.write_addr.eq(self.write_addr),
                         ram.write_data.eq(self.write_data), ram.read_addr.eq(self.read_addr)]
            rams.append(ram)
        if len(rams) == 1:
            m.d.comb += self.read_data.eq(rams[0].read_data)
            return m
        # The words of the second memory are no more than the largest power of two that divides those of the first.
        unit = (self.parts[0] & -self.parts[0]).bit_length() - 1
        write_rest, read_rest = (address[unit:] == self.parts[0] >> unit
                                 for address in (self.write_addr, self.read_addr))
        m.d.comb += [rams[0].write_en.eq(self.write_en & ~write_rest), rams[1].write_en.eq(self.write_en & write_rest)]
        rest = delay(m, read_rest, self.technology.timing.ram, "rest")
        m.d.comb += self.read_data.eq(Mux(rest, rams[1].read_data, rams[0].read_data))
        return m
