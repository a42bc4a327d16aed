"""A core whose weights are in a memory outside of the FPGA, with this memory, for a simulation.

    image file ─▶ fill ─▶ WeightMemory ─▶ weights0, weights1, ... ─▶ core
                               ▲
                               ▼
                         simulated chip

The memory is filled when the simulation starts, as a board is filled after power-up, and stays filled through the reset
of the core.  Its clock is that of the core with some cycles left out.  So a memory that is faster than the core runs as
fast as the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Instance,
    Module,
    Mux,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.memory import AnyFlash, MemoryPart, WeightMemory, WeightStream
from hwflow_rtl.stream.streams import payload_of
from hwflow_rtl.vendor import Technology

from . import flash, sdram

#: The name of the file of the image, without `.hex`.
IMAGE = "weights_outside"
#: Cycles without a beat of weights after which all queues and buffers are full.
QUIET = 4096
#: Clocks of the memory in which it is reset when the simulation starts.
POWER_UP_RESET = 8


class CoreWithMemory(wiring.Component):
    """`core` without its streams of weights, which come from a simulated memory.

    Parameters
    ----------
    core
        A `Core` with streams `weights0`, ...
    part, streams
        The memory; what the core takes for a frame.
    slowdown
        The clock of the core divided by that of the memory, at least 1.
    domain
        The clock domain of the memory: `memory`, or `sync` for the core's clock.
    technology
        Makes the queues.

    Ports beside those of the core: `settled`, high when the memory is filled and all queues and buffers of weights are
    full; `stall_weights{n}` (`weight_stalls`): the core gets no new beat of weights n in this cycle.  `sources` are
    Verilog files that simulators need beside the design.
    """

    def __init__(self, *, core: wiring.Component, part: MemoryPart, streams: Sequence[WeightStream], slowdown: Fraction,
                 technology: Technology, domain: str = "memory"):
        self.core = core
        self.part = part
        self.memory = WeightMemory(part=part, streams=streams, technology=technology, domain=domain)
        self.slowdown = max(Fraction(1), slowdown)
        self.links, self.probes = core.links, core.probes
        self.input_names, self.output_names = core.input_names, core.output_names
        self.weight_names = [f"weights{n}" for n in range(len(streams))]
        self.weight_stalls = [f"stall_{name}" for name in self.weight_names]
        members = {name: member for name, member in core.signature.members.items() if name not in self.weight_names}
        super().__init__({**members, "settled": Out(1), **{name: In(1) for name in self.weight_stalls}})

    @property
    def sources(self) -> tuple[Path, ...]:
        return (flash.flash_model(self.part) if isinstance(self.part, AnyFlash) else sdram.MODEL,)

    def capacity(self, e: int) -> int:
        return int(self.core.capacity(e))

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        for name, member in core.signature.members.items():
            if name in self.weight_names:
                continue
            if member.is_signature:
                wiring.connect(m, getattr(core, name), wiring.flipped(getattr(self, name)))
            else:
                m.d.comb += getattr(self, name).eq(getattr(core, name))
        m.domains.free = ClockDomain(reset_less=True)  # not reset with the core
        m.d.comb += ClockSignal("free").eq(ClockSignal())
        self.memory_clock(m)
        m.submodules.memory = memory = DomainRenamer({"sync": "free"})(self.memory)
        self.chip(m)
        m.d.free += memory.restart.eq(ResetSignal())
        moved = Signal(len(self.weight_names))
        for n, name in enumerate(self.weight_names):
            source, taken = getattr(memory, f"o{n}"), getattr(core, name)
            self.stallable(m, source, taken, getattr(self, self.weight_stalls[n]), name)
            m.d.comb += moved[n].eq(source.valid & source.ready)
        quiet = Signal(range(QUIET + 1))
        m.d.sync += quiet.eq(Mux(moved.any() | ~memory.filled, 0, quiet + ~self.settled))
        m.d.comb += self.settled.eq(quiet == QUIET)
        return m

    def stallable(self, m: Module, source: wiring.PureInterface, taken: wiring.PureInterface, stall: Value,
                  name: str) -> None:
        """Connects a stream, which pauses while `stall`; a beat that was offered stays."""
        if payload_of(source) != payload_of(taken):
            raise wiring.ConnectionError(f"payload of {name} must be {payload_of(taken)!r}, not {payload_of(source)!r}")
        offered, passes = Signal(name=f"{name}_offered"), Signal(name=f"{name}_passes")
        m.d.sync += offered.eq(taken.valid & ~taken.ready)
        m.d.comb += [passes.eq(offered | ~stall), taken.valid.eq(source.valid & passes),
                     source.ready.eq(taken.ready & passes), taken.payload.eq(source.payload)]

    def chip(self, m: Module) -> None:
        """The simulated chip, and its image: words to fill it with, or contents that a flash has from the start.

        In the times of a flash a cycle of the core counts as a period of the memory's clock, which is never shorter.
        """
        memory = self.memory
        if isinstance(self.part, AnyFlash):
            chip = flash.flash_at(self.part, image=f"{IMAGE}.hex", words=memory.words,
                                  tick=ceil(500 * self.part.period))
            first = chip.first_time
        else:
            chip = sdram.Sdram(part=self.part)
            first = chip.first_cycle
            m.submodules.image = Instance(
                "hwflow_image", p_WIDTH=self.part.width, p_DEPTH=memory.words, p_FILE=f"{IMAGE}.hex",
                i_clk=ClockSignal(), i_ready=memory.fill.ready, o_valid=memory.fill.valid,
                o_payload=Value.cast(memory.fill.payload))
        m.submodules.chip = DomainRenamer({"sync": "free"})(chip)  # the pads of a flash have a clock
        wiring.connect(m, memory.pins, chip.pins)
        m.submodules.rules = Instance(
            "hwflow_no_violation", i_clk=ClockSignal("memory"), i_total=chip.total, i_first_kind=chip.first_kind,
            i_first_cycle=first)

    def memory_clock(self, m: Module) -> None:
        """Lets so many of the core's cycles through as the slowdown asks; the gate changes while the clock is low."""
        fast, slow = self.slowdown.numerator, self.slowdown.denominator
        m.domains.falling = ClockDomain(reset_less=True, clk_edge="neg", local=True)
        m.domains.memory = ClockDomain()
        phase, gate = Signal(range(2 * fast)), Signal(init=1)
        following = Signal(range(2 * fast))
        m.d.comb += following.eq(phase + slow)
        m.d.falling += [gate.eq(following >= fast), phase.eq(Mux(following >= fast, following - fast, following))]
        left = Signal(range(POWER_UP_RESET + 1), init=POWER_UP_RESET)
        with m.If(left != 0):
            m.d.falling += left.eq(left - gate)
        m.d.comb += [ClockSignal("falling").eq(ClockSignal()), ClockSignal("memory").eq(ClockSignal() & gate),
                     ResetSignal("memory").eq(left != 0)]


def image_bytes(words: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """int64[words] as `write_roms` takes them: uint8[words, bytes], least significant byte first."""
    places = 8 * np.arange(-(-width // 8))
    return (words[:, None] >> places & 0xFF).astype(np.uint8)
