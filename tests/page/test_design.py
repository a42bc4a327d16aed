"""What a report draws of a design: bars add up to the plan, schedules have its cycles, notebooks show the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import Resources
from hwflow_sim.results import BoundaryResult, OutputResult, RunResult

from hwflow import hls
from hwflow.accuracy import Accuracy, Metric, Task
from hwflow.facts.design import planned_in_all
from hwflow.hls.plan.frame_schedule import schedule_frames
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import plan_for
from hwflow.pipeline.records import SIMULATION, keep
from hwflow.quantize import Quantized, quantize
from hwflow.stages.partition import Execution
from hwflow.synth import Board, SynthesisReport, load_board
from hwflow.synth.families import Limit
from hwflow.synth.report import Usage
from hwflow.synth.seeds import Attempt
from hwflow.views.page.notebook import html_of
from hwflow.views.page.schedule import back_to_back, limit_of, one_frame, stage_table
from hwflow.views.page.sections.fits import memories_picture, memories_table, overview, parts_of, parts_table
from hwflow.views.page.sections.time import limits_of, limits_picture, roofline, simulated
from tests.e2e.networks import rows_for, small_network
from tests.page.test_charts import HOSTILE, parsed, size

Plans = tuple[Board, dict[str, hls.Plan]]


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    model = small_network()
    return quantize(model, rows_for(model, 8))


@pytest.fixture(scope="module")
def plans(quantized: Quantized) -> Plans:
    board, graph = load_board("icebreaker"), quantized.graph
    return board, {each.value: plan_for(graph, graph, board, HardwareOptions(execution=each))
                   for each in (Execution.DATAFLOW, Execution.SHARED)}


def cells(markup: object) -> Iterator[list[str]]:
    """The texts of each row of a table's body."""
    for row in next(ElementTree.fromstring(str(markup)).iter("tbody")):
        yield ["".join(cell.itertext()) for cell in row]


def start_of(path: ElementTree.Element) -> float:
    """The x of the point where a path begins."""
    return float(re.match(r"M([\d.]+)", path.get("d"))[1])


def whole(text: str) -> int:
    return int(text.replace(",", "")) if text else 0


@pytest.mark.parametrize("execution", ["dataflow", "shared"])
def test_bars_and_table_add_up_to_the_whole_design(plans: Plans, execution: str) -> None:
    board, plan = plans[0], plans[1][execution]
    parts = parts_of(plan, board, None)
    assert [part.stage for part in parts[:len(plan.stages)]] == [stage.name for stage in plan.stages]
    need, have = planned_in_all(plan, board).counts(), board.resources.counts()
    kinds = [kind for kind, there in have.items() if there]
    sums = [sum(whole(row[k + 1]) for row in cells(parts_table(parts, board))) for k in range(len(kinds))]
    assert sums == pytest.approx([need[kind] for kind in kinds], abs=len(parts))  # cells are packed part by part
    drawn = parsed(overview(plan, board, parts, None))
    bars = [each for each in drawn.iter("g") if each.get("class") == "bars"]
    (rule,) = (each for each in drawn.iter("g") if each.get("class") == "rule limit")
    left = min(size(rect, "x") for rect in drawn.iter("rect"))
    full = start_of(rule.find("path")) - left
    for kind, bar in zip(kinds, bars, strict=True):
        long = sum(size(rect, "width") for rect in bar.iter("rect"))
        assert long / full == pytest.approx(need[kind] / have[kind], abs=0.012)


def test_used_resources_are_beside_the_planned_ones(plans: Plans) -> None:
    board, plan = plans[0], plans[1]["dataflow"]
    used = [replace(part, used=Resources(lut=k + 1)) for k, part in enumerate(parts_of(plan, board, None))]
    head, *_ = parsed(parts_table(used, board)).iter("thead")
    assert "".join(head.itertext()).startswith("partLUT plannedLUT used")
    assert [whole(row[2]) for row in cells(parts_table(used, board))] == list(range(1, len(used) + 1))


@pytest.mark.parametrize("execution", ["dataflow", "shared"])
def test_every_memory_is_in_the_table_and_every_bit_in_the_picture(plans: Plans, execution: str) -> None:
    plan = plans[1][execution]
    rows = list(cells(memories_table(plan)))
    assert [row[0] for row in rows] == [each.name for each in plan.memories]
    assert sum(whole(row[3]) for row in rows) == sum(each.memory.bits for each in plan.memories)
    hints = "".join(parsed(memories_picture(plan)).itertext())
    assert sum(map(whole, re.findall(r": ([\d,]+) bits in ", hints))) == sum(each.memory.bits for each in plan.memories)


