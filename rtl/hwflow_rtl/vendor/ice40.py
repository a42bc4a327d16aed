"""Lattice iCE40 UltraPlus (UP5K): SB_MAC16 as two 8 x 8 multipliers or one 16 x 16, SB_RAM40_4K block RAM, and the
large single port RAM SB_SPRAM256KA.

Sources: Lattice FPGA-TN-02007 (DSP usage guide), FPGA-TN-02002 (memory usage guide), FPGA-TN-02022 (SPRAM usage guide);
all primitives as yosys models them in techlibs/ice40/cells_sim.v, against which the tests run them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, ClockSignal, Const, Instance, IOValue, Module, Mux, Shape, Signal, Value

from .accumulate import LATENCY, FabricMultiplyAccumulate
from .base import Multipliers, MultiplyAccumulate, Ram, Resources, Rom, SinglePortRam, Technology, Timing
from .blocks import (
    BlockRam,
    BlockRom,
    BlockShape,
    Tiling,
    block_cost,
    lut_rom_cost,
    packed,
    places_of,
    tiling_of,
    write_decoder_cost,
)
from .fitted import fitted
from .memory import Memory, MemoryKind, Place
from .pads import Pads, PadTiming
from .pll import Pll, PllSettings, exact
from .tables import ICE40LutRom

# SB_IO of iCE40 with its registers: Lattice FPGA-TN-02026 (iCE40 technology library), as yosys' cells_sim.v has it.


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


# SB_PLL40 of iCE40: Lattice FPGA-TN-02052 (sysCLOCK), ranges as icestorm's icepll has them.


INPUT_MHZ, PFD_MHZ, VCO_MHZ, OUTPUT_MHZ = (10, 133), (10, 133), (533, 1066), (16, 275)
#: Upper ends of the phase detector's ranges that the filter is set to, MHz.
FILTER_RANGES = (17, 26, 44, 66, 101, 133)
MOST_INTO, MOST_FEEDBACK, OUT = 16, 128, range(1, 7)
WIDTHS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}


def ice40_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction, *,
                       at_pad: bool) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector (least jitter).

    `at_pad` says that the clock comes in at the PLL's own pad: then only the PLL can take it from there.
    """
    found = max(candidates(exact(input_mhz), exact(output_mhz)), default=None)
    if found is None:
        return None
    output, pfd, vco, (into, feedback, out) = found
    band = 1 + next(k for k, limit in enumerate(FILTER_RANGES) if pfd < limit or k == len(FILTER_RANGES) - 1)
    return PllSettings("SB_PLL40_2_PAD" if at_pad else "SB_PLL40_CORE", exact(input_mhz), vco, output, (
        ("DIVR", into - 1), ("DIVF", feedback - 1), ("DIVQ", out), ("FILTER_RANGE", band)))


def candidates(given: Fraction, wanted: Fraction) -> Iterator[tuple[Fraction, Fraction, Fraction, tuple[int, ...]]]:
    """(output, phase detector, oscillator, dividers) with simple feedback: the oscillator itself is fed back."""
    if not INPUT_MHZ[0] <= given <= INPUT_MHZ[1] or wanted < OUTPUT_MHZ[0]:
        return
    for into in range(1, MOST_INTO + 1):
        pfd = given / into
        if not PFD_MHZ[0] <= pfd <= PFD_MHZ[1]:
            continue
        for out in OUT:
            highest = min(wanted, Fraction(OUTPUT_MHZ[1])) * 2**out
            feedback = min(int(min(highest, Fraction(VCO_MHZ[1])) / pfd), MOST_FEEDBACK)
            vco = pfd * feedback
            if vco >= VCO_MHZ[0] and vco / 2**out >= OUTPUT_MHZ[0]:
                yield vco / 2**out, pfd, vco, (into, feedback, out)


