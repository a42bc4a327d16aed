"""Operators of TensorFlow Lite: how many integers are those of its own kernels.

    HWFLOW_EXPORTERS=python-with-ai-edge-litert python -m bench tflite
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from hwflow_base.errors import HwflowError

import hwflow
from bench.onnx_sections import printed
from bench.sections import Bench, table
from hwflow.onnx.model import Array
from hwflow.onnx.tflite.schema import DTYPES
from tests.tflite import runtimes
from tests.tflite.case import FLOAT, behind_a_layer
from tests.tflite.cases import KINDS, made
from tests.tflite.test_operators import computed, engine

#: Networks of each operator and width, and rows of each.
NETWORKS, ROWS = 16, 3
#: Of them so many are quantized and evaluated as integer layers.
MAPPED = 4
FUZZED = 1_000_000


@dataclass
class Equal:
    """How many elements there were, how many of them equal, and the largest difference."""

    elements: int = 0
    equal: int = 0
    largest: int = 0

    def add(self, found: Array, expected: Array) -> None:
        steps = np.abs(found.astype(np.int64) - expected.astype(np.int64))
        self.elements += steps.size
        self.equal += int(np.sum(steps == 0))
        self.largest = max(self.largest, int(steps.max(initial=0)))

    @property
    def share(self) -> str:
        return f"{np.floor(1e4 * self.equal / self.elements) / 100:.2f} %" if self.elements else ""


def golden(data: bytes, row: list[Array]) -> list[Array]:
    """What the integer layers give."""
    model = hwflow.onnx.simplify(hwflow.onnx.infer(hwflow.onnx.loads(data)))
    rows = {value.name: array[None] for value, array in zip(model.graph.inputs, row, strict=True)}
    found = hwflow.run_golden(hwflow.quantize_model(model, None), rows)
    return [np.asarray(array[0]) for array in found.values()]


def _mapped(kind: str, width: str) -> Equal | None:
    """The integer layers against the kernels; None where the operator has no hardware."""
    found = Equal()
    for seed in range(MAPPED):
        case = behind_a_layer(made(kind, width, seed))
        data, row = case.file(), case.row()
        try:
            outputs = golden(data, row)
            expected = runtimes.run(engine(kind, width), data, [row])[0]
        except (HwflowError, runtimes.RuntimeRefuses):
            continue
        for array, wanted in zip(outputs, expected, strict=True):
            found.add(array, wanted)
    return found if found.elements else None


def _rows() -> Iterator[tuple[object, ...]]:
    for kind, each in KINDS.items():
        for width in each.widths:
            found = Equal()
            if width == FLOAT:
                continue
            for seed in range(NETWORKS):
                case = made(kind, width, seed)
                data, rows = case.file(), [case.row() for _ in range(ROWS)]
                for row, expected in zip(rows, runtimes.run(engine(kind, width), data, rows), strict=True):
                    for array, wanted in zip(computed(data, row), expected, strict=True):
                        found.add(array, wanted)
            mapped = _mapped(kind, width)
            layers = (mapped.share, mapped.largest) if mapped else ("on the host, or refused", "")
            yield (kind, DTYPES[width].name, found.elements, found.share, found.largest, *layers)


def kernels(bench: Bench) -> str:
    """Integers of each operator of TensorFlow Lite against those of its kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = list(_rows())
    return table(("operator", "type", "integers", "equal", "largest difference", "integer layers, equal",
                  "largest there"), rows)


def fuzz(bench: Bench) -> str:
    """Damaged TensorFlow Lite files through everything."""
    return printed(bench, "-m", "bench.fuzz", "--tflite", "--count", str(FUZZED), "--seed", "1")


TFLITE_SECTIONS: dict[str, Callable[[Bench], str]] = {"tflite": kernels, "tflite-fuzz": fuzz}
