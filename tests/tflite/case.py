"""Small random networks of one operator each, in every width that TensorFlow Lite has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hwflow.onnx.model import Array
from hwflow.onnx.tflite.schema import DTYPES, TYPES
from tests.tflite.writer import Maker

FLOAT, INT8, UINT8, INT16 = "FLOAT32", "INT8", "UINT8", "INT16"
#: The widths that most operators have.
EIGHT = (FLOAT, INT8, UINT8)
ALL = (FLOAT, INT8, UINT8, INT16)
SIGNED = (FLOAT, INT8, INT16)


@dataclass
class Case:
    """A network that is made; `m` grows, `inputs` and `outputs` are its tensors."""

    rng: np.random.Generator
    width: str
    m: Maker = field(default_factory=Maker)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def scaled(self, name: str, shape: Sequence[int], span: float = 4.0, *, like: int | None = None,
               fixed: tuple[float, int] | None = None) -> int:
        """An activation of the case's width whose numbers are about -span to span."""
        if self.width == FLOAT:
            return self.m.tensor(name, shape, FLOAT)
        info = np.iinfo(DTYPES[self.width])
        middle = (int(info.min) + int(info.max) + 1) // 2
        zero = 0 if self.width == INT16 else middle + int(self.rng.integers(-20, 21))
        scale = 2 * span / (int(info.max) - int(info.min)) * float(self.rng.uniform(0.8, 1.2))
        if like is not None:
            quantization = self.m.tensors[like][4]
            scale, zero = float(quantization[2][0]), int(quantization[3][0])
        if fixed is not None:
            scale, zero = fixed
        return self.m.tensor(name, shape, self.width, scale=scale, zero=zero)

    def input(self, shape: Sequence[int], span: float = 4.0, *, like: int | None = None) -> int:
        index = self.scaled(f"x{len(self.inputs)}", shape, span, like=like)
        self.inputs.append(index)
        return index

    def output(self, shape: Sequence[int], span: float = 4.0, *, like: int | None = None,
               fixed: tuple[float, int] | None = None) -> int:
        index = self.scaled(f"y{len(self.outputs)}", shape, span, like=like, fixed=fixed)
        self.outputs.append(index)
        return index

    def moved(self, shape: Sequence[int]) -> int:
        """An output with the scale of the first input."""
        return self.output(shape, like=self.inputs[0] if self.width != FLOAT else None)

    def ints(self, values: Any, name: str = "numbers") -> int:
        array = np.array(values, np.int32)
        return self.m.tensor(f"{name}{len(self.m.tensors)}", array.shape, "INT32", array)

    def weights(self, shape: Sequence[int], axis: int) -> int:
        """Constant weights: per channel where they are int8."""
        if self.width == FLOAT:
            return self.m.tensor("w", shape, FLOAT, self.rng.normal(0, 0.4, shape))
        if self.width == UINT8:
            values = self.rng.integers(0, 256, shape)
            return self.m.tensor("w", shape, UINT8, values, scale=0.01, zero=int(self.rng.integers(100, 150)))
        return self.m.tensor("w", shape, INT8, self.rng.integers(-127, 128, shape),
                             scale=self.rng.uniform(0.005, 0.015, shape[axis]), axis=axis)

    def bias(self, count: int, x: int, w: int) -> int:
        if self.width == FLOAT:
            return self.m.tensor("b", [count], FLOAT, self.rng.normal(0, 1, count))
        scale = self.m.tensors[x][4][2][0] * self.m.tensors[w][4][2]
        wide = self.width == INT16
        values = np.round(self.rng.normal(0, 1, count) / np.broadcast_to(scale, [count]))
        return self.m.tensor("b", [count], "INT64" if wide else "INT32", values, scale=scale)

    def operator(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "",
                 **options: Any) -> None:
        self.m.operator(kind, inputs, outputs, table, options)

    def file(self) -> bytes:
        return self.m.file(self.inputs, self.outputs)

    def row(self) -> list[Array]:
        """Random inputs."""
        found = []
        for index in self.inputs:
            fields = self.m.tensors[index]
            type_ = TYPES[fields[1][1]]
            dtype, shape = DTYPES[type_], tuple(fields[0].tolist())
            if dtype.kind == "f":
                found.append(self.rng.uniform(-4, 4, shape).astype(dtype))
            else:
                info = np.iinfo(dtype)
                found.append(self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype))
        return found


Making = Callable[[Case], None]


@dataclass(frozen=True)
class Kind:
    """How to make networks of an operator, and in which widths."""

    make: Making
    widths: tuple[str, ...]


def size(c: Case, low: int = 3, high: int = 8) -> int:
    return int(c.rng.integers(low, high + 1))


def pick(c: Case, *values: Any) -> Any:
    return values[int(c.rng.integers(len(values)))]


def behind_a_layer(case: Case) -> Case:
    """The network with a RELU in front of each input, so that its own operator is not the host's."""
    m = case.m
    first = []
    for index in list(case.inputs):
        m.tensors.append({**m.tensors[index], 3: f"{m.tensors[index][3]}_before"})
        m.operator("RELU", [len(m.tensors) - 1], [index])
        first.append(m.operators.pop())
        case.inputs[case.inputs.index(index)] = len(m.tensors) - 1
    m.operators[:0] = first
    return case
