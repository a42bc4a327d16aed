"""The families' multipliers and memories: tilings, counts as estimated, refusals, and the values of what is in tables.

Contents and wiring of the blocks: tests/synth/test_wiring.py.  Values of netlists: tests/synth/test_unit_netlists.py.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import ECP5, FAMILIES, ICE40, Generic, Gowin, Technology, Timing
from hwflow_rtl.vendor.base import Ram
from hwflow_rtl.vendor.blocks import (
    BlockRom,
    BlockShape,
    LutRam,
    SplitRom,
    TailedRam,
    Tiling,
    bits_of,
    block_of,
    delay,
    packed,
    tile,
    tile_rom,
)
from hwflow_rtl.vendor.ecp5 import SHAPES
from hwflow_rtl.vendor.tables import ECP5LutRom, GowinLutRom, ICE40LutRom, LutRom, table_of

from tests.rtl.harness import run
from tests.synth.netlists import DSP, RAM, SYNTH, random_contents, words_of, yosys

# Tiling and contents


@pytest.mark.parametrize(("width", "depth", "expected"), [
    (36, 512, Tiling(BlockShape(512, 36), 1, 1)),
    (37, 512, Tiling(BlockShape(512, 36), 1, 2)),
    (18, 513, Tiling(BlockShape(1024, 18), 1, 1)),
    (64, 300, Tiling(BlockShape(512, 36), 1, 2)),
    (8, 4096, Tiling(BlockShape(4096, 4), 1, 2)),  # as few blocks as two banks of 2048 x 9, and no multiplexer
    (72, 1024, Tiling(BlockShape(1024, 18), 1, 4)),
    (36, 1536, Tiling(BlockShape(512, 36), 3, 1)),
    (9, 6000, Tiling(BlockShape(2048, 9), 3, 1)),
    (2, 40000, Tiling(BlockShape(16384, 1), 3, 2)),
])
def test_a_memory_takes_the_fewest_blocks_and_then_the_fewest_banks(width: int, depth: int, expected: Tiling) -> None:
    assert tile(width, depth, SHAPES) == expected


@pytest.mark.parametrize(("width", "depth"), [(5, 7), (36, 512), (40, 600), (18, 3000), (9, 9000)])
def test_every_word_is_in_one_place_of_the_blocks(width: int, depth: int) -> None:
    contents = random_contents(width, depth)
    tiling, bits = tile(width, depth, SHAPES), bits_of(contents, width)
    banks = [np.concatenate([block_of(bits, tiling, bank, column) for column in range(tiling.columns)], axis=1)
             for bank in range(tiling.banks)]
    whole = np.concatenate(banks)
    assert np.array_equal(whole[:depth, :width], bits)
    assert whole.sum() == bits.sum()


@pytest.mark.parametrize(("width", "depth", "blocks"), [
    (8, 36864, 18), (8, 9216, 5), (8, 18432, 9), (32, 9216, 18), (8, 4608, 3), (8, 2304, 2), (8, 4096, 2), (36, 1, 1)])
def test_the_words_behind_a_power_of_two_of_a_rom_have_a_shape_of_their_own(
        width: int, depth: int, blocks: int) -> None:
    tiling = tile_rom(width, depth, SHAPES)
    assert tiling.blocks == blocks
    assert tiling.choices <= 4 or tiling.rest is None


# Counts


class Everything(wiring.Component):
    """Many units at once, each a module of its own, their inputs from one shift register."""

    def __init__(self, units: dict[str, wiring.Component]):
        self.units = units
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        chain, last = self.i, Signal()
        for name, unit in self.units.items():
            m.submodules[name] = unit
            for port, member in unit.signature.members.items():
                value = getattr(unit, port)
                value = value.as_value() if hasattr(value, "as_value") else value
                if member.flow is In:
                    source = Signal(len(value), name=f"{name}_{port}")
                    m.d.sync += source.eq(source << 1 | chain)
                    m.d.comb += value.eq(source)
                    chain = source[-1]
                else:
                    seen = Signal(name=f"{name}_{port}")
                    m.d.sync += seen.eq(value.xor() ^ last)
                    last = seen
        m.d.comb += self.o.eq(last)
        return m


OPERANDS = [(signed(8), signed(8)), (unsigned(8), signed(8)), (signed(9), signed(4)), (signed(16), unsigned(16)),
            (signed(18), unsigned(18))]
SIZES = [(4, 16), (8, 100), (36, 512), (50, 16), (64, 300), (72, 700), (20, 3000), (3, 9000), (256, 36), (12, 64),
         (18, 4608), (41, 128), (8, 2050)]


def catalogue(technology: Technology) -> dict[str, tuple[wiring.Component, object]]:
    """Units of every kind, with their estimated resources."""
    units: dict[str, tuple[wiring.Component, object]] = {}
    for k, (a, b) in enumerate(OPERANDS):
        if technology.name == "ice40" and max(a.width, b.width) > 16:
            continue
        units[f"multipliers{k}"] = (technology.multipliers(count=3, a=a, b=b),
                                    technology.multipliers_cost(count=3, a=a, b=b))
    for a, b in ((signed(8), signed(8)), (unsigned(8), signed(4)), (signed(6), signed(3)), (signed(8), signed(2))):
        for style in MultiplierStyle:
            if ProductShape(Operand(a), Operand(b)).in_logic and style is not MultiplierStyle.BLOCKS:
                continue
            shape = ProductShape(Operand(a), Operand(b), style)
            if style in shape.styles(technology) and shape.accumulates:
                units[f"macs_{a.width}x{b.width}"] = (shape.sums_unit(2, signed(24), technology),
                                                      shape.sums_cost(2, signed(24), technology))
            elif style in shape.styles(technology):
                units[f"{style.value}_{a.width}x{b.width}"] = shape.unit(4, technology), shape.cost(4, technology)
    for width, depth in SIZES:
        units[f"rom_{width}x{depth}"] = (
            technology.rom(width=width, contents=random_contents(width, depth), name=f"rom_{width}x{depth}"),
            technology.rom_cost(width=width, depth=depth))
        units[f"ram_{width}x{depth}"] = (technology.ram(width=width, depth=depth),
                                         technology.ram_cost(width=width, depth=depth))
    return units


#: Units whose shapes differ most, in the default run; among the slow tests all of the catalogue.
SOME = {"multipliers0", "multipliers3", "macs_8x8", "logic_8x8", "logic_8x4", "pairs_8x4", "logic_6x3",
        "ram_8x2050",
        *(f"{kind}_{size}" for kind in ("rom", "ram") for size in ("36x512", "50x16", "12x64", "3x9000", "41x128"))}


@pytest.mark.slow
@pytest.mark.parametrize("all_units", [False, True], ids=["some", "all"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_blocks_and_flip_flops_are_as_many_as_estimated(family: str, all_units: bool, tmp_path: Path) -> None:
    units = {name: unit for name, unit in catalogue(FAMILIES[family]()).items() if all_units or name in SOME}
    assert len(units) >= 10
    top = Everything({name: unit for name, (unit, _) in units.items()})
    modules = yosys(tmp_path, rtlil.convert(top, name="top", ports=[top.i, top.o]),
                    f"{SYNTH[family]} -noflatten -top top -run begin:map_luts\nsplitnets\n"
                    f"{SYNTH[family]} -noflatten -top top -run map_luts:")
    problems = []
    for name, (_, cost) in units.items():
        cells = Counter(kind for kind in cell_types(modules, f"top.{name}"))
        dsp = sum(cells[kind] * weight for kind, weight in DSP[family].items())
        ram = sum(cells[kind] for kind in RAM[family])
        ff = sum(count for kind, count in cells.items() if kind.startswith(("TRELLIS_FF", "SB_DFF", "DFF")))
        if (dsp, ram, ff) != (cost.dsp, cost.ram, cost.ff):
            problems.append(f"{name}: {(dsp, ram, ff)} dsp, ram, ff instead of {(cost.dsp, cost.ram, cost.ff)}")
        lut = sum(count for kind, count in cells.items() if kind.startswith(("LUT", "SB_LUT")))
        if cost.ram and lut > cost.lut + 8:
            problems.append(f"{name}: {lut} tables instead of {cost.lut}")
        cells_of_chains = sum(count * {"CCU2C": 2, "ALU": 1}.get(kind, 0) for kind, count in cells.items())
        # The estimates count the ends of carry chains, which are there after routing.
        if name.startswith(("logic", "pairs")) and not 0.6 * cost.lut <= lut + cells_of_chains <= 1.1 * cost.lut:
            problems.append(f"{name}: {lut} tables and {cells_of_chains} in carry chains instead of {cost.lut}")
    assert not problems, "\n".join(problems)


def cell_types(modules: dict, name: str) -> list[str]:
    """The primitives of a module and of everything below it."""
    kinds = []
    for cell in modules[name]["cells"].values():
        kinds += cell_types(modules, cell["type"]) if cell["type"] in modules else [cell["type"]]
    return kinds


def test_the_few_bits_that_are_more_than_a_block_stand_in_tables() -> None:
    rescaling, wider, deeper = (ECP5().rom_cost(width=width, depth=depth) for width, depth in
                                ((41, 128), (60, 128), (41, 512)))
    assert (rescaling.ram, wider.ram, deeper.ram) == (1, 2, 2)
    assert rescaling.lut == 75


# Values


def portable(kind: type[LutRom]) -> type[LutRom]:
    """A family's ROM in tables whose cells are Amaranth's own expressions."""

    class Portable(kind):
        def table(self, address, out, contents, **attributes):
            m = Module()
            m.d.comb += out.eq(Const(contents, 16).bit_select(address, 1))
            return m

        def multiplexer(self, level, zero, one, select, out):
            m = Module()
            m.d.comb += out.eq(Mux(select, one, zero))
            return m

    return Portable


def test_parts_of_words_meet_again() -> None:
    contents = random_contents(41, 100)
    bits = bits_of(contents, 41)
    low, high = (
        portable(ECP5LutRom)(width=part.shape[1], contents=np.packbits(part, axis=1, bitorder="little"), name=name)
        for name, part in (("low", bits[:, :36]), ("high", bits[:, 36:])))
    rom = SplitRom(low=low, high=high)
    assert read_back(rom, [*range(100)], latency=2) == words_of(contents)
    made = ECP5().rom(width=41, contents=contents, name="constants")
    assert isinstance(made, SplitRom)
    assert np.array_equal(made.contents, contents)


class MemoryBlocks(BlockRom):
    """Blocks as memories of Amaranth."""

    shapes = (BlockShape(8, 8), BlockShape(16, 4), BlockShape(32, 2), BlockShape(64, 1))
    fabric_register = False

    def block(self, m, *, read, out, bits, **attributes):
        block = memory.Memory(shape=bits.shape[1], depth=len(bits), init=[row.value for row in packed(bits)], attrs={})
        port = block.read_port()
        m.d.comb += [port.addr.eq(read), out.eq(port.data if self.fabric_register else delay(m, port.data, 1, "out"))]
        return block


class MemoryBlocksWithoutRegister(MemoryBlocks):
    fabric_register = True


@pytest.mark.parametrize("kind", [MemoryBlocks, MemoryBlocksWithoutRegister])
@pytest.mark.parametrize(("width", "depth", "in_parts"), [
    (8, 32, False), (4, 72, True), (8, 36, True), (4, 64, False), (2, 144, True), (3, 70, True), (2, 145, True)])
def test_every_word_of_a_rom_in_blocks_comes_two_cycles_after_its_address(
        kind: type[MemoryBlocks], width: int, depth: int, in_parts: bool) -> None:
    contents = random_contents(width, depth)
    rom = kind(width=width, contents=contents, name="table")
    assert (rom.tiling.rest is not None) == in_parts
    addresses = [*range(depth), *np.random.default_rng(0).integers(0, depth, 50).tolist()]
    words = words_of(contents)
    assert read_back(rom, addresses, latency=2) == [words[address] for address in addresses]


def read_back(unit, addresses: list[int], *, latency: int) -> list[int]:
    """Words of a ROM in Amaranth's simulator."""
    result = []

    async def bench(ctx):
        for k in range(len(addresses) + latency):
            ctx.set(unit.addr, addresses[min(k, len(addresses) - 1)])
            if k >= latency:
                result.append(ctx.get(unit.data))
            await ctx.tick()

    run(unit, bench)
    return result


