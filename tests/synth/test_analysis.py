"""All paths of a routed design, those that nextpnr leaves out included."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hwflow_base.errors import ToolFailed

from hwflow.synth import bitstream, load_board
from hwflow.synth.analysis import NOTHING, UNKNOWN, Untimed, analysis_of
from hwflow.synth.bitstream import DELAYS, shorten_report
from hwflow.synth.delays import CellDelays, Check, Delays, delays_of, read_delays
from hwflow.synth.families import FAMILIES
from hwflow.synth.families.cell_times import CellTimes, Figure, KindTimes
from hwflow.synth.families.gowin.family import with_whole_tables
from hwflow.synth.paths import clocks_of, core_clock, read_report, shortened, untimed_of
from hwflow.synth.paths import delays_of as part_delays_of
from tests.random_cases import seeds
from tests.synth.conftest import routed

#: As nextpnr writes it: a register, a table, a memory that nobody times, and a name that needs a backslash.
TEXT = r"""(DELAYFILE
  (SDFVERSION "3.0")
  (TIMESCALE 1ps)
  (CELL
    (CELLTYPE "top")
    (INSTANCE )
    (DELAY
      (ABSOLUTE
        (INTERCONNECT clock/O core.a\[0\]_FF/CLK (0:0:0) (0:0:0))
        (INTERCONNECT clock/O rom/CLK (0:0:0) (0:0:0))
        (INTERCONNECT core.a\[0\]_FF/Q \$auto\$x/y_LUT/I0 (90:95:100) (110:115:120))
        (INTERCONNECT \$auto\$x/y_LUT/F core.a\[0\]_FF/D (10:10:10) (10:10:10))
        (INTERCONNECT \$auto\$x/y_LUT/F rom/AD3 (1000:1500:2e3) (1000:1500:1900))
        (INTERCONNECT rom/DO0 core.a\[0\]_FF/CE (500:500:500) (500:500:500))
      )
    )
  )
  (CELL
    (CELLTYPE "IBUF")
    (INSTANCE clock)
    )
  (CELL
    (CELLTYPE "DFFE")
    (INSTANCE core.a\[0\]_FF)
    (DELAY
      (ABSOLUTE
        (IOPATH CLK Q (300:300:400) (300:300:450))
      )
    )
    (TIMINGCHECK
      (SETUPHOLD (posedge D) (posedge CLK) (50:50:50) (0:0:0))
      (SETUPHOLD (negedge D) (posedge CLK) (50:50:50) (0:0:0))
      (SETUPHOLD (posedge CE) (posedge CLK) (70:70:70) (0:0:0))
      (SETUPHOLD (negedge CE) (posedge CLK) (70:70:70) (0:0:0))
    )
    )
  (CELL
    (CELLTYPE "LUT4")
    (INSTANCE \$auto\$x/y_LUT)
    (DELAY
      (ABSOLUTE
        (IOPATH I0 F (800:900:1000) (800:900:1000))
      )
    )
    )
  (CELL
    (CELLTYPE "ROM")
    (INSTANCE rom)
    )
)
"""
FIGURES = CellTimes("", (
    KindTimes("IBUF", "none", aside=".*"),
    KindTimes("ROM", "none", clock="CLK", setup={r"AD\d+": Figure("CLK", 0.3)}, out={r"DO\d+": Figure("CLK", 3.0)})))


def test_what_nextpnr_writes_is_read() -> None:
    delays = delays_of(TEXT.splitlines())
    assert delays.wires["$auto$x/y_LUT", "I0"] == (("core.a[0]_FF", "Q"), 120.0)
    assert delays.wires["rom", "AD3"] == (("$auto$x/y_LUT", "F"), 2000.0)
    assert delays.cells["core.a[0]_FF"] == CellDelays(
        "DFFE", [("CLK", "Q", 450.0)], [Check("D", "CLK", False, 50.0), Check("CE", "CLK", False, 70.0)])
    assert set(delays.cells) == {"clock", "core.a[0]_FF", "$auto$x/y_LUT", "rom"}


def test_a_memory_without_times_is_an_end_with_a_figure() -> None:
    """450 + 120 + 1000 + 2000 + 300 into it; 3000 + 500 + 70 out of it; nextpnr sees 450 + 120 + 1000 + 10 + 50."""
    found = analysis_of(delays_of(TEXT.splitlines()), FIGURES)
    assert found.untimed == (Untimed("ROM", NOTHING, 1, 1, True),)
    path, = found.longest.values()
    assert (path.ps, path.ours) == (3870.0, True)
    assert [(step.kind, step.ps) for step in path.steps] == [
        ("clk-to-q", 450.0), ("routing", 120.0), ("logic", 1000.0), ("routing", 2000.0), ("setup", 300.0)]
    assert path.steps[-1].end == ("rom", "AD3")


def test_what_nobody_knows_is_counted() -> None:
    found = analysis_of(delays_of(TEXT.splitlines()), CellTimes("", FIGURES.kinds[:1]))
    assert found.untimed == (Untimed("ROM", UNKNOWN, 2, 1, False),), "its clock pin, too"
    assert {path.ps for path in found.longest.values()} == {1630.0}


def test_a_report_says_what_all_paths_allow() -> None:
    """nextpnr's clock stays beside it, and the path is told in the words of the design."""
    step = {"type": "clk-to-q", "delay": 0.45, "from": {"cell": "core.a[0]_FF", "port": "Q"},
            "to": {"cell": "core.a[0]_FF", "port": "Q"}}
    content: Any = {"fmax": {"clk": {"achieved": 1e3 / 1.63}}, "utilization": {},
                    "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": [step]}],
                    "detailed_net_timings": []}
    short: Any = json.loads(json.dumps(shortened(content, analysis_of(delays_of(TEXT.splitlines()), FIGURES))))
    clock, = clocks_of(short)
    assert (clock.net, clock.routed_mhz, clock.nextpnr_mhz) == ("clk", 1e3 / 3.87, 1e3 / 1.63)
    assert clock.is_core
    assert clock.ours
    assert clock.path is not None
    assert (clock.path.logic_ns, clock.path.wires_ns) == (pytest.approx(1.75), pytest.approx(2.12))
    assert [delay.ns for delay in part_delays_of(short)] == [3.57, 3.5]
    assert untimed_of(short) == (Untimed("ROM", NOTHING, 1, 1, True),)
    plain, = clocks_of(content)
    assert (plain.routed_mhz, plain.ours) == (1e3 / 1.63, False)


