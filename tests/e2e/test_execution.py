"""`--execution`: the same model as dataflow and as one shared stage, from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli
from tests.e2e.conftest import SIM

BUILD = ("build", *SIM[1:], "--board", "icebreaker")
SHARED = ("--execution", "shared")
LAYERS = ["0_conv", "1_pool", "2_fc"]


def large_dense() -> onnx.Model:
    """More weights than a board without a memory for them can hold."""
    b, rng = Builder("deep"), np.random.default_rng(3)
    x = b.input("x", np.float32, (1, 400))
    w = b.constant("w", rng.standard_normal((400, 400)).astype(np.float32))
    b.output(b.node("Gemm", x, w, output="y", name="fc"), np.float32, (1, 400))
    return b.model(opset=17)


def test_build_says_what_a_shared_stage_does(cli: Cli) -> None:
    assert "  icebreaker: a stage for each layer, because that fits the board\n" in cli(*BUILD).out
    asked = cli(*BUILD, "--execution", "dataflow").out
    assert "  icebreaker: a stage for each layer, because that was asked for\n" in asked
    done = cli(*BUILD, *SHARED)
    assert done.code == 0, done
    assert "shared0: a frame, layer by layer" in done.out
    assert "shared0: the frame memory" not in done.out
    assert "shared0: the frame memory" in cli(*BUILD, *SHARED, "--verbose").out
    facts = cli(*BUILD, *SHARED, "--json").json
    (stage,) = facts["stages"]
    array = f"{stage['rows']} x {stage['cols']}"
    assert facts["line"] == f"icebreaker: one shared stage, {array}, because that was asked for"
    assert f"  {facts['line']}\n" in done.out
    assert (facts["execution"], facts["why"]) == ("shared", "that was asked for")
    assert [step["step"] for step in stage["steps"]] == ["load", *LAYERS, "store"]
    assert sum(step["cycles"] for step in stage["steps"]) == facts["interval"] == stage["interval"]
    use = [step["multiplications"] / (step["cycles"] * stage["multipliers"]) for step in stage["steps"]]
    assert [step["multiplier_use"] for step in stage["steps"]] == [share or None for share in use]
    assert [place["tensor"] for place in stage["frames"]] == [step["tensor"] for step in stage["steps"][:-1]]
    written = yaml.safe_load(Path(facts["plan"]).read_text())
    assert (written["execution"], written["why"]) == (facts["execution"], facts["why"])
    assert written["stages"][0]["layers"] == LAYERS


def test_its_plan_is_given_back(cli: Cli) -> None:
    facts = cli(*BUILD, *SHARED, "--json").json
    plan = Path(facts["plan"]).rename("shared.yaml")
    again = cli(*BUILD, "--plan", str(plan), "--json").json
    assert again["why"] == "the plan file has it so"
    different = {"plan", "why", "line"}
    assert {k: v for k, v in again.items() if k not in different} == {
        k: v for k, v in facts.items() if k not in different}
    both = cli(*BUILD, *SHARED, "--plan", str(plan))
    assert both.code == 2
    assert "--execution must not be given together with --plan: leave one of them out" in both.err


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k"])
def test_sim_compares_every_tensor(cli: Cli, board: str) -> None:
    """The array is a square one, or has fewer rows than columns."""
    done = cli(*SIM, "--board", board, *SHARED, "--json")
    assert done.code == 0, done
    facts = done.json
    assert facts["equal"]
    assert facts["full speed"]["interval"] == facts["interval"]


@pytest.mark.parametrize("command", [("info",), ("check", "--hardware")], ids=["info", "check"])
def test_before_the_hardware_is_made(cli: Cli, command: tuple[str, ...]) -> None:
    """`info` and `check --hardware` plan for a board what `build` would, here without the ranges of the data."""
    words = (*command, SIM[1], "--board", "icebreaker")
    done, facts = cli(*words), cli(*words, "--json").json["execution"]
    assert (done.code, facts["line"]) == (0, "icebreaker: a stage for each layer, because that fits the board")
    assert f"  {facts['line']}\n" in done.out
    assert "cycles of a frame" in done.out
    built = cli(*BUILD, "--json").json
    assert [each["layer"] for each in facts["layers"]] == [each["layer"] for each in built["layers"]] == LAYERS
    assert (facts["interval"], facts["waiting"]) == (built["interval"], 0)
    assert max(each["cycles"] for each in facts["layers"]) == facts["interval"]
    assert cli(command[0], SIM[1], *command[1:], "--json").json.get("execution") is None


def test_a_board_that_cannot_hold_it(cli: Cli) -> None:
    deep = large_dense()
    onnx.save(deep, "deep.onnx")
    done = cli("check", "deep.onnx", "--hardware", "--board", "tangnano9k")
    assert done.code == 1
    assert "does not fit tangnano9k" in done.out
    info = cli("info", "deep.onnx", "--board", "tangnano9k", "--json")
    assert info.code == 0
    assert info.json["execution"] == {"board": "tangnano9k", "problem": info.json["execution"]["problem"]}
    assert "as one shared stage does not fit tangnano9k" in info.json["execution"]["problem"]


def test_check_says_whether_one_stage_can_be_shared(cli: Cli) -> None:
    done = cli("check", SIM[1], "--hardware")
    assert "one shared stage can compute all of it (--execution shared)" in done.out.replace("\n    ", " ")
    assert cli("check", SIM[1], "--hardware", "--json").json["shared"] == {"possible": True, "why": None}