@pytest.mark.quick(13)
@pytest.mark.parametrize("kind", [portable(ECP5LutRom), portable(ICE40LutRom), portable(GowinLutRom), None])
@pytest.mark.parametrize("depth", [1, 2, 5, 16, 20, 33, 64, 100, 200, 256])
def test_a_small_rom_gives_the_word_two_cycles_after_its_address(kind: type[LutRom] | None, depth: int) -> None:
    contents = random_contents(8, depth)
    rom = (kind or Generic(timing=Timing(multiply=3)).rom)(width=8, contents=contents, name="table")
    addresses = list(np.random.default_rng(1).integers(0, depth, 100))
    expected = [words_of(contents)[a] for a in addresses]
    assert read_back(rom, [int(a) for a in addresses], latency=2) == expected


@pytest.mark.parametrize("depth", [1, 3, 8, 16])
def test_a_table_does_not_depend_on_inputs_that_its_address_does_not_need(depth: int) -> None:
    bits = random_contents(1, depth)[:, 0]
    table, needed = table_of(bits), (1 << (depth - 1).bit_length()) - 1
    assert [table >> k & 1 for k in range(depth)] == bits.tolist()
    assert all(table >> k & 1 == table >> (k & needed) & 1 for k in range(16))


@pytest.mark.parametrize("family", [
    "ice40", *(pytest.param(family, marks=pytest.mark.slow) for family in sorted(FAMILIES) if family != "ice40")])
