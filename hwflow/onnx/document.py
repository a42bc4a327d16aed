"""A parsed ONNX file before it becomes a `Model`: the message as it stands, where it came from, and its large weights.

The checker reads documents, because a Model cannot express what is wrong with a file (two initializers of one name).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Document"]


@dataclass(frozen=True)
class Document:
    """A ModelProto, and what is needed to read it.

    `name` stands for the file in messages, `folder` is where external data may lie (None: nowhere).
    """

    proto: pb.ModelProto
    name: str = "the model"
    folder: Path | None = None
    limits: Limits = DEFAULT_LIMITS

    def raw_data(self, tensor: pb.TensorProto) -> bytes | memoryview:
        """The raw_data of a tensor of this document.  Always read it through here: large ones are not in the message."""
        return tensor.raw_data
