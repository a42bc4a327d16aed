"""Models whose state stays on the chip: `hwflow sim --streaming`, boards that begin a new sequence, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hwflow
from hwflow import golden, onnx
from hwflow.onnx.model import Array, Model
from tests.e2e.command import Cli
from tests.quantize.recurrent_models import apart, packed, sequence


def rows(model: Model, count: int) -> Array:
    x = model.graph.inputs[0].tensor
    assert x is not None
    shape = tuple(int(size) for size in x.shape or ())  # type: ignore[arg-type]
    return np.random.default_rng(4).normal(0, 1, (count, *shape)).astype(np.float32)


def saved(folder: Path, model: Model, count: int = 12) -> tuple[Path, Path]:
    onnx.save(model, folder / "voice.onnx")
    np.savez(folder / "voice.npz", in_x=rows(model, count))
    return folder / "voice.onnx", folder / "voice.npz"


def test_a_model_without_a_state_does_not_stream(cli: Cli, tmp_path: Path) -> None:
    file, data = saved(tmp_path, sequence("RNN"))
    done = cli("sim", file, "--data", data, "--streaming", "--build", tmp_path / "build")
    assert done.code == 2
    assert done.message.startswith("--streaming must be given for a model that keeps a state from frame to frame")


def test_states_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    file, data = saved(tmp_path, apart("LSTM"))
    wrong = cli("quantize", file, "--data", data, "--state", "h0=cn", "--state", "c0=hn", "--build", tmp_path / "build")
    assert wrong.code == 2
    assert "--state h0=cn must name an output that gives the next value of 'h0'" in wrong.message
    unpaired = cli("quantize", file, "--state", "h0")
    assert unpaired.code == 2
    assert "'h0' must be an input's name and an output's, like h0=hn" in unpaired.message
    done = cli("golden", file, "--data", data, "--state", "h0=hn", "--state", "c0=cn", "--build", tmp_path / "build")
    assert done.code == 0, done
    assert "input 'c0' and output 'cn' are a state, which stays on the chip" in done.err


@pytest.mark.slow
def test_frames_of_several_clients_are_no_sequence(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    file, data = saved(tmp_path, packed())
    done = cli("serve", file, "--data", data, "--simulate", "1", "--build", tmp_path / "build")
    assert done.code == 2
    assert done.message.startswith("a model that is served must keep no state from frame to frame, and this one does")


@pytest.mark.slow
@pytest.mark.parametrize(("model", "frames"), [(packed(), 12), (apart("GRU", linear_before_reset=1), 12)])
def test_a_sequence_in_rtl(cli: Cli, tmp_path: Path, model: Model, frames: int) -> None:
    file, data = saved(tmp_path, model, frames)
    done = cli("sim", file, "--data", data, "--streaming", "--build", tmp_path / "build")
    assert done.code == 0, done
    assert f"{frames} frames of one sequence, full speed and random stalls, bit for bit" in done.out


@pytest.mark.slow
def test_a_sequence_through_the_pins_of_a_netlist(cli: Cli, tmp_path: Path) -> None:
    """Twice, with a reset between, so the state of the first one is gone."""
    file, data = saved(tmp_path, packed(), 5)
    done = cli("sim", file, "--data", data, "--netlist", "--frames", "5", "--build", tmp_path / "build", "--json")
    assert done.code == 0, done
    assert (done.json["equal"], done.json["frames"]) == (True, 10)


@pytest.mark.slow
def test_a_board_goes_on_until_its_state_is_reset(tmp_path: Path) -> None:
    model = hwflow.load(saved(tmp_path, packed())[0])
    x = rows(model, 20)
    quantized = hwflow.quantize_model(model, x)
    expected = golden.as_batch(golden.predict(quantized, {"x": x}))["out"]
    assert not np.array_equal(golden.as_batch(golden.predict(quantized, {"x": x[7:]}))["out"], expected[7:])
    with hwflow.simulated_board(quantized, folder=tmp_path) as board:
        for _ in range(2):
            parts = [board.run(part)["out"] for part in (x[:7], x[7:8], x[8:])]
            np.testing.assert_array_equal(np.concatenate(parts), expected)
            board.reset_state()
        results = board.stream(iter([x[:3], x[3:6], x[6:9]]))
        np.testing.assert_array_equal(next(results)["out"], expected[:3])
        board.reset_state()  # also in the middle of a stream, which is over then
        with pytest.raises(hwflow.HwflowError, match="a stream must end before the next call"):
            list(results)
        np.testing.assert_array_equal(board.run(x[:9])["out"], expected[:9])
