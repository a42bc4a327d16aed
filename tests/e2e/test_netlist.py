"""`hwflow sim --netlist`: the cells for place and route give the golden model's bytes, and broken ones do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwflow import onnx
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.netlist_proof import NetlistBench
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.records import kept
from hwflow.views.console.terminal import Console
from tests.e2e.command import Cli
from tests.e2e.conftest import SIM
from tests.e2e.networks import gated, write_data
from tests.project.tree import ROOT

MODEL, DATA = ROOT / "models" / "digits_mlp.onnx", ROOT / "models" / "digits_mlp.npz"
#: The lowest bit of the first word of a ROM, in each family's parameters.
FIRST_BIT = {"ice40": "INIT_0", "ecp5": "INITVAL_00", "gowin": "INIT_RAM_00"}


def test_cells_are_of_one_kind(cli: Cli) -> None:
    done = cli(*SIM, "--netlist", "--bitstream")
    assert (done.code, done.message) == (2, "--bitstream must not be given together with --netlist: leave "
                                            "one of them out; see `hwflow sim --help`")
    done = cli(*SIM, "--bitstream", "--waves")
    assert done.message.startswith("--waves must not be given together with --bitstream: leave one of them out")


def test_waves_are_of_the_rtl_alone(cli: Cli) -> None:
    done = cli(*SIM, "--netlist", "--waves")
    assert done.code == 2
    assert done.message.startswith("--waves must not be given together with --netlist: leave one of them out")
    done = cli(*SIM, "--netlist", "--stalls", "0.5")
    assert done.code == 2
    assert done.message.startswith("--stalls must not be given together with --netlist: leave one of them out")
    done = cli(*SIM, "--clock", "board")
    assert done.code == 2
    assert done.message.startswith("--clock must be given together with --netlist;")


@pytest.mark.slow
def test_a_board_whose_oscillator_no_pll_takes(cli: Cli, tmp_path: Path) -> None:
    board = tmp_path / "slow.yaml"
    board.write_text((ROOT / "boards" / "icebreaker.yaml").read_text().replace("mhz: 12", "mhz: 8"))
    arguments = ("sim", str(MODEL), "--data", str(DATA), "--netlist", "--board", str(board), "--build", str(tmp_path))
    done = cli(*arguments)
    assert done.code == 2
    assert "run on the oscillator with --clock board" in done.message
    done = cli(*arguments, "--clock", "board", "--json")
    assert done.code == 0, done
    assert done.json["equal"]
    assert not {"SB_PLL40_CORE", "SB_PLL40_2_PAD"} & set(done.json["cells"])


@pytest.mark.slow
def test_a_netlist_with_a_queue_in_spram(cli: Cli, tmp_path: Path) -> None:
    onnx.save(gated(), tmp_path / "gated.onnx")
    data = write_data(tmp_path / "gated.npz", gated())
    for more in ((), ("--netlist",)):
        done = cli("sim", tmp_path / "gated.onnx", "--data", data, "--board", "icebreaker", "--build", tmp_path,
                   "--json", *more)
        assert done.code == 0, done
        assert done.json["equal"]
        if not more:
            assert done.json["resources"]["spram"] == 1
            assert done.json["full speed"]["interval"] == done.json["interval"]
            assert [each["predicted"] for each in done.json["full speed"]["latency"]] == [
                each["simulated"] for each in done.json["full speed"]["latency"]]
    assert (done.json["frames"], done.json["cells"]["SB_SPRAM256KA"]) == (3, 1)
    rtl, netlist = (kept(tmp_path / "gated" / "icebreaker", kind) for kind in ("simulation", "netlist"))
    assert rtl is not None
    assert netlist is not None
    assert rtl.key == netlist.key, "both are of the same design"
    assert (netlist.facts["digest"], netlist.facts["equal"]) == (done.json["digest"], True)
    assert netlist.tools["yosys"].endswith(("(wheel)", "(native)"))


@pytest.mark.slow
def test_a_netlist_with_wide_constants_of_rescaling(cli: Cli, tmp_path: Path) -> None:
    done = cli("sim", str(MODEL), "--data", str(DATA), "--rescale-bits", "26", "--netlist", "--board", "ulx3s_85f",
               "--frames", "2", "--build", str(tmp_path), "--json")
    assert done.code == 0, done
    assert done.json["equal"]
    assert (done.json["frames"], done.json["bytes_compared"]) == (2, 20)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k", "ulx3s_85f"])
def test_a_netlist_equals_the_golden_model(board: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("sim", str(MODEL), "--data", str(DATA), "--netlist", "--board", board, "--build", str(tmp_path),
               "--json")
    assert done.code == 0, done
    proof = done.json
    assert proof["equal"]
    assert proof["difference"] is None
    assert (proof["frames"], proof["bytes_compared"]) == (3, 30)
    assert sum(proof["cells"].values()) > 4000

    pipeline = Pipeline(Console(quiet=True), Project(MODEL, data=DATA, build=tmp_path), hardware=HardwareOptions(board))
    broken = tmp_path / "broken.json"
    broken.write_text(with_other_weights(Path(proof["netlist"]), FIRST_BIT[pipeline.board.family]))
    bench = NetlistBench(broken, pipeline.design, tmp_path / "broken", tmp_path / ".cache" / "sim")
    again = bench.prove(pipeline.frames(3))
    assert not again.equal
    assert "where the golden model has" in str(again.difference)
    assert again.digest != proof["digest"]


def with_other_weights(netlist: Path, parameter: str) -> str:
    """The highest bit of the first weight of every ROM of weights the other way round."""
    text = json.loads(netlist.read_text())
    cells = [cell for name, cell in text["modules"]["top"]["cells"].items()
             if "weights" in name and parameter in cell["parameters"]]
    assert cells
    for cell in cells:
        bits = list(cell["parameters"][parameter])
        bits[~7] = "10"[int(bits[~7])]
        cell["parameters"][parameter] = "".join(bits)
    return json.dumps(text)