def test_yosys_leaves_tables_as_they_are(family: str, tmp_path: Path) -> None:
    """Also bits that are equal or constant: a routed design is given other ones."""
    contents = np.zeros((40, 1), np.uint8)
    contents[7:] = 5
    rom = FAMILIES[family]().rom(width=4, contents=contents, name="flat")
    modules = yosys(tmp_path, rtlil.convert(rom, name="top"),
                    f"{SYNTH[family]} -top top -run begin:map_luts\nsplitnets\n{SYNTH[family]} -top top -run map_luts:")
    found = {cell["attributes"]["hwflow_block"]: cell["parameters"] for cell in modules["top"]["cells"].values()
             if cell["attributes"].get("hwflow_rom") == "flat"}
    name = "LUT_INIT" if family == "ice40" else "INIT"
    leaf = {0: f"{0xFF80:016b}", 1: "1" * 16, 2: "1" * 16, 3: "0" * 16}
    assert found == {f"table{bit}_{k}": {name: leaf[k] if bit in (0, 2) else "0" * 16}
                     for bit in range(4) for k in range(4)}


@pytest.mark.parametrize("technology", [ECP5(), Gowin(), Generic()])
def test_a_shallow_ram_gives_the_word_two_cycles_after_its_address(technology: Technology) -> None:
    check_ram(technology.ram(width=4, depth=32), ("LutRam", "GenericRam"))


