"""The clocks of a board with their resets: `line`, as fast as its oscillator or as the way to the host, `sync`, as fast
as a PLL makes it, and `memory`, as fast as a memory beside the FPGA wants it."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.pll import PllSettings, Wire, exact

#: Cycles of the oscillator in reset after configuration, the button, and the loss of the PLL's lock.  Block RAM of
#: iCE40 reads zeros in the first microseconds (icestorm's notes).
RESET_CYCLES = 4096


class Clocking(wiring.Component):
    """Makes the clock domains `line` and `sync`, and `memory` for a board with one; `add_to` puts it into a design with
    them.

    All start in reset, and leave it when the PLLs have been locked and the button up for RESET_CYCLES of the
    oscillator: `line` then if it has the oscillator's clock, the others three of their own cycles later.  All are reset
    together, so that what crosses between them starts anew on both sides.

    Parameters
    ----------
    technology
        The family that makes the PLL.
    board_mhz
        The oscillator.
    pll
        The settings of the PLL, or None: then `sync` runs on the oscillator too.
    memory, memory_pll
        Whether there is a domain `memory`, and the settings of its own PLL, or None: then it runs on the oscillator.
        It is another PLL than that of `sync`, whose dividers are set anew when a routed design is known.
    line_mhz
        The clock of the way to the host, which `line` then has; None: `line` runs on the oscillator.
    has_reset, reset_active_low
        Whether there is a reset button, and its polarity.

    Attributes
    ----------
    clk : In(1)
        The oscillator's pin; nothing else may use it.
    rst : In(1)
        The button, asynchronous; only where there is one.
    line : In(1)
        The clock of the way to the host; only with `line_mhz`.
    started : Out(1)
        The reset is over; of the oscillator.
    line_clk, line_rst, sync_clk, sync_rst, memory_clk, memory_rst : Out(1)
        What drives the domains.
    """

    def __init__(self, *, technology: Technology, board_mhz: float, pll: PllSettings | None = None,
                 memory: bool = False, memory_pll: PllSettings | None = None, line_mhz: float | None = None,
                 has_reset: bool = False, reset_active_low: bool = False):
        for name, settings in (("pll", pll), ("memory_pll", memory_pll)):
            if settings is not None and settings.input_mhz != exact(board_mhz):
                raise ValueError(f"{name} must have settings for the oscillator's {board_mhz:g} MHz, not for "
                                 f"{float(settings.input_mhz):g} MHz")
        self.technology = technology
        self.board_mhz = board_mhz
        self.pll = pll
        self.memory = memory
        self.memory_pll = memory_pll
        self.line_mhz = board_mhz if line_mhz is None else line_mhz
        self.own_line = line_mhz is not None
        self.has_reset = has_reset
        self.reset_active_low = reset_active_low
        super().__init__({
            "clk": In(1), **({"rst": In(1)} if has_reset else {}), **({"line": In(1)} if self.own_line else {}),
            "started": Out(1), "line_clk": Out(1), "line_rst": Out(1), "sync_clk": Out(1), "sync_rst": Out(1),
            **({"memory_clk": Out(1), "memory_rst": Out(1)} if memory else {}),
        })

    def add_to(self, m: Module) -> None:
        """Make it the submodule `clocking` of `m`, and its domains those of `m` and all below."""
        m.submodules.clocking = self
        line, sync = ClockDomain("line"), ClockDomain("sync")
        m.domains += [line, sync]
        m.d.comb += [line.clk.eq(self.line_clk), line.rst.eq(self.line_rst),
                     sync.clk.eq(self.sync_clk), sync.rst.eq(self.sync_rst)]
        if self.memory:
            memory = m.domains.memory = ClockDomain("memory")
            m.d.comb += [memory.clk.eq(self.memory_clk), memory.rst.eq(self.memory_rst)]

    @staticmethod
    def cost() -> Resources:
        """The counter of the reset and the synchronizers."""
        return fitted("Clocking") + Resources(ff=RESET_CYCLES.bit_length())

    @property
    def sync_mhz(self) -> float:
        """The clock of the core, MHz."""
        return self.board_mhz if self.pll is None else float(self.pll.output_mhz)

    @property
    def memory_mhz(self) -> float:
        """The clock of the memory, MHz."""
        return self.board_mhz if self.memory_pll is None else float(self.memory_pll.output_mhz)

    def elaborate(self, platform):
        m = Module()
        m.submodules.source = source = Wire() if self.pll is None else self.technology.pll(self.pll)
        start = m.domains.start = ClockDomain("start", reset_less=True, local=True)
        core = m.domains.core = ClockDomain("core", reset_less=True, local=True)
        m.d.comb += [
            source.clk_in.eq(self.clk), start.clk.eq(source.clk_through),
            self.sync_clk.eq(source.clk_out), core.clk.eq(source.clk_out)]

        button, locked = Signal(), Signal()
        if self.has_reset:
            pressed = ~self.rst if self.reset_active_low else self.rst
            m.submodules.button = FFSynchronizer(pressed, button, o_domain="start")
        all_locked = self.make_memory_clock(m) & source.locked if self.memory else source.locked
        m.submodules.locked = FFSynchronizer(all_locked, locked, o_domain="start")
        # Counts down to its sign bit.
        left = Signal(range(-1, RESET_CYCLES - 1), init=RESET_CYCLES - 2)
        reset = Signal(init=1)
        m.d.start += reset.eq(~left[-1])
        with m.If(button | ~locked):
            m.d.start += left.eq(RESET_CYCLES - 2)
        with m.Elif(~left[-1]):
            m.d.start += left.eq(left - 1)
        reset_core = Signal(init=1)
        # The third register, behind the two that settle, may be copied for each part of a large design.
        m.submodules.reset_core = FFSynchronizer(reset, reset_core, o_domain="core", init=1, stages=3)
        m.d.comb += [self.sync_rst.eq(reset_core), self.started.eq(~reset)]
        if self.own_line:
            on_line = m.domains.on_line = ClockDomain("on_line", reset_less=True, local=True)
            m.d.comb += [on_line.clk.eq(self.line), self.line_clk.eq(self.line)]
            m.submodules.reset_line = FFSynchronizer(reset, self.line_rst, o_domain="on_line", init=1, stages=3)
        else:
            m.d.comb += [self.line_clk.eq(source.clk_through), self.line_rst.eq(reset)]
        if self.memory:
            m.submodules.reset_memory = FFSynchronizer(reset, self.memory_rst, o_domain="memory_start", init=1,
                                                       stages=3)
        return m

    def make_memory_clock(self, m: Module) -> Value:
        """The clock of the memory; whether its PLL is locked."""
        source = Wire() if self.memory_pll is None else self.technology.pll(self.memory_pll)
        m.submodules.memory_source = source
        start = m.domains.memory_start = ClockDomain("memory_start", reset_less=True, local=True)
        m.d.comb += [source.clk_in.eq(self.clk), self.memory_clk.eq(source.clk_out), start.clk.eq(source.clk_out)]
        return source.locked
