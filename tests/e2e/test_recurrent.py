"""Recurrent networks on the command line, in the form in which torch writes them: both directions, two stacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model
from tests.e2e.command import Cli
from tests.quantize.recurrent_models import GATES, sequence

F = np.float32
STEPS, HIDDEN, CLASSES = 12, 8, 4
#: The share of rows that integers may lose: half a point.
LOST = 0.005


def waves(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """One of four waves each, loud or quiet, with noise: [count, 1, STEPS, 2], and which one it is."""
    shapes = np.random.default_rng(0).normal(0, 1, (CLASSES, STEPS, 2))
    labels, loud = rng.integers(0, CLASSES, count), rng.uniform(0.6, 1.4, (count, 1, 1))
    x = loud * shapes[labels] + rng.normal(0, 0.1, (count, STEPS, 2))
    return x[:, None].astype(F), labels


def torch_form(op: str, head: Array) -> Model:
    """As `torch.onnx.export` writes `op(bidirectional=True, num_layers=2, batch_first=True)` and a Linear behind it."""
    b, rng = Builder(op.lower()), np.random.default_rng(7)
    y = b.node("Transpose", b.input("x", F, (1, STEPS, 2)), perm=[1, 0, 2])
    zeros = b.node("ConstantOfShape", b.constant("sizes", np.array([2, 1, HIDDEN])), value=np.zeros(1, F))
    for k, inputs in enumerate((2, 2 * HIDDEN)):
        rows = GATES[op] * HIDDEN
        shapes = {"w": (2, rows, inputs), "r": (2, rows, HIDDEN), "b": (2, 2 * rows)}
        w, r, bias = (b.constant(f"{name}{k}", rng.normal(0, size / np.sqrt(shape[-1]), shape).astype(F))
                      for (name, shape), size in zip(shapes.items(), (1.5, 1.0, 0.5), strict=True))  # fmt: skip
        states: list[str] = [zeros] * (2 if op == "LSTM" else 1)
        outputs = ("", f"h{k}", f"c{k}")[: 1 + len(states)]
        extra: dict[str, Any] = {"linear_before_reset": 1} if op == "GRU" else {}
        y = b.nodes(op, y, w, r, bias, "", *states, outputs=outputs, direction="bidirectional", hidden_size=HIDDEN,
                    **extra)[0]  # fmt: skip
        y = b.node("Transpose", y, perm=[0, 2, 1, 3])
        y = b.node("Reshape", y, b.constant(f"shape{k}", np.array([0, 0, -1])))
    y = b.node("Transpose", y, perm=[1, 0, 2])
    y = b.node("ReduceMean", y, axes=[1], keepdims=0)
    b.output(b.node("Gemm", y, b.constant("head", head.T.copy()), transB=1, output="scores"), F)
    return onnx.infer(b.model(opset=17))


def trained(op: str) -> Model:
    """With a head that fits the labels of other rows, by least squares."""
    x, labels = waves(np.random.default_rng(1), 500)
    whole = torch_form(op, np.eye(2 * HIDDEN, dtype=F))
    features = np.concatenate([onnx.evaluate(whole, {"x": row})["scores"] for row in x])
    wanted = 2.0 * np.eye(CLASSES)[labels] - 1
    head = np.linalg.solve(features.T @ features + 1e-2 * np.eye(2 * HIDDEN), features.T @ wanted)
    return torch_form(op, head.astype(F))


def saved(folder: Path, op: str, rows: int) -> tuple[Path, Path]:
    """The model and its data: so many rows, and 400 others for calibration."""
    file, data = folder / "net.onnx", folder / "net.npz"
    onnx.save(trained(op), file)
    rng = np.random.default_rng(2)
    x, labels = waves(rng, rows)
    np.savez(data, in_x=x, labels=labels, calib_x=waves(rng, 400)[0])
    return file, data


@pytest.mark.quick(1)
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_two_stacked_in_both_directions_keep_their_accuracy(cli: Cli, tmp_path: Path, op: str) -> None:
    file, data = saved(tmp_path, op, 400)
    done = cli("golden", file, "--data", data, "--build", tmp_path / "build", "--json")
    assert done.code == 0, done
    (share,) = done.json["accuracy"]["metrics"]
    assert share["real"] > 0.9
    assert share["real"] - share["integer"] <= LOST


@pytest.mark.slow
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_two_stacked_in_both_directions_in_rtl(cli: Cli, tmp_path: Path, op: str) -> None:
    file, data = saved(tmp_path, op, 20)
    done = cli("sim", file, "--data", data, "--build", tmp_path / "build", "--json")
    assert done.code == 0, done
    assert done.json["equal"] is True


def test_the_commands_say_the_same_of_functions(cli: Cli, tmp_path: Path) -> None:
    """A gate that leaves 0 to 1 is refused by `check --hardware` and `quantize`, states without an end by neither."""
    onnx.save(sequence("GRU", "all", activations=["Softsign", "Tanh"]), tmp_path / "gate.onnx")
    onnx.save(sequence("LSTM", "all", activations=["Sigmoid", "Relu", "Relu"]), tmp_path / "endless.onnx")
    place = ("--build", tmp_path / "build")
    refused = cli("check", "--hardware", tmp_path / "gate.onnx")
    assert refused.code == 1
    why = "the function of its gates must stay inside of 0 to 1, which Softsign does not; take Sigmoid or HardSigmoid"
    assert why in " ".join(refused.out.split())
    assert cli("quantize", tmp_path / "gate.onnx", *place).code == 2
    assert cli("check", "--hardware", tmp_path / "endless.onnx").code == 0
    assert cli("quantize", tmp_path / "endless.onnx", *place).code == 0
