"""What is done where nextpnr refuses a place or its router gets nowhere: with a stand-in, and nextpnr's own words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hwflow_base.errors import ToolFailed

from hwflow.synth import load_board
from hwflow.synth.families import FAMILIES
from hwflow.synth.seeds import REFUSED, GivenUp, Patience, place_and_route
from hwflow.synth.toolchain import Job, Tool, ToolRun, find_tool, run_tool
from tests.synth.conftest import need

MOST_ROUTED = FAMILIES["ecp5"].most_routed
#: What nextpnr-ecp5 0.11 says of places that it does not take.
UNKNOWN = "ERROR: No Bel named 'X1/Y2/EBR0' located for this chip (processing BEL attribute on 'a')"
TAKEN = "ERROR: Cell 'a' cannot be bound to bel 'X1/Y2/EBR0' since it is already bound to cell 'b'"
HALF = ("ERROR: ALU54B 'a' does not have a fixed BEL specified, but connected MULT18X18D 'b' does, specify both or "
        "neither.")
TOO_SMALL = "ERROR: Unable to place cell 'a', no BELs remaining to implement cell type 'DP16KD'"
#: Stands in for nextpnr: says what the text of the netlist makes it say, and notes its words and the netlist.
STAND_IN = """
import json, pathlib, sys
text = pathlib.Path("netlist.json").read_text()
with open("runs", "a") as runs:
    runs.write(json.dumps([sys.argv[1:], text]) + "\\n")
error = ERROR
if error and ("BEL" in text or not FREE):
    sys.exit(error)
if STUCK and "router2" not in sys.argv:
    print("Info: Routing 1000 arcs.", flush=True)
    for k in range(1, 10):
        print(f"Info: {1000 * k:10} |   100   900 |   10   90 |   7|   1.00    1.00|", flush=True)
    sys.stdin.read()
    import time; time.sleep(60)
"""


def netlist(folder: Path, cells: dict[str, Any]) -> Path:
    path = folder / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": {"attributes": {"top": "1"}, "cells": cells}}}))
    return path


PLACED = {"a": {"type": "DP16KD", "attributes": {"BEL": "X1/Y2/EBR0", "keep": "1"}}}
FREE = {"a": {"type": "DP16KD", "attributes": {"keep": "1"}}}


def run(tmp_path: Path, cells: dict[str, Any], *, error: str = "", free: bool = True, stuck: bool = False,
        board: str = "ulx3s_25f") -> tuple[list[tuple[list[str], Any]], list[str], list[str]]:
    """The runs of the stand-in, as words and cells; what it said; and what the user was told."""
    code = STAND_IN.replace("ERROR", repr(error)).replace("FREE", str(free)).replace("STUCK", str(stuck))
    folder, source = tmp_path / "step", tmp_path / "source"
    folder.mkdir()
    source.mkdir()
    told: list[str] = []
    heard: list[str] = []
    tool = Tool("nextpnr-ecp5", (sys.executable, "-c", code), "0", "native")
    job = Job(load_board(board), tmp_path, {tool.name: tool}, told.append)
    try:
        place_and_route(job, ["--seed", "3"], folder, "place and route", netlist(source, cells), heard.append)
    finally:
        runs = [json.loads(line) for line in (folder / "runs").read_text().splitlines()]
    assert sorted(path.name for path in folder.iterdir()) == ["runs", "seconds.json"]
    return [(words, json.loads(text)["modules"]["top"]["cells"]) for words, text in runs], heard, told


def test_a_run_that_ends_well_is_the_only_one(tmp_path: Path) -> None:
    assert run(tmp_path, PLACED) == ([(["--seed", "3"], PLACED)], [], [])


@pytest.mark.parametrize("error", [UNKNOWN, TAKEN, HALF])
def test_refused_places_are_left_to_nextpnr(error: str, tmp_path: Path) -> None:
    runs, heard, told = run(tmp_path, PLACED, error=error)
    assert runs == [(["--seed", "3"], PLACED), (["--seed", "3"], FREE)]
    assert heard == [f"{error}\n"]
    assert told == [f"place and route: nextpnr refuses a place ({error.removeprefix('ERROR: ')}) and now chooses all "
                    "places itself"]


@pytest.mark.parametrize(("cells", "error", "board"), [
    (FREE, UNKNOWN, "ulx3s_25f"), (PLACED, TOO_SMALL, "ulx3s_25f"), (PLACED, "ERROR: no clock", "ulx3s_25f"),
    (PLACED, UNKNOWN, "icebreaker")])
def test_other_failures_stay_failures(cells: dict[str, Any], error: str, board: str, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match=r"^place and route failed"):
        run(tmp_path, cells, error=error, board=board, free=False)
    assert len((tmp_path / "step" / "runs").read_text().splitlines()) == 1


def test_a_second_refusal_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="No Bel named"):
        run(tmp_path, PLACED, error=UNKNOWN, free=False)
    assert len((tmp_path / "step" / "runs").read_text().splitlines()) == 2


def test_a_router_that_gets_nowhere_is_given_up(tmp_path: Path) -> None:
    runs, heard, told = run(tmp_path, PLACED, stuck=True)
    assert runs == [(["--seed", "3"], PLACED), (["--seed", "3", "--router", "router2"], PLACED)]
    assert len(heard) == 3
    assert told == ["place and route: nextpnr's router1 gets nowhere (7 of 1000 arcs are left after 2000 were routed); "
                    "now with router2"]


def test_patience_counts_arcs_and_not_seconds() -> None:
    patience = Patience(MOST_ROUTED)
    line = "Info: {:10} |      121        878 |  121   878 | {:8}|      12.95      12.95|"
    patience(line.format(9_000_000, 5))  # of no router that began
    patience("Info: Routing 100000 arcs.")
    patience(line.format(int(MOST_ROUTED * 100_000), 5))
    patience(line.format(int(MOST_ROUTED * 100_000) + 1000, 0))
    with pytest.raises(GivenUp):
        patience(line.format(int(MOST_ROUTED * 100_000) + 1000, 5))


def test_nextpnrs_words_of_a_place_that_is_not_there(tmp_path: Path) -> None:
    need("ecp5")
    ram = {"hide_name": 0, "type": "DP16KD", "parameters": {}, "attributes": {"BEL": "X1/Y2/EBR0"},
           "port_directions": {"CLKA": "input", "DOA0": "output"}, "connections": {"CLKA": [2], "DOA0": [3]}}
    top = {"attributes": {"top": "1"}, "ports": {"clk": {"direction": "input", "bits": [2]}}, "cells": {"a": ram},
           "netnames": {"clk": {"hide_name": 0, "bits": [2], "attributes": {}}}}
    (tmp_path / "netlist.json").write_text(json.dumps({"creator": "", "modules": {"top": top}}))
    with pytest.raises(ToolFailed) as caught:
        run_tool(find_tool("nextpnr-ecp5"), ["--25k", "--json", "netlist.json", "--no-route",
                                             "--lpf-allow-unconstrained", "--package", "CABGA381"],
                 ToolRun(tmp_path, tmp_path / "log", "places"), progress=lambda text: None)
    assert REFUSED.search(str(caught.value))
    assert UNKNOWN in str(caught.value)
