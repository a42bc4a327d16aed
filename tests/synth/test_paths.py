"""nextpnr's names and delays in terms of the plan; `recorded/` holds what it wrote for a routed digits_cnn."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hwflow_rtl.vendor import Resources

from hwflow.synth.design_parts import CLOCKS, HOST_LINK, LINKS, TOP, count_parts, part_of, place_of, readable, title_of
from hwflow.synth.paths import clocks_of, core_clock, delays_of, path_of, shortened

RECORDED = Path(__file__).parent / "recorded" / "icebreaker.json"
NAMES = ("0_conv2d", "1_max_pool2d", "2_conv2d_1", "3_max_pool2d_1", "4_linear")
PLAN: Any = SimpleNamespace(stages=[SimpleNamespace(name=name, layers=(f"node_{name[2:]}",)) for name in NAMES])


@pytest.mark.parametrize(("cell", "part", "text"), [
    ("core.stage3_conv.window.beats.left2_SB_DFFESR_Q_R_SB_LUT4_O_LC", "stage3", "window address (left2)"),
    ("core.stage0_conv2d.array.bank4.weights.bank0_column2_DP16KD_0", "stage0",
     "weights ROM of bank 4 (bank0_column2_DP16KD_0)"),
    ("core.stage0_conv2d.array.bank4.products.register3[5]_TRELLIS_FF_Q", "stage0",
     "multipliers of bank 4 (register3[5])"),
    ("core.stage12_fc.requantizer1.constants.data_0[30]_SB_DFF_Q", "stage12",
     "constants ROM of requantizer 1 (data_0[30])"),
    ("core.stage1_pool.queue.$signal$9_SB_DFFESR_Q_D_SB_LUT4_O_LC", "stage1", "queue"),
    ("core.gearbox2.i__valid$10_SB_DFFESR_Q_E_SB_LUT4_O_LC", LINKS, "gearbox2 (i__valid)"),
    ("clocking.left[12]_TRELLIS_FF_Q", CLOCKS, "clocking (left[12])"),
    ("receiver.good_SB_DFFESR_Q_DFFLC", HOST_LINK, "receiver (good)"),
    ("led[0]_SB_LUT4_O_LC", TOP, "led[0]"),
    ("$nextpnr_ICESTORM_LC_26", "", "$nextpnr_ICESTORM_LC_26"),
])
def test_places(cell: str, part: str, text: str) -> None:
    assert (part_of(cell), str(place_of(cell))) == (part, text)


def test_names_of_parts() -> None:
    assert readable("core.stage3_conv.sum[2]_CCU2C_S0_COUT_CCU2C_CIN") == "core.stage3_conv.sum[2]"
    assert title_of("stage2", PLAN) == "stage 2 '2_conv2d_1'"
    assert (title_of("stage2"), title_of("stage9", PLAN), title_of(LINKS)) == ("stage 2", "stage 9", "links")


def test_the_limit_of_a_real_design_in_terms_of_the_plan() -> None:
    """The dense layer's window: a carry chain that starts and ends beside its `start`."""
    clock, = clocks_of(json.loads(RECORDED.read_text()), PLAN)
    assert (clock.is_core, clock.routed_mhz, clock.net) == (True, 41.38, "clk$SB_IO_IN_$glb_clk")
    assert clock.path is not None
    assert (clock.path.part, clock.path.layers) == ("stage 4 '4_linear'", ("node_linear",))
    assert str(clock.path) == (
        "stage 4 '4_linear': window (start) -> window (start); 11.0 ns logic, 13.2 ns routing, 10 hops")
    assert clock.path.logic_ns + clock.path.wires_ns == pytest.approx(1e3 / 41.38, abs=0.01)
    assert core_clock(RECORDED) == 41.38
    plain = json.loads(json.dumps(clock.path.to_dict()))
    assert (plain["hops"], len(plain["steps"]), plain["text"]) == (10, 11, str(clock.path))


def test_the_worst_path_into_each_part_of_a_real_design() -> None:
    delays = delays_of(json.loads(RECORDED.read_text()), PLAN)
    assert [(delay.part, delay.ns) for delay in delays[:4]] == [
        ("stage 4 '4_linear'", 24.269), ("stage 2 '2_conv2d_1'", 20.019), ("stage 0 '0_conv2d'", 18.388),
        (HOST_LINK, 17.662)]
    assert (delays[2].layers, delays[2].end) == (("node_conv2d",), "multiplier of requantizer 0 (total_1[17])")
    assert {delay.part for delay in delays} == {
        *(f"stage {k} '{name}'" for k, name in enumerate(NAMES)), LINKS, HOST_LINK, TOP}


