"""Gowin GW1N: MULT9X9 and MULT18X18 with all their registers, BSRAM (SDPB and SDPX9B).

Sources: Gowin UG287 (DSP guide), UG285 (BSRAM and SSRAM guide); INIT_RAM_xx as yosys' techlibs/gowin/brams_map.v lays
it out, with which the tests compare ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Shape, Signal, Value

from .accumulate import LATENCY, FabricMultiplyAccumulate
from .base import Multipliers, MultiplyAccumulate, Ram, Resources, Rom, Technology, Timing
from .blocks import (
    BlockRam,
    BlockRom,
    BlockShape,
    LutRam,
    Tiling,
    block_cost,
    joined_rom_cost,
    lut_ram_cost,
    lut_rom_cost,
    packed,
    places_of,
    tiling_of,
    write_decoder_cost,
)
from .ice40 import extended
from .memory import Memory, MemoryKind, Place
from .pll import Pll, PllSettings, exact
from .tables import GowinLutRom

# rPLL of Gowin: UG286 (clock), ranges from DS117 (GW1NR) and DS226 (GW2AR) as apycula's gowin_pll has them.


MOST = 64
OUT = (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)


@dataclass(frozen=True)
class PllRanges:
    """From and to, MHz."""

    pfd: tuple[Fraction, Fraction]
    vco: tuple[Fraction, Fraction]
    output: tuple[Fraction, Fraction]


def ranges(*ends: str) -> PllRanges:
    pairs = [(Fraction(low), Fraction(high)) for low, high in zip(ends[::2], ends[1::2], strict=True)]
    return PllRanges(*pairs)


#: By the device's family, of the speed grades that boards have: GW1N C6/I5, GW2A C8/I7.
PLL_RANGES: dict[str, PllRanges] = {
    "GW1N": ranges("3", "400", "400", "1200", "3.125", "600"),
    "GW2A": ranges("3", "500", "500", "1250", "3.90625", "625"),
}


def gowin_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction,
                       limits: PllRanges) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector, then the slowest
    oscillator."""
    found = max(candidates(exact(input_mhz), exact(output_mhz), limits), default=None)
    if found is None:
        return None
    output, _, vco, (into, feedback, out) = found
    return PllSettings("rPLL", exact(input_mhz), -vco, output, (
        ("IDIV_SEL", into - 1), ("FBDIV_SEL", feedback - 1), ("ODIV_SEL", out)))


def candidates(given: Fraction, wanted: Fraction,
               limits: PllRanges) -> Iterator[tuple[Fraction, Fraction, Fraction, tuple[int, int, int]]]:
    """(output, phase detector, oscillator below zero, dividers); the output is fed back."""
    for into in range(1, MOST + 1):
        pfd = given / into
        if not limits.pfd[0] <= pfd <= limits.pfd[1]:
            continue
        feedback = min(int(min(wanted, limits.output[1]) / pfd), MOST)
        output = pfd * feedback
        for out in OUT:
            if output >= limits.output[0] and limits.vco[0] <= output * out <= limits.vco[1]:
                yield output, pfd, -output * out, (into, feedback, out)
                break


class GowinPll(Pll):
    """Feedback inside the PLL, nothing dynamic.  `device` is the name that the vendor's tools want as a parameter."""

    def __init__(self, settings: PllSettings, device: str):
        self.settings = settings
        self.device = device
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.clk_through.eq(self.clk_in)
        m.submodules.pll = Instance(
            "rPLL", p_FCLKIN=f"{float(self.settings.input_mhz):g}", p_DEVICE=self.device,
            **{f"p_{name}": value for name, value in self.settings.parameters},
            p_DYN_IDIV_SEL="false", p_DYN_FBDIV_SEL="false", p_DYN_ODIV_SEL="false", p_DYN_DA_EN="false",
            p_DYN_SDIV_SEL=2, p_PSDA_SEL="0000", p_DUTYDA_SEL="1000", p_CLKFB_SEL="internal", p_CLKOUT_BYPASS="false",
            p_CLKOUTP_BYPASS="false", p_CLKOUTD_BYPASS="false", p_CLKOUTD_SRC="CLKOUT", p_CLKOUTD3_SRC="CLKOUT",
            i_CLKIN=self.clk_in, o_CLKOUT=self.clk_out, o_LOCK=self.locked,
            **{f"i_{name}": Const(0, width) for name, width in {
                "RESET": 1, "RESET_P": 1, "CLKFB": 1, "FBDSEL": 6, "IDSEL": 6, "ODSEL": 6, "PSDA": 4, "DUTYDA": 4,
                "FDLY": 4}.items()})
        return m


