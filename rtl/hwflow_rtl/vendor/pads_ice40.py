"""SB_IO of iCE40 with its registers: Lattice FPGA-TN-02026 (iCE40 technology library), as yosys' cells_sim.v has it."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Const, Instance, IOValue, Value

from .pads import Pads, PadTiming

__all__ = ["ICE40Pads"]

#: A quarter is added to the longest ones and taken from the shortest, for loads and what the tables may not say.
TIMING = PadTiming(
    out_max=4.9, out_min=1.7, setup=6.0, hold=0.0,
    source="Project IceStorm timings_up5k.txt and timings_hx8k.txt, PRE_IO and IO_PAD: 3.9 ns the longest from "
           "OUTPUTCLK to the pin, 2.4 ns the shortest; 4.8 ns set-up from the pin to INPUTCLK, no hold")
#: PIN_TYPE: the output in the four high bits, the input in the two low ones.
DOUBLE_RATE, REGISTERED_INVERTED, REGISTERED_BOTH_WAYS = 0b0100_01, 0b0111_01, 0b1101_00


class ICE40Pads(Pads):
    timing = TIMING

    def clock(self, port: IOValue, gate: Value) -> Instance:
        return Instance("SB_IO", p_PIN_TYPE=Const(DOUBLE_RATE, 6), io_PACKAGE_PIN=port, i_OUTPUT_CLK=ClockSignal(),
                        i_D_OUT_0=Const(0, 1), i_D_OUT_1=gate)

    def idle_high(self, port: IOValue, value: Value) -> Instance:
        """The register is 0 after configuration."""
        return Instance("SB_IO", p_PIN_TYPE=Const(REGISTERED_INVERTED, 6), io_PACKAGE_PIN=port,
                        i_OUTPUT_CLK=ClockSignal(), i_D_OUT_0=~value)

    def both_ways(self, port: IOValue, *, i: Value, o: Value, oe: Value) -> Instance:
        return Instance("SB_IO", p_PIN_TYPE=Const(REGISTERED_BOTH_WAYS, 6), io_PACKAGE_PIN=port,
                        i_INPUT_CLK=ClockSignal(), i_OUTPUT_CLK=ClockSignal(), i_D_OUT_0=o, i_OUTPUT_ENABLE=oe,
                        o_D_IN_0=i)
