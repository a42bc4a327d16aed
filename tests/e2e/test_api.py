"""hwflow from a script, as the documentation of `hwflow.api` shows it."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import hwflow
import hwflow.api
from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import environment, share

#: What the result holds, by the names of the tensors, against the golden model.
VALUES = """
from hwflow import golden
expected = golden.run(quantized, golden.run_prologue(quantized, data.first(10).inputs))
assert list(result.values) == list(expected) and len(expected) == 4
for name, values in result.values.items():
    assert values.dtype.itemsize == 1 and values.shape == expected[name].shape
    assert (values == expected[name]).all(), name
import pickle
again = pickle.loads(pickle.dumps(result))
assert (again, hash(again)) == (result, hash(result)) and (again.outputs[0].values == result.outputs[0].values).all()
print(result.interval, plan.interval)
"""


def test_the_example(place: Path, cache: Path) -> None:
    """The lines of the docstring, word for word, with the small model's files in place of the example's."""
    text = hwflow.__doc__ or ""
    example = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ")))
    assert example.startswith("import hwflow\n")
    share(cache, place / "build/simulation/cache")
    example = example.replace("model.onnx", "small.onnx").replace("data.npz", "small.npz")
    done = subprocess.run([sys.executable, "-W", "error", "-c", f"{example}\n{VALUES}"],
                          cwd=place, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"\d+", done.stdout.splitlines()[-1])
    assert found[0] == found[1]


def test_values_are_arrays_and_frozen_dataclasses(place: Path) -> None:
    model = hwflow.load(place / "small.onnx")
    data = hwflow.read_data(place / "small.npz", model)
    quantized = hwflow.quantize_model(model, data)
    outputs = hwflow.run_golden(quantized, data)
    assert outputs["fc_out"].shape == (12, 3)
    assert np.array_equal(hwflow.run_golden(quantized, {"x": data.inputs["x"][3:5]})["fc_out"], outputs["fc_out"][3:5])
    plan = hwflow.make_plan(quantized, board="icebreaker")
    for value in (model, data, quantized, plan, plan.stages[0]):
        assert dataclasses.is_dataclass(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, None)
    slow = hwflow.make_plan(quantized, interval=1000)
    assert plan.interval < slow.interval <= 1000
    assert slow.multipliers <= plan.multipliers
    assert hwflow.make_plan(quantized, frames_per_second=120_000) == hwflow.make_plan(quantized, interval=1000)
    with pytest.raises(hwflow.HwflowError, match=r"^interval must not be given together with frames_per_second; give"):
        hwflow.make_plan(quantized, interval=1000, frames_per_second=5)
    with pytest.raises(hwflow.HwflowError, match=r"^300,000,000 frames/s leave no cycle for a frame at "
                                                 r"\d+ MHz, the clock that designs on ulx3s_85f reach at least; ask"):
        hwflow.make_plan(quantized, frames_per_second=3e8)
    with pytest.raises(hwflow.HwflowError, match=r"^frames per second must be a number above 0, not nan"):
        hwflow.make_plan(quantized, frames_per_second=float("nan"))


def test_generate(place: Path, tmp_path: Path) -> None:
    model = hwflow.load(place / "small.onnx")
    quantized = hwflow.quantize_model(model, hwflow.read_data(place / "small.npz", model))
    folder = hwflow.generate(quantized, hwflow.make_plan(quantized), tmp_path / "rtl")
    assert (folder / "hwflow_core.v").is_file()
    assert (folder / "stage0_conv_weights0.hex").is_file()


def test_failures_are_errors_of_hwflow(place: Path) -> None:
    with pytest.raises(hwflow.HwflowError, match="there is no such file"):
        hwflow.load(place / "none.onnx")
    quantized = hwflow.quantize_model(hwflow.load(place / "small.onnx"))
    with pytest.raises(hwflow.AnswerIsNo, match="must be at least"):
        hwflow.make_plan(quantized, interval=1)
    with pytest.raises(hwflow.HwflowError, match="board must be one of"):
        hwflow.make_plan(quantized, board="nope")


def test_import_is_quick_and_quiet() -> None:
    """`import hwflow` alone loads neither Amaranth nor cocotb."""
    script = "import sys, hwflow; print(sorted({'amaranth', 'cocotb', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], env=environment(), capture_output=True,
                          text=True, cwd=os.curdir)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.slow
def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    """Arrays go in and come out by name, also where a tensor inside of the model is an output."""
    rng, b = np.random.default_rng(0), Builder("two")
    names = [b.input(name, np.float32, (1, channels, 5, 5)) for name, channels in (("left", 2), ("right", 3))]
    parts = [
        b.node("Conv", name, b.constant(f"w_{name}", rng.normal(0, 0.3, (4, channels, 1, 1)).astype(np.float32)))
        for name, channels in zip(names, (2, 3), strict=True)
    ]
    total = b.output(b.node("Relu", b.node("Add", *parts), output="total"))
    last = b.constant("w", rng.normal(0, 0.3, (2, 4, 1, 1)).astype(np.float32))
    b.output(b.node("Conv", total, last, output="last"))
    onnx.save(b.model(), tmp_path / "two.onnx")
    np.savez(tmp_path / "two.npz", left=rng.normal(size=(12, 1, 2, 5, 5)).astype(np.float32),
             right=rng.normal(size=(12, 1, 3, 5, 5)).astype(np.float32))  # fmt: skip
    model = hwflow.load(tmp_path / "two.onnx")
    data = hwflow.read_data(tmp_path / "two.npz", model)
    quantized = hwflow.quantize_model(model, data)
    shapes = {name: values.shape for name, values in hwflow.run_golden(quantized, data).items()}
    assert shapes == {"total": (12, 4, 5, 5), "last": (12, 2, 5, 5)}
    plan = hwflow.make_plan(quantized)
    text = (hwflow.generate(quantized, plan, tmp_path / "rtl") / "hwflow_core.v").read_text()
    assert {"i0__valid", "i1__valid", "o0__valid", "o1__valid"} <= set(re.findall(r"\w+__valid", text))
    result = hwflow.simulate(quantized, plan, data.first(3), folder=tmp_path / "simulation")
    assert result.equal
    assert (len(result.outputs), result.interval) == (2, plan.interval)
