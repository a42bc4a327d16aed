"""Weights in a memory of a board: its clock, its pins, the right one of two PLLs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.hdl import signed
from hwflow_base.errors import HwflowError, MissingTool
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.vendor.pll import PllSettings
from hwflow_sim.board import read_netlist

from hwflow.synth import load_board, synthesize
from hwflow.synth.bitstream import require_room
from hwflow.synth.board_ports import constraints
from hwflow.synth.board_weights import BoardWeights
from hwflow.synth.clock import has_pll
from hwflow.synth.families import FAMILIES
from hwflow.synth.toolchain import Job, tools_of_family
from hwflow.synth.top import CoreOnBoard, board_top, design_text
from tests.memory.test_on_a_board import STREAMS, Weighted

BOARDS = ("ulx3s_12f", "colorlight_i5", "tangnano20k")


def weights_of(name: str) -> BoardWeights:
    return BoardWeights(load_board(name).memories[0], tuple(STREAMS))


@pytest.mark.parametrize("name", BOARDS)
def test_the_clock_of_the_board_file_is_made_exactly(name: str) -> None:
    board, weights = load_board(name), weights_of(name)
    assert weights.part(board) == weights.memory.part
    assert weights.gateware(board).domain == "memory"
    text = design_text(board_top(Weighted(), board, identity=bytes(8), weights=weights))
    assert not has_pll(text), "the memory's is not the core's"


@pytest.mark.parametrize("name", BOARDS)
def test_every_port_has_its_pin(name: str) -> None:
    board, weights = load_board(name), weights_of(name)
    top = board_top(Weighted(), board, identity=bytes(8), weights=weights)
    ports = {f"{port.name}[{k}]" if len(port) > 1 else port.name for port in top.pins for k in range(len(port))}
    text = constraints(board, leds=top.leds, memory=weights.memory)[1]
    lines = [line for line in text.splitlines() if line.startswith(("LOCATE", "IO_LOC"))]
    assert {line.split('"')[1] for line in lines} == ports
    pin = weights.memory.pins["dq"][15]
    assert any(line.split('"')[1] == "memory_dq[15]" and pin in line for line in lines)


def test_a_slower_clock_is_another_part() -> None:
    """Where no PLL makes the clock exactly: the times of the chip are fewer clocks then, and refreshes keep up."""
    board, weights = load_board("ulx3s_12f"), weights_of("ulx3s_12f")
    odd = BoardWeights(SimpleNamespace(part=weights.memory.part.__class__(**{
        **vars(weights.memory.part), "clock_mhz": 49.9997})), weights.streams)
    part = odd.part(board)
    assert 49.5 < part.clock_mhz < 49.9997
    assert part.clock_mhz == float(odd.pll(board).output_mhz)
    with pytest.raises(HwflowError, match=r"must have a clock of 1 MHz or less, which no PLL of LFE5U-12F makes of 25"):
        BoardWeights(SimpleNamespace(part=SimpleNamespace(name="slow", clock_mhz=1.0)), ()).pll(board)


def test_weights_of_a_plan() -> None:
    board, stream = load_board("ulx3s_12f"), WeightStream(signed(8), 1, 5)
    part = board.memories[0].part
    plan = SimpleNamespace(streams=(SimpleNamespace(stream=stream),), outside=SimpleNamespace(part=part))
    assert BoardWeights.of(board, plan) == BoardWeights(board.memories[0], (stream,))
    assert BoardWeights.of(board, SimpleNamespace(streams=())) is None
    with pytest.raises(HwflowError, match=f"the plan has weights in {part.name}, which icebreaker must have"):
        BoardWeights.of(load_board("icebreaker"), plan)


def test_a_flash_has_the_cores_clock() -> None:
    board, weights = load_board("icebreaker"), weights_of("icebreaker")
    assert (weights.domain, weights.pll(board), weights.own_mhz(board)) == ("sync", None, None)
    assert weights.core_limit_mhz == 48 == weights.part(board).clock_mhz
    assert weights.data_margins(40) == (7.1, 1.7)
    assert weights_of("ulx3s_12f").data_margins(40) is None
    assert weights_of("ulx3s_12f").core_limit_mhz is None
    text = CoreOnBoard(Weighted(), board, weights=weights).text()
    assert has_pll(text)
    assert text.count("cell \\SB_PLL40_") == 1, "an iCE40 has no other"
    places = constraints(board, leds=2, memory=weights.memory)[1]
    for port, pin in (("sck", "15"), ("cs_n", "16"), *((f"io[{k}]", pin) for k, pin in enumerate(
            ("14", "17", "12", "13")))):
        assert f"set_io memory_{port} {pin}\n" in places


def test_a_bitstream_that_reaches_into_the_weights(tmp_path: Path) -> None:
    board, weights = load_board("icebreaker"), weights_of("icebreaker")
    job = Job(board, tmp_path, {}, print, weights)
    path = tmp_path / "bitstream" / "top.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(1 << 20))
    require_room(job)
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(HwflowError, match=r"icebreaker\.yaml': key 'memories.offset' must be at least 1048577, so that "
                                          r"weights stand behind the bitstream, not 1048576"):
        require_room(job)


def ecp5_pll(**words: int) -> str:
    return ".tile_group MIB:PLL0\nenum: MODE EHXPLLL\n" + "".join(f"word: {name} {value:07b}\n" for name, value in
                                                                 words.items()) + "\n"


def gowin_plls(*parameters: dict[str, int]) -> str:
    cells = {f"pll{k}": {"type": "rPLL", "parameters": {name: f"{value:06b}" for name, value in each.items()}}
             for k, each in enumerate(parameters)}
    return json.dumps({"modules": {"top": {"cells": cells}}})


def test_the_dividers_of_the_core_are_replaced_and_not_those_of_the_memory() -> None:
    ecp5, gowin = FAMILIES["ecp5"], FAMILIES["gowin"]
    new = PllSettings("EHXPLLL", 25, 500, 100, (("CLKI_DIV", 1), ("CLKOS_DIV", 5), ("CLKOS_CPHASE", 4)))
    core, memory, tuned = (ecp5_pll(CLKI_DIV=0, CLKOS_DIV=out - 1, CLKOS_CPHASE=out - 1) for out in (2, 16, 5))
    old = {"CLKI_DIV": 1, "CLKOS_DIV": 2, "CLKOS_CPHASE": 1}
    assert ecp5.retuned(memory + core, old, new, "here") == memory + tuned
    assert ecp5.retuned(".device x\n" + core + memory, old, new, "here") == ".device x\n" + tuned + memory
    for text in (memory + memory, core + core):
        with pytest.raises(HwflowError, match="here: dividers of the PLL must be what was synthesized"):
            ecp5.retuned(text, old, new, "here")
    new = PllSettings("rPLL", 27, 500, 54, (("IDIV_SEL", 0), ("FBDIV_SEL", 1)))
    core, memory = {"IDIV_SEL": 0, "FBDIV_SEL": 8}, {"IDIV_SEL": 8, "FBDIV_SEL": 15}
    assert gowin.retuned(gowin_plls(core, memory), core, new, "here") == gowin_plls(dict(new.parameters), memory)
    with pytest.raises(HwflowError, match="here: dividers of the PLL must be what was synthesized"):
        gowin.retuned(gowin_plls(memory, memory), core, new, "here")


@pytest.mark.parametrize(("kind", "pins", "family", "drives"), [
    ("$_TBUF_", {"A": [4], "E": [5], "Y": [2]}, "ecp5", "= n5;"),
    ("IOBUF", {"I": [4], "OEN": [5], "IO": [2], "O": [6]}, "gowin", "= ~n5;")])
def test_pads_in_both_directions_are_three_ports_of_a_simulation(
        kind: str, pins: dict[str, list[int]], family: str, drives: str, tmp_path: Path) -> None:
    path = tmp_path / "netlist.json"
    ports = {"memory_dq": {"direction": "inout", "bits": [2]}, "tx": {"direction": "output", "bits": [4]}}
    cells = {"pad": {"type": kind, "parameters": {}, "connections": pins}}
    path.write_text(json.dumps({"modules": {"top": {"ports": ports, "cells": cells}}}))
    netlist = read_netlist(path, family)
    assert netlist.ports == {"memory_dq_i": 1, "memory_dq_o": 1, "memory_dq_oe": 1, "tx": 1}
    assert netlist.cells == {}
    into = pins.get("O", [2])[0]
    for line in (f"assign n{into} = memory_dq_i;", "assign memory_dq_o = n4;", f"assign memory_dq_oe {drives}"):
        assert line in netlist.verilog


def test_pads_with_registers_stay_in_a_simulation(tmp_path: Path) -> None:
    """Of those in both directions the pin becomes three, of those that take nothing in an output."""
    path = tmp_path / "netlist.json"
    ports = {"memory_io": {"direction": "inout", "bits": [2]}, "memory_sck": {"direction": "inout", "bits": [3]}}
    both = {"PACKAGE_PIN": [2], "D_OUT_0": [4], "OUTPUT_ENABLE": [5], "D_IN_0": [6]}
    cells = {"io": {"type": "SB_IO", "parameters": {"PIN_TYPE": "110100"}, "connections": both},
             "sck": {"type": "SB_IO", "parameters": {"PIN_TYPE": "010001"},
                     "connections": {"PACKAGE_PIN": [3], "D_OUT_1": [7]}}}
    path.write_text(json.dumps({"modules": {"top": {"ports": ports, "cells": cells}}}))
    netlist = read_netlist(path, "ice40")
    assert netlist.ports == {"memory_io_i": 1, "memory_io_o": 1, "memory_io_oe": 1, "memory_sck": 1}
    assert netlist.cells == {"SB_IO": 2}
    assert "PACKAGE_PIN" not in netlist.verilog
    for line in ("assign memory_io_o = n8;", "assign memory_io_oe = n9;", "assign n10 = memory_io_i;",
                 "assign memory_sck = n11;"):
        assert line in netlist.verilog


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ulx3s_12f", "tangnano20k"])
def test_a_routed_board_meets_both_clocks(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    try:
        tools_of_family(board.family)
    except MissingTool as error:
        pytest.skip(str(error))
    weights = BoardWeights(board.memories[0], tuple(STREAMS))
    report = synthesize(CoreOnBoard(Weighted(), board, weights=weights), tmp_path)
    memory = [clock for clock in report.clocks if clock.is_memory]
    assert len(memory) == 1
    assert memory[0].routed_mhz is not None
    assert memory[0].routed_mhz >= report.memory_mhz == board.memories[0].part.clock_mhz
    assert report.meets_clock
    assert report.clock_mhz != report.memory_mhz, "each PLL has its own dividers"
    assert report.bitstream.stat().st_size > 50_000
    assert report.parts["memory"].lut > 500
