"""What yosys makes of the units of each family, cell by cell in Verilator: all products, all words, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_base.errors import MissingTool
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import FAMILIES
from hwflow_sim.board import BoardDesign, SimulatedBoard, UartLine, compile_board, read_netlist

from hwflow.synth.toolchain import ToolRun, find_tool, run_tool
from tests.rtl.test_products import CASES, every, operands, sums_of

PAIRS, LOGIC = MultiplierStyle.PAIRS, MultiplierStyle.LOGIC

OPERANDS = [(signed(8), signed(8)), (unsigned(8), signed(8)), (unsigned(8), unsigned(8)), (signed(5), signed(8)),
            (signed(16), signed(16)), (signed(9), unsigned(16))]
#: Words of every width that a block has, and of others; several banks; two shapes of blocks in one memory.
SHAPES = {
    "ice40": ([(16, 256), (12, 400), (4, 1000), (2, 2048), (9, 700), (5, 3000), (6, 30)],
              [(16, 256), (8, 512), (10, 900), (2, 2000), (20, 600), (3, 5)]),
    "ecp5": ([(36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384), (8, 3000), (40, 600), (6, 30)],
             [(36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384), (30, 700), (3, 20),
              (8, 2050)]),
    "gowin": ([(36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384), (8, 3000), (6, 30)],
              [(36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384), (30, 700), (3, 20)]),
}
SYNTH = {"ecp5": "synth_ecp5 -nodsp -nobram", "ice40": "synth_ice40 -device u", "gowin": "synth_gowin -nodsp -nobram"}
#: Some operands and some shapes of one family, and among the slow tests all of each.
EACH_FAMILY = pytest.mark.parametrize("family, some", [
    ("ice40", True), *(pytest.param(family, False, marks=pytest.mark.slow) for family in SHAPES)])

#: Stimuli one a cycle; what comes is compared where it is known.  A difference says so and lights the LED for ever.
BENCH = """
module top(input clk, rx, output tx, output reg [0:0] led);
  assign tx = 1;
  reg [{IN}-1:0] stimuli [0:{CYCLES}-1], stimulus;
  reg [{OUT}-1:0] expected [0:{CYCLES}-1], known [0:{CYCLES}-1];
  wire [{OUT}-1:0] result;
  integer k = 0;
  dut dut (.clk(clk), .rst(1'b0), .stimulus(stimulus), .result(result));
  initial begin
    led = 0;
    $readmemh("stimuli.hex", stimuli);
    $readmemh("expected.hex", expected);
    $readmemh("known.hex", known);
  end
  always @(posedge clk) if (k < {CYCLES}) begin
    k <= k + 1;
    stimulus <= stimuli[k];
    if (|((result ^ expected[k]) & known[k])) begin
      led <= 1;
      $fdisplay(32'h80000002, "cycle %d: %h, wrong bits %h", k, result, (result ^ expected[k]) & known[k]);
    end
  end
endmodule
"""


class Bundle(wiring.Component):
    """Units side by side: all their inputs are one port, all their outputs another."""

    def __init__(self, units: list[wiring.Component]):
        self.units = units
        ports = [(unit, name, member) for unit in units for name, member in unit.signature.members.items()]
        self.inputs = [getattr(unit, name) for unit, name, member in ports if member.flow is In]
        self.outputs = [getattr(unit, name) for unit, name, member in ports if member.flow is Out]
        super().__init__({"stimulus": In(sum(len(Value.cast(v)) for v in self.inputs)),
                          "result": Out(sum(len(Value.cast(v)) for v in self.outputs))})

    def elaborate(self, platform):
        m = Module()
        for k, unit in enumerate(self.units):
            m.submodules[f"unit{k}"] = unit
        at = 0
        for value in self.inputs:
            m.d.comb += Value.cast(value).eq(self.stimulus[at:at + len(Value.cast(value))])
            at += len(Value.cast(value))
        at = 0
        for value in self.outputs:
            m.d.comb += self.result[at:at + len(Value.cast(value))].eq(Value.cast(value))
            at += len(Value.cast(value))
        return m


def joined(fields: list[tuple[np.ndarray, int]]) -> list[int]:
    """Columns of integers and their widths to one integer a cycle, the first in the low bits."""
    words = [0] * len(fields[0][0])
    at = 0
    for column, width in fields:
        mask = (1 << width) - 1
        for k, value in enumerate(column.tolist()):
            words[k] |= (value & mask) << at
        at += width
    return words


def check_netlist(folder: Path, cache: Path, family: str, units: list[wiring.Component], stimuli: list[int],
                  expected: list[tuple[list[int | None], int]], latency: int) -> int:
    """Run the netlist of `units`; `expected` are columns of the results of each stimulus, with their widths.

    How many numbers were compared.
    """
    try:
        tool = find_tool("yosys")
    except MissingTool as error:
        pytest.skip(str(error))
    bundle = Bundle(units)
    (folder / "top.il").write_text(rtlil.convert(bundle, name="top", ports=[bundle.stimulus, bundle.result]))
    (folder / "run.ys").write_text(f"read_rtlil top.il\n{SYNTH[family]} -top top\nwrite_json netlist.json\n")
    run_tool(tool, ["-q", "-s", "run.ys"], ToolRun(folder, folder / "yosys.log", "test"), progress=print)
    netlist = read_netlist(folder / "netlist.json", family)
    cycles = len(stimuli) + latency + 1
    late = [[None] * (latency + 1) + column for column, _ in expected]
    known = joined([(np.array([-(value is not None) for value in column]), width)
                    for column, (_, width) in zip(late, expected, strict=True)])
    values = joined([(np.array([value or 0 for value in column], dtype=object), width)
                     for column, (_, width) in zip(late, expected, strict=True)])
    bench = BENCH
    for name, value in {"IN": len(bundle.stimulus), "OUT": len(bundle.result), "CYCLES": cycles}.items():
        bench = bench.replace(f"{{{name}}}", str(value))
    files = {"stimuli": [*stimuli, *[0] * (latency + 1)], "expected": values, "known": known}
    contents = {f"{name}.hex": "".join(f"{word:x}\n" for word in words) for name, words in files.items()}
    design = BoardDesign(bench + netlist.verilog.replace("module top (", "module dut ("),
                         {"clk": 1, "rx": 1, "tx": 1, "led": 1}, {**contents, **netlist.contents}, (netlist.models,))
    compiled = compile_board(design, folder=folder / "run", cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(100)) as board:
        board.wait(b"", cycles + 1)
        assert board.facts.leds == 0, (folder / "run" / "board.log").read_text()[:2000]
    return sum(value is not None for column in late for value in column)


def every_pair(a: Shape, b: Shape, cycles: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of operands where there are no more than `cycles`, else corners and random ones; as unsigned bits."""
    if a.width + b.width <= 16:
        pairs = np.arange(cycles) % (1 << (a.width + b.width))
        return pairs & ((1 << a.width) - 1), pairs >> a.width
    chance = np.random.default_rng(seed)
    corners = np.array([0, 1, (1 << (a.width - 1)) - 1, 1 << (a.width - 1), (1 << a.width) - 1])
    x = chance.integers(0, 1 << a.width, cycles)
    y = chance.integers(0, 1 << b.width, cycles)
    x[:25] = np.repeat(corners, 5)
    y[:25] = np.tile(corners, 5) & ((1 << b.width) - 1)
    return x, y


def value_of(bits: np.ndarray, shape: Shape) -> np.ndarray:
    return bits - ((bits >> (shape.width - 1)) << shape.width) if shape.signed else bits


@pytest.mark.slow
@EACH_FAMILY
def test_every_product_of_the_netlist_is_right(tmp_path: Path, cache: Path, family: str, some: bool) -> None:
    """Two multipliers of each kind, the second with the operands of the first in another order."""
    technology = FAMILIES[family]()
    kinds = OPERANDS[:2] if some else OPERANDS
    cycles = 1 << 16
    columns: list[tuple[np.ndarray, int]] = []
    expected: list[tuple[list[int | None], int]] = []
    units = []
    for k, (a, b) in enumerate(kinds):
        units.append(technology.multipliers(count=2, a=a, b=b))
        x, y = every_pair(a, b, cycles, k)
        columns += [(x, a.width), (x[::-1], a.width), (y, b.width), (y[::-1], b.width)]
        product = value_of(x, a) * value_of(y, b)
        expected += [(product.tolist(), a.width + b.width), (product[::-1].tolist(), a.width + b.width)]
    latency = technology.timing.multiply
    compared = check_netlist(tmp_path, cache, family, units, joined(columns), expected, latency)
    assert compared == 2 * len(kinds) * cycles


@pytest.mark.slow
@EACH_FAMILY
def test_every_word_of_the_netlist_is_right(tmp_path: Path, cache: Path, family: str, some: bool) -> None:
    """All addresses of ROMs in every shape and number of banks; RAMs written and read at random."""
    technology = FAMILIES[family]()
    chance = np.random.default_rng(3)
    roms, rams = ([*shapes[1:4], *shapes[-1:]] if some else shapes for shapes in SHAPES[family])
    cycles = max(6000, *(depth for _, depth in roms))
    columns: list[tuple[np.ndarray, int]] = []
    expected: list[tuple[list[int | None], int]] = []
    units = []
    for width, depth in roms:
        bits = chance.integers(0, 2, (depth, width), dtype=np.uint8)
        unit = technology.rom(width=width, contents=np.packbits(bits, axis=1, bitorder="little"), name="rom")
        address = np.arange(cycles) % depth
        words = bits.astype(np.int64) @ (1 << np.arange(width))
        units.append(unit)
        columns.append((address, len(unit.addr)))
        expected.append((words[address].tolist(), width))
    for width, depth in rams:
        unit = technology.ram(width=width, depth=depth)
        write, read = chance.integers(0, depth, cycles), chance.integers(0, depth, cycles)
        read[::3] = np.roll(write, 1)[::3]  # the cycle after its write
        enable, word = chance.integers(0, 2, cycles) & (write != read), chance.integers(0, 1 << width, cycles)
        state: dict[int, int] = {}
        seen: list[int | None] = []
        for k in range(cycles):
            seen.append(state.get(int(read[k])))
            if enable[k]:
                state[int(write[k])] = int(word[k])
        units.append(unit)
        columns += [(enable, 1), (write, len(unit.write_addr)), (word, width), (read, len(unit.read_addr))]
        expected.append((seen, width))
    compared = check_netlist(tmp_path, cache, family, units, joined(columns), expected, technology.timing.rom)
    assert compared > (len(roms) + len(rams) // 2) * cycles  # words that were never written are not compared


@pytest.mark.slow
@pytest.mark.parametrize(("family", "style", "a", "b"), [
    ("ecp5", PAIRS, signed(8), signed(4)), ("ecp5", PAIRS, unsigned(8), signed(4)),
    ("ecp5", LOGIC, signed(8), signed(8)), ("ecp5", LOGIC, unsigned(8), signed(5)),
    ("ice40", LOGIC, signed(8), signed(8)), ("gowin", LOGIC, signed(8), signed(8))], ids=str)
def test_every_product_of_pairs_and_in_logic(family: str, style: MultiplierStyle, a, b, tmp_path: Path,
                                             cache: Path) -> None:
    """Of pairs, every element with every two weights."""
    technology = FAMILIES[family]()
    shape = ProductShape(Operand(a), Operand(b), style)
    weights = [every(b)] * shape.sharing
    x, *factors = (part.reshape(-1) for part in np.meshgrid(every(a), *weights, indexing="ij"))
    columns = [(x, a.width), *((factor, b.width) for factor in factors)]
    expected = [((x * factor).tolist(), shape.shape.width) for factor in factors]
    unit = shape.unit(shape.sharing, technology)
    compared = check_netlist(tmp_path, cache, family, [unit], joined(columns), expected, shape.latency(technology))
    assert compared == len(x) * shape.sharing


@pytest.mark.slow
@pytest.mark.parametrize(("family", "a", "b", "total"), [
    ("ecp5", signed(8), signed(8), signed(22)), *(("ecp5", *case) for case in CASES[1:]),
    ("ice40", signed(8), signed(8), signed(22)), ("gowin", unsigned(8), signed(8), signed(22))], ids=str)
def test_every_sum_of_the_netlist_is_right(family: str, a: Shape, b: Shape, total: Shape, tmp_path: Path,
                                           cache: Path) -> None:
    """Sums of every length of extreme operands."""
    technology, count, cycles = FAMILIES[family](), 2, 3000
    more, elements, weights = operands(a, b, cycles, count, total.width)
    columns = [(more, 1), *((values[:, k], shape.width) for values, shape in ((elements, a), (weights, b))
                            for k in range(2 * count))]
    sums = sums_of(more, elements, weights, total)
    expected = [(sums[:, n].tolist(), total.width) for n in range(count)]
    unit = technology.multiply_accumulate(count=count, a=a, b=b, total=total)
    compared = check_netlist(tmp_path, cache, family, [unit], joined(columns), expected, technology.timing.accumulate)
    assert compared == cycles * count
