"""Bitstreams of iCE40 read back: a small routed design, and what is said of files and bits that are wrong.

The file in `recorded` is the small design of `tests/sim/small_board.py` on an icebreaker, seed 1.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError, MissingTool

from hwflow.synth import load_board, synthesize
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.ice40.readback.database import FOLDERS, database_status, find_database
from hwflow.synth.families.ice40.readback.file import read_image
from hwflow.synth.families.ice40.readback.reader import read_back
from hwflow.synth.readback import Fabric
from hwflow.synth.readback.of_board import pads_of, require_pads
from hwflow.synth.toolchain import find_tool
from hwflow.synth.top import CoreOnBoard
from hwflow.synth.yosys_json import Module
from tests.sim.small_board import IDENTITY, answers, small_core
from tests.sim.test_netlist import DATA, compiled_netlist, played
from tests.synth.bit_places import BankBit, Changer, checked, tiles_of_text
from tests.synth.conftest import need

RECORDED = Path(__file__).with_name("recorded") / "icebreaker.bin.xz"
BOARD = load_board("icebreaker")


@pytest.fixture(scope="module")
def changer(tmp_path_factory: pytest.TempPathFactory) -> Changer:
    try:
        find_database("5k")
    except MissingTool as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("recorded") / "top.bin"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return Changer(path, "up5k")


def module_of(fabric: Fabric) -> Module:
    return fabric.module(pads_of(BOARD, None))


def of_bytes(data: bytes, folder: Path) -> Fabric:
    path = folder / "top.bin"
    path.write_bytes(data)
    return FAMILIES["ice40"].read_back(BOARD, path)


def kinds(module: Module) -> dict[str, int]:
    return dict(Counter(cell["type"] for cell in module["cells"].values()))


def test_the_cells_of_a_design(changer: Changer) -> None:
    module = module_of(FAMILIES["ice40"].read_back(BOARD, changer.path))
    assert kinds(module) == {
        "SB_LUT4": 1000, "SB_CARRY": 215, "SB_DFF": 106, "SB_DFFE": 25, "SB_DFFSR": 202, "SB_DFFESR": 278,
        "SB_DFFESS": 7, "SB_RAM40_4K": 6, "SB_MAC16": 1, "SB_GB": 3, "SB_PLL40_2_PAD": 1}
    pll = module["cells"]["pll_12_31"]
    assert {name: int(pll["parameters"][name], 2) for name in ("DIVR", "DIVF", "DIVQ", "FILTER_RANGE")} == {
        "DIVR": 0, "DIVF": 51, "DIVQ": 3, "FILTER_RANGE": 1}  # 78 MHz
    assert {name: (port["direction"], len(port["bits"])) for name, port in module["ports"].items()} == {
        "clk": ("input", 1), "rx": ("input", 1), "tx": ("output", 1), "rst": ("input", 1), "led": ("output", 2)}


@pytest.mark.parametrize(("change", "message"), [
    (lambda data: b"", "must be one of an iCE40, with the bytes 7EAA997E near its start"),
    (lambda data: b"PK\3\4" + bytes(3000), "must be one of an iCE40, with the bytes 7EAA997E near its start"),
    (lambda data: data[:50_000], "must be whole, not end after 50000 bytes within its commands"),
    (lambda data: data[:-1] + bytes(4) + b"more", "must end after 104089 bytes, where it starts the device"),
    (lambda data: data + bytes(1 << 20), "must have at most 1048576 bytes"),
    (lambda data: data[:30_000] + bytes([data[30_000] ^ 4]) + data[30_001:], "must have the checksum of its bits: it is"
                                                                               " damaged"),
    (lambda data: data.replace(b"\x22", b"\xB2", 1) if data.index(b"\x22") else data, "must have"),
    (lambda data: data[:8] + b"\x31\x00" + data[8:], r"must have known commands, not 31 0 at byte 8"),
    (lambda data: data[:8] + b"\x01\x03" + data[8:], r"must load whole bytes, not 0 rows of 0 bits \(byte 10\)"),
    (lambda data: data[:12] + b"\x01\x06\x00", "must have a checksum before it starts the device"),
])
def test_files_that_are_no_bitstreams(change: Callable[[bytes], bytes], message: str, changer: Changer,
                                      tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=message) as caught:
        of_bytes(change(changer.data), tmp_path)
    assert caught.value.exit_code == 2
    assert str(tmp_path / "top.bin") in str(caught.value)


def test_a_bitstream_of_another_device(changer: Changer) -> None:
    with pytest.raises(HwflowError, match="the bitstream must be one of the board's hx8k, not of up5k"):
        read_back("hx8k", "ct256", changer.path)


def test_a_package_that_the_device_does_not_have(changer: Changer) -> None:
    with pytest.raises(HwflowError, match="package must be one of the chip database, sg48, uwg30, not ct256"):
        read_back("up5k", "ct256", changer.path)


def test_any_bytes_are_a_bitstream_or_an_error(changer: Changer, tmp_path: Path) -> None:
    """Commands and lengths by chance: never another error, and never other bits that are taken."""
    chance = random.Random(3)
    for _ in range(300):
        data = bytearray(changer.data)
        for _ in range(chance.randrange(1, 4)):
            at = chance.choice((chance.randrange(4, 40), chance.randrange(58_140, 58_160), chance.randrange(len(data))))
            data[at:at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        (tmp_path / "any.bin").write_bytes(data)
        with contextlib.suppress(HwflowError):
            image = read_image(tmp_path / "any.bin", "up5k")
            assert all((image.cells[bank] == changer.image.cells[bank]).all() for bank in image.cells)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=r"must be a file that can be read \(No such file or directory\)"):
        FAMILIES["ice40"].read_back(BOARD, tmp_path / "none.bin")


def test_a_database_that_is_missing(changer: Changer, tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=re.escape(
            "chipdb-5k.txt, the chip database of Project IceStorm, must be installed to read iCE40 bitstreams back: "
            "apt install fpga-icestorm-chipdb, or put chipdb-5k.txt and chipdb-8k.txt of Project IceStorm into "
            f"{FOLDERS[0]}")) as caught:
        read_back("up5k", "sg48", changer.path, (tmp_path,))
    assert caught.value.exit_code == 2
    lines = database_status((tmp_path,))
    assert [(line.name, line.found, line.remedy in str(caught.value)) for line in lines] == [
        ("chipdb-5k", False, True), ("chipdb-8k", False, True)]


@pytest.mark.parametrize("text", ["", ".device 5k 26 32 1\n", "\n.net 0\n", "\n.net 0\n1 1 clk\n\n.buffer 1\n1 0\n",
                                  "\n.pins sg48\n1 x\n\n.net 0\n0 1 clk\n\n.buffer 0 1 0 B0[1]\n1 0\n"])
def test_a_database_that_is_damaged(text: str, changer: Changer, tmp_path: Path) -> None:
    (tmp_path / "chipdb-5k.txt").write_text(text)
    with pytest.raises(HwflowError, match="a chip database must be one that Project IceStorm made, and whole"):
        read_back("up5k", "sg48", changer.path, (tmp_path,))


def logic_tile(changer: Changer, want: Callable[[int], bool]) -> tuple[tuple[int, int], int]:
    """The first logic cell whose 20 bits are as wanted, and its number."""
    return next((tile.place, k) for tile in changer.die.tiles.values() if tile.kind == "logic" for k in range(8)
                if want(tile.has(f"LC_{k}")))


def used(bits: int) -> bool:
    """Has a table and a flip-flop, no carry, no set."""
    return bits >> 9 & 1 == 1 and bits >> 8 & 1 == 0 and bits >> 18 == 0 and bits & 0xFF != 0


PROBLEMS: list[tuple[str, Callable[[Changer], BankBit], str]] = [
    ("set without a reset", lambda c: c.setting(*cell_bit(c, lambda bits: bits == 0, 18)),
     "has a mode of set and reset, and no flip-flop with one"),
    ("a table in an unused cell", lambda c: c.setting(*cell_bit(c, lambda bits: bits == 0, 4)),
     r"logic tile .* LC_\d: has a table 0001, and nothing takes its output"),
    ("a flip-flop in an unused cell", lambda c: c.setting(*cell_bit(c, lambda bits: bits == 0, 9)),
     "has a flip-flop, and nothing takes its output"),
    ("a carry behind the end of a chain", lambda c: c.setting((5, 7), "LC_7", 8),
     "logic tile 5,7 LC_7: has a carry, and nothing takes it"),
    ("a switch that connects nothing", lambda c: c.tile_bit((1, 1), 0, 14), r"connects nothing|nothing takes it"),
    ("a bit that is none", lambda c: (0, 335, 690), "pad 13,31,0.*|global wire|is set, and nothing explains it"),
    ("no input", lambda c: c.setting((13, 0), "IoCtrl.IE_0"), "IOB_1: has an input that is taken, and its"),
    ("a pull-up less", lambda c: c.setting((1, 31), "IoCtrl.REN_0"), "IoCtrl.REN_0: is set, and nothing explains"),
    ("another kind of PLL", lambda c: c.setting((12, 31), "PLL.PLLCONFIG_5"), "must|nothing"),
    ("a PLL with a delay", lambda c: c.setting((13, 31), "PLL.PLLCONFIG_1"), "FDA_FEEDBACK must be 0: other settings"),
    ("no buffer of a clock", lambda c: c.setting(*column_buffer(c)),
     r"ColBufCtrl.glb_netwk_\d must be set: tile \d+,\d+ takes the wire"),
    ("a memory that is off", lambda c: c.setting((6, 5), "RamConfig.PowerUp"), "ramb tile 6,5|nothing takes|a driver"),
    ("cascaded memories", lambda c: c.setting((6, 6), "RamCascade.CBIT_4"), "RamCascade.CBIT_4: is set, and nothing"),
    ("an output that stays inside", lambda c: c.setting((0, 16), "LC_0", 4), "its tile does not pass it on|nothing"),
    ("bits in a tile at the side", lambda c: c.setting((25, 14), "LC_3", 2), "LC_3: is set, and nothing explains it"),
    ("an oscillator", lambda c: c.setting((0, 16), "IpConfig.CBIT_5"), "IpConfig.CBIT_5: is set, and nothing explains"),
]


def cell_bit(changer: Changer, want: Callable[[int], bool], bit: int) -> tuple[tuple[int, int], str, int]:
    place, k = logic_tile(changer, want)
    return place, f"LC_{k}", bit


@pytest.mark.parametrize(("bit", "message"), [pytest.param(*case[1:], id=case[0]) for case in PROBLEMS])
def test_bits_that_no_design_may_have(bit: Callable[[Changer], BankBit], message: str, changer: Changer,
                                      tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=message):
        module_of(of_bytes(changer.changed([bit(changer)]), tmp_path))


def test_a_pull_up_that_the_board_does_not_have(changer: Changer, tmp_path: Path) -> None:
    """Pad 10 is a button; its pull-up has two bits on a UP5K."""
    bits = [changer.setting((16, 0), name) for name in ("IoCtrl.REN_1", "IoCtrl.cf_bit_35")]
    fabric = of_bytes(changer.changed(bits), tmp_path)
    require_pads(fabric, BOARD, None)
    assert fabric.problems == ["pad 10: its pull must be 'up', as the board file has it, not 'none'"]


def column_buffer(changer: Changer) -> tuple[tuple[int, int], str]:
    """One that is needed."""
    wire, tiles = next(iter(changer.die.globals.items()))
    return changer.die.database.column_buffers[min(tiles)], f"ColBufCtrl.glb_netwk_{wire[-1]}"


DIFFERENT: dict[str, Callable[[Changer], tuple[str, BankBit]]] = {
    "table": lambda c: ("cells", c.setting(*cell_bit(c, used, 4))),
    "memory": lambda c: ("memory", (0, 40, 33)),
    "write mode": lambda c: ("cells", c.setting((6, 6), "RamConfig.CBIT_1")),
    "multiplier": lambda c: ("cells", c.setting((0, 18), "IpConfig.CBIT_0")),
    "divider": lambda c: ("cells", c.setting((10, 31), "PLL.PLLCONFIG_5")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_bits_that_make_another_design(name: str, changer: Changer, tmp_path: Path) -> None:
    """One parameter of one cell is another, and nothing else."""
    before = module_of(read_back("up5k", "sg48", changer.path))
    kind, bit = DIFFERENT[name](changer)
    after = module_of(of_bytes(changer.changed([bit], kind), tmp_path))
    assert before["ports"] == after["ports"]
    different = [cell for cell in before["cells"] if before["cells"][cell] != after["cells"][cell]]
    assert len(different) == 1
    one, other = (module["cells"][different[0]]["parameters"] for module in (before, after))
    assert [len([None for a, b in zip(one[key], other[key], strict=True) if a != b])
            for key in one if one[key] != other[key]] == [1]


@pytest.mark.slow
def test_a_fresh_bitstream_answers_through_its_pins(tmp_path: Path, cache: Path) -> None:
    """Routed, packed, read back, simulated; and the bits are those that the packer's own program unpacks."""
    need("ice40")
    synthesize(CoreOnBoard(small_core(BOARD.technology()), BOARD, identity=IDENTITY), tmp_path)
    bitstream = tmp_path / "bitstream" / "top.bin"
    module = module_of(FAMILIES["ice40"].read_back(BOARD, bitstream))
    require_all_cells(module, json.loads((tmp_path / "layout" / "routed.json").read_text())["modules"]["top"])
    require_same_bits(bitstream, tmp_path)
    netlist = tmp_path / "back.json"
    netlist.write_text(json.dumps({"modules": {"top": module}}))
    assert played(compiled_netlist(netlist, BOARD, tmp_path / "run", cache), BOARD) == answers(DATA)


