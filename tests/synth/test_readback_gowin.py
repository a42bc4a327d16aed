"""Bitstreams of Gowin read back: a small routed design, and what is said of files and bits that are wrong.

The file in `recorded` is the small design of `tests/sim/small_board.py` on a tangnano9k, seed 1.
"""

from __future__ import annotations

import importlib
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError, MissingTool

from hwflow.synth import load_board, synthesize
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.gowin.readback import reader
from hwflow.synth.families.gowin.readback.chip import Chip, read_chip
from hwflow.synth.families.gowin.readback.frames import Frames, read_frames, written
from hwflow.synth.families.gowin.readback.memory import places
from hwflow.synth.families.gowin.readback.tiles import read_tiles
from hwflow.synth.readback import Fabric
from hwflow.synth.readback.of_board import pads_of, require_pads
from hwflow.synth.top import CoreOnBoard
from hwflow.synth.yosys_json import Module
from tests.sim.small_board import IDENTITY, answers, small_core
from tests.sim.test_netlist import DATA, compiled_netlist, played
from tests.synth.conftest import need

RECORDED = Path(__file__).with_name("recorded") / "tangnano9k.fs.xz"
BOARD = load_board("tangnano9k")


@dataclass(frozen=True)
class Recorded:
    """The recorded bitstream, and the same with other bits."""

    path: Path
    chip: Chip
    frames: Frames

    def spot(self, row: int, column: int, spot: Iterable[int]) -> tuple[int, int]:
        """The place in the bitmap of a bit of a tile."""
        rows, columns = self.chip.offsets
        y, x = spot
        return rows[row] + y, columns[column] + x

    def flipped(self, *spots: tuple[int, int], contents: bool = False) -> Frames:
        main, block = self.frames.main.copy(), self.frames.contents.copy()
        for spot in spots:
            (block if contents else main)[spot] ^= 1
        return Frames(main, block)

    def fabric(self, frames: Frames) -> Fabric:
        return reader.read_bits(self.chip, frames, BOARD.device, self.path)

    def slice(self, row: int, column: int, number: int, *key: tuple[str, str]) -> tuple[int, int]:
        """The bit of a setting of a slice; "-" before the name of a default."""
        codes = [self.chip.attribute("SLICE", name.lstrip("-"), value) * (-1 if name[0] == "-" else 1)
                 for name, value in key]
        table = self.chip.db.shortval[self.chip.db.grid[row][column]][f"CLS{number}"]
        (spot,) = table[tuple(codes + [0] * (2 - len(codes)))]
        return self.spot(row, column, spot)

    def entry(self, row: int, column: int, table: int, entry: int) -> tuple[int, int]:
        """The bit of an entry of a table."""
        (spot,) = self.chip.db[row, column].bels[f"LUT{table}"].flags[entry]
        return self.spot(row, column, spot)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    try:
        chip = read_chip(str(BOARD.chip))
    except MissingTool as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("recorded") / "top.fs"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return Recorded(path, chip, read_frames(path, chip.layout))


@pytest.fixture(scope="module")
def module(recorded: Recorded) -> Module:
    """The recorded design."""
    return module_of(FAMILIES["gowin"].read_back(BOARD, recorded.path))


def module_of(fabric: Fabric) -> Module:
    return fabric.module(pads_of(BOARD, None))


def kinds(module: Module) -> dict[str, int]:
    return dict(Counter(cell["type"] for cell in module["cells"].values()))


def place_of(name: str) -> tuple[int, int, str]:
    """Row, column and the rest of the name of a cell: "X4Y9/DFF3"."""
    column, row, rest = re.fullmatch(r"X(\d+)Y(\d+)/(.*)", name).groups()  # type: ignore[union-attr]
    return int(row), int(column), rest


def first(module: Module, kind: str, wanted: Callable[[str], bool] = lambda name: True) -> str:
    return min(name for name, cell in module["cells"].items() if cell["type"] == kind and wanted(name))


