"""Cells and switches read from bits become a netlist, or errors with their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.synth.readback import Fabric
from hwflow.synth.readback.crc import crc16_arc, crc16_buypass


def inverter() -> Fabric:
    """A pad, two switches, a table and a pad."""
    fabric = Fabric(Path("top.bin"))
    fabric.pad("P1", "input", "pad1", "tile (0, 1)")
    fabric.switch("pad1", "span", "tile (0, 1), bit 3")
    fabric.switch("span", "lut/in", "tile (1, 1), bit 7")
    fabric.cell("X1Y1/lc0", "LUT", {"INIT": "01"}, {"I": ["lut/in"], "O": ["lut/out"]}, ["O"], "tile (1, 1)")
    fabric.switch("lut/out", "pad2", "tile (2, 1), bit 9")
    fabric.pad("P2", "output", "pad2", "tile (2, 1)")
    return fabric


PORTS = {"a": ["P1"], "b": ["P2"]}


def test_a_netlist_of_what_is_connected() -> None:
    module = inverter().module(PORTS)
    (a,), (b,) = (module["ports"][name]["bits"] for name in "ab")
    assert module["cells"]["X1Y1/lc0"]["connections"] == {"I": [a], "O": [b]}
    assert a != b
    assert [module["ports"][name]["direction"] for name in "ab"] == ["input", "output"]


@pytest.mark.parametrize(("change", "message"), [
    (lambda fabric: fabric.switch("other", "lut/in", "tile (1, 1), bit 8"),
     r"tile \(1, 1\), bit 8: other and span \(tile \(1, 1\), bit 7\) drive the same wire lut/in"),
    (lambda fabric: fabric.switch("pad1", "lut/out", "tile (1, 1), bit 2"),
     r"tile \(1, 1\): lut/out is driven here and by pad1 \(tile \(1, 1\), bit 2\)"),
    (lambda fabric: fabric.switch("span", "far", "tile (5, 5), bit 1"),
     r"tile \(5, 5\), bit 1: far is driven by span, and nothing takes it"),
    (lambda fabric: fabric.cell("ff", "DFF", {}, {"D": ["nowhere"], "Q": ["q"]}, ["Q"], "tile (3, 1)"),
     r"tile \(3, 1\): nowhere must have a driver"),
    (lambda fabric: fabric.cell("dff", "DFF", {}, {"Q": ["lut/out"]}, ["Q"], "tile (3, 1)"),
     r"tile \(3, 1\): lut/out has a second driver here"),
    (lambda fabric: fabric.pad("P9", "output", "span", "tile (9, 9)"),
     r"tile \(9, 9\): pad P9 is an output, and no port of the design has it"),
    (lambda fabric: fabric.problem("tile (4, 4), bit 44", "nothing explains this bit"), "nothing explains this bit"),
])  # fmt: skip
def test_what_no_design_may_have(change, message: str) -> None:
    fabric = inverter()
    change(fabric)
    with pytest.raises(HwflowError, match=message):
        fabric.module(PORTS)


def test_pads_that_are_not_those_of_the_board() -> None:
    with pytest.raises(HwflowError, match="pad P3: port 'c' must be here, and the pad is not used"):
        inverter().module({**PORTS, "c": ["P3"]})
    with pytest.raises(HwflowError, match="its pads must have one direction, not input and output"):
        inverter().module({"a": ["P1", "P2"]})


def test_a_circle_of_switches() -> None:
    fabric = inverter()
    fabric.switch("y", "x", "tile (7, 7), bit 1")
    fabric.switch("x", "y", "tile (7, 7), bit 2")
    fabric.cell("lut", "LUT", {}, {"I": ["x"], "O": ["o"]}, ["O"], "tile (7, 7)")
    with pytest.raises(HwflowError, match=r"tile \(7, 7\): x must have a driver"):
        fabric.module(PORTS)


def test_levels_and_defaults() -> None:
    fabric = Fabric(Path("top.bin"), defaults={"open": "1"})
    fabric.cell("lut", "LUT", {}, {"I": ["open", "0"], "O": ["o"]}, ["O"], "tile (7, 7)")
    assert fabric.module({})["cells"]["lut"]["connections"] == {"I": ["1", "0"], "O": [2]}


def test_a_long_list_is_cut() -> None:
    fabric = inverter()
    for bit in range(30):
        fabric.problem(f"tile (4, 4), bit {bit}", "nothing explains this bit")
    with pytest.raises(HwflowError, match="30 things that no design may have") as raised:
        fabric.module(PORTS)
    assert "and 20 more" in str(raised.value)


def test_checksums() -> None:
    """The check values of the catalogue of parametrised CRC algorithms (CRC RevEng)."""
    assert (crc16_buypass(b"123456789"), crc16_arc(b"123456789")) == (0xFEE8, 0xBB3D)
    assert crc16_buypass(b"6789", crc16_buypass(b"12345")) == 0xFEE8