def test_words_behind_a_power_of_two_are_in_a_memory_of_their_own() -> None:
    check_ram(TailedRam(low=Generic().ram(width=4, depth=16), high=LutRam(width=4, depth=16)), ("TailedRam",))
    costs = {depth: ECP5().ram_cost(width=8, depth=depth) for depth in (2048, 2050, 2064, 2200)}
    assert [cost.ram for cost in costs.values()] == [1, 1, 1, 2]
    assert ECP5().ram(width=8, depth=2064).high.depth == 16


def check_ram(ram: Ram, kinds: tuple[str, ...]) -> None:
    """Words that are written and read at random; `ram` has 32 of 4 bits."""
    assert ram.__class__.__name__ in kinds
    chance = np.random.default_rng(2)
    state: dict[int, int] = {}
    pending: list[tuple[int, int | None]] = []

    async def bench(ctx):
        for cycle in range(600):
            write, read, word = int(chance.integers(32)), int(chance.integers(32)), int(chance.integers(16))
            enable = bool(chance.integers(2)) and write != read
            ctx.set(ram.write_en, enable)
            ctx.set(ram.write_addr, write)
            ctx.set(ram.write_data, word)
            ctx.set(ram.read_addr, read)
            pending.append((cycle + 2, state.get(read)))
            if enable:
                state[write] = word
            for due, expected in pending:
                if due == cycle and expected is not None:
                    assert ctx.get(ram.read_data) == expected
            await ctx.tick()

    run(ram, bench)
    assert len(state) == 32