def require_all_cells(module: Module, routed: Module) -> None:
    """As many cells of each kind as nextpnr placed."""
    found, cells = kinds(module), list(routed["cells"].values())
    logic = [cell["parameters"] for cell in cells if cell["type"] == "ICESTORM_LC"]
    assert sum(count for kind, count in found.items() if kind.startswith("SB_DFF")) == sum(
        int(parameters["DFF_ENABLE"], 2) for parameters in logic)
    assert found["SB_CARRY"] == sum(int(parameters["CARRY_ENABLE"], 2) for parameters in logic)
    for ours, theirs in (("SB_RAM40_4K", "ICESTORM_RAM"), ("SB_MAC16", "ICESTORM_DSP"),
                         ("SB_PLL40_2_PAD", "ICESTORM_PLL")):
        assert found.get(ours, 0) == sum(cell["type"] == theirs for cell in cells)


def require_same_bits(bitstream: Path, folder: Path) -> None:
    """Every tile and memory is as `icepack -u` has it."""
    changer, tool = Changer(bitstream, "up5k"), find_tool("icepack")
    subprocess.run([*tool.command, "-u", "top.bin", "unpacked.asc"], cwd=bitstream.parent, check=True,
                   capture_output=True)
    tiles, memories = tiles_of_text((bitstream.parent / "unpacked.asc").read_text())
    assert tiles.keys() == changer.die.tiles.keys()
    for place, bits in tiles.items():
        assert (bits == changer.die.tiles[place].bits).all(), place
    for place, lines in memories.items():
        words = changer.die.words_of(place).reshape(16, -1)
        assert [sum(int(bit) << k for k, bit in enumerate(row)) for row in words] == [int(line, 16) for line in lines]
    assert checked(changer.data) == changer.data