def timing(event: str, net: str, cell: str, ns: float, *, launched: str | None = None) -> dict[str, Any]:
    return {"driver": "x", "event": launched or event, "net": net, "port": "O",
            "endpoints": [{"cell": cell, "delay": [0.5 * ns, ns], "event": event, "port": "D"}]}


def test_of_all_registers_the_worst_of_each_part_and_clock_is_kept() -> None:
    report = {"fmax": {}, "utilization": {}, "critical_paths": [], "detailed_net_timings": [
        timing("posedge sync", "a", "core.stage0_c.r", 3.0), timing("posedge sync", "b", "core.stage0_c.s", 5.0),
        timing("posedge sync", "c", "core.stage1_d.s", 4.0), timing("posedge line", "d", "receiver.s", 9.0),
        timing("posedge sync", "e", "core.stage0_c.s", 99.0, launched="<async>")]}
    kept = shortened(report)
    assert "detailed_net_timings" not in kept
    assert [(end["event"], end["part"], end["net"], end["ns"]) for end in kept["worst"]] == [
        ("posedge line", HOST_LINK, "d", 9.0), ("posedge sync", "stage0", "b", 5.0),
        ("posedge sync", "stage1", "c", 4.0)]


def test_the_clock_of_the_stages_counts_though_another_is_slower() -> None:
    content = {"fmax": {"line": {"achieved": 90.0}, "sync": {"achieved": 150.0}}, "critical_paths": [],
               "worst": [{"event": "posedge line", "part": HOST_LINK, "net": "n", "cell": "receiver.x", "ns": 11.1},
                         {"event": "posedge sync", "part": "stage0", "net": "n", "cell": "core.stage0_c.x", "ns": 6.7}]}
    assert [(clock.net, clock.is_core) for clock in clocks_of(content)] == [("sync", True), ("line", False)]


def test_a_path_from_part_to_part_names_both() -> None:
    def step(kind: str, delay: float, source: str, target: str) -> dict[str, Any]:
        return {"type": kind, "delay": delay, "from": {"cell": source, "port": "Q"},
                "to": {"cell": target, "port": "D"}}

    start, end = "core.fork_stage0.o_valid_TRELLIS_FF_Q", "core.stage1_max_pool2d.credits.left_TRELLIS_FF_Q"
    steps = [step("clk-to-q", 0.5, start, start), step("routing", 1.0, start, end), step("setup", 0.1, end, end)]
    path = path_of(steps, PLAN)
    assert str(path) == ("stage 1 '1_max_pool2d': links, fork stage0 (o_valid) -> credits (left); 0.6 ns logic, 1.0 ns "
                         "routing, 1 hop")


def cell(kind: str, **pins: Any) -> dict[str, Any]:
    return {"type": kind, "connections": {pin: [bit] for pin, bit in pins.items()},
            "port_directions": {pin: "output" if pin in ("O", "Q", "CO", "COUT") else "input" for pin in pins}}


def test_carry_chains_of_ecp5_take_two_cells_more_at_each_end() -> None:
    cells = {"core.stage0_a.x0": cell("CCU2C", CIN="0", COUT=2), "core.stage0_a.x1": cell("CCU2C", CIN=2, COUT=3),
             "core.stage0_a.t": cell("LUT4"), "core.stage0_a.f": cell("TRELLIS_FF"), "core.stage0_a.p": cell("PFUMX"),
             "core.fork_b.r": cell("TRELLIS_DPR16X4"), "core.stage0_a.m": cell("MULT18X18D"),
             "core.stage10_c.d": cell("DP16KD"), "core.stage10_c": cell("$scopeinfo")}
    assert count_parts(cells, "ecp5") == {
        "stage0": Resources(lut=4 + 4 + 1, ff=1, dsp=1), LINKS: Resources(lut=6), "stage10": Resources(ram=1)}


def test_logic_cells_of_ice40_share_what_they_can() -> None:
    """A flip-flop alone, one behind a table that has another reader, and one that follows its table; two carries."""
    cells = {"core.stage0_a.t0": cell("SB_LUT4", O=10, I0=1, I1=2, I2=3, I3=4),
             "core.stage0_a.f0": cell("SB_DFF", D=10, Q=20),
             "core.stage0_a.t1": cell("SB_LUT4", O=11, I0=10, I1=5, I2=6, I3=7),
             "core.stage0_a.f1": cell("SB_DFFE", D=11, Q=21),
             "core.stage0_a.f2": cell("SB_DFFSR", D=21, Q=22),
             "core.stage0_a.c0": cell("SB_CARRY", I0=5, I1=6, CI=7, CO=30),
             "core.stage0_a.c1": cell("SB_CARRY", I0=8, I1=9, CI=30, CO=31)}
    assert count_parts(cells, "ice40") == {"stage0": Resources(lut=2 + 1 + 1 + 1, ff=3)}
