"""Files that the user names to be read: a pipe or a device would block, or never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from hwflow_base.errors import HwflowError

#: No text that somebody writes for a model is longer.
MAX_TEXT = 1 << 26


def open_plain(path: Path) -> BinaryIO:
    """A plain file, opened to read.  OSError says why it cannot be, or that it is no plain file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(0, "Is a directory" if stat.S_ISDIR(mode) else "it is a pipe or a device; save it to a file first")


def read_text(path: Path) -> str:
    """The UTF-8 text of a file that the user named, without a byte order mark before it, or HwflowError."""
    try:
        with open_plain(path) as file:
            content = file.read(MAX_TEXT + 1)
        if len(content) > MAX_TEXT:
            raise OSError(0, f"it has more than {MAX_TEXT >> 20} MiB")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "it is not text"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or str(error)
    raise HwflowError(f"'{path}' must be a readable text file: {reason}") from None
