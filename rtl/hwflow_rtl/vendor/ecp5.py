"""Lattice ECP5: multipliers (`dsp_ecp5`), DP16KD block RAM with output registers, small memories in tables.

Sources: Lattice FPGA-TN-02204 (memory usage guide); the port and INITVAL layout of DP16KD as in yosys'
techlibs/lattice/brams_map_16kd.v, with which the tests compare ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Shape, Signal, Value
from amaranth.utils import ceil_log2

from .base import Multipliers, MultiplyAccumulate, Ram, Resources, Rom, Technology, Timing
from .blocks import (
    BlockRam,
    BlockRom,
    BlockShape,
    LutRam,
    SplitRom,
    TailedRam,
    bits_of,
    block_cost,
    joined_rom_cost,
    lut_ram_cost,
    lut_rom_cost,
    packed,
    places_of,
    tile,
    tile_rom,
    tiling_of,
    write_decoder_cost,
)
from .dsp_ecp5 import ECP5Multipliers, ECP5MultiplyAccumulate, ECP5Pairs
from .memory import Memory, MemoryKind, Place
from .pads import DoubleRate
from .pairs import packing
from .pll import Pll, PllSettings, exact
from .tables import ECP5LutRom

# IDDRX1F, ODDRX1F and DELAYG of ECP5: Lattice FPGA-TN-02035 (high-speed I/O), FPGA-DS-02012 (steps of the delay).


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


# EHXPLLL of ECP5: Lattice FPGA-TN-02200 (sysCLOCK), ranges from FPGA-DS-02012 as prjtrellis' ecppll has them.


INPUT_MHZ, PFD_MHZ, VCO_MHZ = (8, 400), (Fraction("3.125"), 400), (400, 800)
FEEDBACK_MHZ = OUTPUT_MHZ = (10, 400)
#: ecppll goes no further with the divider in the feedback; those of the input and the outputs go up to 128.
MOST_FEEDBACK, MOST = 80, 128


@cache
def ecp5_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector (least jitter)."""
    found = max(candidates(exact(input_mhz), exact(output_mhz)), default=None)
    if found is None:
        return None
    output, _, vco, dividers = found
    # The second output starts its count where the first does; nothing here depends on their phases.
    phases = {"CLKOP_CPHASE": dividers["CLKOP_DIV"] - 1, "CLKOS_CPHASE": dividers["CLKOS_DIV"] - 1}
    return PllSettings("EHXPLLL", exact(input_mhz), vco, output, tuple((dividers | phases).items()))


class Divided(dict[str, int]):
    """Dividers that never decide which of two candidates is the larger."""

    def __lt__(self, other: object) -> bool:
        return False


