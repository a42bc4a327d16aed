"""Tensor data in a file of its own, beside the model.

A model may come from anywhere, so the location it names is not trusted: it must be a plain file inside the model's
folder, reached without leaving it.  The folder is held open and each component of the path is opened relative to the
one before, none of them a symbolic link, so that nobody can exchange a component between a test and the use.  Nothing
is read or allocated before its size is known to be enough.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.errors import ChecksumError, LimitError, MissingDataError, SecurityError, TensorDataError
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits

#: What external_data may say; `basepath` has no meaning here, because the model's folder is the base.
KEYS = ("location", "offset", "length", "checksum", "basepath")

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

#: Digits of a 64-bit number; longer ones are refused before Python converts them.
_DIGITS = 20


@dataclass(frozen=True)
class ExternalData:
    """Where a tensor's data is: `length` bytes (None: what the tensor needs) from `offset` of the file `location`."""

    location: str
    offset: int = 0
    length: int | None = None
    checksum: str | None = None


def external_data(tensor: pb.TensorProto, what: str) -> ExternalData:
    """The place that the entries of a tensor name.  Raises TensorDataError; the location is not judged yet."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            raise TensorDataError(
                f"'{entry.key}' of the external data of {what} must be there once, not twice", "export the model again"
            )
        entries[entry.key] = entry.value
    location = entries.get("location")
    if location is None:
        raise TensorDataError(
            f"the external data of {what} must name its file, not leave it out", "export the model again"
        )
    if isinstance(location, bytes):
        raise TensorDataError(f"the file of the external data of {what} must have a UTF-8 name, not {location!r}")
    return ExternalData(
        location, _number(entries, "offset", what) or 0, _number(entries, "length", what), entries.get("checksum")
    )


def _number(entries: dict[str, str], key: str, what: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise TensorDataError(
            f"'{key}' of the external data of {what} must be a number of bytes, not {text[:40]!r}",
            "export the model again"
        )
    return int(text)


class ExternalFiles:
    """The data files of one model, each mapped once and its checksum computed once."""

    def __init__(self, folder: Path | None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._limits = limits
        self._maps: dict[PurePosixPath, memoryview] = {}
        self._sums: dict[PurePosixPath, str] = {}

    def view(self, tensor: pb.TensorProto, what: str, size: int) -> memoryview:
        """The `size` bytes of a tensor in its file, mapped read-only.

        Raises SecurityError where the location leaves the model's folder or is no plain file, TensorDataError where the
        file is missing, shorter than the tensor needs, or not the one with the stated checksum, LimitError where taking
        the checksum would take very long.
        """
        data = external_data(tensor, what)
        if self._folder is None:
            raise SecurityError(
                f"{what} keeps its data in {data.location!r}", "load the model from its file, or name the folder"
            )
        if data.length is not None and data.length != size:
            raise TensorDataError(
                f"the external data of {what} must be {size} bytes long, not {data.length}", "export the model again"
            )
        path = _inside(data.location, what)
        mapped = self._map(path, self._folder, data, what)
        if data.offset + size > len(mapped):
            raise TensorDataError(
                f"the external data of {what} must lie within {data.location!r} ({len(mapped)} bytes), "
                f"not at bytes {data.offset} to {data.offset + size}", "copy the whole file again"
            )
        self._verify(path, data, mapped, what)
        return mapped[data.offset : data.offset + size]

    def _map(self, path: PurePosixPath, folder: Path, data: ExternalData, what: str) -> memoryview:
        if path not in self._maps:
            with os.fdopen(_open_inside(folder, path, data.location, what), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                try:
                    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
                except (OSError, ValueError) as error:  # it has just become shorter, or cannot be mapped where it is
                    raise TensorDataError(
                        f"the external data of {what} must be in a file that can be mapped, "
                        f"not {data.location[:200]!r} ({error})", "copy the model and its data to a local disk"
                    ) from None
                self._maps[path] = memoryview(mapped)
        return self._maps[path]

    def _verify(self, path: PurePosixPath, data: ExternalData, mapped: memoryview, what: str) -> None:
        """ONNX gives the SHA-1 of the whole file, in hexadecimal."""
        if data.checksum is None:
            return
        if len(mapped) > self._limits.total_bytes:  # a file with holes costs nothing to make
            raise LimitError(
                f"{what}: total_bytes must be at most {self._limits.total_bytes:,}, not {len(mapped):,} to verify "
                f"{data.location!r}", "if you trust the model, raise it with --limit total_bytes=NUMBER"
            )
        if path not in self._sums:
            self._sums[path] = hashlib.sha1(mapped, usedforsecurity=False).hexdigest()
        digest = self._sums[path]
        if digest != data.checksum.lower():
            raise ChecksumError(
                f"the external data of {what} must have the checksum {data.checksum[:80]}, not {digest}",
                f"copy {data.location!r} again"
            )


def _outside(location: str, what: str) -> SecurityError:
    return SecurityError(
        f"the external data of {what} must lie in the model's folder, not at {location[:200]!r}",
        "copy it beside the model and do not trust the file otherwise"
    )


def _inside(location: str, what: str) -> PurePosixPath:
    """The relative path of a location, by its text alone."""
    path = PurePosixPath(location)
    bad = "\\" in location or "\0" in location or re.match("[A-Za-z]:", location) is not None
    if bad or not path.parts or path.is_absolute() or ".." in path.parts:
        raise _outside(location, what)
    return path


def _open_inside(folder: Path, path: PurePosixPath, location: str, what: str) -> int:
    """A descriptor of a plain file below `folder`, opened component by component."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _missing(location, error, what) from None
    try:
        for component in path.parts[:-1]:
            inner = _open_component(component, at, os.O_DIRECTORY, location, what)
            os.close(at)
            at = inner
        return _open_plain(path.name, at, location, what)
    finally:
        os.close(at)


def _open_component(name: str, at: int, flags: int, location: str, what: str) -> int:
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _outside(location, what)
        if not flags & os.O_DIRECTORY:  # a device may act on being opened, so the kind is known before
            _require_plain(status, location, what)
        return os.open(name, _FLAGS | flags, dir_fd=at)
    except (OSError, ValueError) as error:
        raise _missing(location, error, what) from None


def _open_plain(name: str, at: int, location: str, what: str) -> int:
    descriptor = _open_component(name, at, 0, location, what)
    try:
        _require_plain(os.fstat(descriptor), location, what)  # nobody exchanged it in between
    except SecurityError:
        os.close(descriptor)
        raise
    return descriptor


def _require_plain(status: os.stat_result, location: str, what: str) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a second hard link is a file of some other folder
        raise SecurityError(
            f"the external data of {what} must be a plain file with a single name, not what {location[:200]!r} is",
            "copy it beside the model"
        )


def _missing(location: str, error: OSError | ValueError, what: str) -> MissingDataError:
    reason = getattr(error, "strerror", None) or "its name is no file name"
    return MissingDataError(
        f"the external data of {what} must be in {location[:200]!r} beside the model, not missing ({reason})",
        "copy that file too"
    )
