"""Every kind of cell of an iCE40 through place and route and back: the netlist that yosys wrote and the one that is
read from the bits do the same, cycle by cycle.

All cells get random numbers of a shift register with feedback; what they answer is gathered in a register whose bytes
the LEDs show.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool
from hwflow_sim.board import SimulatedBoard, UartLine, compile_board, netlist_design, read_netlist

from hwflow.synth.families.ice40.readback.database import find_database
from hwflow.synth.families.ice40.readback.reader import read_back
from tests.sim.test_cells import bits, ice40
from tests.synth.conftest import need
from tests.synth.ice40_tools import pack

#: Pins of both packages.
PINS = {"up5k": ("sg48", {"clk": ["35"], "rx": ["6"], "tx": ["9"],
                          "led": ["37", "11", "2", "3", "4", "45", "47", "48"]}),
        "hx8k": ("ct256", {"clk": ["J3"], "rx": ["B10"], "tx": ["B12"],
                           "led": ["C3", "B3", "C4", "C5", "A1", "A2", "B4", "B5"]})}
#: Cycles until everything has a value, and after which the LEDs are compared.
WARM, LOOKS, BETWEEN = 512, 12, 301
MEMORY_MODES = ((0, 0), (1, 1), (2, 2), (3, 3), (0, 2), (3, 1))
#: Of the multipliers of a UP5K.
MULTIPLIERS = 6


def top(device: str) -> str:
    """The Verilog: the cells of `tests/sim/test_cells.py`, of each kind as many as fit."""
    chance, kinds = random.Random(5), [cell for cell in ice40() if cell.kind.startswith(("SB_DFF", "SB_CARRY"))]
    lines = ["module top(input clk, rx, output tx, output [7:0] led);",
             "reg [63:0] r = 0; always @(posedge clk) r <= {r[62:0], ~(r[63] ^ r[62] ^ r[60] ^ r[59])};",
             f"reg [9:0] since = 0; wire warm = since >= {WARM}; always @(posedge clk) if (!warm) since <= since + 1;"]
    sums = []
    for n, cell in enumerate(kinds):
        pins = [f".{pin}({'clk' if width == 'clk' else f'r[{chance.randrange(64)}]'})"
                for pin, width in cell.pins.items()]
        (out,) = cell.outputs
        lines.append(f"wire o{n}; {cell.kind} u{n} ({', '.join(pins)}, .{out}(o{n}));")
        sums.append(f"o{n}")
    lines += ["wire [19:0] added = r[19:0] + r[45:26], less = r[30:11] - r[60:41];"]
    sums += ["^added", "^less", "added[19]", "less[19]", "r[7:0] < r[20:13]"]
    for n, (read, write) in enumerate(MEMORY_MODES):
        lines += memory(n, read, write, chance)
        sums.append(f"^m{n}")
    if device == "up5k":
        for n in range(4):
            lines += large_memory(n)
            sums.append(f"(s{n}sure & ^s{n})")
        for n in range(MULTIPLIERS):
            lines += multiplier(n, chance)
            sums.append(f"^p{n}")
    mixed = " ^ ".join(f"{{{one}, {k % 7}'d0}}" if k % 7 else f"{{7'd0, {one}}}" for k, one in enumerate(sums))
    lines += ["reg [7:0] seen = 0; assign led = seen, tx = 1;",
              f"always @(posedge clk) if (warm) seen <= {{seen[6:0], seen[7] ^ seen[4] ^ rx}} ^ {mixed};"]
    return "\n".join([*lines, "endmodule\n"])


def memory(n: int, read: int, write: int, chance: random.Random) -> list[str]:
    """A block RAM that never reads the row that it writes."""
    contents = ", ".join(f".INIT_{k:X}({bits(256, chance)})" for k in range(16))
    return [f"wire [15:0] m{n};",
            f"SB_RAM40_4K #(.READ_MODE({read}), .WRITE_MODE({write}), {contents}) ram{n} (.RCLK(clk), .RCLKE(r[{n}]), "
            f".RE(r[{n + 9}]), .RADDR(r[{20 + n}:{10 + n}]), .WCLK(clk), .WCLKE(r[{n + 3}]), .WE(r[{n + 30}]), "
            f".MASK(r[{n + 45}:{n + 30}]), .WDATA(r[{n + 15}:{n}]), "
            f".WADDR({{r[{n + 40}:{n + 38}], ~r[{17 + n}], r[{n + 36}:{n + 30}]}}), .RDATA(m{n}));"]


def large_memory(n: int) -> list[str]:
    """A memory of four words, all written first; what it gives after a write is undefined."""
    return [f"wire [15:0] s{n}; reg s{n}sure = 0; wire s{n}w = !warm | r[{n + 5}], s{n}c = !warm | r[{n + 12}];",
            f"always @(posedge clk) if (s{n}c) s{n}sure <= !s{n}w & warm;",
            f"SB_SPRAM256KA spram{n} (.CLOCK(clk), .CHIPSELECT(s{n}c), .WREN(s{n}w), .STANDBY(1'b0), .SLEEP(1'b0), "
            f".POWEROFF(1'b1), .ADDRESS({{warm ? r[{n}] : since[0], 12'd0, warm ? r[{n + 1}] : since[1]}}), "
            f".DATAIN(r[{n + 31}:{n + 16}]), .MASKWREN(r[{n + 40}:{n + 37}] | {{4{{!warm}}}}), .DATAOUT(s{n}));"]


def multiplier(n: int, chance: random.Random) -> list[str]:
    """A multiplier in any mode in which nothing is taken from another."""
    cell = next(cell for cell in ice40() if cell.kind == "SB_MAC16")
    values = {name: str(chance.randrange(4 if len(value) > 1 or "SELECT" in name else 2)) for name, value in
              cell.values.items()}
    values |= {name: str(chance.choice((0, 1, 3))) for name in ("TOPADDSUB_CARRYSELECT", "BOTADDSUB_CARRYSELECT")}
    values |= {"BOTADDSUB_LOWERINPUT": str(chance.randrange(3)), "TOPADDSUB_LOWERINPUT": str(chance.randrange(4))}
    values |= {"TOPADDSUB_UPPERINPUT": "1", "BOTADDSUB_UPPERINPUT": "1"}
    if values["MODE_8x8"] == "1":
        values |= {"PIPELINE_16x16_MULT_REG1": "0", "PIPELINE_16x16_MULT_REG2": "0"}
    singles = ("CE", "AHOLD", "BHOLD", "CHOLD", "DHOLD", "OLOADTOP", "OLOADBOT", "ADDSUBTOP", "ADDSUBBOT", "OHOLDTOP",
               "OHOLDBOT", "CI")
    pins = [f".{name}(r[{chance.randrange(64)}])" for name in singles]
    pins += [f".{name}(r[{(at := chance.randrange(48)) + 15}:{at}])" for name in "ABCD"]
    pins += [f".{name}(!warm)" for name in ("IRSTTOP", "IRSTBOT", "ORSTTOP", "ORSTBOT")]
    parameters = ", ".join(f".{name}({value})" for name, value in values.items())
    return [f"wire [31:0] p{n}o; wire p{n}c; wire [32:0] p{n} = {{p{n}c, p{n}o}};",
            f"SB_MAC16 #({parameters}) mac{n} (.CLK(clk), {', '.join(pins)}, .O(p{n}o), .CO(p{n}c));"]


def seen(netlist: Path, folder: Path, cache: Path) -> list[int]:
    """What the LEDs show from time to time."""
    compiled = compile_board(netlist_design(read_netlist(netlist, "ice40")), folder=folder, cache=cache, jobs=2)
    found = []
    with SimulatedBoard(compiled, line=UartLine(100)) as board:
        board.wait(b"", 2 * WARM)
        for _ in range(LOOKS):
            board.wait(b"", BETWEEN)
            found.append(board.facts.leds)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("device", ["up5k", "hx8k"])
def test_all_cells_are_read_back(device: str, tmp_path: Path, cache: Path) -> None:
    need("ice40")
    try:
        find_database({"up5k": "5k", "hx8k": "8k"}[device])
    except MissingTool as error:
        pytest.skip(str(error))
    package, pins = PINS[device]
    given, bitstream = pack(top(device), device, package, pins, tmp_path)
    module = read_back(device, package, bitstream).module(pins)
    back = tmp_path / "back.json"
    back.write_text(json.dumps({"modules": {"top": module}}))
    require_same_kinds(json.loads(given.read_text())["modules"]["top"]["cells"], module["cells"])
    looks = seen(given, tmp_path / "given", cache)
    assert len(set(looks)) > LOOKS // 2
    assert seen(back, tmp_path / "back", cache) == looks


def require_same_kinds(given, found) -> None:
    """As many of each kind, but for tables and carries, which place and route makes more of."""
    more = ("SB_LUT4", "SB_CARRY", "SB_GB")
    counts = [Counter(cell["type"] for cell in cells.values() if cell["type"] not in more) for cells in (given, found)]
    assert {kind: count for kind, count in counts[0].items() if not kind.startswith("$")} == counts[1]