SHAPES = (BlockShape(512, 36), BlockShape(1024, 18), BlockShape(2048, 9), BlockShape(4096, 4), BlockShape(8192, 2),
          BlockShape(16384, 1))
#: Tables that are worth one RAM block: a GW1NR-9 has 332 for each of its blocks.
LUTS_FOR_A_BLOCK = 96
#: Tables of a bit that MUX2_LUT5 and MUX2_LUT6 join.
JOINED_TABLES = 4
#: A RAM16SDP4 takes the tables of two slices.
LUTS_OF_16X4 = 4
#: Bits of an operand of the two kinds of multipliers, and the narrow ones in a macro, half a block.
NARROW, WIDE, MACRO = 9, 18, 4


class GowinMultipliers(Multipliers):
    """Latency 3: operand, pipeline and output register of the block.

    Two neighbours in a block share the signs of their operands.  An operand without a sign that leaves a bit of the
    block is given one, which is never set, so that any two can be neighbours.
    """

    def elaborate(self, platform):
        m = Module()
        shapes = [Shape.cast(port.shape().elem_shape) for port in (self.a, self.b)]
        wide = NARROW if max(shape.width for shape in shapes) <= NARROW else WIDE
        signs = [shape.signed or shape.width < wide for shape in shapes]
        for n in range(self.count):
            out = Signal(2 * wide, name=f"product{n}")
            m.submodules[f"multiplier{n}"] = Instance(
                f"MULT{wide}X{wide}", **{f"p_{name}": Const(1, 1) for name in ("AREG", "BREG", "PIPE_REG", "OUT_REG")},
                **{f"p_{name}": Const(0, 1) for name in ("ASIGN_REG", "BSIGN_REG", "SOA_REG")},
                p_MULT_RESET_MODE="SYNC", i_CLK=ClockSignal(), i_CE=Const(1, 1), i_RESET=Const(0, 1),
                i_A=extended(self.a[n], wide), i_B=extended(self.b[n], wide),
                i_SIA=Const(0, wide), i_SIB=Const(0, wide), i_ASEL=Const(0, 1), i_BSEL=Const(0, 1),
                i_ASIGN=Const(int(signs[0]), 1), i_BSIGN=Const(int(signs[1]), 1), o_DOUT=out)
            m.d.comb += Value.cast(self.p[n]).eq(out)
        return m


def has_register(tiling: Tiling) -> bool:
    """The block's own output register is used at 36 bits only, and without banks.

    On GW1N-9C it works with 32 and 36 bits alone (apicula, doc/bsram-fix.md); elsewhere one in the fabric follows.
    """
    return tiling.shape.width == 36 and tiling.choices == 1


def init_ram(block: npt.NDArray[np.uint8]) -> dict[str, Const]:
    """INIT_RAM_00 to INIT_RAM_3F for a block's bits [depth, width]: the words one after the other."""
    return {f"p_INIT_RAM_{k:02X}": value for k, value in enumerate(packed(block.reshape(64, -1)))}


