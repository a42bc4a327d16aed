"""`hwflow sim`: what it prints, what it caches, and that it finds every kind of difference."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hwflow_sim.builder import Build

from hwflow import onnx
from hwflow.layers.base import LayerGraph
from hwflow.quantize import load_quantized
from tests.e2e.command import Cli, Outcome, share
from tests.e2e.conftest import SIM
from tests.e2e.networks import small_network

RUNS = ("full speed", "random stalls")


def table(out: str) -> list[list[str]]:
    """The rows of the table, without the heading."""
    lines = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    return [line for line in lines if re.match(r"\d+_", line[0])]


def test_every_stage_is_equal_in_both_runs(simulated: tuple[Path, Outcome]) -> None:
    _, done = simulated
    assert done.code == 0, done
    rows = table(done.out)
    assert [row[0] for row in rows] == ["0_conv", "1_pool", "2_fc"]
    assert [row[1] for row in rows] == ["conv", "max pool", "dense"]
    assert all(row[-1] == "equal" for row in rows), "in both runs"
    assert all(row[2] == row[3] for row in rows), "cycles predicted and simulated"
    assert done.out.endswith("equal: 3 stages, 10 frames, full speed and random stalls, bit for bit\n")
    accuracy, = re.findall(r"accuracy on 12 labelled rows: float ([0-9.]+) %, integer ([0-9.]+) %", done.out)
    assert all(0 <= float(share) <= 100 for share in accuracy)
    found, = re.findall(r"cycles from frame to frame: ([\d,]+), as predicted", done.out)
    assert re.search(r"  cycles to the first result of '[\w.]+': [\d,]+, as predicted\n", done.out)
    arrives, alone, cycles, mhz = re.findall(
        r"  ([\d,]+) frames/s: as many as the serial line \(\d+ baud\) carries\n  the FPGA alone: ([\d,]+) frames/s, a "
        r"frame every ([\d,]+) cycles at (\d+\.\d) MHz \(estimated, off by \d+ % on average\)", done.out)[0]
    assert cycles == found
    assert int(alone.replace(",", "")) == pytest.approx(float(mhz) * 1e6 / int(found.replace(",", "")), rel=1e-3)
    assert int(arrives.replace(",", "")) < int(alone.replace(",", ""))


def test_the_same_as_json(cli: Cli) -> None:
    result = cli(*SIM, "--json").json
    assert result["exit_code"] == 0
    assert result["equal"] is True
    assert result["accuracy"]["rows"] == 12
    full = result["full speed"]
    assert full["interval"] == result["interval"]
    (latency,) = full["latency"]
    assert latency["predicted"] == latency["simulated"] == full["first_output_cycle"] == result["latency"][0]["cycles"]
    assert [stage["busy_cycles_per_frame"] for stage in full["stages"]] == [s["work"] for s in result["stages"]]
    assert all(stage["equal"] for run in RUNS for stage in result[run]["stages"])
    assert all(result[run]["failures"] == [] for run in RUNS)
    assert result["random stalls"]["cycles"] > full["cycles"]


@pytest.fixture
def nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("this simulation is compiled already")

    monkeypatch.setattr(Build, "verilate", refused)


@pytest.mark.usefixtures("nothing_compiles")
def test_a_second_run_computes_nothing_again(cli: Cli) -> None:
    done = cli(*SIM)
    assert done.code == 0
    for step in ("calibrate", "generate Verilog", "golden model"):
        assert step not in done.err


@pytest.mark.usefixtures("nothing_compiles")
def test_other_weights_use_the_compiled_simulation(cli: Cli, cache: Path, tmp_path: Path) -> None:
    """Weights are read from files: other values of the same range, the same executable, and still equal."""
    model = small_network()
    values = dict(model.graph.initializers)
    values |= {name: values[name][[2, 0, 1]] for name in ("constant3", "constant4")}  # the outputs change places
    onnx.save(replace(model, graph=replace(model.graph, initializers=values)), tmp_path / "small.onnx")
    share(cache, tmp_path / "build/.cache/sim")
    done = cli("sim", tmp_path / "small.onnx", "--data", "small.npz", "--build", tmp_path / "build")
    assert done.code == 0
    assert "calibrate and quantize ..." in done.err


@pytest.mark.slow
def test_without_data_random_frames_are_simulated(cli: Cli) -> None:
    shutil.copy("small.onnx", "random.onnx")
    done = cli("sim", "random.onnx", "--frames", "3")
    assert done.code == 0
    assert "no data: 3 frames of random integers are simulated; give real ones with --data" in done.err
    assert "equal: 3 stages, 3 frames, " in done.out
    assert "accuracy" not in done.out


@pytest.mark.slow
def test_few_rows_are_repeated(cli: Cli) -> None:
    with np.load("small.npz") as arrays:
        np.savez("few.npz", in_x=arrays["in_x"][:3])
    shutil.copy("small.onnx", "few.onnx")
    done = cli("sim", "few.onnx", "--data", "few.npz", "--frames", "7")
    assert done.code == 0
    assert "the data has 3 of the 7 frames to simulate; they are repeated" in done.err
    assert "equal: 3 stages, 7 frames, " in done.out


@pytest.mark.slow
def test_waves(cli: Cli) -> None:
    done = cli(*SIM, "--waves", "--frames", "2", "--build", "waves")
    assert done.code == 0
    for name in ("full_speed.fst", "random_stalls.fst"):
        content = Path("waves/small/ulx3s_85f/sim", name).read_bytes()
        assert len(content) > 1000
        assert content[0] == 0, "a block of kind 0, the header, starts an FST file"
        assert f"waves/small/ulx3s_85f/sim/{name}" in done.out


def test_an_edited_plan_changes_the_hardware(cli: Cli, cache: Path) -> None:
    share(cache, Path("slow/.cache/sim"))
    plan = yaml.safe_load(Path("build/small/ulx3s_85f/plan.yaml").read_text())
    fast = plan["interval"]
    plan["stages"][0].update(rows=1, cols=1)
    Path("slow.yaml").write_text(yaml.safe_dump(plan))
    result = cli(*SIM, "--plan", "slow.yaml", "--build", "slow", "--json").json
    assert result["exit_code"] == 0
    assert result["stages"][0]["rows"] == result["stages"][0]["cols"] == 1
    assert result["interval"] == result["full speed"]["interval"] == 16 * 2 * 18 > fast
    written = yaml.safe_load(Path("slow/small/ulx3s_85f/plan.yaml").read_text())
    assert written["stages"][0]["cycles"] == 16 * 2 * 18
    note = "plan slow.yaml: computed anew, not read from the file: "
    assert note + "interval (576, in the file " in cli("build", *SIM[1:4], "--plan", "slow.yaml", "--build", "slow").err
    Path("slow.yaml").write_text(yaml.safe_dump({**written, "interval": 5}))
    assert note + ("interval (576, in the file 5); to change a design, edit what the file's first lines name\n") in cli(
        "build", *SIM[1:4], "--plan", "slow.yaml", "--build", "slow").err
    Path("slow.yaml").write_text(yaml.safe_dump(written))
    assert note not in cli("build", *SIM[1:4], "--plan", "slow.yaml", "--build", "slow").err


@pytest.mark.parametrize("seed", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_seeds_change_the_stalls_and_not_the_result(cli: Cli, seed: int) -> None:
    result = cli(*SIM, "--seed", seed, "--stalls", "0.9", "--json").json
    assert result["exit_code"] == 0
    assert result["random stalls"]["cycles"] > 2 * result["full speed"]["cycles"]


# What follows spoils something and must be found.


@pytest.fixture
def graph(place: Path) -> LayerGraph:
    return load_quantized(place / "build/small/quantized").graph


def spoil(monkeypatch: pytest.MonkeyPatch, layer: str, frame: int, position: tuple[int, int, int], by: int) -> None:
    """Let the golden model that the simulation compares with be wrong in one element."""
    from hwflow.pipeline import simulation

    right = simulation.golden.run

    def wrong(graph: LayerGraph, frames: np.ndarray) -> dict[str, np.ndarray]:
        result = dict(right(graph, frames))
        name = next(x.output for x in graph.layers if x.name == layer)
        result[name] = result[name].copy()
        result[name][(frame, *position)] += by
        return result

    monkeypatch.setattr(simulation.golden, "run", wrong)


@pytest.mark.quick(1)
@pytest.mark.parametrize("layer, stage, frame, position", [
    ("conv", "0_conv", 9, (3, 2, 1)), ("conv", "0_conv", 0, (0, 0, 0)), ("pool", "1_pool", 4, (1, 0, 1)),
    ("fc", "2_fc", 7, (0, 0, 2))])
def test_one_different_element_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch, layer: str, stage: str, frame: int,
                                        position: tuple[int, int, int]) -> None:
    spoil(monkeypatch, layer, frame, position, by=1)
    done = cli(*SIM)
    assert done.code == 1
    row, column, channel = position
    found = re.findall(
        rf"error: (full speed|random stalls): stage '{stage}' \(layer '{layer}'\) differs first in frame {frame} at "
        rf"row {row}, column {column}, channel {channel}: golden (-?\d+), RTL (-?\d+)\n", done.err)
    assert [name for name, *_ in found] == list(RUNS)
    assert all(int(golden) == int(got) + 1 for _, golden, got in found)
    rows = {row[0]: row[-1] for row in table(done.out)}
    assert rows.pop(stage) == "DIFFERENT at full speed and random stalls"
    assert set(rows.values()) == {"equal"}
    assert "bit for bit" not in done.out
    result = cli(*SIM, "--json")
    assert result.code == result.json["exit_code"] == 1
    assert result.json["equal"] is False
    assert stage in result.json["full speed"]["failures"][0]


def test_a_wrong_weight_in_the_rtl_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit of one ROM file, changed between the making of the simulation and its run."""
    from hwflow.pipeline import simulation as module

    right = module.run_plan

    def tampered(simulation: object, *arguments: object, **options: object) -> object:
        rom = simulation.folder / "stage2_fc_weights0.hex"  # type: ignore[attr-defined]
        first, rest = rom.read_text().split("\n", 1)
        rom.write_text(f"{int(first, 16) ^ 1:0{len(first)}x}\n{rest}")
        return right(simulation, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_plan", tampered)
        done = cli(*SIM)
    assert done.code == 1
    assert re.search(r"error: full speed: stage '2_fc' \(layer 'fc'\) differs first in frame \d+ at row 0, column 0, "
                     r"channel [012]: golden -?\d+, RTL -?\d+", done.err)
    assert cli(*SIM).code == 0, "the next run writes the contents of the ROMs again"
