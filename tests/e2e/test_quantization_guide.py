"""The examples of docs/quantization-guide.md do what the page says."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from hwflow.onnx import load
from hwflow.quantize.settings_file import settings_from_yaml
from tests.e2e.command import Cli
from tests.project.tree import ROOT

GUIDE = (ROOT / "docs" / "quantization-guide.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    for name, settings in zip(("mine.yaml", "few.yaml"), blocks("yaml"), strict=True):
        Path(name).write_text(settings)
    return Cli(capsys)


@pytest.mark.parametrize("line", [b.strip() for b in blocks("sh") if "quantize" in b and "--accuracy-drop" not in b])
def test_commands(cli: Cli, line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "hwflow"
    assert cli(*words).code == 0


def test_the_layer_that_hurts_is_mended(cli: Cli) -> None:
    words = ("golden", "models/digits_cnn.onnx", "--data", "models/digits_cnn.npz", "--json")
    before = cli(*words, "--bits", "2").json
    after = cli(*words, "--settings", "mine.yaml").json
    assert max(before["layers"], key=lambda layer: layer["added"])["layer"] in ("conv1", "conv2")
    assert after["accuracy"]["snr_db"] > before["accuracy"]["snr_db"] + 3
    assert all(layer["snr_db"] is not None for layer in before["layers"]), "every tensor has its counterpart"


def test_keys(cli: Cli) -> None:
    """Every key and value that the table names is read."""
    text = """
default: {weights: {bits: 4, per_channel: false, method: mse, rounding: adaptive, bias_correction: true},
          output: {bits: 6, symmetric: true, method: percentile, percentile: 99.99}, output_stage: thresholds,
          rescale_bits: 22}
inputs: {image: {bits: 8, range: [0, 16], method: entropy}}
layers: {conv1: {weights: {rounding: nearest, method: minmax}, output: {method: minmax}, output_stage: multiply},
         conv2: {weights: {rounding: joint}, output: {method: learned}}}
equalize: true
hardware_argmax: true
joint_steps: 100
"""
    settings = settings_from_yaml(text, "s", load("models/digits_cnn.onnx"))
    assert settings.equalize is True
    assert settings.hardware_argmax is True
    table = GUIDE[GUIDE.index("| key |") :].partition("\n\n")[0]
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]*)`", table)))) - {"low", "high"}
    assert named <= set(re.findall(r"[a-z_]+", text)) | {"minmax"}


def test_python(cli: Cli) -> None:
    for example in blocks("python")[-1:]:
        exec(compile(example, "docs/quantization-guide.md", "exec"), {})
    assert os.path.exists("digits_w4.onnx")
