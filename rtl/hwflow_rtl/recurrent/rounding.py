"""Division by a power of two, rounded half to even, and saturation, as registers of a pipeline."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed

from ..stream.pipeline import delay


def rounds_up(value: Value, bits: int) -> Value:
    """Whether value / 2**bits is nearer to the next integer, or as near and that one is even."""
    if not bits:
        return Const(0, 1)
    return value[bits - 1] & (value[bits] | value[:bits - 1].any()) if bits > 1 else value[0] & value[1]


def quotient(m: Module, value: Value, bits: int, name: str, base: Value | None = None) -> Signal:
    """base + value / 2**bits, one cycle later."""
    above = (value >> bits).as_signed()
    width = max(len(above), 0 if base is None else len(base)) + 1
    made = Signal(signed(width), name=name, reset_less=True)
    # One carry chain: the lowest bits of both operands make the carry.
    low, high = Cat(1, above).as_signed(), Cat(rounds_up(value, bits), Const(0, 1) if base is None else base)
    m.d.sync += made.eq((low + high.as_signed()) >> 1)
    return made


def rounded(m: Module, value: Value, bits: int, name: str) -> Signal:
    """value / 2**bits, two cycles later; for quotients of many bits."""
    above, up = delay(m, (value >> bits).as_signed(), 1, f"{name}_floor"), delay(
        m, rounds_up(value, bits), 1, f"{name}_up")
    made = Signal(signed(len(above) + 1), name=name, reset_less=True)
    m.d.sync += made.eq(above + up)
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