@pytest.mark.parametrize("execution", ["dataflow", "shared"])
def test_a_schedule_has_the_cycles_of_the_plan(plans: Plans, execution: str) -> None:
    plan = plans[1][execution]
    schedule = schedule_frames(plan, 3)
    picture = parsed(back_to_back(plan, schedule))
    done = [start_of(each.find("path")) for each in picture.iter("g") if each.get("class") == "rule limit"]
    (axes,) = (each for each in picture.iter("g") if each.get("class") == "axes")
    scale = (done[-1] - start_of(axes.find("path"))) / schedule.end
    assert done[-1] - done[-2] == pytest.approx(plan.interval * scale, abs=0.3)
    assert f"{plan.interval:,} cycles apart; the plan has".replace(",", " ") in "".join(picture.itertext())
    rows = list(cells(stage_table(plan, schedule)))
    if execution == "dataflow":
        assert [whole(row[5]) for row in rows] == [stage.schedule.work for stage in plan.stages]
    assert [whole(row[7]) for row in rows] == [stage.schedule.interval for stage in plan.stages]
    assert f"cycle {plan.latency[0]:,}".replace(",", " ") in "".join(parsed(one_frame(plan, schedule)).itertext())
    slowest = limit_of(plan)[1]
    assert slowest is None or slowest.schedule.interval == plan.interval


def test_limits_are_those_of_multipliers_stages_and_line(plans: Plans) -> None:
    board, plan = plans[0], plans[1]["dataflow"]
    multipliers, stages, line = limits_of(plan, board, 25.0)
    assert stages.frames == pytest.approx(25e6 / plan.interval)
    assert multipliers.frames * plan.multiplications == pytest.approx(plan.multipliers * 25e6)
    assert line.bytes == sum(each.elements for each in plan.links if not each.source.of_stage)  # of int8
    assert line.bytes_per_second == pytest.approx(board.transport.bytes_per_second, rel=0.01)
    assert len(list(parsed(limits_picture([multipliers, stages, line])).iter("circle"))) == 3
    slope = [each for each in parsed(roofline(plan, [multipliers, stages, line], 25.0)).iter("path")
             if each.get("class") == "line s1"]
    assert len(slope) == 1


def test_the_interval_that_a_simulation_had_is_beside_that_of_the_plan(plans: Plans, tmp_path: Path) -> None:
    subject = SimpleNamespace(board_folder=tmp_path, design="this", plan=plans[1]["dataflow"])
    assert simulated(subject) == ""
    keep(tmp_path, SIMULATION, "this", {"frames": 3, "runs": [{"interval": 4321}]})
    assert "A simulation of 3 frames at full speed had 4,321 cycles" in simulated(subject)
    assert simulated(SimpleNamespace(board_folder=tmp_path, design="another", plan=subject.plan)) == ""
    keep(tmp_path, SIMULATION, "this", {"frames": 3, "runs": [{"interval": "<b>"}]})
    with pytest.raises(HwflowError, match="must be a record of hwflow, and is damaged"):
        simulated(subject)


class Checker(HTMLParser):
    """Elements that are open, and whether any has what a page of results must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        assert not any(name.startswith("on") for name, _ in attributes)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_notebooks_show_results_with_their_own_styles(plans: Plans, quantized: Quantized) -> None:
    plan = replace(plans[1]["dataflow"], model=HOSTILE)
    boundary = BoundaryResult(HOSTILE, HOSTILE, False, 1, 2, 3, 4, None, (), (), None)
    output = OutputResult(HOSTILE, "a", True, 0, 0, np.zeros((0, 1), np.int64), None, None, (), 0, None)
    run = RunResult(9, {"a": boundary}, (output,), (), (), None, 1, 1.0, None)
    usage = Usage(1, 2)
    routed = SynthesisReport(
        board=HOSTILE, device=HOSTILE, lut=usage, ff=usage, dsp=usage, ram=usage, board_mhz=12.0, clock_mhz=20.0,
        routed_mhz=25.0, usable_mhz=25.0, limit=Limit(HOSTILE, 30.0, HOSTILE), critical_path=HOSTILE,
        bitstream=Path("a"), seed=1, tools={}, logs={}, seconds={},
        seeds=(Attempt(1, 25.0, 2.0, ""), Attempt(2, None, 2.0, HOSTILE)))
    accuracy = Accuracy(4, Task.VALUES, HOSTILE, (Metric("R2", HOSTILE, 0.5, None, True),), None, 0, (), None, ())
    shown = [each._repr_html_() for each in (plan, quantized, quantized.graph, run, routed, accuracy)]
    for html in shown:
        checker = Checker()
        checker.feed(html)
        assert checker.open == []
        assert html.startswith('<div class="hwflow"><style>.hwflow {')
        assert ":root" not in html
        assert "href" not in html  # what it would lead to is not in the notebook
    assert all(stage.name in shown[0] for stage in plan.stages)
    assert "NOT EQUAL" in shown[3]
    assert ("meets its clocks" in shown[4], "1, 50 %" in shown[4], "not defined" in shown[5]) == (True, True, True)
    with pytest.raises(TypeError, match="a result must be one of Plan, RunResult"):
        html_of(3)


def test_a_schedule_that_takes_minutes_is_not_drawn(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans[1]["dataflow"]
    monkeypatch.setattr("hwflow.views.page.schedule.MOST_CYCLES", plan.interval)
    assert "not drawn" not in html_of(plan)
    monkeypatch.setattr("hwflow.views.page.schedule.MOST_CYCLES", plan.interval - 1)
    assert (f"The schedule is not drawn: a frame has {plan.interval} cycles, and pictures have at most "
            f"{plan.interval - 1}.") in html_of(plan)
