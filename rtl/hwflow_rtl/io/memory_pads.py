"""The pins of a memory beside the FPGA as ports of a board's top."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from amaranth.hdl import IOBufferInstance, IOPort, Module, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ..vendor.base import Technology

if TYPE_CHECKING:
    from ..memory.part import MemoryPart

__all__ = ["MemoryPads"]

#: What a data line in both directions is made of: in, out, and whether it drives.
BOTH_WAYS = ("i", "o", "oe")


class MemoryPads(wiring.Component):
    """Connects the pins of a controller to ports with the names of the board file, behind `memory_`.

    Between a flash and its controller are the registers of `FlashPads`, in `sync`.  A memory inside of the FPGA has no
    ports: with `pads` its cell is here.

    Parameters
    ----------
    part
        The memory.
    names
        The pins that the board has; the others are tied on the board, or not connected.  A memory inside of the FPGA
        has them all.
    pads
        Whether data lines are one port in both directions, of `both_ways`.
    technology
        The family; a flash needs one that has `Technology.pads`.

    Attributes
    ----------
    pins : In(part.pins())
    memory_... : In, Out
        A port for each name; three, `_i`, `_o` and `_oe`, for data lines without `pads`.
    both_ways : list of IOPort
        The other ports.
    """

    def __init__(self, part: MemoryPart, names: Collection[str], *, pads: bool, technology: Technology):
        members = part.pins().members
        self.cell = part.cell()
        if self.cell is not None:
            names = [] if pads else list(members)
        self.bidirectional = tuple(name for name in names if name not in members)
        for name in names:
            wanted = [name] if name in members else [f"{name}_{end}" for end in BOTH_WAYS]
            if not set(wanted) <= members.keys():
                raise ValueError(f"pins of {part.name} must be of {', '.join(members)}, not {name}")
        self.pads = pads
        #: Between the controller and the pins, where the memory wants them.
        self.registers = part.pad_registers(technology.pads if pads else None)
        self.both_ways = [] if not pads else list(self.registers.ports.values()) if self.registers else [
            IOPort(Shape.cast(members[f"{name}_o"].shape).width, name=f"memory_{name}") for name in self.bidirectional]
        there = [name for name in names if name not in self.bidirectional]
        there += [] if pads else [f"{name}_{end}" for name in self.bidirectional for end in BOTH_WAYS]
        #: The ports that are no pads, as members of a signature.
        self.ports: Mapping[str, Member] = {} if self.registers and pads else {
            f"memory_{name}": (Out if members[name].flow is wiring.Out else In)(members[name].shape) for name in there}
        super().__init__({"pins": In(part.pins()), **self.ports})

    def elaborate(self, platform):
        m = Module()
        pins = self.pins
        if self.cell is not None and self.pads:
            m.submodules.cell = self.cell
            wiring.connect(m, wiring.flipped(self.pins), self.cell.pins)
            return m
        if self.registers is not None:
            m.submodules.registers = self.registers
            wiring.connect(m, wiring.flipped(self.pins), self.registers.pins)
            if self.pads:
                return m
            pins = self.registers.chip
        for name, member in self.ports.items():
            here, pin = getattr(self, name), getattr(pins, name.removeprefix("memory_"))
            m.d.comb += here.eq(pin) if member.flow is wiring.Out else pin.eq(here)
        for name, port in zip(self.bidirectional, self.both_ways, strict=False):
            into, out, drives = (getattr(pins, f"{name}_{end}") for end in BOTH_WAYS)
            for k in range(len(port)):
                m.submodules[f"pad_{name}{k}"] = IOBufferInstance(
                    port[k], i=into[k], o=out[k], oe=drives[k] if len(drives) > 1 else drives)
        return m
