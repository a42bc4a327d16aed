"""IDDRX1F, ODDRX1F and DELAYG of ECP5: Lattice FPGA-TN-02035 (high-speed I/O), FPGA-DS-02012 (steps of the delay)."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, Value

from .double_rate import DoubleRate

__all__ = ["ECP5DoubleRate"]

#: A step of DELAYG, and how many there are.
STEP_NS, STEPS = 0.025, 127


class ECP5DoubleRate(DoubleRate):
    def input(self, m: Module, pin: Value, *, delay_ns: float, name: str) -> tuple[Value, Value]:
        first, second = Signal(name=f"{name}_first"), Signal(name=f"{name}_second")
        m.submodules[f"{name}_pad"] = Instance(
            "IDDRX1F", i_D=delayed(m, pin, delay_ns, name), i_SCLK=ClockSignal(), i_RST=Const(0, 1), o_Q0=first,
            o_Q1=second)
        return first, second

    def output(self, m: Module, first: Value, second: Value, *, delay_ns: float, name: str) -> Value:
        pin = Signal(name=f"{name}_pin")
        m.submodules[f"{name}_pad"] = Instance(
            "ODDRX1F", i_D0=first, i_D1=second, i_SCLK=ClockSignal(), i_RST=Const(0, 1), o_Q=pin)
        return delayed(m, pin, delay_ns, name)


def delayed(m: Module, value: Value, delay_ns: float, name: str) -> Value:
    """Behind a DELAYG, where there is a delay; ValueError for more than its steps."""
    steps = round(delay_ns / STEP_NS)
    if not 0 <= steps <= STEPS:
        raise ValueError(f"delay of a pin must be from 0 to {STEP_NS * STEPS:g} ns, not {delay_ns:g} ns")
    if not steps:
        return value
    late = Signal(name=f"{name}_late")
    m.submodules[f"{name}_delay"] = Instance(
        "DELAYG", p_DEL_MODE="USER_DEFINED", p_DEL_VALUE=steps, i_A=value, o_Z=late)
    return late