def test_the_cells_of_a_design(module: Module) -> None:
    assert kinds(module) == {
        "LUT4": 759, "DFFRE": 394, "ALU16_COUT": 262, "ALU16_SUM": 211, "DFFSE": 114, "DFFE": 99, "MUX2_LUT5": 45,
        "MUX2_LUT6": 4, "MUX2_LUT7": 2, "MUX2_LUT8": 1, "SDPX9B": 4, "MULT9X9": 2, "rPLL": 1}
    (pll,) = (cell for cell in module["cells"].values() if cell["type"] == "rPLL")
    assert {name: int(value, 2) for name, value in pll["parameters"].items()} == {
        "IDIV_SEL": 8, "FBDIV_SEL": 49, "ODIV_SEL": 4}  # 27 MHz / 9 * 50 = 150 MHz
    assert {name: (port["direction"], len(port["bits"])) for name, port in module["ports"].items()} == {
        "clk": ("input", 1), "rx": ("input", 1), "tx": ("output", 1), "rst": ("input", 1), "led": ("output", 3)}


def test_a_file_is_written_as_it_was_read(recorded: Recorded) -> None:
    assert written(recorded.frames, recorded.chip.layout) == recorded.path.read_text()


def lines(text: str, change: Callable[[list[str]], object]) -> str:
    parts = text.splitlines(keepends=True)
    change(parts)
    return "".join(parts)


@pytest.mark.parametrize(("change", "message"), [
    (lambda text: "", "must have its commands and frames, and ends before them: it is cut"),
    (lambda text: "PK\3\4\xff", r"must be a text file of bits \('ascii' codec"),
    (lambda text: "module top;\n", "line 1 of the bitstream must be whole bytes of 0 and 1"),
    (lambda text: text[:2_000_000 - 2_000_000 % 1], r"line \d+ of the bitstream must be"),
    (lambda text: lines(text, lambda parts: parts.__delitem__(slice(700, None))),
     "must have 1224 frames, as it says, not 690: it is cut"),
    (lambda text: lines(text, lambda parts: parts.__delitem__(slice(-3, None))),
     "must end with its commands behind the frames: it is cut"),
    (lambda text: text + "0" * 8 + "\n", "must end after 6 commands behind the frames, not 7"),
    (lambda text: lines(text, lambda parts: parts.__setitem__(100, "0" + parts[100][1:])),
     "the CRC of line 101 of the bitstream must be .*: it is damaged"),
    (lambda text: lines(text, lambda parts: parts.__setitem__(-5, parts[-5][:-2] + "01"[parts[-5][-2] == "0"] + "\n")),
     "the checksum must be 0a.*, not 0a"),
    (lambda text: lines(text, lambda parts: parts.__setitem__(4, parts[4][:50] + "1" + parts[4][51:])),
     "a command before the frames must be 1000000000ae0000, not 1000000000ae2000"),
    (lambda text: lines(text, lambda parts: parts.__setitem__(3, f"{0x060000000000081b:064b}\n")),
     "must be one of a GW1N-9C, whose number is 1100481b, not 0000081b"),
    (lambda text: lines(text, lambda parts: parts.__setitem__(9, f"{0x3b800001:032b}\n")),
     "must have 712 frames, or 1224 with contents of block RAMs, not 1"),
])
def test_files_that_are_no_bitstreams(change: Callable[[str], str], message: str, recorded: Recorded,
                                      tmp_path: Path) -> None:
    path = tmp_path / "top.fs"
    path.write_text(change(recorded.path.read_text()), encoding="latin-1")
    with pytest.raises(HwflowError, match=message) as caught:
        FAMILIES["gowin"].read_back(BOARD, path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=r"must be a text file of bits .*No such file"):
        FAMILIES["gowin"].read_back(BOARD, tmp_path / "none.fs")


