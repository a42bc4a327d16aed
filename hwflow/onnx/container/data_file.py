"""Weights in a file beside the model, for models that are too large for one file or that share their weights."""

from __future__ import annotations

import hashlib
import math
from typing import BinaryIO

import numpy as np

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import fill_tensor, raw_bytes
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Array
from hwflow.onnx.rules.walk import tensors

#: Tensors of at most as many bytes stay in the model: shapes, axes, scales.
_SMALL = 1024

#: The specification's recommendation, so that each tensor can be mapped on its own.
_ALIGNMENT = 4096


class DataFile:
    """Takes the data of initializers while a model is written.  `location` is what the model will call the file."""

    def __init__(self, file: BinaryIO, location: str, checksum: bool) -> None:
        self._file = file
        self._location = location
        self._sum = hashlib.sha1(usedforsecurity=False) if checksum else None
        self._size = 0

    def fill(self, tensor: pb.TensorProto, array: Array, what: str) -> None:
        """Put an array into an empty TensorProto and its data into the file.  Raises OSError where that is full."""
        element = element_type_of(array.dtype, what)
        if element.dtype.kind == "O" or math.prod(array.shape) * element.bits <= 8 * _SMALL:
            fill_tensor(tensor, array, what)
            return
        data = raw_bytes(array, element).reshape(-1).view(np.uint8).data
        self._append(bytes(-self._size % _ALIGNMENT))
        tensor.dims.extend(array.shape)
        tensor.data_type = element.code
        tensor.data_location = pb.TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", self._size), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        self._append(data)

    def finish(self, proto: pb.ModelProto) -> None:
        """All tensors are written: add the checksum of the file to those that are in it, if it was asked for."""
        if self._sum is None:
            return
        digest = self._sum.hexdigest()
        for place in tensors(Document(proto)):
            if place.proto.data_location == pb.TensorProto.EXTERNAL:
                place.proto.external_data.add(key="checksum", value=digest)

    def _append(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._size += len(data)
        if self._sum is not None:
            self._sum.update(data)
