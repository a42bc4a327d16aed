"""Clock domains and their resets, in simulation and as each family's primitives."""

from __future__ import annotations

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from hwflow_rtl.io.clocking import RESET_CYCLES, Clocking
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin, Technology

from tests.rtl.engine import Simulator
from tests.rtl.toys import WithShownPll


class Watched(wiring.Component):
    """Shows the resets of both domains, and counts in both."""

    def __init__(self, clocking: Clocking):
        self.clocking = clocking
        super().__init__({"line": Out(1), "sync": Out(1), "lines": Out(16), "syncs": Out(16)})

    def elaborate(self, platform):
        m = Module()
        self.clocking.add_to(m)
        m.d.comb += [self.line.eq(ResetSignal("line")), self.sync.eq(ResetSignal("sync"))]
        m.d.line += self.lines.eq(self.lines + 1)
        m.d.sync += self.syncs.eq(self.syncs + 1)
        return m


async def cycles(ctx, clock: Signal, count: int) -> None:
    for _ in range(count):
        ctx.set(clock, 1)
        await ctx.delay(1e-9)
        ctx.set(clock, 0)
        await ctx.delay(1e-9)


def simulate(top: Watched, testbench) -> None:
    simulator = Simulator(top)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("active_low", [False, True])
def test_both_domains_start_together_after_configuration_and_after_the_button(active_low: bool) -> None:
    clocking = Clocking(technology=Generic(), board_mhz=25, has_reset=True, reset_active_low=active_low)
    top = Watched(clocking)

    async def testbench(ctx) -> None:
        up, down = int(active_low), int(not active_low)
        ctx.set(clocking.rst, up)
        for start in (up, down):
            ctx.set(clocking.rst, start)
            await cycles(ctx, clocking.clk, 8)
            ctx.set(clocking.rst, up)
            assert (ctx.get(top.line), ctx.get(top.sync)) == (1, 1)
            waited = 8
            while ctx.get(top.line):
                await cycles(ctx, clocking.clk, 1)
                waited += 1
            assert RESET_CYCLES <= waited <= RESET_CYCLES + 16
            assert ctx.get(top.sync) == 1
            await cycles(ctx, clocking.clk, 3)
            assert ctx.get(top.sync) == 0
            await cycles(ctx, clocking.clk, 100)
            assert (ctx.get(top.lines), ctx.get(top.syncs)) == (103, 100)

    simulate(top, testbench)


def test_nothing_starts_before_the_lock_and_all_stops_when_it_is_lost() -> None:
    technology = WithShownPll()
    clocking = Clocking(technology=technology, board_mhz=25, pll=technology.pll_settings(25, 100))
    top = Watched(clocking)
    pll = technology.shown

    async def testbench(ctx) -> None:
        for _ in range(2):
            await cycles(ctx, clocking.clk, 3 * RESET_CYCLES)
            await cycles(ctx, pll.clock, 10)
            assert (ctx.get(top.line), ctx.get(top.sync)) == (1, 1)
            ctx.set(pll.lock, 1)
            await cycles(ctx, clocking.clk, RESET_CYCLES - 8)
            assert (ctx.get(top.line), ctx.get(top.sync)) == (1, 1)
            await cycles(ctx, clocking.clk, 16)
            assert (ctx.get(top.line), ctx.get(top.sync)) == (0, 1), "the core's clock stands still"
            await cycles(ctx, pll.clock, 3)
            assert ctx.get(top.sync) == 0
            ctx.set(pll.lock, 0)
            await cycles(ctx, clocking.clk, 8)
            await cycles(ctx, pll.clock, 4)
            assert (ctx.get(top.line), ctx.get(top.sync)) == (1, 1)

    simulate(top, testbench)