def test_a_database_that_is_missing(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(f"no {name}")))
    read_chip.cache_clear()
    with pytest.raises(MissingTool, match=r"the database of the GW1N-9C must be installed: a part of the Python "
                                          r"package apycula \(no apycula.chipdb\)") as caught:
        FAMILIES["gowin"].read_back(BOARD, recorded.path)
    assert caught.value.exit_code == 2


PROBLEMS: dict[str, tuple[Callable[[Recorded, Module], tuple[int, int]], str]] = {
    "a table in an unused tile": (lambda r, m: r.entry(*unused_tile(r), 3, 7),
                                  r"table 3 is set \(ff7f\), and nothing takes its output"),
    "a latch": (lambda r, m: r.slice(*flip_flop(m), ("REGMODE", "LATCH")), "is set, and no setting of this tile has"),
    "an inverted reset": (lambda r, m: r.slice(*flip_flop(m, "DFFRE"), ("LSR_MUX_LSR", "INV")),
                          r"the reset of slice \d is inverted"),
    "an inverted enable": (lambda r, m: r.slice(*flip_flop(m), ("CEMUX_CE", "INV")), "no setting of this tile has it"),
    "a switch in an unused tile": (lambda r, m: r.spot(*unused_tile(r), next(iter(
        r.chip.db[unused_tile(r)].pips["A0"]["N111"] or [(16, 0)]))), "choose none of its sources|nothing takes it"),
    "a voltage": (lambda r, m: r.spot(0, 0, (11, 5)), "the bits of bank 0 must be those of a voltage"),
    "a pad with hysteresis": (lambda r, m: pad_bit(r, 14, 0, "HYSTERESIS"),
                              "its bits must be those of a pad that gowin_pack makes"),
    "a clock divider": (lambda r, m: r.spot(9, 3, (25, 22)), "of the PLL must be set"),
    "a pin that is another's": (lambda r, m: r.spot(0, 0, (3, 25)), "no setting of this tile has it"),
    "no global reset": (lambda r, m: r.spot(0, 0, (3, 7)), "the chip's CFG is not what every design has"),
    "a constant": (lambda r, m: constant(r), "must be set: every bitstream has it"),
    "a memory that is off": (lambda r, m: memory_bit(r, m, "MODE", "ENABLE"), "no setting of this tile has it"),
    "a memory with another clock": (lambda r, m: memory_bit(r, m, "CLKMUX_CLKB", "INV"), "no setting of this tile"),
    "half an output register": (lambda r, m: memory_bit(r, m, "SDPA_REGMODE", "OUTREG"),
                                "must have an output register at both ports or at none"),
    "an operand from a neighbour": (lambda r, m: multiplier_bit(r, m, "AIRMUX1_{}", "ENABLE"), "no setting of this"),
    "half a register": (lambda r, m: multiplier_bit(r, m, "IRBY_IREG0AL_0", "ENABLE"), "must be used or not"),
    "two clocks": (lambda r, m: multiplier_bit(r, m, "CELMUX_REGP0", "CEIN1"), "one clock, enable and reset|driver"),
}


def unused_tile(recorded: Recorded) -> tuple[int, int]:
    """A tile of logic without any bit."""
    return next(place for place, tile in sorted(read_tiles(recorded.chip, recorded.frames.main).items())
                if not tile.bits and "LUT0" in tile.data.bels)


def flip_flop(module: Module, kind: str = "DFFE") -> tuple[int, int, int]:
    """Row, column and slice of one."""
    row, column, name = place_of(first(module, kind))
    return row, column, int(name[3:]) // 2


def pad_bit(recorded: Recorded, row: int, column: int, attribute: str) -> tuple[int, int]:
    """A bit of the first pad of a tile that some value of an attribute has."""
    ids = recorded.chip.ids.iob_attrids[attribute]
    codes = {code for (number, _), code in recorded.chip.db.logicinfo["IOB"].items() if number == ids}
    table = recorded.chip.db.longval[recorded.chip.db.grid[row][column]]["IOBA"]
    spots = next(spots for key, spots in table.items() if codes & set(key) and spots)
    return recorded.spot(row, column, sorted(map(tuple, spots))[0])