def candidates(given: Fraction, wanted: Fraction) -> Iterator[tuple[Fraction, Fraction, Fraction, Divided]]:
    """(output, phase detector, oscillator, dividers): the output is CLKOS, and CLKOP alone is fed back.

    The oscillator runs at a whole multiple of the phase detector: CLKFB_DIV times CLKOP_DIV.
    """
    if not INPUT_MHZ[0] <= given <= INPUT_MHZ[1] or wanted < OUTPUT_MHZ[0]:
        return
    for into in range(1, MOST + 1):
        pfd = given / into
        if not PFD_MHZ[0] <= pfd <= PFD_MHZ[1]:
            continue
        fed_back = -(-FEEDBACK_MHZ[0] // pfd), min(MOST_FEEDBACK, int(FEEDBACK_MHZ[1] // pfd))
        for out in range(1, MOST + 1):
            multiple = int(min(Fraction(VCO_MHZ[1]), wanted * out, Fraction(OUTPUT_MHZ[1] * out)) / pfd)
            least = int(-(-max(VCO_MHZ[0], OUTPUT_MHZ[0] * out) // pfd))
            while multiple >= least:
                if split := feedback_split(multiple, *fed_back):
                    vco = multiple * pfd
                    yield vco / out, pfd, vco, Divided(
                        CLKI_DIV=into, CLKFB_DIV=split[0], CLKOP_DIV=split[1], CLKOS_DIV=out)
                    break
                multiple -= 1


@cache
def feedback_split(multiple: int, least: int, most: int) -> tuple[int, int] | None:
    """`multiple` as divider of the feedback, between `least` and `most`, and divider of the output that is fed back,
    the latter the smallest."""
    for out in range(1, MOST + 1):
        feedback, rest = divmod(multiple, out)
        if not rest and least <= feedback <= most:
            return feedback, out
    return None


class ECP5Pll(Pll):
    """Feedback inside the PLL.  Charge pump and filter as ecppll and every open design set them."""

    def __init__(self, settings: PllSettings):
        self.settings = settings
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.clk_through.eq(self.clk_in)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
            **{f"p_{name}": value for name, value in self.settings.parameters},
            p_FEEDBK_PATH="INT_OP", p_INTFB_WAKE="DISABLED", p_PLLRST_ENA="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB", p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD", p_CLKOP_ENABLE="ENABLED", p_CLKOS_ENABLE="ENABLED", p_CLKOP_FPHASE=0,
            p_CLKOS_FPHASE=0,
            i_CLKI=self.clk_in, o_CLKOS=self.clk_out, o_LOCK=self.locked,
            **{f"i_{name}": Const(0, 1) for name in (
                "RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG", "PLLWAKESYNC",
                "ENCLKOP", "ENCLKOS")})
        return m


SHAPES = (BlockShape(512, 36), BlockShape(1024, 18), BlockShape(2048, 9), BlockShape(4096, 4), BlockShape(8192, 2),
          BlockShape(16384, 1))
#: Tables that are worth one RAM block.  An ECP5-85F has 402 for each, but the address of a wide ROM in tables fans out
#: to every bit: a dense stage of 64 multipliers kept nextpnr routing for more than 20 minutes, without an end.
LUTS_FOR_A_BLOCK = 32
#: Tables for the last bits of words that need a column of blocks for themselves, or the last words that need a bank of
#: them; and the deepest ROM with such bits.  A requantizer's constants have about 41 bits, five more than a block; so
#: few bits are no burden for their address.
LUTS_FOR_A_COLUMN, DEEPEST_COLUMN = 96, 128
#: Tables of a bit that the multiplexers of the slices join: PFUMX and two levels of L6MUX21.
JOINED_TABLES = 8
#: Words of a ROM and of a RAM in tables: what is between two registers is four levels of a ROM's multiplexers.
DEEPEST_ROM_OF_TABLES, DEEPEST_RAM_OF_TABLES = 256, 64
#: A TRELLIS_DPR16X4 takes four tables and the two of a third slice for its write port.
LUTS_OF_16X4 = 6


def ccu2c_sum(m: Module, value: Value, gates: Value, *, minus: bool, shape: Shape, name: str) -> Value:
    """`Technology.gated_sum` in one carry chain, two bits a CCU2C.

    A cell passes its carry on if its table of all four inputs is 1.  Else its carry is the value of the same table with
    C = D = 0 (yosys' techlibs/lattice/ccu2c_sim.vh).  Let a bit of one operand be A & B, negated if it is subtracted,
    and a bit of the other C & D, and let the table be their XOR.  Where the XOR is 0 the two bits are equal, so the
    carry is either of them; with C = D = 0 the table gives the first one.
    """
    width = shape.width + shape.width % 2
    wide = value_of_width(value, width)
    twice = Cat(Const(0, 1), wide)[:width]
    bits = Signal(width, name=name)
    table = 0x8777 if minus else 0x7888
    carry: Value = Const(int(minus), 1)
    for k in range(0, width, 2):
        following = Signal(name=f"{name}_carry{k}")
        m.submodules[f"{name}_cell{k}"] = Instance(
            "CCU2C", p_INIT0=Const(table, 16), p_INIT1=Const(table, 16), p_INJECT1_0="NO", p_INJECT1_1="NO",
            i_CIN=carry, o_COUT=following, o_S0=bits[k], o_S1=bits[k + 1],
            **{f"i_{port}{n}": pin for n in range(2) for port, pin in zip(
                "ABCD", (twice[k + n], gates[1], wide[k + n], gates[0]), strict=True)})
        carry = following
    return bits[:shape.width].as_signed() if shape.signed else bits[:shape.width]


def value_of_width(value: Value, width: int) -> Value:
    """`value` with its sign or with zeros, `width` bits."""
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(max(0, width - len(value))))[:width]


def initval(block: npt.NDArray[np.uint8]) -> dict[str, Const]:
    """INITVAL_00 to INITVAL_3F for a block's bits [depth, width].

    The block stores 1024 halves of 18 bits; a parameter holds 16 of them, each in 20 bits.  Widths below 9 leave every
    ninth bit unused.
    """
    width = block.shape[1]
    if width < 9:
        octets = block.reshape(2048, 8)
        halves = np.pad(octets, ((0, 0), (0, 1))).reshape(1024, 18)
    else:
        halves = block.reshape(1024, 18)
    rows = np.pad(halves, ((0, 0), (0, 2))).reshape(64, 320)
    return {f"p_INITVAL_{k:02X}": value for k, value in enumerate(packed(rows))}


def dp16kd(a: dict[str, Value | int], b: dict[str, Value | int], *, a_out: Value, b_out: Value, width: int,
           **parameters: object) -> Instance:
    """A DP16KD whose both ports are `width` wide and have their output registers.

    `a` and `b` give what a port needs of `ad` (the 14 address bits), `di` (18 data bits), `we` and `ce`; the rest is 0.
    """
    ports: dict[str, object] = {}
    for letter, port, out in (("A", a, a_out), ("B", b, b_out)):
        address, data = Value.cast(port.get("ad", Const(0, 14))), Value.cast(port.get("di", Const(0, 18)))
        ports |= {f"i_AD{letter}{k}": address[k] for k in range(14)}
        ports |= {f"i_DI{letter}{k}": data[k] for k in range(18)}
        ports |= {f"o_DO{letter}{k}": out[k] for k in range(18)}
        ports |= {f"i_CS{letter}{k}": Const(0, 1) for k in range(3)}
        ports |= {
            f"i_CLK{letter}": ClockSignal(), f"i_RST{letter}": Const(0, 1),
            f"i_OCE{letter}": Const(1, 1), f"i_CE{letter}": Value.cast(port.get("ce", Const(1, 1))),
            f"i_WE{letter}": Value.cast(port.get("we", Const(0, 1))),
            f"p_DATA_WIDTH_{letter}": width, f"p_REGMODE_{letter}": "OUTREG", f"p_CSDECODE_{letter}": "0b000",
            f"p_WRITEMODE_{letter}": "NORMAL", f"p_CLK{letter}MUX": f"CLK{letter}",
        }
    return Instance("DP16KD", p_RESETMODE="SYNC", p_ASYNC_RESET_RELEASE="SYNC", p_GSR="AUTO", **parameters, **ports)


class ECP5Rom(BlockRom):
    shapes = SHAPES
    fabric_register = False

    def block(self, m: Module, *, read: Value, out: Value, bits: npt.NDArray[np.uint8], **attributes: str) -> Instance:
        """The widest shape reads both halves of a word at once, one through each port, each port 18 bits wide."""
        low, high = Signal(18, name="low"), Signal(18, name="high")
        width = bits.shape[1]
        m.d.comb += out.eq(Cat(low, high))
        if width == 36:
            a, b = {"ad": Cat(Const(0, 5), read)}, {"ad": Cat(Const(0, 4), Const(1, 1), read)}
        else:
            a, b = {"ad": Cat(Const(0, 14 - len(read)), read)}, {"ce": Const(0, 1)}
        return dp16kd(a, b, a_out=low, b_out=high, width=min(width, 18), **attributes, **initval(bits))


class ECP5Ram(BlockRam):
    """Port A writes, port B reads."""

    shapes = SHAPES
    fabric_register = False

    def block(self, m: Module, *, write: Value, enable: Value, word: Value, read: Value, out: Value) -> Instance:
        """36 bits wide, the block is one "pseudo dual port": both ports' data pins belong to one write and one read.

        There and at 18 bits the lowest address pins are byte enables.
        """
        width, spare = len(word), 14 - len(read)
        low, high = Signal(18, name="low"), Signal(18, name="high")
        data = Cat(word, Const(0, 36))[:36]
        enables = enable.replicate(width // 9) if width >= 18 else Const(0, 0)
        a = {"ad": Cat(enables, Const(0, spare - len(enables)), write), "di": data[:18],
             "we": Const(1, 1) if width == 36 else enable}
        b = {"ad": Cat(Const(0, spare), read), "di": data[18:]}
        m.d.comb += out.eq(Cat(low, high) if width == 36 else high)
        return dp16kd(a, b, a_out=low, b_out=high, width=width)


def bits_in_tables(width: int, depth: int) -> int:
    """The last bits of a ROM's words that are in tables, because they would need a column of blocks."""
    wide = SHAPES[0].width
    over = width % wide if width > wide and depth <= DEEPEST_COLUMN else 0
    return over if lut_rom_cost(over, depth).lut <= LUTS_FOR_A_COLUMN else 0


def words_in_tables(width: int, depth: int) -> int:
    """The last words of a RAM, after a power of two, that are in tables, because they would need a bank of blocks.

    The window of a 3 x 3 kernel on frames of 7 x 7 pixels has 16 * 2^n words and one.
    """
    first = 1 << (ceil_log2(depth) - 1) if depth > 1 else 0
    if not first or tile(width, first, SHAPES).blocks == tile(width, depth, SHAPES).blocks:
        return 0
    over = depth - first
    return over if over <= DEEPEST_RAM_OF_TABLES and tail_cost(width, over).lut <= LUTS_FOR_A_COLUMN else 0


def tail_cost(width: int, over: int) -> Resources:
    """The cost of the `over` words of a RAM that are in tables: with the choice between them and the others."""
    return lut_ram_cost(width, over, LUTS_OF_16X4) + Resources(lut=width + 2, ff=2)


class ECP5(Technology):
    """All LFE5U and LFE5UM devices."""

    name = "ecp5"
    timing = Timing(multiply=4, accumulate=4, rom=2, ram=2)
    operand_bits = 18
    gates_in_chains = True
    #: nextpnr-ecp5 feeds both ends of a chain through a slice of their own.
    chain_ends = 4
    #: They are in rows of their own, up to 4 ns from each other, and what chooses between the blocks of a deep ROM is
    #: after their registers: without another one, 191 MHz at best for 8 x 8 multipliers, and 147 MHz after four banks.
    has_distant_blocks = True
    double_rate = ECP5DoubleRate()
    #: What a block saves elsewhere: an 8 x 8 product in logic takes 100 tables and 80 flip-flops more than in a block.
    cells_for_a_multiplier = 180

    def pll_settings(self, input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
        return ecp5_pll_settings(input_mhz, output_mhz)

    def pll(self, settings: PllSettings) -> Pll:
        return ECP5Pll(settings)

    def multipliers(self, *, count: int, a: Shape, b: Shape) -> Multipliers:
        self.check_operands(a, b)
        return ECP5Multipliers(count=count, a=a, b=b)

    def pair_shift(self, a: Shape, b: Shape) -> int | None:
        return packing(a, b, self.operand_bits)

    def pair_multipliers(self, *, count: int, a: Shape, b: Shape) -> ECP5Pairs:
        return ECP5Pairs(count=count, a=a, b=b, shift=packing(a, b, self.operand_bits))

    def accumulates(self, a: Shape, b: Shape) -> bool:
        return max(a.width, b.width) <= self.operand_bits

    def multiply_accumulate(self, *, count: int, a: Shape, b: Shape, total: Shape) -> MultiplyAccumulate:
        self.check_operands(a, b)
        return ECP5MultiplyAccumulate(count=count, a=a, b=b, total=total)

    def multiply_accumulate_cost(self, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources:
        self.check_operands(a, b)
        return Resources(dsp=2 * count, ff=count * total.width)

    def gated_sum(self, m: Module, value: Value, gates: Value, *, minus: bool, shape: Shape, name: str) -> Value:
        return ccu2c_sum(m, value, gates, minus=minus, shape=shape, name=name)

    def rom(self, *, width: int, contents: npt.NDArray[np.uint8], name: str) -> Rom:
        depth = len(contents)
        if self.place_of(MemoryKind.ROM, width, depth, name) is Place.TABLES:
            return ECP5LutRom(width=width, contents=contents, name=name)
        if over := bits_in_tables(width, depth):
            bits = bits_of(contents, width)
            low, high = (np.packbits(part, axis=1, bitorder="little") for part in (bits[:, :-over], bits[:, -over:]))
            return SplitRom(low=ECP5Rom(width=width - over, contents=low, name=name),
                            high=ECP5LutRom(width=over, contents=high, name=f"{name}_high"))
        return ECP5Rom(width=width, contents=contents, name=name)

    def ram(self, *, width: int, depth: int, name: str = "") -> Ram:
        if self.place_of(MemoryKind.RAM, width, depth, name) is Place.TABLES:
            return LutRam(width=width, depth=depth)
        if over := words_in_tables(width, depth):
            return TailedRam(low=ECP5Ram(width=width, depth=depth - over), high=LutRam(width=width, depth=over))
        return ECP5Ram(width=width, depth=depth)

    def multipliers_cost(self, *, count: int, a: Shape, b: Shape) -> Resources:
        self.check_operands(a, b)
        return Resources(dsp=count, ff=count * (a.width + b.width))

    def family_places(self, memory: Memory) -> tuple[Place, ...]:
        tables = lut_rom_cost(memory.width, memory.depth) if memory.kind is MemoryKind.ROM else lut_ram_cost(
            memory.width, memory.depth, LUTS_OF_16X4)
        return places_of(memory, tables, tiling_of(memory, SHAPES), LUTS_FOR_A_BLOCK,
                         deepest={MemoryKind.ROM: DEEPEST_ROM_OF_TABLES, MemoryKind.RAM: DEEPEST_RAM_OF_TABLES})

    def memory_cost(self, memory: Memory, place: Place) -> Resources:
        width, depth, tiling = memory.width, memory.depth, tiling_of(memory, SHAPES)
        if memory.kind is MemoryKind.RAM:
            if place is Place.TABLES:
                return lut_ram_cost(width, depth, LUTS_OF_16X4)
            if over := words_in_tables(width, depth):
                blocks = tile(width, depth - over, SHAPES)
                return (block_cost(blocks, width, fabric_register=False) + write_decoder_cost(blocks)
                        + tail_cost(width, over))
            return block_cost(tiling, width, fabric_register=False) + write_decoder_cost(tiling)
        if place is Place.TABLES:
            return joined_rom_cost(width, depth, JOINED_TABLES)
        if over := bits_in_tables(width, depth):
            blocks = tile_rom(width - over, depth, SHAPES)
            return block_cost(blocks, width - over, fabric_register=False) + lut_rom_cost(over, depth)
        return block_cost(tiling, width, fabric_register=False)
