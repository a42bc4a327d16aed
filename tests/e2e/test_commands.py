"""Every other command where all is well, for people and as JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow.synth import list_boards
from tests.boards import BOARDS
from tests.e2e.command import Cli

SMALL = ("small.onnx", "--data", "small.npz")


def test_check(cli: Cli) -> None:
    done = cli("check", "small.onnx")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == [
        "small.onnx: no error, 1 warning; a valid ONNX file", "small.onnx: 5 of 5 nodes map to hardware; 3 layers"]
    result = cli("check", "small.onnx", "--json").json
    codes = [finding.pop("code") for finding in result["findings"]]
    assert codes == ["W-model-domain"]
    assert {key for finding in result.pop("findings") for key in finding} == {
        "severity", "rule", "path", "message", "remedy"}
    hardware = cli("check", "small.onnx", "--hardware", "--json").json
    del hardware["findings"]
    assert result == hardware
    assert {name: result[name] for name in ("exit_code", "valid", "errors", "warnings", "possible", "layers")} == {
        "exit_code": 0, "valid": True, "errors": 0, "warnings": 1, "possible": True, "layers": ["conv", "pool", "fc"]}


def test_info(cli: Cli) -> None:
    done = cli("info", "small.onnx")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:5] == [
        "small.onnx: IR 9, opset ai.onnx 20, producer hwflow",
        "  input x: float32[1, 2, 4, 4]",
        "  output fc_out: float32[1, 3]",
        "  operators: 1 Conv, 1 Flatten, 1 Gemm, 1 MaxPool, 1 Relu",
        "  parameters: 65 (260 bytes)",  # 2*2*9 + 2, 8*3 + 3
    ]
    found = cli("info", "small.onnx", "--json").json
    assert [(layer["name"], layer["macs"]) for layer in found["layers"]] == [("conv", 16 * 2 * 18), ("fc", 24)]
    assert found["layers_in_hardware"] == ["conv", "pool", "fc"]


def test_quantize(cli: Cli) -> None:
    done = cli("quantize", *SMALL)
    assert done.code == 0
    assert "integer layers" in done.out
    assert "accuracy on 12 labelled rows: float " in done.out
    folder = Path(cli("quantize", *SMALL, "--json").json["folder"])
    assert {"qdq.onnx", "graph.yaml", "prologue.onnx", "epilogue.onnx"} <= {path.name for path in folder.iterdir()}
    assert cli("check", folder / "qdq.onnx").code == 0, "what hwflow writes follows the rules and maps again"


def test_golden(cli: Cli) -> None:
    result = cli("golden", *SMALL, "--json").json
    assert result["accuracy"]["rows"] == 12
    with np.load(result["outputs"]) as outputs:
        assert outputs["out_fc_out"].shape == (12, 3)
        assert outputs["out_fc_out"].dtype == np.float32
    done = cli("golden", *SMALL)
    assert done.code == 0
    assert done.out.endswith("outputs written to build/small/golden/outputs.npz\n")


@pytest.mark.parametrize("board", BOARDS)
def test_build(cli: Cli, board: str) -> None:
    done = cli("build", *SMALL, "--board", board)
    assert done.code == 0
    assert f"plan for {board}" in done.out
    result = cli("build", *SMALL, "--board", board, "--json").json
    assert result["board"] == board
    assert result["interval"] == max(stage["interval"] for stage in result["stages"])
    assert "module hwflow_core(" in Path(result["rtl"], "hwflow_core.v").read_text()
    assert Path(result["plan"]).is_file()


def test_build_for_a_frame_rate(cli: Cli) -> None:
    result = cli("build", *SMALL, "--board", "icebreaker", "--frames-per-second", "1000")
    assert result.code == 0
    assert "planned for 1,000 frames/s at 27.75 MHz, the clock that routed" in result.out
    facts = cli("build", *SMALL, "--board", "icebreaker", "--frames-per-second", "1000", "--json").json
    assert facts["interval"] <= 27_750
    both = cli("build", *SMALL, "--frames-per-second", "9", "--interval", "9")
    assert both.code == 2
    assert "--frames-per-second must not be given together with --interval: leave one of them out" in both.err


def test_build_with_axi_stream_ports(cli: Cli) -> None:
    done = cli("build", *SMALL, "--axi-stream")
    assert done.code == 0
    assert "AXI4-Stream ports" in done.out
    result = cli("build", *SMALL, "--axi-stream", "--json").json
    top = Path(result["axi_stream"])
    assert "module hwflow_axi_stream(" in top.read_text()
    ends = [(port["port"], port["elements_of_beat"] * port["beats_of_frame"]) for port in result["ports"]]
    assert ends == [("s_axis", 32), ("m_axis", 3)]
    assert all(port["tdata_bits"] == 8 * port["elements_of_beat"] for port in result["ports"])
    without = cli("build", *SMALL, "--json").json  # the same plan: it may stay
    assert "axi_stream" not in without
    assert top.is_file()
    assert cli("build", *SMALL, "--interval", "5000").code == 0  # another one: it would be stale
    assert not top.exists()


def test_the_same_model_gives_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    for build in ("one", "two"):
        assert cli("build", *SMALL, "--build", tmp_path / build).code == 0
    for name in ("ulx3s_85f/plan.yaml", "ulx3s_85f/rtl/hwflow_core.v", "quantized/arrays.npz", "quantized/graph.yaml"):
        assert (tmp_path / "one/small" / name).read_bytes() == (tmp_path / "two/small" / name).read_bytes(), name


def test_boards(cli: Cli) -> None:
    done = cli("boards")
    assert done.code == 0
    boards = cli("boards", "--json").json["boards"]
    assert [board["name"] for board in boards] == list(list_boards())
    for board in boards:
        assert board["name"] in done.out
        assert board["title"] in done.out


def test_doctor(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0, done.out
    tools = cli("doctor", "--json").json["tools"]
    assert {"verilator", "cocotb", "C++ compiler", "yosys", "pyserial", "openFPGALoader", "iceprog"} <= {
        tool["name"] for tool in tools}
    assert all(tool["name"] in done.out for tool in tools)