def constant(recorded: Recorded) -> tuple[int, int]:
    db = recorded.chip.db
    row, column = next((row, column) for row in range(db.rows) for column in range(db.cols)
                       if db.const.get(db.grid[row][column]))
    return recorded.spot(row, column, db.const[db.grid[row][column]][0])


def table_bit(recorded: Recorded, row: int, column: int, tiles: int, name: str, code: int) -> tuple[int, int]:
    """The first bit of an attribute of a cell of several tiles."""
    db = recorded.chip.db
    for k in range(tiles):
        table = db.shortval[db.grid[row][column + k]].get(name, {})
        if spots := table.get((code, 0)):
            return recorded.spot(row, column + k, sorted(map(tuple, spots))[0])
    raise AssertionError(name)


def memory_bit(recorded: Recorded, module: Module, attribute: str, value: str) -> tuple[int, int]:
    row, column, _ = place_of(first(module, "SDPX9B"))
    return table_bit(recorded, row, column, 3, "BSRAM_SDP", recorded.chip.attribute("BSRAM", attribute, value))


def multiplier_bit(recorded: Recorded, module: Module, attribute: str, value: str) -> tuple[int, int]:
    row, column, name = place_of(first(module, "MULT9X9"))
    macro, pair = int(name[-2]), int(name[-1]) // 2
    attribute = attribute.format(pair)
    return table_bit(recorded, row, column, 9, f"DSP{macro}", recorded.chip.attribute("DSP", attribute, value))


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", PROBLEMS)
def test_bits_that_no_design_may_have(name: str, recorded: Recorded, module: Module) -> None:
    place, message = PROBLEMS[name]
    with pytest.raises(HwflowError, match=message):
        module_of(recorded.fabric(recorded.flipped(place(recorded, module))))


def table_entry(recorded: Recorded, module: Module) -> tuple[int, int]:
    row, column, name = place_of(first(module, "LUT4"))
    return recorded.entry(row, column, int(name[-1]), 0)


