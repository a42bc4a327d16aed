"""RAM blocks and multipliers pin by pin and bit by bit as yosys' own mapping has them.

There is no simulation model of most of these cells: a contents in the wrong order, or two halves of a word swapped,
would be silent.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.vendor import FAMILIES

from tests.synth.netlists import DSP, RAM, SYNTH, random_contents, words_of, yosys


def slow(*values: int):
    return pytest.param(*values, marks=pytest.mark.slow)


class Inferred(wiring.Component):
    """The same memory as yosys infers it from plain Amaranth."""

    def __init__(self, width: int, contents: np.ndarray | None, depth: int):
        self.width, self.contents, self.depth = width, contents, depth
        super().__init__({
            "addr": In(range(depth)), "data": Out(width),
            "write_en": In(1), "write_addr": In(range(depth)), "write_data": In(width),
        })

    def elaborate(self, platform):
        m = Module()
        words = [] if self.contents is None else words_of(self.contents)
        m.submodules.memory = store = memory.Memory(
            shape=self.width, depth=self.depth, init=words, attrs={"ram_style": "block", "rom_style": "block"})
        read, word = store.read_port(domain="comb"), Signal(self.width, reset_less=True)
        m.d.comb += [read.addr.eq(self.addr), self.data.eq(word)]
        m.d.sync += word.eq(read.data)  # yosys moves it into the block; `-no-rw-check` keeps it from more than that
        if self.contents is None:
            write = store.write_port()
            m.d.comb += [write.en.eq(self.write_en), write.addr.eq(self.write_addr), write.data.eq(self.write_data)]
        return m


def port_bits(modules: dict, name: str) -> dict[object, str]:
    """Net number to "name[k]" for a port of the top module."""
    return {bit: f"{name}[{k}]" for k, bit in enumerate(modules["top"]["ports"][name]["bits"])}


def only_block(modules: dict, kinds: tuple[str, ...]) -> dict:
    cells = [cell for cell in modules["top"]["cells"].values() if cell["type"] in kinds]
    assert len(cells) == 1
    return cells[0]


def initial(cell: dict) -> dict[str, str]:
    """INIT parameters with every undefined bit as 0."""
    return {name: value.replace("x", "0") for name, value in cell["parameters"].items() if name.startswith("INIT")}


def pins_of(cell: dict, names: dict[object, str], *, kind: str) -> dict[str, str]:
    """Which top-level bit is at which pin of a cell; a pin is "ADA13" for both ADA13 and ADA[13]."""
    found = {}
    for port, bits in cell["connections"].items():
        for k, bit in enumerate(bits):
            if bit in names and re.match(kind, port):
                found[f"{port}{k}" if len(bits) > 1 else port] = names[bit]
    return found


FLAT = "hierarchy -top top; proc; flatten; opt -full; opt_clean -purge"


@pytest.mark.quick(2)
@pytest.mark.parametrize("family", ["ecp5", "gowin"])
@pytest.mark.parametrize(("width", "depth"), [
    (36, 512), (9, 2048), slow(4, 4096), slow(18, 1024), slow(2, 8192), slow(1, 16384)])
def test_contents_stand_where_yosys_puts_them(family: str, width: int, depth: int, tmp_path: Path) -> None:
    """The same words, once through our INIT parameters and once through yosys' own mapping to RAM blocks."""
    contents = random_contents(width, depth, seed=width)
    rom = FAMILIES[family]().rom(width=width, contents=contents, name="weights")
    ours = yosys(tmp_path, rtlil.convert(rom, ports=[rom.addr, rom.data]), FLAT)
    plain = Inferred(width, contents, depth)
    theirs = yosys(tmp_path, rtlil.convert(plain, ports=[plain.addr, plain.data]),
                   f"{SYNTH[family]} -no-rw-check -top top -run begin:map_ffram; opt_clean -purge")
    our_cell, their_cell = only_block(ours, RAM[family]), only_block(theirs, RAM[family])
    assert initial(our_cell) == initial(their_cell)
    assert our_cell["attributes"]["hwflow_rom"] == "weights"
    # The address reaches the same pins: those of either port, for a port reads what the other one does.
    addresses = [
        {re.sub("^AD[ABR]?", "AD", pin): bit
         for pin, bit in pins_of(cell, port_bits(modules, "addr"), kind="AD").items()}
        for cell, modules in ((our_cell, ours), (their_cell, theirs))]
    assert addresses[0] == addresses[1]


