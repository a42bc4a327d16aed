"""The section `memories` of board files: what the boards say, and every way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hwflow_rtl.memory import FlashPart, FlashTiming, SdramPart, SdramTiming
from hwflow_rtl.vendor import ICE40

from hwflow.synth.board_memories import BoardMemory
from hwflow.synth.boards import list_boards, load_board
from tests.synth.board_files import complaints, content, written

HUGE = 10**400  # no float holds it
NAMES = "cke, cs_n, ras_n, cas_n, we_n, ba, a, dq, dqm"


def changed(section: str, board: str = "ulx3s_85f", **values: Any) -> dict[str, Any]:
    """A board file whose memory has other values in `section` ("" is the memory itself); None removes a key."""
    data = content(board)
    memory = data["memories"][0]
    target = memory[section] if section else memory
    target.update(values)
    for name in [name for name, value in values.items() if value is None]:
        del target[name]
    return data


def test_which_boards_have_which() -> None:
    sizes = {name: [str(memory) for memory in load_board(name).memories] for name in list_boards()}
    large = {f"ulx3s_{size}f": ["32 MiB of SDRAM"] for size in (12, 25, 45, 85)}
    small = {name: ["8 MiB of SDRAM"] for name in ("colorlight_i5", "colorlight_i9", "tangnano20k")}
    flash = {"icebreaker": ["16 MiB of flash"], "icesugar": ["8 MiB of flash"], "upduino3": ["4 MiB of flash"],
             "tangnano9k": ["76 KiB of user flash"]}
    assert {name: found for name, found in sizes.items() if found} == large | small | flash


def test_what_a_memory_says() -> None:
    memory, = load_board("colorlight_i9").memories
    timing = SdramTiming(
        t_ck=10, t_rc=60, t_ras=42, t_ras_max=100_000, t_rp=18, t_rcd=18, t_rrd=12, t_rrd_clocks=2, t_rfc=60, t_wr=12,
        t_wr_clocks=2, t_mrd_clocks=2, t_refi=15_625, power_up=200_000, power_up_refreshes=8, cas_latency=2)
    part = SdramPart(name="EM638325-6H", banks=4, rows=2048, columns=256, width=32, clock_mhz=60, timing=timing)
    assert memory == BoardMemory("sdr_sdram", part, memory.pins, "LVCMOS33", memory.source)
    assert memory.pins["clk"] == ("B9",)
    assert memory.pins["ba"] == ("B11", "C8")
    assert set(memory.pins) == {"clk", "ras_n", "cas_n", "we_n", "ba", "a", "dq"}  # the others are tied
    assert memory.facts() == {
        "kind": "sdr_sdram", "part": "EM638325-6H", "bytes": 2**23, "width": 32, "clock_mhz": 60,
        "peak_bytes_per_second": 240e6, "sustained_bytes_per_second": part.sustained_bytes_per_second}


def test_what_a_flash_says() -> None:
    memory, = load_board("icebreaker").memories
    timing = FlashTiming(t_c=9.6, t_slch=5, t_chsh=5, t_shsl=50, t_clqv=7, t_res1=3000)
    part = FlashPart(name="W25Q128JV-DTR", bytes=2**24, offset=2**20, lines=4, command=0xEB, mode=0xA0, dummy_clocks=4,
                     jedec_ids=(0xEF7018,), clock_mhz=48, timing=timing, pads=ICE40.pads.timing)
    assert memory == BoardMemory("qspi_flash", part, memory.pins, "SB_LVCMOS", memory.source)
    assert memory.pins == {"sck": ("15",), "cs_n": ("16",), "io": ("14", "17", "12", "13")}
    assert memory.facts() == {
        "kind": "qspi_flash", "part": "W25Q128JV-DTR", "bytes": 2**24, "width": 32, "clock_mhz": 48,
        "peak_bytes_per_second": 24e6, "sustained_bytes_per_second": 24e6}
    assert load_board("upduino3").memories[0].part.peak_bytes_per_second == 12e6  # two lines
    assert part.setup_margin(48) == pytest.approx(1000 / 48 - 7 - 4.9 - 6.0)
    assert part.hold_margin == 1.7


@pytest.mark.parametrize("name", [name for name in list_boards() if load_board(name).memories])
def test_every_memory_is_complete(name: str) -> None:
    for memory in load_board(name).memories:
        assert memory.source
        assert 0.9 < memory.part.sustained_bytes_per_second / memory.part.peak_bytes_per_second <= 1


@pytest.mark.parametrize(("section", "values", "expected"), [
    ("", {"kind": "ddr3"}, "key 'memories.0.kind' must be one of sdr_sdram, qspi_flash, user_flash, not 'ddr3'"),
    ("", {"part": None}, "key 'memories.0.part' must be given"),
    ("", {"source": None}, "key 'memories.0.source' must be given"),
    ("", {"timing": None}, "key 'memories.0.timing' must be given"),
    ("", {"timing": 3}, "key 'memories.0.timing' must be a mapping of keys, not 3"),
    ("", {"colums": 512}, "key 'memories.0.colums' must be one of kind, part, bytes, banks, rows, columns, width, "
                          "clock_mhz, io_standard, timing, pins, source; did you mean 'columns'?"),
    ("", {"banks": 3}, "key 'memories.0.banks' must be 2 or 4, not 3"),
    ("", {"width": 24}, "key 'memories.0.width' must be 8 or 16 or 32, not 24"),
    ("", {"columns": 500}, "key 'memories.0.columns' must be a power of two from 64 to 1024, not 500"),
    ("", {"rows": 2}, "key 'memories.0.rows' must be a power of two from 64 to 8192, not 2"),
    ("", {"bytes": 67108864}, "key 'memories.0.bytes' must be banks * rows * columns * width / 8 = 33554432, not "
                              "67108864"),
    ("", {"clock_mhz": 0}, "key 'memories.0.clock_mhz' must be a number above 0, not 0.0"),
    ("", {"clock_mhz": 133}, "key 'memories.0.clock_mhz' must be at most 100, which t_ck = 10 ns allows at a CAS "
                             "latency of 2, not 133"),
    ("timing", {"t_refi": None}, "key 'memories.0.timing.t_refi' must be given"),
    ("timing", {"t_rfc": None}, "key 'memories.0.timing.t_rfc' must be given"),
    ("timing", {"t_rcs": 15}, "key 'memories.0.timing.t_rcs' must be one of t_ck, t_rc, t_ras, t_ras_max, t_rp, t_rcd, "
                              "t_rrd, t_rrd_clocks, t_rfc, t_wr, t_wr_clocks, t_mrd_clocks, t_refi, power_up, "
                              "power_up_refreshes, cas_latency; did you mean 't_rc'?"),
    ("timing", {"t_rp": "21 ns"}, "key 'memories.0.timing.t_rp' must be a number, not '21 ns'"),
    ("timing", {"t_rp": -21}, "key 'memories.0.timing.t_rp' must be a number of ns above 0, not -21.0"),
    ("timing", {"t_rfc": float("nan")}, "key 'memories.0.timing.t_rfc' must be a number of ns above 0, not nan"),
    ("timing", {"power_up": float("inf")}, "key 'memories.0.timing.power_up' must be a number of ns above 0, not inf"),
    ("timing", {"t_rc": 60}, "key 'memories.0.timing.t_rc' must be at least t_ras + t_rp = 66 ns, not 60: a row is "
                             "open for t_ras and closes in t_rp"),
    ("timing", {"power_up": 1e12}, "key 'memories.0.timing.power_up' must be at most 10000000 ns, not 1e+12"),
    ("timing", {"power_up_refreshes": 10**6}, "key 'memories.0.timing.power_up_refreshes' must be at most 64, not "
                                              "1000000"),
    ("timing", {"t_refi": 500}, "key 'memories.0.timing.t_refi' must be at least four times t_ras + t_rp + t_rfc + "
                                "t_rcd = 153 ns, not 500: refreshes would take most of the time"),
    ("timing", {"t_ras_max": 7000}, "key 'memories.0.timing.t_ras_max' must be at least t_refi + t_ras = 7857.5 ns, "
                                    "not 7000: a row may stay open from one refresh to the next"),
    ("", {"clock_mhz": 1}, "key 'memories.0.clock_mhz' must be higher, not 1: a refresh takes up to 11 clocks, and in "
                           "t_refi there are 7"),
    ("timing", {"t_wr": 1e6}, "key 'memories.0.timing.t_wr' must be shorter, not 50000 clocks: while the 512 words of "
                              "a row are read the next one opens"),
    ("timing", {"cas_latency": 4}, "key 'memories.0.timing.cas_latency' must be 2 or 3, not 4"),
    ("timing", {"t_wr_clocks": 1.5}, "key 'memories.0.timing.t_wr_clocks' must be an integer, not 1.5"),
    ("timing", {"t_mrd_clocks": 0}, "key 'memories.0.timing.t_mrd_clocks' must be a whole number of at least 1, not 0"),
    ("pins", {"dq": None}, "key 'memories.0.pins.dq' must be given"),
    ("pins", {"ck": "A1"}, f"key 'memories.0.pins.ck' must be one of clk, {NAMES}; did you mean 'clk'?"),
    ("pins", {"ba": ["P19"]}, "key 'memories.0.pins.ba' must have 2 pins, the lowest bit first, not 1"),
    ("pins", {"dqm": ["U19"]}, "key 'memories.0.pins.dqm' must have 2 pins, the lowest bit first, not 1"),
    ("pins", {"clk": ["F19"]}, "key 'memories.0.pins.clk' must be a string, not ['F19']; put it in quotes"),
    ("pins", {"cke": "G2"}, "pin G2 must be used once, not 2 times"),
    ("", {"clock_mhz": HUGE}, "key 'memories.0.clock_mhz' must be a number above 0, not inf")])
def test_one_fault_of_an_sdram(tmp_path: Path, section: str, values: dict[str, Any], expected: str) -> None:
    assert complaints(tmp_path, changed(section, **values)) == [expected]


@pytest.mark.parametrize(("section", "values", "expected"), [
    ("", {"offset": None}, "key 'memories.0.offset' must be given"),
    ("", {"kind": None}, "key 'memories.0.kind' must be given"),
    ("", {"comand": 3}, "key 'memories.0.comand' must be one of kind, part, bytes, offset, lines, command, mode, "
                        "dummy_clocks, jedec_ids, clock_mhz, io_standard, timing, pins, source; did you mean "
                        "'command'?"),
    ("", {"lines": 3}, "key 'memories.0.lines' must be 2 or 4, not 3"),
    ("", {"lines": 2}, "key 'memories.0.command' must be 187, which has the address on 2 lines, not 235"),
    ("", {"lines": 2, "command": 0xBB}, "key 'memories.0.pins.io' must have 2 pins, the lowest bit first, not 4"),
    ("", {"offset": 1000}, "key 'memories.0.offset' must be a multiple of 65536 above 0 and below 16777216, not 1000"),
    ("", {"bytes": 2**25}, "key 'memories.0.bytes' must be a power of two from 131072 to 16777216, not 33554432"),
    ("", {"mode": 0x1A0}, "key 'memories.0.mode' must be a byte, not 416"),
    ("", {"jedec_ids": [0]}, "key 'memories.0.jedec_ids' must be numbers of 24 bits that are neither all zeros nor all "
                             "ones, at least one, not [0]"),
    ("", {"clock_mhz": 80}, "key 'memories.0.clock_mhz' must be at most 55.8659, which t_clqv = 7 ns and 10.9 ns "
                            "in the FPGA's pads allow, not 80"),
    ("timing", {"t_clqv": 10}, "key 'memories.0.clock_mhz' must be at most 47.8469, which t_clqv = 10 ns and 10.9 ns "
                               "in the FPGA's pads allow, not 48"),
    ("timing", {"t_slch": 11}, "key 'memories.0.clock_mhz' must be at most 45.4545, which t_slch = 11 ns allows, not "
                               "48"),
    ("timing", {"t_res1": None}, "key 'memories.0.timing.t_res1' must be given"),
    ("timing", {"t_res2": 1}, "key 'memories.0.timing.t_res2' must be one of t_c, t_slch, t_chsh, t_shsl, t_clqv, "
                              "t_res1; did you mean 't_res1'?"),
    ("timing", {"t_res1": 1e9}, "key 'memories.0.timing.t_res1' must be at most 10000000 ns, not 1e+09"),
    ("timing", {"t_shsl": 0}, "key 'memories.0.timing.t_shsl' must be a number of ns above 0, not 0.0"),
    ("pins", {"io": "14"}, "key 'memories.0.pins.io' must be a list, not '14'"),
    ("pins", {"sck": "6"}, "pin 6 must be used once, not 2 times"),
    ("timing", {"t_clqv": HUGE}, "key 'memories.0.timing.t_clqv' must be a number of ns above 0, not inf")])
def test_one_fault_of_a_flash(tmp_path: Path, section: str, values: dict[str, Any], expected: str) -> None:
    assert complaints(tmp_path, changed(section, "icebreaker", **values)) == [expected]


@pytest.mark.parametrize(("section", "values", "expected"), [
    ("", {"bytes": 1 << 20}, "key 'memories.0.bytes' must be at most 77824, which a FLASH608K has, not 1048576"),
    ("", {"bytes": 300}, "key 'memories.0.bytes' must be a multiple of 256 above 0, not 300"),
    ("", {"clock_mhz": HUGE}, "key 'memories.0.clock_mhz' must be a number above 0, not inf"),
    ("", {"clock_mhz": 1e300}, "key 'memories.0.clock_mhz' must be at most 1000, not 1e+300"),
    ("timing", {"t_acc": 1e300}, "key 'memories.0.timing.t_acc' must be at most 10000 ns, not 1e+300"),
    ("timing", {"t_pws": HUGE}, "key 'memories.0.timing.t_pws' must be a number of ns above 0, not inf"),
    ("timing", {"t_pws": -HUGE}, "key 'memories.0.timing.t_pws' must be a number of ns above 0, not -inf")])
def test_one_fault_of_a_user_flash(tmp_path: Path, section: str, values: dict[str, Any], expected: str) -> None:
    assert complaints(tmp_path, changed(section, "tangnano9k", **values)) == [expected]


def test_a_device_has_one_user_flash(tmp_path: Path) -> None:
    data = content("tangnano9k")
    data["memories"] += content("tangnano9k")["memories"]
    assert complaints(tmp_path, data) == [
        "key 'memories.1.kind' must be user_flash for one memory: a device has one user flash"]


def test_a_long_number_is_shortened_in_its_message(tmp_path: Path) -> None:
    data = content()
    data["resources"]["lut"] = HUGE
    said, = complaints(tmp_path, data)
    assert said.startswith("key 'resources.lut' must not break this rule: 1000")
    assert said.endswith("000 is greater than the maximum of 1000000000")
    assert len(said) < 300


def test_memories_as_a_whole(tmp_path: Path) -> None:
    data = content() | {"memories": content("icebreaker")["memories"]}
    assert complaints(tmp_path, data)[0] == (
        "key 'memories.0.kind' must be sdr_sdram: a flash needs registers in the pads of the FPGA, and their times are "
        "not known for this family")
    first, = complaints(tmp_path, content() | {"memories": content()["memories"][0]})
    assert first.startswith("key 'memories' must be a list, not {")


def test_a_board_without_the_section_has_none(tmp_path: Path) -> None:
    data = content()
    del data["memories"]
    assert load_board(written(tmp_path, data)).memories == ()
