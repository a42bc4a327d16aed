"""NPZ archives as hostile input: only the arrays that are wanted are unpacked, within the limits of a model.

`numpy.load` would wait for a pipe, take a torn archive for a pickle, and unpack whatever its headers ask for.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array

#: How much of what a library says about a damaged file is shown: it may quote the file.
_SHOWN = 120
#: How many names of arrays a message lists.
_LISTED = 12


class Archive(dict[str, Array]):
    """The wanted arrays by name; `names` are those of all arrays that are there."""

    def __init__(self, names: Collection[str]):
        super().__init__()
        self.names = sorted(names)

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Archive:
        """One that is in memory already."""
        archive = cls(arrays)
        archive.update(arrays)
        return archive

    def listed(self) -> str:
        """All names, for a message."""
        more = f", ... ({len(self.names)} in all)" if len(self.names) > _LISTED else ""
        return (", ".join(f"'{_short(name)}'" for name in self.names[:_LISTED]) or "nothing") + more


def read_archive(file: Path, names: Collection[str], limits: Limits) -> Archive:
    """The arrays of `file` whose names are `names`.

    HwflowError: no NPZ archive, an array that cannot be read or is no plain one, more bytes than `limits.total_bytes`
    in all.  Nothing is ever unpickled.
    """
    with _open(file) as stream:
        magic = stream.read(6)
        if magic == b"\x93NUMPY":
            raise HwflowError(
                "the data must be an NPZ file with named arrays, not a single array", "use numpy.savez", where=str(file)
            )
        if not magic.startswith(b"PK"):
            raise _no_archive(file, "it is no zip archive")
        try:
            with zipfile.ZipFile(stream) as archive:
                return _arrays(file, archive, names, limits)
        except HwflowError:
            raise
        except Exception as error:  # of a damaged directory, for which zipfile has no list of errors
            raise _no_archive(file, _reason(error)) from None


def _open(file: Path) -> BinaryIO:
    try:
        return open_plain(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise HwflowError(
            "the data file must exist", "give an NPZ file made with numpy.savez", where=str(file)
        ) from None
    except OSError as error:
        raise _no_archive(file, error.strerror or "it cannot be read") from None


def _arrays(file: Path, archive: zipfile.ZipFile, names: Collection[str], limits: Limits) -> Archive:
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    arrays = Archive(members)
    there = [name for name in arrays.names if name in names]
    size = sum(members[name].file_size for name in there)  # zipfile unpacks no more than it says there
    if size > limits.total_bytes:
        raise HwflowError(
            f"the arrays must have at most {limits.total_bytes:,} bytes in all, not {size:,}",
            f"give fewer rows, or if you trust the file, --limit total_bytes={size}",
            where=str(file),
        )
    for name in there:
        try:
            with archive.open(members[name]) as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
        except MemoryError:
            raise HwflowError(
                f"array '{name}' must fit this machine's memory", "give fewer rows", where=str(file)
            ) from None
        except Exception as error:  # of hostile headers, for which numpy has no list of errors
            raise HwflowError(
                f"array '{name}' must be a plain array of numbers ({_reason(error)})",
                "save no objects",
                where=str(file),
            ) from None
    return arrays


def _no_archive(file: Path, reason: str) -> HwflowError:
    return HwflowError(f"{file}: the data must be an NPZ file made with numpy.savez ({reason})")


def _reason(error: Exception) -> str:
    """The first sentence of a library's message."""
    return _short((str(error).splitlines() or [type(error).__name__])[0])


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