def address(inner: Value, width: int, enable: Value | None = None) -> Value:
    """14 address pins; at 18 and 36 bits the lowest ones of a write port are byte enables."""
    low = 14 - len(inner)
    enables = Const(0, 0) if enable is None or width < 18 else enable.replicate(width // 9)
    return Cat(enables, Const(0, low - len(enables)), inner)


def two_ports(m: Module, wide: int, *, register: bool, enable: Value, write: Value, word: Value, read: Value,
              out: Value, **parameters: object) -> Instance:
    """A block whose port A writes `word` of `wide` bits at the pins `write` where `enable` is set, and whose port B
    gives the word at `read` at `out`.  A write is a clock enable of port A.

    nextpnr knows no times of pROM and pROMX9: paths into and out of them are in no clock of its.  So a ROM is such a
    block, never written.
    """
    pins = Signal(36 if wide >= 9 else 32)
    m.d.comb += out.eq(pins)
    return Instance(
        "SDPX9B" if wide >= 9 else "SDPB", p_BIT_WIDTH_0=wide, p_BIT_WIDTH_1=wide, p_RESET_MODE="SYNC",
        p_READ_MODE=Const(int(register), 1), p_BLK_SEL_0=Const(0, 3), p_BLK_SEL_1=Const(0, 3), **parameters,
        i_CLKA=ClockSignal(), i_CEA=enable, i_RESETA=Const(0, 1), i_ADA=write,
        i_DI=Cat(word, Const(0, 36))[:len(pins)], i_BLKSELA=Const(0, 3), i_BLKSELB=Const(0, 3),
        i_CLKB=ClockSignal(), i_CEB=Const(1, 1), i_OCE=Const(1, 1), i_RESETB=Const(0, 1), i_ADB=address(read, wide),
        o_DO=pins)


class GowinRom(BlockRom):
    """Blocks that are never written."""

    shapes = SHAPES

    @property
    def fabric_register(self) -> bool:
        return not has_register(self.tiling)

    def block(self, m: Module, *, read: Value, out: Value, bits: npt.NDArray[np.uint8], **attributes: str) -> Instance:
        wide = bits.shape[1]
        return two_ports(m, wide, register=not self.fabric_register, enable=Const(0, 1), write=Const(0, 14),
                         word=Const(0, wide), read=read, out=out, **attributes, **init_ram(bits))


class GowinRam(BlockRam):
    shapes = SHAPES

    @property
    def fabric_register(self) -> bool:
        return not has_register(self.tiling)

    def block(self, m: Module, *, write: Value, enable: Value, word: Value, read: Value, out: Value) -> Instance:
        return two_ports(m, len(word), register=not self.fabric_register, enable=enable,
                         write=address(write, len(word), Const(1, 1)), word=word, read=read, out=out)


class Gowin(Technology):
    """GW1N and GW1NR.  A multiplier is counted as a MULT9X9, and a MULT18X18 as a macro of four of them.

    A macro has four narrow multipliers or two wide ones, none of both kinds, and nextpnr moves none that it has placed:
    each wide one may take a macro of its own before the narrow ones are placed.  For 29 narrow ones and 3 wide ones,
    which fit in pairs, it finds no places.
    """

    name = "gowin"
    timing = Timing(multiply=3, accumulate=3 + LATENCY, rom=2, ram=2)
    operand_bits = 18
    chain_ends = 2
    #: A network with 70 % of the tables and 63 % of the flip-flops in use is routed in ten minutes; at three quarters
    #: of the flip-flops nextpnr had not placed the first round after five.
    usable_logic = 0.7

    def __init__(self, *, chip: str = "GW1N-9C"):
        """`chip` is the die, as nextpnr and gowin_pack call it."""
        self.chip = chip

    def pll_settings(self, input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
        return gowin_pll_settings(input_mhz, output_mhz, PLL_RANGES[self.chip[:4]])

    def pll(self, settings: PllSettings) -> Pll:
        return GowinPll(settings, self.chip)

    def multipliers(self, *, count: int, a: Shape, b: Shape) -> Multipliers:
        self.check_operands(a, b)
        return GowinMultipliers(count=count, a=a, b=b)

    def multiply_accumulate(self, *, count: int, a: Shape, b: Shape, total: Shape) -> MultiplyAccumulate:
        """In the fabric: a MULTADDALU18X18 takes the place of four MULT9X9 for two products of 9 bits or fewer."""
        return FabricMultiplyAccumulate(multipliers=self.multipliers(count=2 * count, a=a, b=b),
                                        latency=self.timing.multiply, total=total)

    def rom(self, *, width: int, contents: npt.NDArray[np.uint8], name: str) -> Rom:
        if self.place_of(MemoryKind.ROM, width, len(contents), name) is Place.TABLES:
            return GowinLutRom(width=width, contents=contents, name=name)
        return GowinRom(width=width, contents=contents, name=name)

    def ram(self, *, width: int, depth: int, name: str = "") -> Ram:
        if self.place_of(MemoryKind.RAM, width, depth, name) is Place.TABLES:
            return LutRam(width=width, depth=depth)
        return GowinRam(width=width, depth=depth)

    def multipliers_cost(self, *, count: int, a: Shape, b: Shape) -> Resources:
        self.check_operands(a, b)
        return Resources(dsp=count * (1 if max(a.width, b.width) <= NARROW else MACRO))

    def multiply_accumulate_cost(self, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources:
        return FabricMultiplyAccumulate.cost(self.multipliers_cost(count=2 * count, a=a, b=b), count=count, a=a, b=b,
                                             total=total)

    def family_places(self, memory: Memory) -> tuple[Place, ...]:
        tables = lut_rom_cost(memory.width, memory.depth) if memory.kind is MemoryKind.ROM else lut_ram_cost(
            memory.width, memory.depth, LUTS_OF_16X4)
        return places_of(memory, tables, tiling_of(memory, SHAPES), LUTS_FOR_A_BLOCK)

    def memory_cost(self, memory: Memory, place: Place) -> Resources:
        width, depth, tiling = memory.width, memory.depth, tiling_of(memory, SHAPES)
        if memory.kind is MemoryKind.ROM:
            return joined_rom_cost(width, depth, JOINED_TABLES) if place is Place.TABLES else block_cost(
                tiling, width, not has_register(tiling))
        if place is Place.TABLES:
            return lut_ram_cost(width, depth, LUTS_OF_16X4)
        return block_cost(tiling, width, not has_register(tiling)) + write_decoder_cost(tiling)