@pytest.mark.parametrize("family", ["ecp5", "gowin"])
@pytest.mark.parametrize(("width", "depth"), [(36, 512), slow(18, 1024), slow(9, 2048), slow(4, 4096)])
def test_a_ram_is_wired_as_yosys_wires_it(family: str, width: int, depth: int, tmp_path: Path) -> None:
    """Data and address pins of both ports, where yosys chooses the same shape: halves cannot be swapped unnoticed."""
    ram = FAMILIES[family]().ram(width=width, depth=depth)
    ports = [ram.write_en, ram.write_addr, ram.write_data, ram.read_addr, ram.read_data]
    ours = yosys(tmp_path, rtlil.convert(ram, ports=ports), FLAT)
    plain = Inferred(width, None, depth)
    theirs = yosys(tmp_path, rtlil.convert(plain, ports=[plain.write_en, plain.write_addr, plain.write_data,
                                                         plain.addr, plain.data]),
                   f"{SYNTH[family]} -no-rw-check -top top -run begin:map_ffram; opt_clean -purge")
    # Below 36 bits yosys takes Gowin's true dual port block, the same cell with two names for its data pins.
    kinds = (*RAM[family], "DPB", "DPX9B")
    our_cell, their_cell = only_block(ours, kinds), only_block(theirs, kinds)
    if their_cell["type"].startswith("DP") and family == "gowin":
        pins = their_cell["connections"]
        pins["DI"], pins["DO"] = pins.pop("DIA"), pins.pop("DOB")

    def wiring_of(cell: dict, modules: dict, names: dict[str, str]) -> dict[str, str]:
        bits: dict[object, str] = {}
        for port, common in names.items():
            bits |= {bit: f"{common}[{k}]" for k, bit in enumerate(modules["top"]["ports"][port]["bits"])}
        return pins_of(cell, bits, kind="AD|D")

    our_wiring = wiring_of(our_cell, ours, {"write_addr": "wa", "write_data": "wd", "read_addr": "ra"})
    their_wiring = wiring_of(their_cell, theirs, {"write_addr": "wa", "write_data": "wd", "addr": "ra"})
    assert our_wiring == their_wiring
    outputs = [pins_of(cell, port_bits(modules, port), kind="DO")
               for cell, modules, port in ((our_cell, ours, "read_data"), (their_cell, theirs, "data"))]
    if outputs[0]:  # Gowin's narrow shapes have a register between the block and the port
        assert [re.sub(r"^\w+", "", bit) for bit in outputs[0].values()] == \
            [re.sub(r"^\w+", "", bit) for bit in outputs[1].values()]
        assert list(outputs[0]) == list(outputs[1])
    for name in ("DATA_WIDTH_A", "DATA_WIDTH_B", "BIT_WIDTH_0", "BIT_WIDTH_1"):
        widths = [int(str(cell["parameters"].get(name, "0")), 2) for cell in (our_cell, their_cell)]
        assert widths[0] == widths[1]


class Product(wiring.Component):
    """The same product as yosys infers it."""

    def __init__(self, a: Shape, b: Shape):
        self.shapes = a, b
        super().__init__({"a": In(a), "b": In(b), "p": Out(Shape(a.width + b.width, signed=a.signed))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.p.eq(self.a * self.b)
        return m


@pytest.mark.quick(3)
@pytest.mark.parametrize(("family", "width", "inferred"), [
    ("ecp5", 18, "synth_ecp5"), ("gowin", 9, "synth_gowin"), ("gowin", 18, "synth_gowin")])
@pytest.mark.parametrize("is_signed", [True, False])
def test_a_multiplier_is_wired_as_yosys_wires_it(family: str, width: int, inferred: str, is_signed: bool,
                                                 tmp_path: Path) -> None:
    """Operands and product of full width at the same pins, with the same signs; ours has all registers besides."""
    shape = Shape(width, signed=is_signed)
    unit = FAMILIES[family]().multipliers(count=1, a=shape, b=shape)
    ours = yosys(tmp_path, rtlil.convert(unit, ports=[unit.a.as_value(), unit.b.as_value(), unit.p.as_value()]), FLAT)
    plain = Product(shape, shape)
    theirs = yosys(tmp_path, rtlil.convert(plain, ports=[plain.a, plain.b, plain.p]),
                   f"{inferred} -top top -run begin:map_ffram; opt_clean -purge")
    cells = [only_block(modules, tuple(DSP[family])) for modules in (ours, theirs)]
    assert cells[0]["type"] == cells[1]["type"]
    found = [pins_of(cell, port_bits(modules, "a") | port_bits(modules, "b"), kind=r"[AB]\d*$")
             for cell, modules in zip(cells, (ours, theirs), strict=True)]
    assert len(found[0]) == 2 * width
    # Multiplication does not mind which operand is which.
    assert found[0] == found[1] or found[0] == {
        pin.translate(str.maketrans("AB", "BA")): bit for pin, bit in found[1].items()}
    signs = [[cell["connections"][pin] for pin in cell["connections"] if re.match("SIGNED[AB]|[AB]SIGN", pin)]
             for cell in cells]
    assert signs[0] == signs[1] == 2 * [["1" if is_signed else "0"]]
    registers = {name: value for name, value in cells[0]["parameters"].items()
                 if re.match(r"REG_(INPUT[AB]|PIPELINE|OUTPUT)_CLK|[AB]REG|PIPE_REG|OUT_REG", name)}
    assert len(registers) == 4
    assert set(registers.values()) <= {"CLK0", "1"}
    outputs = [pins_of(cell, product_bits(modules), kind="P|DOUT")
               for cell, modules in zip(cells, (ours, theirs), strict=True)]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 2 * width


def product_bits(modules: dict) -> dict[object, str]:
    """Nets at the multiplier that are bits of the top's product, also those in front of a register in the fabric."""
    names = port_bits(modules, "p")
    behind = {}
    for other in modules["top"]["cells"].values():
        if other["type"] in ("$dff", "$_DFF_P_"):
            behind |= dict(zip(other["connections"]["D"], other["connections"]["Q"], strict=True))
    return names | {front: names[back] for front, back in behind.items() if back in names}