def set_or_reset(recorded: Recorded, module: Module) -> tuple[int, int]:
    row, column, name = place_of(first(module, "DFFRE"))
    return recorded.slice(row, column, int(name[3:]) // 2, (f"REG{int(name[3:]) % 2}_REGSET", "RESET"))


def falling(recorded: Recorded, module: Module) -> tuple[int, int]:
    """The clock of a slice of which one flip-flop is used."""
    alone = [name for name in module["cells"] if "/DFF" in name
             and f"{name[:-1]}{int(name[-1]) ^ 1}" not in module["cells"]]
    row, column, name = place_of(min(alone))
    return recorded.slice(row, column, int(name[3:]) // 2, ("REGMODE", "FF"), ("CLKMUX_CLK", "INV"))


def content(recorded: Recorded, module: Module) -> tuple[int, int]:
    row, column, _ = place_of(first(module, "SDPX9B"))
    return tuple(int(at[5, 3]) for at in places(recorded.chip, read_tiles(recorded.chip, recorded.frames.main)[
        row, column]))  # type: ignore[return-value]


DIFFERENT: dict[str, tuple[Callable[[Recorded, Module], tuple[int, int]], set[str]]] = {
    "table": (table_entry, {"INIT"}), "reset": (set_or_reset, {"INIT", "type"}), "edge": (falling, {"type"}),
    "contents": (content, {"INIT_RAM_00"}),
    "divider": (lambda r, m: r.spot(9, 1, (25, 9)), {"IDIV_SEL"}),
    "write enables": (lambda r, m: memory_bit(r, m, "CSA_0", "SET"), {"BLK_SEL_0"})}


@pytest.mark.parametrize("name", DIFFERENT)
def test_bits_that_make_another_design(name: str, recorded: Recorded, module: Module) -> None:
    """One cell is another, in one thing, and nothing else."""
    place, expected = DIFFERENT[name]
    after = module_of(recorded.fabric(recorded.flipped(place(recorded, module), contents=name == "contents")))
    assert after["ports"] == module["ports"]
    (changed,) = [cell for cell in module["cells"] if module["cells"][cell] != after["cells"][cell]]
    one, other = module["cells"][changed], after["cells"][changed]
    assert {key for key, value in one["parameters"].items() if other["parameters"][key] != value} | (
        {"type"} if one["type"] != other["type"] else set()) == expected


def test_two_pads_in_place_of_each_other(recorded: Recorded, module: Module) -> None:
    """The ports are on the pads of the board, so their cells are not."""
    assert module["ports"]["tx"] != module["ports"]["rx"]
    swapped = recorded.fabric(recorded.frames).module({**pads_of(BOARD, None), "rx": ["17"], "tx": ["18"]})
    assert swapped["ports"]["tx"]["direction"] == "input"


def test_pads_of_another_io_standard(recorded: Recorded) -> None:
    """Lights are outputs in a bank of 1.8 V; nothing in the bits of an input tells standards apart."""
    fabric = recorded.fabric(recorded.frames)
    require_pads(fabric, BOARD, None)
    assert not fabric.problems
    lights = tuple(replace(pin, io_standard="LVCMOS33") for pin in BOARD.leds)
    require_pads(fabric, replace(BOARD, leds=lights), None)
    assert "pad 10: its I/O standard must be 'LVCMOS33', as the board file has it, not LVCMOS18" in fabric.problems


def with_table(recorded: Recorded, row: int, column: int, number: int, table: int) -> Frames:
    main = recorded.frames.main.copy()
    for entry in range(16):
        main[recorded.entry(row, column, number, entry)] = 1 - (table >> entry & 1)
    return Frames(main, recorded.frames.contents)


#: An adapter of nextpnr to 0.11.1, for a carry from logic, and the one that is right.  Their first input has no wire
#: here, so what they give is the carry of the cell before, which is no part of the design; or 0.
DEFECTIVE, RIGHT = 0x505a, 0x000a


def heads(module: Module) -> list[tuple[int, int]]:
    """Row and column of each first cell of a chain that does not take the carry of the tile to its left."""
    return [place_of(name)[:2] for name, cell in sorted(module["cells"].items())
            if name.endswith("/ALU0_COUT") and cell["connections"]["CIN"] == ["0"]]


def test_the_head_of_a_chain_takes_the_carry_before_it(recorded: Recorded, module: Module) -> None:
    """nextpnr issue 1799: with this table the carry in front of a chain comes in, from a tile of another part."""
    row, column = next(place for place in heads(module) if place[1] > 3)
    name = f"X{column}Y{row}/ALU0_COUT"
    fabric = recorded.fabric(with_table(recorded, row, column, 0, DEFECTIVE))
    assert fabric.cells[name].pins["CIN"] == [f"X{column}Y{row}/CIN0"]
    assert f"X{column - 1}Y{row}/ALU5_COUT" in fabric.cells
    right = recorded.fabric(with_table(recorded, row, column, 0, RIGHT))
    assert right.cells[name].pins["CIN"] == ["0"]


def test_a_carry_from_beyond_the_rim(recorded: Recorded, module: Module) -> None:
    """In the first column nothing stands before a chain, and what comes in is not known."""
    row, column = next(place for place in heads(module) if place[1] == 1)
    with pytest.raises(HwflowError, match=f"X1Y{row}: X1Y{row}/CIN0 must have a driver"):
        module_of(recorded.fabric(with_table(recorded, row, column, 0, DEFECTIVE)))


OTHERS: list[tuple[str, str, dict[str, int]]] = [
    ("tangnano20k_sdram.fs.xz", "tangnano20k", {"IOBUF": 32, "RAM16SDP1": 64, "SDPX9B": 2, "DFFNE": 32, "MUX2_LUT8": 12,
                                                "rPLL": 0}),
    ("tangnano9k_flash.fs.xz", "tangnano9k", {"FLASH608K": 1, "INV": 76, "DFFRE": 33, "SDPX9B": 0}),
]


@pytest.mark.parametrize(("file", "board", "wanted"), OTHERS)
def test_the_cells_of_other_designs(file: str, board: str, wanted: dict[str, int], tmp_path: Path) -> None:
    """A controller of the SDRAM of a tangnano20k with numbers in it, and one of the flash inside of a tangnano9k, as
    `test_memory_routes.py` routes them."""
    fpga, path = load_board(board), tmp_path / "top.fs"
    path.write_bytes(lzma.decompress((RECORDED.parent / file).read_bytes()))
    try:
        fabric = FAMILIES["gowin"].read_back(fpga, path)
    except MissingTool as error:
        pytest.skip(str(error))
    module = fabric.module({f"p{pad}": [pad] for pad in fabric.pads})
    found = kinds(module)
    assert {kind: found.get(kind, 0) for kind in wanted} == wanted
    assert Counter(port["direction"] for port in module["ports"].values())["inout"] == wanted.get("IOBUF", 0)

@pytest.mark.slow
def test_a_defective_head_answers_wrong(recorded: Recorded, tmp_path: Path, cache: Path) -> None:
    """The carry of another part of the design comes into a counter; every simulation above the bitstream is right."""
    module = module_of(recorded.fabric(with_table(recorded, 1, 10, 0, DEFECTIVE)))
    assert answer(module, tmp_path, cache) != answers(DATA)


@pytest.mark.slow
def test_a_fresh_bitstream_answers_through_its_pins(tmp_path: Path, cache: Path) -> None:
    """Routed, packed, read back, simulated."""
    need("gowin")
    synthesize(CoreOnBoard(small_core(BOARD.technology()), BOARD, identity=IDENTITY), tmp_path)
    module = module_of(FAMILIES["gowin"].read_back(BOARD, tmp_path / "bitstream" / "top.fs"))
    require_all_cells(module, json.loads((tmp_path / "layout" / "layout.json").read_text())["modules"]["top"])
    assert answer(module, tmp_path, cache) == answers(DATA)


def answer(module: Module, folder: Path, cache: Path) -> bytes:
    netlist = folder / "back.json"
    netlist.write_text(json.dumps({"modules": {"top": module}}))
    return played(compiled_netlist(netlist, BOARD, folder / "run", cache), BOARD)


def require_all_cells(module: Module, routed: Module) -> None:
    """Each table, adder, flip-flop and block is where nextpnr put one; adders that fill a pair up are left out."""
    placed = {cell["attributes"]["NEXTPNR_BEL"]: (name, cell["type"]) for name, cell in routed["cells"].items()
              if "NEXTPNR_BEL" in cell["attributes"]}
    for kind in ("LUT", "DFF", "ALU", "MUX", "BSRAM", "MULT9X9"):
        ours = {name.partition("_")[0] for name in module["cells"] if f"/{kind}" in name}
        theirs = {bel for bel, (name, _) in placed.items() if f"/{kind}" in bel and not name.endswith("_DUMMY_ALULC")}
        assert ours == theirs | {name for name in ours - theirs if kind == "LUT" and passes(module, name)}, kind


def passes(module: Module, name: str) -> bool:
    """Whether a table hands one of its inputs on, as the packer puts one before a flip-flop that has none."""
    return int(module["cells"][name]["parameters"]["INIT"], 2) in (0xAAAA, 0xCCCC, 0xF0F0, 0xFF00)
