"""`--execution`: the same model as dataflow and as one shared stage, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.command import Cli
from tests.e2e.conftest import SIM

BUILD = ("build", *SIM[1:], "--board", "icebreaker")
SHARED = ("--execution", "shared")
LAYERS = ["0_conv", "1_pool", "2_fc"]


def test_build_says_what_a_shared_stage_does(cli: Cli) -> None:
    assert "  execution dataflow: it fits the board\n" in cli(*BUILD).out
    assert "  execution dataflow: that was asked for\n" in cli(*BUILD, "--execution", "dataflow").out
    done = cli(*BUILD, *SHARED)
    assert done.code == 0, done
    assert "  execution shared: that was asked for\n" in done.out
    for title in ("shared0: a frame, step by step", "shared0: the frame memory"):
        assert title in done.out
    facts = cli(*BUILD, *SHARED, "--json").json
    (stage,) = facts["stages"]
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
    assert again["why"] == "as the plan file has it"
    different = {"plan", "why"}
    assert {k: v for k, v in again.items() if k not in different} == {
        k: v for k, v in facts.items() if k not in different}
    both = cli(*BUILD, *SHARED, "--plan", str(plan))
    assert both.code == 2
    assert ("--plan must not be given together with --interval, --frames-per-second, --logic-multipliers, "
            "--stream-weights or --execution; the plan's file decides all of them") in both.err


@pytest.mark.slow
def test_sim_compares_every_tensor(cli: Cli) -> None:
    done = cli(*SIM, "--board", "icebreaker", *SHARED, "--json")
    assert done.code == 0, done
    facts = done.json
    assert facts["equal"]
    assert facts["full speed"]["interval"] == facts["interval"]


def test_check_says_whether_one_stage_can_be_shared(cli: Cli) -> None:
    done = cli("check", SIM[1], "--hardware", "--board", "icebreaker")
    assert "one shared stage can compute all of it (--execution shared)" in done.out.replace("\n    ", " ")
    assert cli("check", SIM[1], "--hardware", "--json").json["shared"] == {"possible": True, "why": None}