class ICE40Pll(Pll):
    """The pad's own clock comes through SB_PLL40_2_PAD unchanged; SB_PLL40_CORE takes it from the fabric."""

    def __init__(self, settings: PllSettings):
        self.settings = settings
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        common = {
            **{f"p_{name}": Const(value, WIDTHS[name]) for name, value in self.settings.parameters},
            "p_FEEDBACK_PATH": "SIMPLE", "i_RESETB": Const(1, 1), "i_BYPASS": Const(0, 1), "o_LOCK": self.locked}
        if self.settings.primitive == "SB_PLL40_2_PAD":
            m.submodules.pll = Instance(
                "SB_PLL40_2_PAD", **common, p_PLLOUT_SELECT_PORTB="GENCLK",
                i_PACKAGEPIN=self.clk_in, o_PLLOUTGLOBALA=self.clk_through, o_PLLOUTGLOBALB=self.clk_out)
        else:
            m.d.comb += self.clk_through.eq(self.clk_in)
            m.submodules.pll = Instance("SB_PLL40_CORE", **common, p_PLLOUT_SELECT="GENCLK",
                                        i_REFERENCECLK=self.clk_in, o_PLLOUTGLOBAL=self.clk_out)
        return m


#: READ_MODE and WRITE_MODE 0 to 3.
SHAPES = (BlockShape(256, 16), BlockShape(512, 8), BlockShape(1024, 4), BlockShape(2048, 2))
#: Tables that are worth one RAM block: a UP5K has 176 for each of its blocks.
LUTS_FOR_A_BLOCK = 64
#: Words of an SB_SPRAM256KA, their bits, and the bits that a bit of MASKWREN lets through.
SPRAM_DEPTH, SPRAM_WIDTH, NIBBLE = 16384, 16, 4


class ICE40Multipliers(Multipliers):
    """Latency 2: operand and product registers inside the block, none for the partial products of 16 x 16.

    The blocks are slow (`ICE40Family.limits`): a third register would be for clocks that they never see.
    """

    @property
    def are_narrow(self) -> bool:
        return are_narrow(self.a.shape().elem_shape, self.b.shape().elem_shape)

    def elaborate(self, platform):
        return self.pairs() if self.are_narrow else self.singles()

    def pairs(self) -> Module:
        """Two products a block, in the upper and in the lower half."""
        m = Module()
        for n in range(0, self.count, 2):
            out = Signal(32, name=f"product{n}")
            places = range(n, min(n + 2, self.count))
            operands = [Cat(*(extended(port[k], 8) for k in places)) for port in (self.a, self.b)]
            signs = [port.shape().elem_shape.signed for port in (self.a, self.b)]
            m.submodules[f"multiplier{n}"] = sb_mac16(
                *operands, out, signs=signs,
                p_MODE_8x8=1, p_TOP_8x8_MULT_REG=1, p_BOT_8x8_MULT_REG=1, p_PIPELINE_16x16_MULT_REG1=1,
                p_PIPELINE_16x16_MULT_REG2=0, p_TOPOUTPUT_SELECT=2, p_BOTOUTPUT_SELECT=2)
            for k in places:
                m.d.comb += Value.cast(self.p[k]).eq(out.word_select(k - n, 16))
        return m

    def singles(self) -> Module:
        """One product a block."""
        m = Module()
        for n in range(self.count):
            out = Signal(32, name=f"product{n}")
            m.submodules[f"multiplier{n}"] = sb_mac16(
                extended(self.a[n], 16), extended(self.b[n], 16), out,
                signs=[port.shape().elem_shape.signed for port in (self.a, self.b)],
                p_MODE_8x8=0, p_TOP_8x8_MULT_REG=0, p_BOT_8x8_MULT_REG=0, p_PIPELINE_16x16_MULT_REG1=0,
                p_PIPELINE_16x16_MULT_REG2=1, p_TOPOUTPUT_SELECT=3, p_BOTOUTPUT_SELECT=3)
            m.d.comb += Value.cast(self.p[n]).eq(out)
        return m


def are_narrow(a: Shape, b: Shape) -> bool:
    """Both fit into 8 bits of their own signedness."""
    return max(Shape.cast(a).width, Shape.cast(b).width) <= 8


def extended(value: Value, width: int) -> Value:
    """`value` with its sign or with zeros, `width` bits."""
    value = Value.cast(value)
    wide = Const(0, width) + value if not value.shape().signed else Const(0, Shape(width, signed=True)) + value
    return wide[:width]