@pytest.mark.parametrize(("line", "why"), [
    ("(INTERCONNECT a/b c/d)", "is no line that nextpnr writes"), ("(IOPATH A B (1) (1))", "is no line"),
    ("(SETUPHOLD D CLK (1:1:1) (1:1:1))", "is no line"), ("(CELLTYPE top)", "is no line"),
    ("(INTERCONNECT a/b c/d (1:1:1) (1:1:1))", "the cell 'a' has wires and is not listed"),
    ("(INTERCONNECT a/b c/d (1:1:-) (1:1:1))", "could not convert")])
def test_odd_delays_fail_their_seed(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / DELAYS).write_text(f"(DELAYFILE\n  {line}\n)\n")
    with pytest.raises(ToolFailed, match=rf"^place and route failed: .*{DELAYS}. must be a report.*{why}"):
        shorten_report(tmp_path / "report.json", "place and route", FIGURES)


def random_design(source: random.Random) -> tuple[Delays, CellTimes]:
    """Registers of two clocks and both edges, tables between them; some kinds have figures of ours alone."""
    delays = Delays({"one": CellDelays("PAD"), "two": CellDelays("PAD")})
    figures = {kind: (source.randint(1, 500), source.randint(1, 500)) for kind in "XY"}
    for number in range(source.randint(2, 5)):
        name, kind = f"r{number}", source.choice("RXY")
        delays.wires[name, "C"] = ((source.choice(["one", "two"]), "O"), 0.0)
        falls = kind == "R" and source.random() < 0.3
        delays.cells[name] = CellDelays(kind) if kind in figures else CellDelays(
            kind, [("C", "Q", float(source.randint(1, 500)))], [Check("D", "C", falls, float(source.randint(1, 500)))])
    pins = [(name, "Q") for name in delays.cells if name[0] == "r"]
    for number in range(source.randint(1, 6)):
        name = f"t{number}"
        delays.cells[name] = CellDelays("T", [(pin, "F", float(source.randint(1, 500))) for pin in "AB"])
        for pin in "AB":
            delays.wires[name, pin] = source.choice(pins), float(source.randint(1, 500))
        pins.append((name, "F"))
    for name in [name for name in delays.cells if name[0] == "r"]:
        delays.wires[name, "D"] = source.choice(pins), float(source.randint(1, 500))
    rows = tuple(KindTimes(kind, "", "C", setup={"D": Figure("C", setup / 1e3)}, out={"Q": Figure("C", out / 1e3)})
                 for kind, (setup, out) in figures.items())
    return delays, CellTimes("", (KindTimes("PAD", "", aside=".*"), *rows))


