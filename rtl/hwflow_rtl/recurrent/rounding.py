"""Division by a power of two, rounded half to even, and saturation, as registers of a pipeline."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, signed

from ..stream.pipeline import delay

__all__ = ["quotient", "rounded", "saturated"]


def rounds_up(value: Value, bits: int) -> Value:
    """Whether value / 2**bits is nearer to the next integer, or as near and that one is even."""
    if not bits:
        return Const(0, 1)
    return value[bits - 1] & (value[bits] | value[:bits - 1].any()) if bits > 1 else value[0] & value[1]


def quotient(m: Module, value: Value, bits: int, name: str) -> Signal:
    """value / 2**bits, one cycle later."""
    made = Signal(signed(max(1, len(value) - bits) + 1), name=name, reset_less=True)
    m.d.sync += made.eq((value >> bits) + rounds_up(value, bits))
    return made


def rounded(m: Module, value: Value, bits: int, name: str, base: Value | None = None) -> Signal:
    """base + value / 2**bits, two cycles later; for quotients of many bits."""
    width = max(max(1, len(value) - bits), 0 if base is None else len(base)) + 1
    floor, up = Signal(signed(width), name=f"{name}_floor", reset_less=True), delay(
        m, rounds_up(value, bits), 1, f"{name}_up")
    m.d.sync += floor.eq((value >> bits) + (0 if base is None else base))
    made = Signal(signed(width + 1), name=name, reset_less=True)
    m.d.sync += made.eq(floor + up)
    return made


def saturated(m: Module, value: Value, shape: Shape, name: str) -> Signal:
    """The integer of the signed `shape` that is nearest to `value`, one cycle later."""
    made = Signal(shape, name=name, reset_less=True)
    if len(value) <= shape.width:
        m.d.sync += made.eq(value)
        return made
    top = value[shape.width - 1:]
    low, high = -1 << (shape.width - 1), (1 << (shape.width - 1)) - 1
    m.d.sync += made.eq(Mux(top.all() | ~top.any(), value[:shape.width].as_signed(), Mux(top[-1], low, high)))
    return made
