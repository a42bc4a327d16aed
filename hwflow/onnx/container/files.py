"""Models in files and in bytes.  Every failure names the file and says what to do."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import BinaryIO

from google.protobuf import text_format
from google.protobuf.message import DecodeError, EncodeError
from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_plain_target

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.extras import has_unknown_fields
from hwflow.onnx.container.lift import lift
from hwflow.onnx.container.reader import read_model
from hwflow.onnx.container.wire import TOO_DEEP, has_more_messages, is_nested_too_deep, why_not_onnx
from hwflow.onnx.container.writer import DataFile, write_model
from hwflow.onnx.errors import FormatError, LimitError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model
from hwflow.onnx.tflite.convert import is_tflite, read_tflite

#: Smaller files are read, larger ones mapped.
_SMALL = 1 << 16

#: Without its large weights a file is smaller than that, or somebody counts what it consists of: two bytes can be a
#: message, which takes some hundred bytes of memory and some microseconds to read.
_UNCOUNTED = 1 << 20

#: Initializers that fit into one file, whose limit is 2 GiB, with something to spare for the graph.
_MAX_INSIDE = (1 << 31) - (1 << 26)


def load(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> Model:
    """Read an ONNX file, with its external data from the same folder.

    The weights are views of the mapped file: replace a file that is in use by another, and do not change it in place.
    Raises HwflowError (a class of `hwflow.onnx.errors`), with the path in front, for all that is not a readable model.
    """
    return replace(_model(read(path, limits=limits)), file=str(path))


def loads(
    data: bytes,
    name: str = "the model",
    *,
    base_dir: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Model:
    """Read an ONNX model from bytes; `name` stands for the file in messages, `base_dir` has the external data."""
    return _model(read_bytes(data, name, None if base_dir is None else Path(base_dir), limits=limits))


def read(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Parse an ONNX file, binary or (by its suffix) text, and judge nothing but that.  Raises as `load`."""
    path = Path(path)
    data = _read(path)
    if is_text(path):
        try:
            data = memoryview(parse_text(data))
        except HwflowError as error:
            raise error.at(str(path)) from None
    return _parse(data, str(path), path.parent, limits)


def read_bytes(
    data: bytes, name: str = "the model", folder: Path | None = None, *, limits: Limits = DEFAULT_LIMITS
) -> Document:
    """Parse an ONNX model in bytes; `folder` is where external data may lie.  Raises as `load`."""
    return _parse(memoryview(bytes(data)), name, folder, limits)


def _model(document: Document) -> Model:
    if document.converted is not None:
        return document.converted
    try:
        return read_model(document)
    except HwflowError as error:
        raise error.at(document.name) from None


