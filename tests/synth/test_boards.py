"""Board files: those that come with hwflow, a user's own, and every way in which one can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_base.errors import HwflowError
from hwflow_rtl.io.transports.uart import SHORTEST
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import ECP5, ICE40, Gowin, Resources

from hwflow.synth import boards as boards_module
from hwflow.synth.board_ports import constraints
from hwflow.synth.boards import Board, Programmer, boards_folder, list_boards, load_board
from hwflow.synth.top import board_top
from hwflow.synth.transports import Pin
from tests.synth.board_files import complaints, content, refusal, written


def test_the_boards_that_come_with_hwflow() -> None:
    assert set(list_boards()) == {
        "colorlight_i5", "colorlight_i9", "ecpix5_45f", "ecpix5_85f", "ice40hx8k", "icebreaker", "icesugar",
        "orangecrab_25f", "orangecrab_85f", "tangnano20k", "tangnano9k", "tangprimer20k", "ulx3s_12f", "ulx3s_25f",
        "ulx3s_45f", "ulx3s_85f", "upduino3"}


@pytest.mark.parametrize("name", list_boards())
def test_every_board_is_complete(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert board.technology().name == board.family
    assert board.source
    assert len(board.leds) >= 1
    assert board.programmer is not None
    fast = board.technology().pll_settings(board.clock_mhz, 100)
    assert fast is not None
    assert 95 < fast.output_mhz <= 100
    assert board_top(EchoOf(), board, identity=bytes(8)).transport.time >= SHORTEST


class EchoOf(wiring.Component):
    """Stands for a core where only the clock is looked at."""

    def __init__(self):
        super().__init__({"i": In(stream_of(8, 1)), "o": Out(stream_of(8, 1))})


def test_what_a_board_says() -> None:
    board = load_board("tangnano9k")
    assert board == Board(
        name="tangnano9k", title="Sipeed Tang Nano 9K, Gowin GW1NR-9", family="gowin", device="GW1NR-LV9QN88PC6/I5",
        package="QN88P", speed="C6/I5", chip="GW1N-9C", clock=Pin("52", "LVCMOS33"), clock_mhz=27.0,
        pll_pad=False, reset=Pin("4", "LVCMOS18", "up"), reset_active_low=True,
        transports=board.transports, chosen="uart",
        leds=tuple(Pin(pin, "LVCMOS18") for pin in ("10", "11", "13", "14", "15", "16")),
        leds_active_low=True, resources=Resources(lut=8640, ff=6480, dsp=40, ram=26),
        programmer=Programmer("openFPGALoader", ("--board", "tangnano9k")), source=board.source, path=board.path,
        memories=board.memories)


def test_the_ways_to_a_board() -> None:
    board = load_board("tangnano9k")
    assert dict(board.transport.ports()) == {"rx": Pin("18", "LVCMOS33"), "tx": Pin("17", "LVCMOS33")}
    assert board.transport.facts().facts() == {"kind": "uart", "bytes_per_second": 300_000.0, "baud": 1_000_000,
                                               "fastest": 3_000_000, "clock_hz": 27_000_000}
    assert load_board("icesugar").transport.facts().facts() == {"kind": "uart", "bytes_per_second": 11520.0,
                                                                "baud": 115200}
    assert board.with_transport(None) is board.with_transport("uart") is board
    with pytest.raises(HwflowError, match=r"transport must be one that tangnano9k has, uart.*, not telex; leave"):
        board.with_transport("telex")


def test_each_family_has_its_technology() -> None:
    kinds = {name: type(load_board(name).technology()) for name in ("ulx3s_85f", "icebreaker", "tangnano9k")}
    assert kinds == {"ulx3s_85f": ECP5, "icebreaker": ICE40, "tangnano9k": Gowin}


def test_devices_of_one_family_differ() -> None:
    assert load_board("icebreaker").technology().clock_at_pll_pad
    assert not load_board("upduino3").technology().clock_at_pll_pad
    assert load_board("tangprimer20k").technology().chip == "GW2A-18C"
    byte = Shape(8, signed=True)
    assert MultiplierStyle.BLOCKS in load_board("icebreaker").technology().styles(byte, byte)
    assert load_board("ice40hx8k").technology().styles(byte, byte) == (MultiplierStyle.LOGIC,)


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    mine = content() | {"title": "mine", "device": "LFE5U-25F"}
    del mine["reset"], mine["programmer"]
    board = load_board(written(tmp_path, mine))
    assert (board.name, board.title, board.reset, board.programmer) == ("mine", "mine", None, None)
    assert board.clock == Pin("G2", "LVCMOS33")


def test_without_the_installed_package_the_checkout_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards_module.importlib.util, "find_spec", lambda name: None)
    folder = boards_folder.__wrapped__()
    assert (folder / "icebreaker.yaml").is_file()


# Refusals


def test_an_unknown_board_lists_those_that_exist() -> None:
    assert refusal("ulx3s_85") == (f"board must be one of {', '.join(list_boards())}, or the path of a YAML file, not "
                                   f"'ulx3s_85'; did you mean ulx3s_85f?")
    assert refusal("zzz") == (f"board must be one of {', '.join(list_boards())}, or the path of a YAML file, not 'zzz'")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert refusal(path) == (f"the board file '{path}' must exist; the boards that come with hwflow are "
                             f"{', '.join(list_boards())}")


def test_broken_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "title: x\nfamily: [ecp5\nclock: 1\n")
    assert refusal(path) == (f"the board file '{path}' must be valid YAML: line 3, column 6: expected ',' or ']', but "
                             f"got ':'")
    path.write_bytes(b"\xff\xfe\x00x")
    assert refusal(path).startswith(f"the board file '{path}' must be ")
    path.write_text("title: \x00")
    assert refusal(path).startswith(f"the board file '{path}' must be valid YAML: ")


@pytest.mark.parametrize(("change", "expected"), [
    ({"colour": "red"}, "key 'colour' must be one of title, family, device, package, speed, chip, io_standard, clock, "
                        "reset, transports, leds, resources, programmer, memories, source"),
    ({"clok": 1}, "key 'clok' must be one of title, family, device, package, speed, chip, io_standard, clock, "
                  "reset, transports, leds, resources, programmer, memories, source; did you mean 'clock'?"),
    ({"family": "ecp6"}, "key 'family' must be one of ecp5, ice40, gowin, not 'ecp6'"),
    ({"speed": 6}, "key 'speed' must be a string, not 6; put it in quotes"),
    ({"clock": {"pin": "G2"}}, "key 'clock.mhz' must be given"),
    ({"clock": {"pin": "G2", "mhz": 0}}, "key 'clock.mhz' must not break this rule: 0 is less than or equal to the "
                                         "minimum of 0"),
    ({"clock": {"pin": "G2", "mhz": float("nan")}}, "key 'clock.mhz' must be a number, not .nan"),
    ({"clock": {"pin": "G2", "mhz": 25, "io_standart": "x"}}, "key 'clock.io_standart' must be one of pin, mhz, "
                                                              "io_standard, pll_pad; did you mean 'io_standard'?"),
    ({"leds": {"pins": ["B2", 3], "active": "high"}}, "key 'leds.pins.1' must be a string, not 3; put it in quotes"),
    ({"reset": {"pin": "R1", "active": "up"}}, "key 'reset.active' must be one of high, low, not 'up'"),
    ({"transports": []}, "key 'transports' must be a mapping of keys, not []"),
    ({"transports": {}}, "key 'transports' must not break this rule: {} should be non-empty"),
    ({"transports": {"uart": []}}, "key 'transports.uart' must be a mapping of keys, not []"),
    ({"transports": {"telex": {}}}, "key 'transports.telex' must be one of uart, spi, udp, usb"),
    ({"uart": {"rx": "M1", "tx": "L4", "baud": 9600}}, "key 'uart' must be inside of 'transports': "
                                                    "'transports: {uart: {rx: ..., tx: ..., baud: ...}}'"),
    ({"resources": {"lut": 1, "ff": 1, "dsp": -1, "ram": 0}},
     "key 'resources.dsp' must not break this rule: -1 is less than the minimum of 0"),
    ({"resources": {"lut": 1, "ff": 1, "dsp": 0, "ram": 0, "spram": 4}},
     "key 'resources.spram' must be given only for device up5k: no other has memories with a single port"),
    ({"family": "ice40", "device": "up5k", "resources": {"lut": 1, "ff": 1, "dsp": 0, "ram": 0, "spram": 5}},
     "key 'resources.spram' must be at most 4, as many as a UP5K has, not 5"),
    ({"resources": {"lut": 1, "ff": 1, "dsp": 0, "ram": 0, "spram": True}},
     "key 'resources.spram' must be an integer, not True"),
    ({"resources": {"lut": 1, "ff": 1, "dsp": 0, "ram": 0, "sram": 4}},
     "key 'resources.sram' must be one of lut, ff, dsp, ram, spram; did you mean 'spram'?"),
    ({"device": "LFE5U-99F"}, "key 'device' must be one of LFE5U-12F, LFE5U-25F, LFE5U-45F, LFE5U-85F, LFE5UM-25F, "
                              "LFE5UM-45F, LFE5UM-85F, LFE5UM5G-25F, LFE5UM5G-45F, LFE5UM5G-85F, not 'LFE5U-99F'"),
    ({"clock": {"pin": "G2", "mhz": 25, "pll_pad": True}}, "key 'clock.pll_pad' must be given only for family ice40: "
                                                           "no other PLL takes a pad for itself"),
    ({"programmer": {"tool": "rm"}},
     "key 'programmer.tool' must be one of openFPGALoader, iceprog, icesprog, not 'rm'"),
    ({"programmer": {"tool": "iceprog", "arguments": ["../x"]}},
     "key 'programmer.arguments.0' must not break this rule: '../x' does not match '^[A-Za-z0-9_+.:-]+\\\\Z'"),
    ({"programmer": {"tool": "iceprog", "memory": ["ram"]}},
     "key 'programmer.memory.0' must be one of sram, flash, not 'ram'"),
    ({"io_standard": "LVCMOS33\n"}, "key 'io_standard' must not break this rule: 'LVCMOS33\\n' does not match "
                                    "'^[A-Za-z0-9][A-Za-z0-9_/-]*\\\\Z'"),
    ({"package": "--x"}, "key 'package' must not break this rule: '--x' does not match "
                         "'^[A-Za-z0-9][A-Za-z0-9_/-]*\\\\Z'"),
    ({"family": "gowin", "chip": "GW5A-25A"}, "key 'chip' must be one of GW1N-9C, GW2A-18, GW2A-18C, not 'GW5A-25A'"),
    ({"transports": {"uart": {"rx": "G2", "tx": "L4", "baud": 115200}}}, "pin G2 must be used once, not 2 times"),
    ({"family": "gowin"}, "key 'chip' must be given"),
])
def test_one_fault(tmp_path: Path, change: dict, expected: str) -> None:
    assert complaints(tmp_path, content() | change) == [expected]


def test_counts_are_whole_numbers(tmp_path: Path) -> None:
    board = load_board(written(tmp_path, content() | {"resources": {"lut": 100.0, "ff": 10, "dsp": 2.0, "ram": 1}}))
    assert str(board.resources) == "Resources(lut=100, ff=10, dsp=2, ram=1, spram=0)"


def test_missing_keys_are_all_named_at_once(tmp_path: Path) -> None:
    data = content()
    del data["source"], data["clock"]["mhz"], data["speed"]
    assert sorted(complaints(tmp_path, data)) == [
        "key 'clock.mhz' must be given", "key 'source' must be given", "key 'speed' must be given"]


def test_a_file_without_keys(tmp_path: Path) -> None:
    assert complaints(tmp_path, "- a\n- b\n") == ["the file must be a mapping of keys, not ['a', 'b']"]


def test_a_baud_rate_that_the_clock_cannot_give(tmp_path: Path) -> None:
    path = written(tmp_path, content() | {"transports": {"uart": {"rx": "M1", "tx": "L4", "baud": 9_000_000}}})
    with pytest.raises(HwflowError, match=r"mine.yaml': key 'transports.uart': baud rate must be .* not 9000000"):
        board_top(EchoOf(), load_board(path), identity=bytes(8))


# Constraint files


@pytest.mark.parametrize(("name", "suffix", "lines"), [
    ("ulx3s_85f", "lpf", [
        'LOCATE COMP "clk" SITE "G2";', 'IOBUF PORT "clk" IO_TYPE=LVCMOS33;',
        'LOCATE COMP "rx" SITE "M1";', 'IOBUF PORT "rx" IO_TYPE=LVCMOS33;',
        'LOCATE COMP "tx" SITE "L4";', 'IOBUF PORT "tx" IO_TYPE=LVCMOS33;',
        'LOCATE COMP "rst" SITE "R1";', 'IOBUF PORT "rst" IO_TYPE=LVCMOS33 PULLMODE=DOWN;',
        'LOCATE COMP "led[0]" SITE "B2";', 'IOBUF PORT "led[0]" IO_TYPE=LVCMOS33;',
        'LOCATE COMP "led[1]" SITE "C2";', 'IOBUF PORT "led[1]" IO_TYPE=LVCMOS33;', 'FREQUENCY PORT "clk" 25 MHZ;']),
    ("icebreaker", "pcf", [
        "set_io clk 35", "set_io rx 6", "set_io tx 9", "set_io -pullup yes rst 10", "set_io led[0] 37",
        "set_io led[1] 11", "set_frequency clk 12"]),
    ("tangnano9k", "cst", [
        'IO_LOC "clk" 52;', 'IO_PORT "clk" IO_TYPE=LVCMOS33;', 'IO_LOC "rx" 18;', 'IO_PORT "rx" IO_TYPE=LVCMOS33;',
        'IO_LOC "tx" 17;', 'IO_PORT "tx" IO_TYPE=LVCMOS33;', 'IO_LOC "rst" 4;',
        'IO_PORT "rst" IO_TYPE=LVCMOS18 PULL_MODE=UP;', 'IO_LOC "led[0]" 10;', 'IO_PORT "led[0]" IO_TYPE=LVCMOS18;',
        'IO_LOC "led[1]" 11;', 'IO_PORT "led[1]" IO_TYPE=LVCMOS18;']),
])
def test_pins_in_each_familys_own_file(name: str, suffix: str, lines: list[str]) -> None:
    assert constraints(load_board(name), leds=2) == (suffix, "".join(f"{line}\n" for line in lines))