@pytest.mark.parametrize(("technology", "board_mhz", "primitives"), [
    (ECP5(), 25, {"EHXPLLL"}), (ICE40(), 12, {"SB_PLL40_CORE"}), (Gowin(), 27, {"rPLL"}),
    (ICE40(clock_at_pll_pad=True), 12, {"SB_PLL40_2_PAD"}), (Generic(like=ECP5()), 25, set()),
], ids=["ecp5", "ice40", "gowin", "ice40-pad", "generic"])
def test_each_familys_primitive(technology: Technology, board_mhz: float, primitives: set[str]) -> None:
    settings = technology.pll_settings(board_mhz, 60)
    assert settings is not None
    clocking = Clocking(technology=technology, board_mhz=board_mhz, pll=settings)
    assert clocking.sync_mhz == float(settings.output_mhz) > 55
    text = rtlil.convert(Watched(clocking), name="top", ports=[clocking.clk])
    known = {"EHXPLLL", "SB_PLL40_CORE", "SB_PLL40_2_PAD", "rPLL"}
    assert {name for name in known if f"cell \\{name} " in text} == primitives


def test_without_a_pll_both_domains_run_on_the_oscillator() -> None:
    clocking = Clocking(technology=ECP5(), board_mhz=25)
    assert clocking.sync_mhz == 25
    assert "EHXPLLL" not in rtlil.convert(Watched(clocking), name="top", ports=[clocking.clk])


def test_settings_for_another_oscillator_are_refused() -> None:
    with pytest.raises(ValueError, match=r"pll must have settings for the oscillator's 25 MHz, not for 48 MHz"):
        Clocking(technology=ECP5(), board_mhz=25, pll=ECP5().pll_settings(48, 100))


def test_an_oscillator_whose_mhz_no_float_holds() -> None:
    settings = ECP5().pll_settings(33.3333, 100)
    assert settings is not None
    assert Clocking(technology=ECP5(), board_mhz=33.3333, pll=settings).sync_mhz == float(settings.output_mhz)


def test_a_memory_has_a_clock_of_its_own() -> None:
    """The third domain starts with the others, when both PLLs are locked."""
    technology = WithShownPll()
    settings = technology.pll_settings(25, 50)
    clocking = Clocking(technology=technology, board_mhz=25, memory=True, memory_pll=settings)
    top, pll = Watched(clocking), technology.shown
    assert (clocking.memory_mhz, clocking.sync_mhz) == (50, 25)

    async def testbench(ctx) -> None:
        for locked in (0, 1):
            ctx.set(pll.lock, locked)
            await cycles(ctx, clocking.clk, RESET_CYCLES + 16)
            assert (ctx.get(top.line), ctx.get(clocking.memory_rst)) == (1 - locked, 1)
        await cycles(ctx, pll.clock, 3)
        assert ctx.get(clocking.memory_rst) == 0
        ctx.set(pll.lock, 0)
        await cycles(ctx, clocking.clk, 8)
        await cycles(ctx, pll.clock, 4)
        assert (ctx.get(top.line), ctx.get(clocking.memory_rst)) == (1, 1)

    simulate(top, testbench)


@pytest.mark.parametrize(("technology", "board_mhz", "wanted"), [(ECP5(), 25, 60), (Gowin(chip="GW2A-18C"), 27, 48)])
def test_two_plls(technology: Technology, board_mhz: float, wanted: float) -> None:
    both = {name: technology.pll_settings(board_mhz, mhz) for name, mhz in (("pll", 120), ("memory_pll", wanted))}
    clocking = Clocking(technology=technology, board_mhz=board_mhz, memory=True, **both)
    assert clocking.memory_mhz == wanted, "the clock of the board file, exactly"
    text = rtlil.convert(Watched(clocking), name="top", ports=[clocking.clk])
    assert len([line for line in text.splitlines() if "EHXPLLL" in line or "rPLL" in line]) == 2
    with pytest.raises(ValueError, match="memory_pll must have settings for the oscillator's 30 MHz, not for"):
        Clocking(technology=technology, board_mhz=30, memory=True, memory_pll=both["memory_pll"])