def _read(path: Path) -> memoryview:
    """The bytes of a file; those of a large one stay there until they are used."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise HwflowError(f"{path}: there is no such file", "check the path") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise HwflowError(f"{path}: must be an ONNX file, not a folder", "name the .onnx file in it")
        if not stat.S_ISREG(status.st_mode):
            raise HwflowError(f"{path}: must be an ONNX file, not a pipe or a device", "save the model to a file first")
        if status.st_size > _SMALL:
            with suppress(OSError, ValueError):  # a file system that cannot map, or the file has just become shorter
                return memoryview(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return memoryview(file.read())
    except OSError as error:  # a damaged disk, a server that went away
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> HwflowError:
    remedy = "its permissions" if error.errno in (errno.EACCES, errno.EPERM) else "the path and the disk"
    return HwflowError(f"{path}: cannot be read ({error.strerror})", f"check {remedy}")


def _parse(data: memoryview, name: str, folder: Path | None, limits: Limits) -> Document:
    if not data:
        raise FormatError(f"{name}: must be an ONNX model, not empty", "export or copy it again")
    if is_tflite(data):
        return _converted(data, name, limits)
    message, lifted = lift(data)
    if len(message) > _UNCOUNTED and has_more_messages(message, limits.messages):
        raise LimitError(
            f"{name}: a file must consist of at most {limits.messages:,} messages, not of more",
            "if you trust the model, raise it with --limit messages=NUMBER"
        )
    try:
        proto = pb.ModelProto.FromString(message)
    except UnicodeDecodeError:  # protobuf's Python implementation; the compiled one leaves the test to the reader
        raise FormatError(f"{name}: names must be UTF-8 text", "the file is damaged, export the model again") from None
    except (DecodeError, RecursionError):
        if is_nested_too_deep(data):
            raise LimitError(*TOO_DEEP, where=name) from None
        raise FormatError(f"{name}: {why_not_onnx(data)}") from None
    return Document(proto, name, folder, limits, lifted)


def _converted(data: memoryview, name: str, limits: Limits) -> Document:
    """A file of TensorFlow Lite as the ONNX model that it means."""
    try:
        model = read_tflite(data, limits)
    except HwflowError as error:
        raise error.at(name) from None
    return Document(write_model(model), name, None, limits, converted=model)


def save(
    model: Model, path: str | os.PathLike[str], *, external: str | bool | None = None, checksum: bool = False
) -> None:
    """Write an ONNX file, as text if its suffix says so.  The file appears whole or not at all.

    `external` True or a file name puts initializers above 1 KiB into a file beside the model (NAME.data by default),
    with the checksum of that file if `checksum` says so; None does it where they are too large for one file (2 GiB).
    """
    path = Path(path)
    if path.suffix.lower() == ".onnxtxt":
        raise HwflowError(
            f"{path}: protobuf text must not be called .onnxtxt, which is another format", "use .textproto"
        )
    if external is None:
        external = sum(array.nbytes for array in model.graph.initializers.values()) > _MAX_INSIDE
    location = f"{path.name}.data" if external is True else external or ""
    if external and (Path(location).name != location or location in ("", ".", "..", path.name) or "\\" in location):
        raise HwflowError(
            f"{path}: the data file must be given next to the model, not {location!r}", "choose another name"
        )
    if location.encode("utf-8", "replace").decode("utf-8") != location:  # the model could not name it
        raise HwflowError(f"{path}: the data file must have a UTF-8 name, not {location!r}", "choose another name")
    require_plain_target(path)
    if location:
        require_plain_target(path.with_name(location))
    try:
        _save(model, path, location, checksum)
    except OSError as error:
        raise HwflowError(
            f"{path}: the folder must exist and be writable ({error.strerror})", "choose another place for the model"
        ) from None


def _save(model: Model, path: Path, location: str, checksum: bool) -> None:
    """The data file is in place before the model that needs it."""
    with ExitStack() as leftovers:
        if location:
            file, temporary = _temporary(path.with_name(location), leftovers)
            with file:
                data = DataFile(file, location, checksum)
                proto = write_model(model, data.fill)
                data.finish(proto)
            _write(_serialize(proto, path), path, leftovers, before=(temporary, path.with_name(location)))
        else:
            _write(_serialize(write_model(model), path), path, leftovers)


def _serialize(proto: pb.ModelProto, path: Path) -> bytes:
    return format_text(proto) if is_text(path) else _bytes(proto)


def _temporary(path: Path, leftovers: ExitStack) -> tuple[BinaryIO, Path]:
    """A new file beside `path`, which goes away with `leftovers` unless it is renamed."""
    file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
    temporary = Path(file.name)
    leftovers.callback(temporary.unlink, missing_ok=True)
    temporary.chmod(0o644)
    return file, temporary  # type: ignore[return-value]


def _write(data: bytes, path: Path, leftovers: ExitStack, before: tuple[Path, Path] | None = None) -> None:
    file, temporary = _temporary(path, leftovers)
    with file:
        file.write(data)
    if before is not None:
        before[0].replace(before[1])
    temporary.replace(path)


def dumps(model: Model) -> bytes:
    """The bytes of an ONNX file; equal models give equal bytes.  Raises HwflowError above protobuf's 2 GiB."""
    return _bytes(write_model(model))


def _bytes(proto: pb.ModelProto) -> bytes:
    try:
        return proto.SerializeToString(deterministic=True)
    except (EncodeError, ValueError, MemoryError) as error:
        raise HwflowError(f"the model must fit into one ONNX file (2 GiB), not fail with: {error}") from None


#: How files with text are called.
TEXT_SUFFIXES = (".textproto", ".pbtxt", ".prototxt", ".txtpb", ".onnxtxt")

MAX_TEXT_BYTES = 64 << 20


def is_text(path: PurePath) -> bool:
    """True for a file that is named as one with text."""
    return path.suffix.lower() in TEXT_SUFFIXES


def parse_text(data: memoryview) -> bytes:
    """The binary form of a model in text, so that both go the same way from here.

    Raises FormatError for what is no ModelProto in text, LimitError for too much of it or too deep nesting.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise LimitError(f"must be at most {MAX_TEXT_BYTES} bytes of text, not {len(data)}", "use the binary format")
    proto = pb.ModelProto()
    try:
        text_format.Parse(bytes(data).decode("utf-8"), proto)
        return proto.SerializeToString()
    except UnicodeDecodeError as error:
        wrong = bytes(data[error.start : error.end])
        raise FormatError(f"must be UTF-8 text, not {wrong!r}", "give a binary model the suffix .onnx") from None
    except text_format.ParseError as error:
        raise FormatError(f"must be a ModelProto in protobuf's text format, not: {error}", "export it again") from None
    except (RecursionError, EncodeError, ValueError):
        raise LimitError(*TOO_DEEP) from None


def format_text(proto: pb.ModelProto) -> bytes:
    """The text of a model.  Raises FormatError where it has fields without names."""
    if has_unknown_fields(proto):
        raise FormatError("a model with fields that hwflow does not know must be saved in binary form", "use .onnx")
    return text_format.MessageToString(proto, as_utf8=True).encode("utf-8")
