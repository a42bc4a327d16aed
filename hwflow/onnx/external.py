"""Tensor data in a file of its own, beside the model.

A model may come from anywhere, so the location it names is not trusted: it must be a plain file inside the model's
folder, reached without leaving it, and nothing is read or allocated before its size is known to be enough.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from pathlib import Path, PurePosixPath

from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2 as pb

__all__ = ["map_external"]


def map_external(tensor: pb.TensorProto, what: str, folder: Path | None, size: int) -> memoryview:
    """The `size` bytes of a tensor in its external file, mapped read-only.

    Raises HwflowError where the location leaves `folder`, is not a plain file, or is shorter than the tensor needs.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    offset = _number(entries, "offset", what) or 0
    length = _number(entries, "length", what)
    if folder is None:
        raise HwflowError(f"{what} keeps its data in {location!r}; load the model from its file, not from bytes")
    if length is not None and length != size:
        raise HwflowError(
            f"the external data of {what} must be {size} bytes long, not {length}; export the model again"
        )
    path = _inside(location, folder, what)
    with os.fdopen(_open_plain(path, location, what), "rb") as file:
        available = os.fstat(file.fileno()).st_size
        if offset + size > available:
            raise HwflowError(
                f"the external data of {what} must lie within {location!r} ({available} bytes), "
                f"not at bytes {offset} to {offset + size}; copy the whole file again"
            )
        if size == 0:
            return memoryview(b"")
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    _verify(entries.get("checksum"), mapped, location, what)
    return mapped[offset : offset + size]


def _number(entries: dict[str, str], key: str, what: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise HwflowError(
            f"'{key}' of the external data of {what} must be a number of bytes, not {text!r}; export the model again"
        )
    return int(text)


def _inside(location: str, folder: Path, what: str) -> Path:
    relative = PurePosixPath(location)
    bad = not location or "\\" in location or "\0" in location or relative.is_absolute() or ".." in relative.parts
    path = folder.joinpath(*relative.parts) if not bad else folder
    if bad or not path.resolve().is_relative_to(folder.resolve()):
        raise HwflowError(
            f"the external data of {what} must lie in the model's folder, not at {location!r}; "
            f"copy it beside the model and do not trust the file otherwise"
        )
    return path


def _open_plain(path: Path, location: str, what: str) -> int:
    """Open a regular file; a pipe or a device must not block or act, so the kind is known before any read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise HwflowError(
            f"the external data of {what} must be in {location!r} beside the model, not missing ({error.strerror}); "
            f"copy that file too"
        ) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:  # a second hard link is a file of some other folder
        os.close(descriptor)
        raise HwflowError(
            f"the external data of {what} must be a plain file with a single name, not what {location!r} is; "
            f"copy it beside the model"
        )
    return descriptor


def _verify(checksum: str | None, data: memoryview, location: str, what: str) -> None:
    """ONNX gives the SHA-1 of the whole file, in hexadecimal."""
    if checksum is None:
        return
    found = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    if found != checksum.lower():
        raise HwflowError(
            f"the external data of {what} must have the checksum {checksum}, not {found}; copy {location!r} again"
        )
