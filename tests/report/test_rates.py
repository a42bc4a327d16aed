"""Frames a second of one design are the same wherever they are said, also where a memory beside the FPGA sets the pace.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hwflow_base.printable import rate_text

from hwflow import hls, onnx
from hwflow.facts.design import rates
from hwflow.facts.plan import CoreClock, board_rate, plan_facts
from hwflow.hls.plan.plan import Plan
from hwflow.host.identity import BoardFacts, DesignFacts
from hwflow.host.rate import Limit, rate_of, rate_of_design
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import quantize
from hwflow.search.exploration import routing
from hwflow.search.exploration.point import Point
from hwflow.search.exploration.routing import Routed
from hwflow.search.exploration.tasks import DesignTask, point_of_plan
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from hwflow.synth.expected_clock import outside_of
from hwflow.views.console.search import rows
from hwflow.views.console.terminal import Console
from hwflow.views.page.sections.time import core_rate, limits_of
from tests.project.tree import PACKAGES, python_files
from tests.quantize.net import Net, data

#: A way to the host that is no limit here.
BOARD = load_board("ulx3s_85f")
ASKED = Point(BOARD.name, "", "auto", False, True, None)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A dense layer whose weights an SDRAM gives."""
    n = Net((96,))
    model = onnx.infer(n.model(n.gemm(n.x, 64)))
    graph = quantize(model, data(model, 2)).graph
    made = hls.solve(graph, hls.Target(BOARD.technology(), budget_of(BOARD, graph)))
    return replace(made, outside=outside_of(BOARD)).with_folding(made.stages[0].name, weight_rows=64, rows=64, cols=1)


def routed_at(plan: Plan, mhz: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Routed:
    """The point of `plan` at its estimated clock, and a run of place and route that came to `mhz`."""
    executions: Any = SimpleNamespace(plan=lambda execution, interval: plan, graph=plan.graph)
    task = DesignTask(BOARD.name, BOARD, "", "key", Execution.AUTO, False, True, 1, None)
    point = point_of_plan(ASKED, executions, task)
    nothing = SimpleNamespace(used=0)
    report = SimpleNamespace(usable_mhz=mhz, seconds={}, lut=nothing, ff=nothing, dsp=nothing, ram=nothing)
    monkeypatch.setattr("hwflow.synth.bitstream.synthesize", lambda *_, **__: report)
    design: Any = SimpleNamespace(plan=plan, board=BOARD, on_board=dict)
    return Routed(point, (routing.made(design, tmp_path, 1, ""),))


@pytest.mark.parametrize("times", [0.5, 3.0])
def test_frames_a_second_are_the_same_everywhere(plan: Plan, times: float, monkeypatch: pytest.MonkeyPatch,
                                                 tmp_path: Path) -> None:
    """Estimated at one clock and routed at another: the memory has its own, so the interval changes with it."""
    estimated = CoreClock(found_mhz := routed_at(plan, 1.0, monkeypatch, tmp_path).point.mhz, "", False)
    mhz = times * found_mhz
    routed = routed_at(plan, mhz, monkeypatch, tmp_path)
    point, (run,) = routed.point, routed.runs
    assert plan.memory_cycles(mhz) != plan.memory_cycles(estimated.mhz), "another clock, other cycles of the memory"
    assert point.frames_per_second == plan_facts(plan, BOARD, clock=estimated)["rate"]["core"]
    wanted = rate_of(plan, mhz, BOARD.transport.bytes_per_second)
    assert wanted.core == mhz * 1e6 / plan.interval_at(mhz)
    assert rate_of(plan, mhz).limit is (Limit.MEMORY if times > 1 else Limit.CORE)
    facts = DesignFacts.of(plan.graph, plan, BoardFacts(BOARD.name, BOARD.transport.facts(), mhz))
    console = plan_facts(plan, BOARD, clock=CoreClock(mhz, "", True))
    seen = [rate_of_design(facts, BOARD.transport.bytes_per_second).core, routed.frames_per_second,
            core_rate(limits_of(plan, BOARD, mhz)), console["rate"]["core"],
            rates(plan, BOARD, SimpleNamespace(clock_mhz=mhz, usable_mhz=mhz))["usable_clock"]]  # type: ignore[arg-type]
    assert seen == [wanted.core] * len(seen)
    assert routed.rate(run) == replace(wanted, cycles=plan.interval_at(mhz))
    assert [row[5] for row in rows(routed)] == [rate_text(wanted.core)]


def test_one_function_divides_clocks_and_one_module_writes_numbers() -> None:
    """Intervals become frames a second in `Rate` alone, and what people read has its numbers from `printable`."""
    own, wrong = {"host/rate.py"}, []
    said = ("facts/", "views/", "cli/", "search/", "pipeline/")
    for file in python_files(PACKAGES["hwflow"]):
        name = str(file.relative_to(PACKAGES["hwflow"]))
        for node in ast.walk(ast.parse(file.read_text())):
            divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and re.search(
                r"(hertz|mhz \* 1000000\.0)$", ast.unparse(node.left)) and re.search(
                r"interval|cycles", ast.unparse(node.right))
            grouped = name.startswith(said) and isinstance(node, ast.FormattedValue) and (
                "," in ast.unparse(node.format_spec or ast.Constant("")))
            if (divides or grouped) and name not in own:
                wrong.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


def test_details_are_for_those_who_ask(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    from hwflow.views.console.plan import show_plan

    clock = CoreClock(100.0, "of a test", False)
    show_plan(Console(), plan, BOARD, clock)
    short = capsys.readouterr().out
    show_plan(Console(verbose=True), plan, BOARD, clock)
    long = capsys.readouterr().out
    assert short.startswith(f"  {rate_text(board_rate(plan, BOARD, clock).frames_per_second)} frames/s: as many as ")
    used = plan.resources
    assert f"  takes {used.lut / BOARD.resources.lut:.0%}".replace("%", " % of the logic (") in short
    assert "weights outside of the FPGA" in long
    assert "weights outside of the FPGA" not in short
    assert set(short.splitlines()) <= set(long.splitlines())
    assert len(short.splitlines()) < 20
