"""`hwflow run --simulate` and `hwflow serve --simulate` as a user calls them: no hardware, no tools for synthesis."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import hwflow
from hwflow import golden, onnx
from hwflow.host import Patience
from hwflow.pipeline.records import kept
from tests.e2e.command import Cli, environment
from tests.e2e.networks import rows_for, small_network, write_data
from tests.host.models import require_golden

pytestmark = pytest.mark.slow  # Verilator and a compiler
RUN = ("run", "small.onnx", "--data", "small.npz", "--simulate")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and its data; results of one test are there for the next."""
    folder = tmp_path_factory.mktemp("simulated")
    onnx.save(small_network(), folder / "small.onnx")
    write_data(folder / "small.npz", small_network(), rows=30, labels=np.arange(30) % 3)
    return folder


@pytest.fixture
def cli(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    return Cli(capsys)


def test_run(cli):
    done = cli(*RUN)
    assert done.code == 0, done.err
    assert re.search(r"small on ulx3s_85f, the simulated board at 3000000 baud, design [0-9a-f]{16}\n", done.out)
    assert "  shares of the time, side by side: line " in done.out
    assert done.out.endswith("equal: 30 frames, every output of the board is that of the golden model, bit for bit\n")
    facts = cli(*RUN, "--rows", "9", "--json").json
    assert (facts["equal"], facts["rows"], facts["simulated"]) == (True, 9, True)
    assert facts["frames_per_second"] < facts["line_frames_per_second"] == 300_000 / 32
    assert facts["shares"].keys() == {"line", "core", "host"}
    record = kept(Path("build/small/ulx3s_85f"), "simulated_board")
    assert record is not None
    assert (record.facts["rows"], record.facts["equal"], record.facts["design"]) == (9, True, facts["design"])
    assert len(record.facts["results"]) == 64


def test_the_plan_and_the_integers_of_the_build_folder_are_taken(cli):
    """A slower design than the default one, in the integers of a command before: the simulated board is that design."""
    assert cli("build", "small.onnx", "--data", "small.npz", "--bits", "5", "--interval", "900").code == 0
    before = Path("build/small/quantized").stat().st_mtime_ns
    facts = cli(*RUN, "--rows", "5", "--json").json
    assert facts["equal"]
    assert facts["core_frames_per_second"] < 25e6 / 400
    assert Path("build/small/quantized").stat().st_mtime_ns == before


def test_what_does_not_go_together(cli):
    assert cli.refuses(*RUN, "--port", "/dev/x") == (
        "--port must not be given together with --simulate: leave one of them out; see `hwflow run --help`")
    assert "transport must be one that ulx3s_85f has" in cli.refuses(*RUN, "--transport", "telepathy")
    assert cli.refuses("run", "small.onnx", "--terminal") == (
        "--terminal must be given together with --simulate; see `hwflow run --help`")
    assert "--transport must be given together with --simulate" in cli.refuses(
        "run", "small.onnx", "--data", "small.npz", "--port", "/dev/x", "--transport", "uart")
    assert "--port must not be given together with --simulate" in cli.refuses(
        "serve", "small.onnx", "--simulate", "1", "--port", "/dev/x")
    assert "simulated with --simulate COUNT" in cli.refuses("serve", "small.onnx")
    assert "a token must be given where others reach the server" in cli.refuses(
        "serve", "small.onnx", "--simulate", "1", "--host", "0.0.0.0")


def started(place: Path, *words: str) -> tuple[subprocess.Popen[str], re.Match[str]]:
    """A command that goes on, and what it says when it is ready."""
    child = subprocess.Popen([sys.executable, "-m", "hwflow.cli", *words], cwd=place, env=environment(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, stream = "", child.stderr if "--json" in words else child.stdout
    while not (found := re.search(r"(http://\S+|/dev/pts/\d+)", text)):
        line = stream.readline()
        assert line, text + child.stderr.read()
        text += line
    return child, found


def test_serve_until_a_signal(place):
    """Requests that were accepted when the signal came have answers, and the exit code is 0."""
    child, found = started(place, "serve", "small.onnx", "--data", "small.npz", "--simulate", "2", "--http-port", "0",
                           "--json")
    x = rows_for(small_network(), 20)["x"]
    entry = {"name": "x", "datatype": "FP32", "shape": [20, 2, 4, 4], "data": x.ravel().tolist()}
    data = json.dumps({"inputs": [entry]})
    (entry,) = json.loads(urllib.request.urlopen(f"{found[1]}/infer", data.encode(), 30).read())["outputs"]
    quantized = hwflow.quantize.load_quantized(place / "build/small/quantized")
    (expected,) = golden.predict(quantized, {"x": x}).values()
    np.testing.assert_array_equal(np.array(entry["data"], expected.dtype), expected.ravel())
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    facts = json.loads(out)
    assert (facts["answers"], facts["rows"]) == ({"200": 1}, 20)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(found[1], None, 5)


def test_a_pseudo_terminal_for_other_programs(place):
    child, found = started(place, "run", "small.onnx", "--data", "small.npz", "--simulate", "--terminal")
    try:
        folder = place / "build/small/ulx3s_85f/simulated"
        with hwflow.host.open(found[1], design=folder, patience=Patience(20.0, 60.0)) as board:
            x = rows_for(small_network(), 5)
            require_golden(board.design.quantized, board, x)
    finally:
        child.send_signal(signal.SIGINT)
        err = child.communicate(timeout=20)[1]
    assert child.returncode == 130, err


def test_a_simulated_board_in_python(tmp_path):
    model = hwflow.onnx.simplify(small_network())
    quantized = hwflow.quantize_model(model, rows_for(small_network(), 20))
    x = rows_for(small_network(), 12)
    with hwflow.simulated_board(quantized, folder=tmp_path) as board:
        for name, values in hwflow.run_golden(quantized, x).items():
            np.testing.assert_array_equal(board.run(x)[name], values)
        began = time.monotonic()
    assert time.monotonic() - began < 5
