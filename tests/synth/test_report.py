"""What is read from nextpnr's report, and the limits that no report may break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_rtl.vendor import Resources

from hwflow import hls
from hwflow.facts.design import synthesis_facts
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import quantize
from hwflow.synth.bitstream import DELAYS, shorten_report
from hwflow.synth.boards import load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.paths import Clock, clocks_of
from hwflow.synth.report import RoutedFacts, SynthesisReport, Usage, path_text, read_nextpnr_report
from hwflow.views.console.design import too_slow
from tests.e2e.networks import rows_for, small_network


def step(kind: str, delay: float, source: str, target: str, pin: str = "A") -> dict:
    return {"type": kind, "delay": delay, "from": {"cell": source, "port": pin, "loc": [0, 0]},
            "to": {"cell": target, "port": "Z", "loc": [0, 0]}}


PATH = {"from": "posedge clk", "to": "posedge clk", "path": [
    step("clk-to-q", 0.5, "core.a_TRELLIS_FF_Q", "core.a_TRELLIS_FF_Q"),
    step("routing", 1.0, "core.a_TRELLIS_FF_Q", "core.sum[0]_CCU2C_S0"),
    step("logic", 0.4, "core.sum[0]_CCU2C_S0", "core.sum[0]_CCU2C_S0"),
    step("routing", 0.0, "core.sum[0]_CCU2C_S0", "core.sum[2]_CCU2C_S0"),
    step("logic", 0.1, "core.sum[2]_CCU2C_S0", "core.sum[2]_CCU2C_S0", "FCI"),
    step("routing", 0.5, "core.sum[2]_CCU2C_S0", "core.sum[4]_CCU2C_S0"),
    step("logic", 0.1, "core.sum[4]_CCU2C_S0", "core.sum[4]_CCU2C_S0", "FCI"),
    step("routing", 0.25, "core.sum[4]_CCU2C_S0", "core.sum[4]_TRELLIS_FF_Q"),
    step("setup", 0.15, "core.sum[4]_TRELLIS_FF_Q", "core.sum[4]_TRELLIS_FF_Q")]}


def test_the_critical_path_is_short_and_in_the_designs_own_names() -> None:
    slower = {"from": "<async>", "to": "posedge clk", "path": [step("routing", 99.0, "pin", "reg")]}
    clock, = clocks_of({"fmax": {"clk": {"achieved": 333.0}}, "critical_paths": [slower, PATH]})
    assert clock.path is not None
    assert path_text(clock.path) == (
        "3.00 ns, 1.25 in logic and 1.75 in wires\n"
        "   0.00 wire  0.50 clk-to-q  core.a\n"
        "   1.50 wire  0.60 logic     core.sum[0] to core.sum[4]\n"
        "   0.25 wire  0.15 setup     core.sum[4]")


def test_a_design_without_paths() -> None:
    assert clocks_of({"fmax": {}, "critical_paths": []}) == ()


def routed_facts(tmp_path: Path, board: str, utilization: dict[str, int], fmax: dict[str, float]) -> RoutedFacts:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({
        "utilization": {name: {"used": used, "available": 1} for name, used in utilization.items()},
        "fmax": {name: {"achieved": mhz, "constraint": 1} for name, mhz in fmax.items()}, "critical_paths": [PATH]}))
    return read_nextpnr_report(path, load_board(board), flip_flops=77)


def test_cells_are_counted_in_the_units_of_the_board(tmp_path: Path) -> None:
    ecp5 = routed_facts(tmp_path, "ulx3s_85f", {"TRELLIS_COMB": 10, "TRELLIS_FF": 5, "MULT18X18D": 3, "DP16KD": 2},
                  {"c": 200.0})
    assert [str(getattr(ecp5, name)) for name in ("lut", "ff", "dsp", "ram")] == [
        "10 of 83640", "5 of 83640", "3 of 156", "2 of 208"]
    ice40 = routed_facts(tmp_path, "icebreaker", {"ICESTORM_LC": 9, "ICESTORM_DSP": 1, "ICESTORM_SPRAM": 2},
                   {"c": 60.0})
    assert [getattr(ice40, name).used for name in ("lut", "ff", "dsp", "ram")] == [9, 77, 1, 0]
    assert str(ice40.spram) == "2 of 4"
    assert ecp5.spram == Usage(0, 0)
    gowin = routed_facts(tmp_path, "tangnano9k", {
        "LUT4": 4, "ALU": 2, "DFF": 8, "MULT9X9": 3, "MULT18X18": 2, "BSRAM": 1}, {"c": 90.0})
    assert [getattr(gowin, name).used for name in ("lut", "ff", "dsp", "ram")] == [6, 8, 11, 1]


@pytest.mark.parametrize(("board", "cells", "routed", "usable"), [
    ("icebreaker", {"ICESTORM_DSP": 1}, 90.0, 80.0),
    ("icebreaker", {"ICESTORM_RAM": 1}, 200.0, 150.0),
    ("icebreaker", {"ICESTORM_RAM": 1}, 70.0, 70.0),
    ("icebreaker", {"ICESTORM_RAM": 1, "ICESTORM_SPRAM": 1}, 200.0, 70.0),
    ("tangnano9k", {"MULT18X18": 1}, 795.0, 150.0),
    ("tangnano9k", {}, 300.0, 300.0),
    ("ulx3s_85f", {"DP16KD": 1, "MULT18X18D": 1}, 209.0, 209.0),
    ("ulx3s_85f", {"MULT18X18D": 2, "ALU54B": 1}, 209.0, 100.0),
    ("ulx3s_85f", {}, 600.0, 257.0),
])
def test_no_clock_above_the_devices_limits(tmp_path: Path, board: str, cells: dict[str, int], routed: float,
                                           usable: float) -> None:
    found = routed_facts(tmp_path, board, cells, {"clk": routed, "faster": routed + 1})
    assert (found.routed_mhz, found.usable_mhz) == (routed, usable)


def test_every_limit_says_where_it_comes_from() -> None:
    assert all(limit.source for family in FAMILIES.values() for limit in family.limits)
    assert all(family.binding_limit(dsp=0, ram=0).what == "clock" for family in FAMILIES.values())


def test_a_report_as_plain_data(tmp_path: Path) -> None:
    report = SynthesisReport(
        board="b", device="d", lut=Usage(1, 2), ff=Usage(1, 2), dsp=Usage(0, 2), ram=Usage(0, 2), board_mhz=25.0,
        clock_mhz=25.0, routed_mhz=20.0, usable_mhz=20.0, limit=FAMILIES["ecp5"].limits[0], critical_path="",
        bitstream=tmp_path / "top.bit", seed=1, tools={"yosys": "1"}, logs={"synthesis": tmp_path / "log"},
        seconds={"synthesis": 1.0})
    assert not report.meets_clock
    assert too_slow(report, "board").startswith(
        "the core must run at no more than the 20.0 MHz that the routed design allows, not at 25 MHz (the board's "
        "oscillator): on the board its numbers may be wrong; choose a slower clock with --clock")
    assert "not at 25 MHz (the 26 MHz of --clock)" in too_slow(report, 26.0)
    assert too_slow(replace(report, usable_mhz=25.0), 25.0) == ""
    assert replace(report, usable_mhz=25.0).meets_clock
    line, core = Clock("line", 24.0, False, None), Clock("core", 20.0, True, None)
    slow = replace(report, usable_mhz=25.0, clocks=(core, line))
    assert not slow.meets_clock
    assert too_slow(slow, None).startswith(
        "the clock 'line' must run at no more than the 24.0 MHz that the routed design allows, not at the 25 MHz of "
        "the board's oscillator: the board may not answer")
    assert replace(slow, clocks=(core, replace(line, routed_mhz=25.0))).meets_clock
    of_memory = Clock("$glbnet$clocking.memory_source.clk_out", 49.0, False, None)
    memory = replace(slow, memory_mhz=50.0, clocks=(core, of_memory))
    assert "49.0 MHz that the routed design allows, not at the 50 MHz of the memory: weights" in too_slow(memory, None)
    assert replace(memory, memory_mhz=49.0).meets_clock
    assert replace(report, usable_mhz=None).meets_clock
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["lut"] == {"used": 1, "available": 2}
    assert (plain["meets_clock"], plain["bitstream"]) == (False, str(tmp_path / "top.bit"))


def test_planned_beside_used_as_plain_data(tmp_path: Path) -> None:
    """What a plan says of a stage names its memories; of these the report has counts alone."""
    model, board = small_network(), load_board("ulx3s_85f")
    graph = quantize(model, rows_for(model, 4)).graph
    plan = hls.solve(graph, hls.Target(board.technology(), budget_of(board, graph)))
    assert plan.resources.memories
    report = SynthesisReport(
        board="b", device="d", lut=Usage(1, 2), ff=Usage(1, 2), dsp=Usage(0, 2), ram=Usage(0, 2), board_mhz=25.0,
        clock_mhz=25.0, routed_mhz=30.0, usable_mhz=30.0, limit=FAMILIES["ecp5"].limits[0], critical_path="",
        bitstream=tmp_path / "top.bit", seed=1, tools={}, logs={}, seconds={}, parts={"stage0": plan.resources})
    facts = json.loads(json.dumps(synthesis_facts(plan, board, report)))
    assert facts["by_part"][0]["planned"].keys() == facts["parts"]["stage0"].keys() == set(Resources.KINDS)


@pytest.mark.parametrize(("content", "what"), [
    ("{", "is another one"), ("[]", "is another one"), ("{}", "lacks the key 'utilization'"), ("7", "is another one"),
    ('{"utilization": []}', "is another one"), ('{"utilization": {"TRELLIS_COMB": 3}}', "is another one"),
    ('{"utilization": {}, "fmax": {"clk": {}}}', "lacks the key 'achieved'"),
    ('{"utilization": {}, "fmax": {"clk": {"achieved": "fast"}}}', "is another one"),
    ('{"utilization": {}, "worst": [{}]}', "lacks the key 'part'"),
    ('{"utilization": {}, "critical_paths": [{"from": "posedge clk"}]}', "lacks the key 'to'"),
    ('{"utilization": {}, "fmax": {"clk": {"achieved": 1}}, "critical_paths": '
     '[{"from": "posedge clk", "to": "posedge clk", "path": []}]}', "is another one"),
    ('{"utilization": {}, "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": [{"delay": 1}]}]}',
     "lacks the key 'type'")])
def test_an_odd_report_is_one_message(content: str, what: str, tmp_path: Path) -> None:
    """Whatever the key that another version of nextpnr leaves out."""
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(HwflowError, match=f"^'{path}' must be a report of nextpnr in the form that hwflow knows, and "
                                          f"it {what}.*; install the nextpnr that comes with .*, delete '{tmp_path}'"):
        read_nextpnr_report(path, load_board("ulx3s_85f"), flip_flops=0)


@pytest.mark.parametrize("content", ['{"detailed_net_timings": [{"net": "a"}]}', "{", '{"detailed_net_timings": 5}'])
def test_an_odd_report_fails_its_seed(content: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    (tmp_path / DELAYS).write_text("(DELAYFILE\n)\n")
    with pytest.raises(ToolFailed, match=r"^place and route, seed 3 failed: .*report.json. must be a report"):
        shorten_report(path, "place and route, seed 3", FAMILIES["ice40"].cell_times)
