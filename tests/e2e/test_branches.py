"""A model with a branch on its whole way: checked, planned with a queue, simulated, and told about truthfully."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hwflow import onnx
from hwflow.views.console.plan import compared
from tests.e2e.command import Cli
from tests.e2e.networks import residual, write_data


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    onnx.save(residual(), "r.onnx")
    write_data(Path("r.npz"), residual(), rows=9, labels=np.arange(9) % 3)
    return Cli(capsys)


def test_it_is_said_to_become_hardware(cli: Cli) -> None:
    assert cli("info", "r.onnx").out.endswith("  the model becomes hardware\n")
    assert cli("info", "r.onnx", "--json").json["layers_in_hardware"] == ["first", "second", "add", "fc"]
    assert cli("check", "r.onnx").out.endswith("5 of 5 nodes map to hardware; 4 layers\n")
    done = cli("check", "r.onnx", "--hardware")
    assert done.code == 0
    assert done.out.splitlines()[-2] == "r.onnx: 5 of 5 nodes map to hardware; 4 layers"
    assert done.out.splitlines()[-1].startswith("  one shared stage can compute all of it (--execution shared)")


def test_the_plan_shows_what_waits(cli: Cli) -> None:
    """The first convolution's result waits for the second's: a line and a bit."""
    done = cli("build", "r.onnx", "--data", "r.npz", "--verbose")
    assert done.code == 0, done
    _, queues = done.out.split("\nqueues ")
    rows = [line.split() for line in queues.splitlines() if line.startswith("  0_first ")]
    assert rows
    plan = yaml.safe_load(Path("build/r/ulx3s_85f/plan.yaml").read_text())
    assert [(link["from"], link["to"]) for link in plan["links"]] == [
        ("input", "0_first"), ("0_first", "1_second"), ("0_first", "2_add"), ("1_second", "2_add"), ("2_add", "3_fc"),
        ("3_fc", "output")]
    waiting, = (link for link in plan["links"] if (link["from"], link["to"]) == ("0_first", "2_add"))
    assert waiting["queue"] >= 5
    assert ["0_first", "2_add", str(waiting["queue"]), str(waiting["bytes"])] in [
        [*row[:2], *row[-2:]] for row in rows]
    assert f"bytes of queues, {sum_of_rings(cli)} bytes of row buffers" in done.out
    Path("p.yaml").write_text(Path("build/r/ulx3s_85f/plan.yaml").read_text())
    again = cli("build", "r.onnx", "--data", "r.npz", "--plan", "p.yaml", "--json").json
    assert again["queue_bytes"] == sum(link["bytes"] for link in plan["links"])
    assert [link["queue"] for link in again["links"]] == [link["queue"] for link in plan["links"]]


def sum_of_rings(cli: Cli) -> int:
    """Of the convolutions: each keeps a line of four pixels and some, of two channels."""
    facts = cli("build", "r.onnx", "--data", "r.npz", "--json").json
    rings = {stage["kind"]: stage["ring_bytes"] for stage in facts["stages"]}
    assert rings["conv"] >= 2 * 4 * 2
    assert rings["add"] is None
    total = facts["ring_bytes"]
    assert total == sum(stage["ring_bytes"] or 0 for stage in facts["stages"])
    assert isinstance(total, int)
    return total


def test_a_difference_is_said() -> None:
    assert compared(1200, 1200) == "1,200, as predicted"
    assert compared(10, 12) == "12, 2 more than predicted"
    assert compared(12, 10) == "10, 2 fewer than predicted"
    assert compared(12, None) == "predicted 12, not simulated"