def needed(delays: Delays, times: CellTimes) -> dict[tuple[str, str], float]:
    """The period of each clock, by following every path from its end, one after the other."""
    longest: dict[tuple[str, str], float] = {}

    def figures(name: str) -> tuple[float, float, bool]:
        cell, row = delays.cells[name], times.of(delays.cells[name].kind)
        if row is not None:
            return row.setup["D"].ns * 1e3, row.out["Q"].ns * 1e3, False
        return cell.checks[0].setup, cell.paths[0][2], cell.checks[0].falling

    def follow(pin: tuple[str, str], ps: float, end: str) -> None:
        (source, _), wire = delays.wires[pin]
        if source[0] == "t":
            for start, _, through in delays.cells[source].paths:
                follow((source, start), ps + wire + through, end)
            return
        clock, other = delays.wires[end, "C"][0], delays.wires[source, "C"][0]
        if clock == other:
            half = figures(source)[2] != figures(end)[2]
            longest[clock] = max(longest.get(clock, 0.0), (ps + wire + figures(source)[1]) * (2 if half else 1))

    for name in delays.cells:
        if name[0] == "r":
            follow((name, "D"), figures(name)[0], name)
    return longest


@seeds(range(8), range(8, 60))
def test_the_longest_of_all_paths(seed: int) -> None:
    for number in range(25):
        delays, times = random_design(random.Random(f"{seed} {number}"))
        found = analysis_of(delays, times)
        assert {clock: path.ps for clock, path in found.longest.items()} == pytest.approx(needed(delays, times))
        for path in found.longest.values():
            assert sum(step.ps for step in path.steps) in (pytest.approx(path.ps), pytest.approx(path.ps / 2))
        untimed = {pins.kind: pins.ends for pins in found.untimed}
        assert untimed == {kind: count for kind in "XY"
                           if (count := sum(cell.kind == kind for cell in delays.cells.values()))}


@pytest.mark.parametrize("name", [
    "icebreaker", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ulx3s_25f", "tangnano9k"))])
def test_where_nextpnr_times_all_it_says_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without figures of ours the longest paths are nextpnr's, to the picosecond; and no pin of our designs is unknown.
    """
    kept = tmp_path / "kept"

    def keep(path: Path, step: str, times: CellTimes) -> None:
        shutil.copytree(path.parent, kept)
        shorten_report(path, step, times)

    monkeypatch.setattr(bitstream, "shorten_report", keep)
    report, folder = routed(name, tmp_path / "routed")
    delays, content = read_delays(kept / DELAYS), read_report(kept / "report.json")
    family = FAMILIES[load_board(name).family]
    bare = CellTimes("", tuple(KindTimes(row.kind, "", clock=row.clock, aside=".*") for row in family.cell_times.kinds))
    own = sorted(path.ps / 1e3 for path in analysis_of(delays, bare).longest.values())
    assert own == pytest.approx(sorted(1e3 / value["achieved"] for value in content["fmax"].values()), abs=1e-4)
    assert all(pins.bounded for pins in report.untimed)
    assert not (folder / "layout" / DELAYS).exists()
    assert core_clock(folder / "layout" / "report.json") == report.routed_mhz
    assert report.routed_mhz is not None
    assert report.clocks[0].nextpnr_mhz is not None
    assert report.routed_mhz <= report.clocks[0].nextpnr_mhz


@pytest.mark.parametrize("family", FAMILIES)
def test_the_figures_of_a_family(family: str) -> None:
    """Every row says what nextpnr knows, and where its own figures are from."""
    times = FAMILIES[family].cell_times
    assert times.source.startswith("nextpnr")
    for row in times.kinds:
        assert row.nextpnr
        assert row.source or not (row.setup or row.out or row.like), row.kind
        assert all(0 < figure.ns < 10 for figure in (*row.setup.values(), *row.out.values())), row.kind


def test_tables_of_few_inputs_become_whole_ones() -> None:
    """The same function of the same inputs, whatever is on those that were added."""
    for inputs, source in itertools.product((1, 2, 3), range(8)):
        bits = format(random.Random(source).getrandbits(1 << inputs), f"0{1 << inputs}b")
        pins = {f"I{k}": [k + 2] for k in range(inputs)} | {"F": [9]}
        cell = {"type": f"LUT{inputs}", "parameters": {"INIT": bits}, "attributes": {"hwflow": "kept"},
                "port_directions": dict.fromkeys(pins, "input") | {"F": "output"}, "connections": pins}
        text = json.dumps({"modules": {"top": {"cells": {"table": cell}}}})
        whole = json.loads(with_whole_tables(text))["modules"]["top"]["cells"]["table"]
        assert whole["type"] == "LUT4"
        assert whole["attributes"] == {"hwflow": "kept"}
        assert whole["connections"] == pins | {f"I{k}": ["0"] for k in range(inputs, 4)}
        for word in range(16):
            assert whole["parameters"]["INIT"][~word] == bits[~(word % (1 << inputs))]