def sb_mac16(a: Value, b: Value, out: Value, *, signs: list[bool], **parameters: int) -> Instance:
    """A multiplier that is never stalled nor reset; its adders are not used."""
    widths = {"p_TOPOUTPUT_SELECT": 2, "p_BOTOUTPUT_SELECT": 2}
    off = ("AHOLD", "BHOLD", "CHOLD", "DHOLD", "IRSTTOP", "IRSTBOT", "ORSTTOP", "ORSTBOT", "OLOADTOP", "OLOADBOT",
           "ADDSUBTOP", "ADDSUBBOT", "OHOLDTOP", "OHOLDBOT", "CI", "ACCUMCI", "SIGNEXTIN")
    return Instance(
        "SB_MAC16", i_CLK=ClockSignal(), i_CE=Const(1, 1), i_A=Cat(a, Const(0, 16))[:16], i_B=Cat(b, Const(0, 16))[:16],
        i_C=Const(0, 16), i_D=Const(0, 16), o_O=out, p_NEG_TRIGGER=Const(0, 1),
        p_A_SIGNED=Const(int(signs[0]), 1), p_B_SIGNED=Const(int(signs[1]), 1),
        p_A_REG=Const(1, 1), p_B_REG=Const(1, 1), p_C_REG=Const(0, 1), p_D_REG=Const(0, 1),
        p_TOPADDSUB_LOWERINPUT=Const(0, 2), p_TOPADDSUB_UPPERINPUT=Const(0, 1), p_TOPADDSUB_CARRYSELECT=Const(0, 2),
        p_BOTADDSUB_LOWERINPUT=Const(0, 2), p_BOTADDSUB_UPPERINPUT=Const(0, 1), p_BOTADDSUB_CARRYSELECT=Const(0, 2),
        **{name: Const(value, widths.get(name, 1)) for name, value in parameters.items()},
        **{f"i_{name}": Const(0, 1) for name in off})