# Refusals


@pytest.mark.parametrize(("technology", "limit"), [(ECP5(), 18), (ICE40(), 16), (Gowin(), 18)])
def test_operands_too_wide_for_the_blocks_are_refused(technology: Technology, limit: int) -> None:
    wide = signed(limit + 1)
    message = (rf"operands of a multiplier must be at most {limit} bits wide on {technology.name}, not "
               rf"signed\({limit + 1}\) and unsigned\(2\); split them, or multiply in the fabric")
    with pytest.raises(ValueError, match=message):
        technology.multipliers(count=1, a=wide, b=unsigned(2))
    with pytest.raises(ValueError, match=message):
        technology.multipliers_cost(count=1, a=wide, b=unsigned(2))


def test_ice40_alone_requantizes_in_logic_alone() -> None:
    assert {name: family().prefers_fabric_requantizer for name, family in FAMILIES.items()} == {
        "ecp5": False, "gowin": False, "ice40": True}


def test_the_narrow_products_of_ice40_share_blocks() -> None:
    costs = {(a, b): ICE40().multipliers_cost(count=5, a=Shape(a, signed=True), b=Shape(b)).dsp
             for a, b in itertools.product((8, 9), (8, 9))}
    assert costs == {(8, 8): 3, (8, 9): 5, (9, 8): 5, (9, 9): 5}


@pytest.mark.parametrize(("a", "b", "kind", "signs"), [
    (signed(8), unsigned(8), "MULT9X9", "11"), (unsigned(8), signed(9), "MULT9X9", "11"),
    (unsigned(9), signed(9), "MULT9X9", "01"), (signed(18), unsigned(17), "MULT18X18", "11"),
    (unsigned(18), unsigned(2), "MULT18X18", "01")])
def test_multipliers_of_gowin_have_equal_signs_where_a_bit_is_left(a: Shape, b: Shape, kind: str, signs: str) -> None:
    """Neighbours share their signs; a wide multiplier may have half a block, four narrow ones, for itself."""
    text = rtlil.convert(Gowin().multipliers(count=3, a=a, b=b))
    for port, sign in zip(("ASIGN", "BSIGN"), signs, strict=True):
        assert text.count(f"connect \\{port} 1'{sign}\n") == text.count(f"cell \\{kind} ") == 3
    assert Gowin().multipliers_cost(count=3, a=a, b=b).dsp == {"MULT9X9": 3, "MULT18X18": 12}[kind]
