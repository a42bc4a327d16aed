"""A parsed ONNX file before it becomes a `Model`: the message as it stands, where it came from, and its large weights.

The checker reads documents, because a Model cannot express what is wrong with a file (two initializers of one name).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.external import ExternalFiles
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model


@dataclass(frozen=True)
class Lifted:
    """Weights that stayed in the mapped file.

    In the message, raw_data of each is `token` and the index into `views` as eight bytes.  The token is random and made
    for this document, so that no file can hold it.
    """

    token: bytes = b""
    views: Sequence[memoryview] = ()

    def find(self, raw: bytes) -> memoryview | None:
        """The weights that `raw` stands for; None where it is data itself."""
        if not self.views or len(raw) != len(self.token) + 8 or not raw.startswith(self.token):
            return None
        return self.views[int.from_bytes(raw[-8:], "big")]


@dataclass(frozen=True)
class Document:
    """A ModelProto, and what is needed to read it.

    `name` stands for the file in messages, `folder` is where external data may lie (None: nowhere).  The message is not
    to be changed and not to be written: `complete` gives one with all weights inside.
    """

    proto: pb.ModelProto
    name: str = "the model"
    folder: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    lifted: Lifted = field(default=Lifted(), repr=False, compare=False)
    #: The model itself where the file was of another format, and `proto` was made of it.
    converted: Model | None = field(default=None, repr=False, compare=False)

    @property
    def format(self) -> str:
        """What kind of file it was, for messages."""
        return "ONNX" if self.converted is None else "TensorFlow Lite"

    def raw_data(self, tensor: pb.TensorProto) -> bytes | memoryview:
        """The raw_data of a tensor of this document.  Always read it through here: large ones are not in it."""
        raw = tensor.raw_data
        weights = self.lifted.find(raw)
        return raw if weights is None else weights

    @cached_property
    def files(self) -> ExternalFiles:
        """The files with external data; each is mapped once and verified once."""
        return ExternalFiles(self.folder, self.limits)

    def complete(self) -> pb.ModelProto:
        """A copy of the message with all weights of the file inside; external data stays external."""
        proto = pb.ModelProto()
        proto.CopyFrom(self.proto)
        for tensor in proto.graph.initializer if self.lifted.views else ():
            weights = self.lifted.find(tensor.raw_data)
            if weights is not None:
                tensor.raw_data = bytes(weights)
        return proto
