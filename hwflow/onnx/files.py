"""Models in files and in bytes.  Every failure names the file and says what to do."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from google.protobuf.message import DecodeError, EncodeError

from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.model import Model
from hwflow.onnx.reader import read_model
from hwflow.onnx.wire import why_not_onnx
from hwflow.onnx.writer import write_model

__all__ = ["dumps", "load", "loads", "save"]


def load(path: str | os.PathLike[str]) -> Model:
    """Read an ONNX file, with its external data from the same folder.

    Raises HwflowError, with the path in front, for anything that is not a readable ONNX model.
    """
    path = Path(path)
    data = _read(path)
    return _parse(data, str(path), path.parent)


def loads(data: bytes, name: str = "the model") -> Model:
    """Read an ONNX model from bytes; `name` stands for the file in messages.  External data is refused."""
    return _parse(data, name, None)


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write an ONNX file (all weights inside).  The file appears whole or not at all."""
    path = Path(path)
    data = dumps(model)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise HwflowError(
            f"{path}: the folder must exist and be writable ({error.strerror}); choose another place for the model"
        ) from None


def dumps(model: Model) -> bytes:
    """The bytes of an ONNX file; equal models give equal bytes.  Raises HwflowError above protobuf's 2 GiB."""
    try:
        return write_model(model).SerializeToString(deterministic=True)
    except (EncodeError, ValueError, MemoryError) as error:
        raise HwflowError(f"the model must fit into one ONNX file (2 GiB), not fail with: {error}") from None


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise HwflowError(f"{path}: must be an ONNX file, not a folder; name the .onnx file in it")
    if not path.exists():
        raise HwflowError(f"{path}: there is no such file; check the path")
    if not path.is_file():
        raise HwflowError(f"{path}: must be an ONNX file, not a pipe or a device; save the model to a file first")
    try:
        return path.read_bytes()
    except OSError as error:
        raise HwflowError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


def _parse(data: bytes, name: str, folder: Path | None) -> Model:
    if not data:
        raise HwflowError(f"{name}: must be an ONNX model, not empty; export or copy it again")
    try:
        proto = pb.ModelProto.FromString(data)
    except UnicodeDecodeError:  # protobuf's Python implementation; the compiled one leaves the test to the reader
        raise HwflowError(f"{name}: names must be UTF-8 text; the file is damaged, export the model again") from None
    except (DecodeError, RecursionError):
        raise HwflowError(f"{name}: {why_not_onnx(data)}") from None
    try:
        return read_model(proto, folder)
    except HwflowError as error:
        raise HwflowError(f"{name}: {error}") from None
