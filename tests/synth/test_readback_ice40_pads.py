"""Pads and PLLs of iCE40 of every kind, placed, routed and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool

from hwflow.synth.families.ice40.readback.database import find_database
from hwflow.synth.families.ice40.readback.reader import read_back
from hwflow.synth.yosys_json import Module
from tests.synth.conftest import need
from tests.synth.ice40_tools import pack

DIVIDERS = {"DIVR": "0000", "DIVF": "0111111", "DIVQ": "100", "FILTER_RANGE": "001"}
#: The pin of a PLL's clock, the output that is used, and the settings of outputs.
PLLS = {"SB_PLL40_CORE": ("REFERENCECLK", "PLLOUTCORE", ("PLLOUT_SELECT",)),
        "SB_PLL40_PAD": ("PACKAGEPIN", "PLLOUTGLOBAL", ("PLLOUT_SELECT",)),
        "SB_PLL40_2_PAD": ("PACKAGEPIN", "PLLOUTGLOBALB", ("PLLOUT_SELECT_PORTB",)),
        "SB_PLL40_2F_CORE": ("REFERENCECLK", "PLLOUTCOREB", ("PLLOUT_SELECT_PORTA", "PLLOUT_SELECT_PORTB")),
        "SB_PLL40_2F_PAD": ("PACKAGEPIN", "PLLOUTGLOBALA", ("PLLOUT_SELECT_PORTA", "PLLOUT_SELECT_PORTB"))}
#: PIN_TYPE of pads that become cells, each on a pin of the package.
PAD_TYPES = {"2": "010001", "3": "010101", "4": "011101", "45": "100100", "47": "101001", "48": "110100",
             "44": "000000", "43": "110001", "42": "111000"}


def read(verilog: str, pins: Mapping[str, Sequence[str]], folder: Path) -> Module:
    need("ice40")
    try:
        find_database("5k")
    except MissingTool as error:
        pytest.skip(str(error))
    return read_back("up5k", "sg48", pack(verilog, "up5k", "sg48", pins, folder)[1]).module(pins)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLLS)
def test_plls(kind: str, tmp_path: Path) -> None:
    clock, output, settings = PLLS[kind]
    values = ", ".join([f".{name}({len(value)}'b{value})" for name, value in DIVIDERS.items()]
                       + [f'.{name}("GENCLK")' for name in settings])
    verilog = (f"module top(input clk, rx, output tx, output reg led); wire fast;\n"
               f'{kind} #(.FEEDBACK_PATH("SIMPLE"), {values}) pll (.{clock}(clk), .{output}(fast), .LOCK(tx), '
               f".RESETB(1'b1), .BYPASS(1'b0));\nalways @(posedge fast) led <= led ^ rx; endmodule\n")
    pad = clock == "PACKAGEPIN"
    module = read(verilog, {"clk": ["35" if pad else "20"], "rx": ["6"], "tx": ["9"], "led": ["37" if pad else "11"]},
                  tmp_path)
    (pll,) = (cell for cell in module["cells"].values() if "PLL" in cell["type"])
    assert pll["type"] == kind
    assert {name: pll["parameters"][name] for name in DIVIDERS} == DIVIDERS
    assert not pad or pll["connections"][clock] == module["ports"]["clk"]["bits"]
    (register,) = (cell for cell in module["cells"].values() if cell["type"].startswith("SB_DFF"))
    assert register["connections"]["C"] in (pll["connections"].get(output), [
        cell["connections"]["GLOBAL_BUFFER_OUTPUT"][0] for cell in module["cells"].values() if cell["type"] == "SB_GB"])


@pytest.mark.slow
def test_pads(tmp_path: Path) -> None:
    """Registered, double rate, inverted, with an enable, and without: the same type and the same pins at the cell."""
    names = {pin: f"pad{pin}" for pin in PAD_TYPES}
    lines = [f"module top(input clk, rx, {', '.join(f'inout {name}' for name in names.values())}, output tx);",
             "reg [31:0] r = 0; always @(posedge clk) r <= {r[30:0], rx};"]
    for n, (pin, kind) in enumerate(PAD_TYPES.items()):
        lines.append(f"wire i{n}, j{n}; SB_IO #(.PIN_TYPE(6'b{kind})) u{n} (.PACKAGE_PIN({names[pin]}), "
                     f".INPUT_CLK(clk), .OUTPUT_CLK(clk), .CLOCK_ENABLE(1'b1), .D_OUT_0(r[{n}]), .D_OUT_1(r[{n + 9}]), "
                     f".OUTPUT_ENABLE(r[{n + 18}]), .D_IN_0(i{n}), .D_IN_1(j{n}));")
    taken = " ^ ".join(f"i{n} ^ j{n}" for n in range(len(PAD_TYPES)))
    module = read("\n".join([*lines, f"assign tx = {taken}; endmodule\n"]),
                  {"clk": ["35"], "rx": ["6"], "tx": ["9"], **{name: [pin] for pin, name in names.items()}}, tmp_path)
    cells = {cell["connections"]["PACKAGE_PIN"][0]: cell for cell in module["cells"].values()
             if cell["type"] == "SB_IO"}
    for pin, kind in PAD_TYPES.items():
        port = module["ports"][names[pin]]
        cell = cells[port["bits"][0]]
        assert port["direction"] == "inout"
        assert cell["parameters"] == {"PIN_TYPE": kind, "NEG_TRIGGER": "0"}
        assert set(cell["connections"]) == {
            "PACKAGE_PIN", "D_IN_0", "D_IN_1", "INPUT_CLK", "OUTPUT_CLK", "CLOCK_ENABLE", "D_OUT_0", "D_OUT_1",
            "OUTPUT_ENABLE"}
