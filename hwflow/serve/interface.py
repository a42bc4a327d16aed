"""The inputs and outputs of a model as the Open Inference Protocol names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Value
from hwflow.quantize import Quantized

__all__ = ["Interface", "TensorFacts"]

#: The names that the protocol has for types of numpy.
DATATYPES: Mapping[str, str] = {
    "bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
    "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "object": "BYTES"}


@dataclass(frozen=True)
class TensorFacts:
    """An input or output.

    `shape` is that of a row in a request, without the axis of the rows; `row` the same in the model, which may have an
    axis of 1 in front.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    row: tuple[int, ...]

    @property
    def datatype(self) -> str:
        """Its name in the protocol."""
        return DATATYPES[self.dtype.name]

    def facts(self) -> dict[str, Any]:
        """As the metadata of a model have it."""
        return {"name": self.name, "datatype": self.datatype, "shape": [-1, *self.shape]}


@dataclass(frozen=True)
class Interface:
    """The name of a served model, its inputs and outputs, in order; every tensor of a request has an axis of rows in
    front."""

    model: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]

    @staticmethod
    def of(quantized: Quantized, model: str) -> Interface:
        """That of `quantized`, which clients know as `model`.  HwflowError for a type that the protocol has not.

        Where every input and output has an axis of 1 in front, that is the axis of the rows; else one stands before.
        """
        ends = quantized.prologue.graph.inputs, quantized.epilogue.graph.outputs
        batch = all(shape_of(value)[:1] == (1,) for values in ends for value in values)
        inputs, outputs = (tuple(facts_of(value, batch) for value in values) for values in ends)
        return Interface(model, inputs, outputs)

    def facts(self) -> dict[str, Any]:
        """The metadata of the model."""
        return {"name": self.model, "versions": ["1"], "platform": "hwflow",
                "inputs": [tensor.facts() for tensor in self.inputs],
                "outputs": [tensor.facts() for tensor in self.outputs]}


def shape_of(value: Value) -> tuple[int, ...]:
    assert value.tensor is not None
    shape = value.tensor.shape
    assert shape is not None, "the shapes of a host program are known"
    return tuple(int(size) for size in shape)  # type: ignore[arg-type]


def facts_of(value: Value, batch: bool) -> TensorFacts:
    assert value.tensor is not None
    dtype, row = np.dtype(value.tensor.dtype), shape_of(value)
    if dtype.name not in DATATYPES:
        raise HwflowError(f"'{value.name}' must have a type of the Open Inference Protocol to be served, "
                          f"{', '.join(DATATYPES)}, not {dtype.name}")
    return TensorFacts(value.name, dtype, row[1:] if batch else row, row)
