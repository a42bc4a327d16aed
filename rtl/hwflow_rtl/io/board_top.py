"""The design on a board: clocks and resets, the way to the host, the host link, the core, its memory, LEDs.

Its ports are the pins; `hwflow.synth` writes the constraint file that places them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, ClockDomain, DomainRenamer, IOBufferInstance, IOPort, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ..stream.streams import link
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .clocking import Clocking
from .crossings import CoreCrossing, FastCrossing, ImageCrossing, SealCrossing
from .frame_bytes import Ends, FrameBytes
from .link.host_link import HostLink
from .link.image import Beside
from .link.shape import LinkShape
from .transports import Transport, Uart

if TYPE_CHECKING:
    from ..memory import WeightMemory
    from ..memory.part import MemoryPart

# The pins of a memory beside the FPGA as ports of a board's top.


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
            needed = [name] if name in members else [f"{name}_{end}" for end in BOTH_WAYS]
            if not set(needed) <= members.keys():
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


class BoardTop(wiring.Component):
    """A core with `FrameBytes`, a `HostLink`, and a `Transport` to the host.

    The link runs in the domain `line`, at the clock of the board's oscillator or of the transport, so that it never
    limits the core's.
    The core runs in the domain `run`: that is `sync` with a reset of its own.  Between them stands a `CoreCrossing`,
    or where the line is fast a `FastCrossing` of words.
    A memory beside the FPGA gives the core's streams `weights0`, `weights1`, ...  Where it can be written, the host
    fills it through the link and an `ImageCrossing`.  Else it is a `SealedFlash`, and the host hears through a
    `SealCrossing` which image it has, or what is wrong.

    Parameters
    ----------
    core, ends
        See `FrameBytes`.
    technology
        What makes memories: those of the link, and queues for whole frames.
    clocking
        Makes the clocks of the pins `clk` and `rst`.
    transport
        The way to the host.
    identity
        The 8 bytes that name the design to the host.
    leds, leds_active_low
        How many LEDs the board has, and their polarity: the first blinks, the second is lit while data or
        results pass, the third stays lit from an error on the line to the host's next RESET.
    memory
        The `WeightMemory` of a core with streamed weights, in the domain `memory` or, as a flash always, in `sync`.
    memory_pins
        The names of those of its pins that the board has; `dq` stands for `dq_i`, `dq_o` and `dq_oe`, and so does `io`.
    pads
        Whether data lines of the memory are one port in both directions; else each is three ports, as for a simulation.
        Those of a flash have the registers of `technology.pads` then.

    Attributes
    ----------
    clk, rst : In(1)
    led : Out(leds)
    rx, tx, ... : In, Out
        The pins of the transport, by their names.
    memory_... : In, Out
        The pins of the memory, by their names.
    """

    def __init__(self, *, core: Any, clocking: Clocking, transport: Transport, identity: bytes, technology: Technology,
                 ends: Ends | None = None, leds: int = 0, leds_active_low: bool = False,
                 memory: WeightMemory | None = None, memory_pins: Collection[str] = (), pads: bool = False):
        self.core = core
        self.technology = technology
        self.clocking = clocking
        self.transport = transport
        self.identity = identity
        self.leds = leds
        self.leds_active_low = leds_active_low
        self.memory = memory
        self.chip = None if memory is None else MemoryPads(
            memory.part, memory_pins, pads=pads, technology=technology)
        self.beside = Beside.NOTHING if memory is None else Beside.FILLED if memory.part.writable else Beside.SEALED
        if self.beside is Beside.SEALED and "state" not in memory.signature.members:
            raise ValueError(f"memory must have an image with a seal, or be one that can be written, not be a plain "
                             f"{memory.part.name}")
        self.shape = transport.shape or LinkShape.of(technology, settings=transport.settable)
        self.frames = FrameBytes(core=core, ends=ends, technology=technology, wide=self.shape.fast)
        self.link = HostLink(shape=self.shape, technology=technology, identity=identity, memory=self.beside,
                             bytes_in=self.frames.bytes_in, bytes_out=self.frames.bytes_out,
                             image_bytes=0 if memory is None else memory.words * memory.part.width // 8)
        super().__init__({
            "clk": In(1), **transport.pins,
            **({"rst": In(1)} if clocking.has_reset else {}), **({"led": Out(leds)} if leds else {}),
            **({} if self.chip is None else self.chip.ports),
        })

    @staticmethod
    def cost(technology: Technology, ends: Ends | None = None, *, transport: Resources | None = None,
             shape: LinkShape | None = None) -> Resources:
        """Count what is around the core: RAM exact, LUT and FF as synthesized; without `ends` for streams of bytes.

        `transport` is the cost of the way to the host, by default that of a serial line; `shape` that of its packets.

        Of a core with several inputs or outputs a whole frame of all but one input and one output waits in a queue.
        """
        shape = shape or LinkShape.of(technology)
        around = (HostLink.cost(shape, technology) + (Uart.cost() if transport is None else transport)
                  + Clocking.cost() + fitted("BoardTop"))
        if shape.fast:
            width_in, width_out = (1, 1) if ends is None else ends.words
            around += FastCrossing.cost(technology, data_bytes=width_in, result_bytes=width_out)
        else:
            around += CoreCrossing.cost()
        return around if ends is None else around + FrameBytes.cost(ends, technology, wide=shape.fast)

    @staticmethod
    def memory_cost(technology: Technology, *, writable: bool, width: int) -> Resources:
        """Count what a memory beside the FPGA adds to that, with words of `width` bits; the `WeightMemory` is not in
        it."""
        if writable:
            return HostLink.memory_cost(technology, Beside.FILLED) + ImageCrossing.cost(width)
        return HostLink.memory_cost(technology, Beside.SEALED) + SealCrossing.cost()

    @property
    def pins(self) -> list[Value | IOPort]:
        """The top-level ports, in the order of the constraint file."""
        chip = [] if self.chip is None else [*(getattr(self, name) for name in self.chip.ports), *self.chip.both_ways]
        return [self.clk, *(getattr(self, name) for name in self.transport.pins), *self.transport.both_ways,
                *([self.rst] if self.clocking.has_reset else []), *([self.led] if self.leds else []), *chip]

    def elaborate(self, platform):
        m = Module()
        self.clocking.add_to(m)
        m.d.comb += self.clocking.clk.eq(self.clk)
        if self.clocking.has_reset:
            m.d.comb += self.clocking.rst.eq(self.rst)
        self.line(m)
        m.submodules.crossing = crossing = FastCrossing(
            data_bytes=self.frames.width_in, result_bytes=self.frames.width_out) if self.shape.fast else CoreCrossing()
        # One register resets the core: what reads it can be placed near a copy of it (`Family.prepared`).
        run = m.domains.run = ClockDomain("run")
        m.d.comb += [run.clk.eq(self.clocking.sync_clk), run.rst.eq(crossing.reset)]
        in_core = DomainRenamer("run")
        m.submodules.core, m.submodules.frames = in_core(self.core), in_core(self.frames)
        m.d.comb += [crossing.restart.eq(self.link.restart), self.link.stopped.eq(crossing.stopped)]
        self.weights(m, crossing)
        link(m, crossing.core_data, self.frames.i)
        link(m, self.frames.o, crossing.core_results)
        link(m, crossing.results, self.link.results)
        if self.leds:
            self.lights(m)
        return m

    def line(self, m: Module) -> None:
        """The transport and the link, in the domain `line`."""
        on_line, transport = DomainRenamer("line"), self.transport
        m.submodules.transport, m.submodules.link = on_line(transport), on_line(self.link)
        for name, member in transport.pins.items():
            here, there = getattr(self, name), getattr(transport, name)
            m.d.comb += there.eq(here) if member.flow is In else here.eq(there)
        if transport.clock is not None:
            m.d.comb += self.clocking.line.eq(getattr(self, transport.clock))
        if "started" in transport.signature.members:
            m.d.comb += transport.started.eq(self.clocking.started)
        link(m, transport.o, self.link.i)
        link(m, self.link.o, transport.i)
        if self.shape.settings:
            m.d.comb += [transport.settings.eq(self.link.settings),
                         transport.settings_changed.eq(self.link.settings_changed),
                         self.link.settings_taken.eq(transport.settings_taken)]

    def weights(self, m: Module, crossing: CoreCrossing | FastCrossing) -> None:
        """Connects data of the link to the core, and those of an image to the memory; the memory to the core."""
        if self.memory is None:
            link(m, self.link.data, crossing.data)
            return
        m.submodules.memory, m.submodules.chip = memory, chip = self.memory, self.chip
        wiring.connect(m, memory.pins, chip.pins)
        for name, member in chip.ports.items():
            here, there = getattr(self, name), getattr(chip, name)
            m.d.comb += there.eq(here) if member.flow is In else here.eq(there)
        for n in range(len(memory.streams)):
            link(m, getattr(memory, f"o{n}"), getattr(self.core, f"weights{n}"))
        # While the core is reset; it waits at first for the weights that are fetched again.
        m.d.comb += memory.restart.eq(crossing.reset)
        if self.beside is Beside.SEALED:
            link(m, self.link.data, crossing.data)
            m.submodules.seal = seal = SealCrossing()
            wiring.connect(m, memory.digest, seal.digest)
            wiring.connect(m, seal.line_digest, self.link.digest)
            m.d.comb += [seal.state.eq(memory.state), self.link.state.eq(seal.line_state)]
            return
        m.submodules.image = image = ImageCrossing(width=memory.part.width)
        data, filling = self.link.data, self.link.filling
        m.d.comb += [
            crossing.data.payload.eq(data.payload), image.data.payload.eq(data.payload),
            crossing.data.valid.eq(data.valid & ~filling), image.data.valid.eq(data.valid & filling),
            data.ready.eq(Mux(filling, image.data.ready, crossing.data.ready)), image.clear.eq(self.link.clear),
            self.link.cleared.eq(image.cleared), self.link.complete.eq(image.complete),
            memory.clear.eq(image.forget), image.filled.eq(memory.filled)]
        wiring.connect(m, image.words, memory.fill)

    def lights(self, m: Module) -> None:
        # Each second of `line` has a few ticks.
        cycle, tick = Signal(20), Signal()
        beat, recent, error = Signal(4), Signal(2), Signal()
        data, results = self.link.data, self.link.results
        m.d.line += [Cat(cycle, tick).eq(cycle + 1), beat.eq(beat + tick),
                     error.eq((error | self.link.error) & ~self.link.restart)]
        with m.If(data.valid & data.ready | results.valid & results.ready):
            m.d.line += recent.eq(-1)
        with m.Elif(tick):
            m.d.line += recent.eq(recent >> 1)
        wide = Signal(self.leds)
        m.d.comb += [wide.eq(Cat(beat[-1], recent[0], error)), self.led.eq(~wide if self.leds_active_low else wide)]
