"""Commands on TensorFlow Lite files: they say and do what they do with the ONNX model of the same meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hwflow
import hwflow.onnx
from hwflow.onnx.model import Array
from tests.e2e.command import Cli
from tests.tflite import runtimes
from tests.tflite.writer import Maker


def network(weights: str = "INT8") -> tuple[bytes, Array]:
    """A small int8 network with a skip connection, and rows; with FLOAT32 activations where `weights` are FLOAT32.

    `HYBRID` has int8 weights between real activations, as converters write for a dynamic range.
    """
    rng, m, real = np.random.default_rng(3), Maker(), weights != "INT8"
    width = "FLOAT32" if real else "INT8"

    def tensor(name: str, shape: list[int], scale: float) -> int:
        return m.tensor(name, shape, width, scale=None if real else scale)

    def constants(name: str, shape: list[int], axis: int, x_scale: float) -> tuple[int, int]:
        values, scale = rng.normal(0, 0.3, shape), np.full(shape[axis], 0.01, np.float32)
        if weights == "FLOAT32":
            w = m.tensor(name, shape, "FLOAT32", values)
        else:
            w = m.tensor(name, shape, "INT8", np.clip(np.round(values / 0.01), -127, 127),
                         scale=0.01 if weights == "HYBRID" else scale, axis=axis)
        b = rng.normal(0, 0.3, shape[axis])
        if real:
            return w, m.tensor(f"{name}_bias", [len(b)], "FLOAT32", b)
        return w, m.tensor(f"{name}_bias", [len(b)], "INT32", np.round(b / (0.01 * x_scale)), scale=0.01 * x_scale)

    x, a = tensor("x", [1, 8, 8, 2], 0.02), tensor("a", [1, 8, 8, 4], 0.02)
    d, s = tensor("d", [1, 8, 8, 4], 0.03), tensor("s", [1, 8, 8, 4], 0.05)
    p, f, y = tensor("p", [1, 4, 4, 4], 0.05), tensor("f", [1, 64], 0.05), tensor("y", [1, 3], 0.1)
    window = {"padding": 0, "stride_w": 1, "stride_h": 1, "activation": 1}
    m.operator("CONV_2D", [x, *constants("w1", [4, 3, 3, 2], 0, 0.02)], [a], "Conv2DOptions", window)
    m.operator("DEPTHWISE_CONV_2D", [a, *constants("w2", [1, 3, 3, 4], 3, 0.02)], [d], "DepthwiseConv2DOptions",
               {**window, "multiplier": 1, "activation": 0})
    m.operator("ADD", [a, d], [s], "AddOptions", {"activation": 1})
    m.operator("MAX_POOL_2D", [s], [p], "Pool2DOptions",
               {"padding": 1, "stride_w": 2, "stride_h": 2, "filter_w": 2, "filter_h": 2})
    m.operator("RESHAPE", [p, m.tensor("shape", [2], "INT32", [1, 64])], [f])
    m.operator("FULLY_CONNECTED", [f, *constants("w3", [3, 64], 0, 0.05)], [y], "FullyConnectedOptions", {})
    rows = rng.normal(0, 1, (40, 1, 8, 8, 2)).astype(np.float32)
    return m.file([x], [y]), rows if real else np.clip(np.round(rows / 0.02), -128, 127).astype(np.int8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data, rows = network()
    (tmp_path / "net.bin").write_bytes(data)  # the name says nothing
    np.savez(tmp_path / "net.npz", in_x=rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_info_and_golden(cli: Cli, folder: Path) -> None:
    checked = cli("check", "net.bin", "--hardware")
    assert checked.code == 0
    assert "net.bin: no error, no warning; a valid TensorFlow Lite file" in checked.out
    assert "5 layers" in " ".join(checked.out.split())
    assert "input x: int8[1, 8, 8, 2]" in cli("info", "net.bin").out
    assert cli("golden", "net.bin", "--data", "net.npz").code == 0
    assert np.load("build/net/golden/outputs.npz")["out_y"].shape[0] == 40


def test_convert_writes_the_same_model(cli: Cli, folder: Path) -> None:
    assert cli("onnx", "convert", "net.bin", "net.onnx").code == 0
    first, second = (hwflow.onnx.load(name) for name in ("net.bin", "net.onnx"))
    assert first.graph == second.graph
    assert first.metadata == second.metadata
    assert cli("check", "net.onnx", "--hardware").code == 0


def test_golden_gives_the_integers_of_litert() -> None:
    data, rows = network()
    model = hwflow.onnx.simplify(hwflow.onnx.infer(hwflow.onnx.loads(data)))
    found = next(iter(hwflow.run_golden(hwflow.quantize_model(model, {"x": rows}), {"x": rows}).values()))
    expected = np.array([row[0] for row in runtimes.run(runtimes.LITERT, data, [[row] for row in rows])])
    steps = np.abs(found.reshape(expected.shape).astype(int) - expected)
    assert steps.max() <= 1
    assert np.mean(steps == 0) > 0.9


@pytest.mark.parametrize("weights", ["FLOAT32", "HYBRID"])
def test_real_activations_are_calibrated(weights: str) -> None:
    data, rows = network(weights)
    model = hwflow.onnx.simplify(hwflow.onnx.infer(hwflow.onnx.loads(data)))
    found = next(iter(hwflow.run_golden(hwflow.quantize_model(model, {"x": rows}), {"x": rows}).values()))
    real = np.array([next(iter(hwflow.onnx.evaluate(model, {"x": row}).values())) for row in rows])
    assert np.abs(found.reshape(real.shape) - real).max() < 0.05 * np.abs(real).max()


@pytest.mark.slow
def test_simulation_is_equal(cli: Cli, folder: Path) -> None:
    done = cli("sim", "net.bin", "--data", "net.npz")
    assert done.code == 0
    assert "bit for bit" in done.out
