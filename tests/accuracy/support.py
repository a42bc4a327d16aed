"""Models without weights whose outputs are known, and data for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hwflow.data.dataset import Dataset
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model


def passing(shape: tuple[int, ...], output: tuple[int, ...] | None = None, dtype: Any = np.float32) -> Model:
    """An input `x` and an output `y` of given shapes; what is between does not matter."""
    b = Builder("passing")
    x = b.input("x", np.float32, shape)
    b.output(b.node("Relu" if output is None else "Identity", x, output="y"), dtype, output or shape)
    return b.model()


def dataset(labels: Any = None, inputs: Any = None, **outputs: Any) -> Dataset:
    given = np.zeros((1 if labels is None else len(labels), 1, 1), np.float32) if inputs is None else inputs
    rows = {"x": np.asarray(given)}
    return Dataset(Path("d.npz"), rows, rows, True, None if labels is None else np.asarray(labels), outputs)


