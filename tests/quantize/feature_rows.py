"""Models of rows of features x [n, features]: onnxruntime's outputs, the integers, and what these give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import hwflow
from hwflow import golden
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize


def ort_outputs(model: Model, x: np.ndarray, where: Path) -> list[Any]:
    hwflow.onnx.save(model, where / "model.onnx")
    return onnxruntime.InferenceSession(str(where / "model.onnx")).run(None, {"x": x})


def quantized_on(model: Model, x: np.ndarray) -> Quantized:
    return quantize(hwflow.onnx.infer(model), {"x": x[:, None]})


def found(quantized: Quantized, x: np.ndarray) -> list[np.ndarray]:
    return [value[:, 0] for value in golden.predict(quantized, {"x": x[:, None]}).values()]