def pins(mode: int) -> list[int]:
    """Which of the 16 data pins carry the word's bits: the block's modes 1 to 3 use every 2nd, 4th, 8th."""
    step = 1 << mode
    return [step * k + max(step // 2 - 1, 0) for k in range(16 >> mode)]


def init(block: npt.NDArray[np.uint8]) -> dict[str, Const]:
    """INIT_0 to INIT_F for a block's bits [depth, width]: 256 rows of 16 bits.

    Word a of mode n is in row a modulo 256, in the bits k * 2**n + a // 256.
    """
    depth, width = block.shape
    rows = block.reshape(depth // 256, 256, width).transpose(1, 2, 0).reshape(16, 256)
    return {f"p_INIT_{k:X}": value for k, value in enumerate(packed(rows))}


def sb_ram40_4k(m: Module, *, read: Value, out: Value, write: Value | None = None,
                enable: Value | None = None, word: Value | None = None, **parameters: object) -> Instance:
    """A block whose read address is `read` and whose word comes out at `out`; without `write` it is a ROM."""
    mode = SHAPES.index(BlockShape(1 << len(read), len(out)))  # READ_MODE and WRITE_MODE
    inputs = [Const(0, 1)] * 16
    outputs = Signal(16, name="outputs")
    for place, pin in enumerate(pins(mode)):
        m.d.comb += out[place].eq(outputs[pin])
        if word is not None:
            inputs[pin] = word[place]
    nothing = Const(0, 11)
    return Instance(
        "SB_RAM40_4K", p_READ_MODE=Const(mode, 32), p_WRITE_MODE=Const(mode, 32), **parameters,
        i_RCLK=ClockSignal(), i_RCLKE=Const(1, 1), i_RE=Const(1, 1), i_RADDR=Cat(read, nothing)[:11], o_RDATA=outputs,
        i_WCLK=ClockSignal(), i_WCLKE=Const(int(enable is not None), 1), i_WE=Const(0, 1) if enable is None else enable,
        i_WADDR=nothing if write is None else Cat(write, nothing)[:11], i_WDATA=Cat(*inputs), i_MASK=Const(0, 16))


class ICE40Rom(BlockRom):
    shapes = SHAPES
    fabric_register = True

    def block(self, m: Module, *, read: Value, out: Value, bits: npt.NDArray[np.uint8], **attributes: str) -> Instance:
        return sb_ram40_4k(m, read=read, out=out, **attributes, **init(bits))


class ICE40Ram(BlockRam):
    shapes = SHAPES
    fabric_register = True

    def block(self, m: Module, *, write: Value, enable: Value, word: Value, read: Value, out: Value) -> Instance:
        return sb_ram40_4k(m, read=read, out=out, write=write, enable=enable, word=word)


class ICE40SinglePortRam(SinglePortRam):
    """SB_SPRAM256KA side by side for the width of a row and one after the other for the depth; never put to sleep.

    A word begins at a nibble, which is what can be written alone.
    """

    @staticmethod
    def tiling(width: int, depth: int) -> tuple[int, int]:
        """Memories one after the other, and side by side."""
        return -(-depth // SPRAM_DEPTH), -(-2 * whole_nibbles(width) // SPRAM_WIDTH)

    def elaborate(self, platform):
        m = Module()
        wide, (banks, columns) = whole_nibbles(self.width), self.tiling(self.width, self.depth)
        nibbles = 4 * columns
        words = [extended(part, wide) for part in (self.data_in[:self.width], self.data_in[self.width:])]
        data_in = Cat(*words, Const(0, SPRAM_WIDTH))[:SPRAM_WIDTH * columns]
        mask = Cat(*(bit.replicate(wide // NIBBLE) for bit in self.write_en), Const(0, nibbles))[:nibbles]
        address = Cat(self.addr, Const(0, 14))[:14]
        rows = []
        for bank in range(banks):
            here = Const(1, 1) if banks == 1 else self.addr[14:] == bank
            row = Signal(SPRAM_WIDTH * columns, name=f"row{bank}")
            rows.append(row)
            for column in range(columns):
                bits = slice(SPRAM_WIDTH * column, SPRAM_WIDTH * (column + 1))
                m.submodules[f"memory{bank}_{column}"] = Instance(
                    "SB_SPRAM256KA", i_CLOCK=ClockSignal(), i_CHIPSELECT=here, i_WREN=self.write_en.any(),
                    i_ADDRESS=address, i_DATAIN=data_in[bits], i_MASKWREN=mask[4 * column:4 * column + 4],
                    i_STANDBY=Const(0, 1), i_SLEEP=Const(0, 1), i_POWEROFF=Const(1, 1),  # 0 would be off
                    o_DATAOUT=row[bits])
        row = rows[0]
        if banks > 1:
            bank_read = Signal(len(self.addr) - 14, reset_less=True)
            m.d.sync += bank_read.eq(self.addr[14:])
            for bank in range(1, banks):
                row = Mux(bank_read == bank, rows[bank], row)
        m.d.comb += self.data_out.eq(Cat(row[:self.width], row[wide:wide + self.width]))
        return m


def whole_nibbles(width: int) -> int:
    return -(-width // NIBBLE) * NIBBLE


class ICE40(Technology):
    """UP5K and, without multiplier blocks, HX8K.  Tables and flip-flops share logic cells here: `lut` counts cells,
    whichever half of them is used."""

    name = "ice40"
    timing = Timing(multiply=2, accumulate=2 + LATENCY, rom=2, ram=2)
    operand_bits = 16
    ram_block_bits = 4096
    chain_ends = 1
    prefers_fabric_requantizer = True
    multiplies_by_digits = True
    #: A network planned at 79 % of the cells, 84 % once it was packed, was placed, and routed at 47 MHz.
    usable_logic = 0.8
    #: A shared stage planned at 85 % of the cells, 93 % once it was packed, was routed at 36 MHz.
    usable_logic_shared = 0.85

    cells_for_a_ram_block = LUTS_FOR_A_BLOCK
    pads = ICE40Pads()

    def __init__(self, *, clock_at_pll_pad: bool = False, has_multipliers: bool = True, single_port_rams: int = 0):
        """`clock_at_pll_pad`: the board's oscillator is at the pad that only the PLL can use while it runs.  Without
        multipliers every operand is too wide for them.  `single_port_rams`: SB_SPRAM256KA that queues may take."""
        self.clock_at_pll_pad = clock_at_pll_pad
        self.single_port_rams = single_port_rams
        if not has_multipliers:
            self.operand_bits = 0

    def placed(self, resources: Resources) -> Resources:
        """A logic cell has a table and a flip-flop after it; about three flip-flops in ten have no table before them.

        Seen: 4481 cells for a small network with 3526 tables and 3264 flip-flops.
        """
        return resources + fitted("cells of flip-flops alone", flip_flops=resources.ff)

    def pll_settings(self, input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
        return ice40_pll_settings(input_mhz, output_mhz, at_pad=self.clock_at_pll_pad)

    def pll(self, settings: PllSettings) -> Pll:
        return ICE40Pll(settings)

    def multipliers(self, *, count: int, a: Shape, b: Shape) -> Multipliers:
        self.check_operands(a, b)
        return ICE40Multipliers(count=count, a=a, b=b)

    def multiply_accumulate(self, *, count: int, a: Shape, b: Shape, total: Shape) -> MultiplyAccumulate:
        """In the fabric: the adders of an SB_MAC16 are loaded from its inputs C and D alone (FPGA-TN-02007; OLOADTOP in
        yosys' model), not from a product, so that a cycle is lost before every sum; with 8 x 8 they have 16 bits.
        """
        return FabricMultiplyAccumulate(multipliers=self.multipliers(count=2 * count, a=a, b=b),
                                        latency=self.timing.multiply, total=total)

    def rom(self, *, width: int, contents: npt.NDArray[np.uint8], name: str) -> Rom:
        if self.place_of(MemoryKind.ROM, width, len(contents), name) is Place.TABLES:
            return ICE40LutRom(width=width, contents=contents, name=name)
        return ICE40Rom(width=width, contents=contents, name=name)

    def ram(self, *, width: int, depth: int, name: str = "") -> Ram:
        return ICE40Ram(width=width, depth=depth)

    def single_port_ram(self, *, width: int, depth: int) -> SinglePortRam:
        return ICE40SinglePortRam(width=width, depth=depth)

    def single_port_ram_cost(self, *, width: int, depth: int) -> Resources:
        banks, columns = ICE40SinglePortRam.tiling(width, depth)
        return Resources(spram=banks * columns, lut=1 + 2 * width * (banks - 1) + 2 * (banks > 1),
                         ff=2 * (banks > 1))

    def multipliers_cost(self, *, count: int, a: Shape, b: Shape) -> Resources:
        self.check_operands(a, b)
        return Resources(dsp=-(-count // 2) if are_narrow(a, b) else count)

    def multiply_accumulate_cost(self, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources:
        return FabricMultiplyAccumulate.cost(self.multipliers_cost(count=2 * count, a=a, b=b), count=count, a=a, b=b,
                                             total=total)

    def family_places(self, memory: Memory) -> tuple[Place, ...]:
        """There are no RAMs of tables."""
        if memory.kind is MemoryKind.RAM:
            return (Place.BLOCKS,)
        return places_of(memory, self.memory_cost(memory, Place.TABLES), tiling_of(memory, SHAPES), LUTS_FOR_A_BLOCK)

    def memory_cost(self, memory: Memory, place: Place) -> Resources:
        tiling = tiling_of(memory, SHAPES)
        if memory.kind is MemoryKind.RAM:
            return cell_cost(tiling, memory.width) + write_decoder_cost(tiling)
        return lut_rom_cost(memory.width, memory.depth) if place is Place.TABLES else cell_cost(tiling, memory.width)


def cell_cost(tiling: Tiling, width: int) -> Resources:
    """The cost of `block_cost`, where a register takes a cell of its own unless the last table before it is in the same
    one."""
    cost = block_cost(tiling, width, fabric_register=True)
    return Resources(ram=cost.ram, lut=cost.ff + max(cost.lut - width, 0), ff=cost.ff)
