"""The multipliers of an ECP5: a MULT18X18D alone, two products in one MULT18X18D, and two of them before an ALU54B.

Sources: Lattice FPGA-TN-02205 (sysDSP usage guide) and FPGA-DS-02012, 2.9 (two multipliers and an ALU make a slice,
two slices a block).  The ALU's opcode is the same as in the ALU54A of the LatticeECP3, whose simulation model Lattice
publishes; what Diamond makes for an LFE5U uses the same values.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Shape, Signal, Value

from .base import Multipliers, MultiplyAccumulate
from .pairs import PairMultipliers

#: Bits of an operand and of a product of a MULT18X18D, and of an ALU54B's sums that come back into it.
OPERAND, PRODUCT, SUM = 18, 36, 52

# Opcode of an ALU54B, a field for each of its inputs and one for what it does with them.
#: OP0 and OP1: the product of the first multiplier.  OP2 and OP3: the product of the second.
MA, MB = 0b01, 0b01
#: OP4 to OP6: nothing, or the register after the ALU.
NOTHING, RESULT = 0b000, 0b101
#: OP7 to OP10: the sum of all three.
ADD = 0b0100


class ECP5Multipliers(Multipliers):
    """Latency 4: input, pipeline and output register of the MULT18X18D, and a register in the fabric after it.

    The last one takes the long way from the multiplier's column to the adders out of their path: +20 MHz measured.
    """

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            product = Signal(PRODUCT, name=f"product{n}")
            m.submodules[f"multiplier{n}"] = mult18x18d(Value.cast(self.a[n]), Value.cast(self.b[n]), product)
            register = Signal(len(Value.cast(self.p[n])), name=f"register{n}", reset_less=True)
            m.d.sync += register.eq(product)
            m.d.comb += Value.cast(self.p[n]).eq(register)
        return m


class ECP5Pairs(PairMultipliers):
    """Latency 5: operands, the three registers of the MULT18X18D, and one in the fabric after the correction."""

    def block(self, m: Module, n: int, a: Value, packed: Value) -> Value:
        product = Signal(PRODUCT, name=f"product{n}")
        m.submodules[f"multiplier{n}"] = mult18x18d(a, packed, product)
        return product


class ECP5MultiplyAccumulate(MultiplyAccumulate):
    """Latency 4: input and pipeline registers of two MULT18X18D, the register of the ALU54B, and one in the fabric.

    `more` passes the opcode's input and pipeline registers and so meets its products.
    """

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            pair = [(Value.cast(self.a[k]), Value.cast(self.b[k])) for k in (2 * n, 2 * n + 1)]
            low = lowest_bit(*pair[0], self.total)
            products = []
            for k, (a, b) in enumerate(pair):
                product, rows, sign = (Signal(bits, name=f"{name}{2 * n + k}") for name, bits in (
                    ("product", PRODUCT), ("rows", 2 * OPERAND), ("sign", 1)))
                m.submodules[f"multiplier{2 * n + k}"] = mult18x18d(a, b, product, low=low, to_alu=(rows, sign))
                products.append((product, rows, sign))
            result = Signal(SUM, name=f"result{n}")
            m.submodules[f"sum{n}"] = alu54b(self.more, products, result)
            register = Signal(self.total.width, name=f"register{n}", reset_less=True)
            m.d.sync += register.eq(result[low:])
            m.d.comb += Value.cast(self.t[n]).eq(register)
        return m


def lowest_bit(a: Value, b: Value, total: Shape) -> int:
    """The bit of an ALU at which sums of products begin: as high as operands and sums have room above it."""
    room = SUM - total.width
    if room < 0:
        raise ValueError(f"sums of an ECP5's multipliers must be at most {SUM} bits wide, not {total!r}; "
                         "use style blocks")
    return min(2 * OPERAND - len(a) - len(b), room)


def mult18x18d(a: Value, b: Value, product: Value, *, low: int | None = None,
               to_alu: tuple[Value, Value] | None = None) -> Instance:
    """All three registers on CLK0, never reset, never stalled; `product` gets len(a) + len(b) bits.

    The operands are in the upper bits, where their signs need no copies: zeros below cost no wires, while ten copies
    of the sign of 8 bits made it the net with the most loads.  `low` is the number of zeros below the product.

    Before an ALU the product's register is left out, and `to_alu` are the wires that go there beside the product: the
    operands, and whether the product has a sign.
    """
    ports: dict[str, object] = {}
    zeros = PRODUCT - len(a) - len(b) if low is None else low
    below_a = min(OPERAND - len(a), zeros)
    for letter, operand, below in (("A", a, below_a), ("B", b, zeros - below_a)):
        above = operand[-1] if operand.shape().signed else Const(0, 1)
        wide = Cat(Const(0, below), operand, above.replicate(OPERAND - len(operand) - below))
        ports |= {f"i_{letter}{k}": wide[k] for k in range(OPERAND)}
        ports[f"i_SIGNED{letter}"] = Const(int(operand.shape().signed), 1)
        ports[f"i_SOURCE{letter}"] = Const(0, 1)
        ports[f"p_REG_INPUT{letter}_CLK"] = "CLK0"
    ports |= {f"i_C{k}": Const(0, 1) for k in range(OPERAND)}
    if to_alu is None:
        ports |= {f"o_P{k}": product[k - zeros] for k in range(zeros, PRODUCT)}
        ports["p_REG_OUTPUT_CLK"] = "CLK0"
    else:
        rows, sign = to_alu
        ports |= {f"o_P{k}": product[k] for k in range(PRODUCT)}
        ports |= {f"o_RO{letter}{k}": rows[OPERAND * n + k] for n, letter in enumerate("AB") for k in range(OPERAND)}
        ports["o_SIGNEDP"] = sign
    return Instance("MULT18X18D", p_REG_PIPELINE_CLK="CLK0", **ports, **always())


def alu54b(more: Value, products: list[tuple[Value, Value, Value]], result: Value) -> Instance:
    """`result`: the sum of both products, and of itself where `more` was set two cycles before they come.

    nextpnr places an ALU with its multipliers where all that joins them in the chip is connected: products, operands
    and signs.  Inputs that only another ALU drives (CIN, SIGNEDCIN) are left open, because no wire leads there.  The
    flags have their register: without it nextpnr passes by the output register of a multiplier in the other slice.
    """
    opcode = Cat(Const(MA, 2), Const(MB, 2), Mux(more, Const(RESULT, 3), Const(NOTHING, 3)), Const(ADD, 4))
    ports: dict[str, object] = {f"i_OP{k}": bit for k, bit in enumerate(opcode)}
    for letter, (product, rows, sign) in zip("AB", products, strict=True):
        ports |= {f"i_M{letter}{k}": product[k] for k in range(PRODUCT)}
        ports |= {f"i_{letter}{k}": rows[k] for k in range(2 * OPERAND)}
        ports[f"i_SIGNEDI{letter}"] = sign
    ports |= {f"o_R{k}": result[k] for k in range(SUM)}
    registers = ("OPCODEIN_0", "OPCODEIN_1", "OPCODEOP0_0", "OPCODEOP0_1", "OPCODEOP1_0", "OPCODEOP1_1", "OUTPUT0",
                 "OUTPUT1", "FLAG")
    return Instance("ALU54B", **{f"p_REG_{name}_CLK": "CLK0" for name in registers}, **ports, **always())


def always() -> dict[str, object]:
    """Clock, enable and reset of a block that is never reset nor stalled."""
    return {name: value for k in range(4) for name, value in (
        (f"i_CLK{k}", ClockSignal() if k == 0 else Const(0, 1)), (f"i_CE{k}", Const(1, 1)),
        (f"i_RST{k}", Const(0, 1)))}
