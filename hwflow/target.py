"""Where a file may be written: whatever stands there is replaced by renaming, which only a plain file survives."""

from __future__ import annotations

import stat
from pathlib import Path

from hwflow.errors import HwflowError

__all__ = ["require_folder", "require_plain_target", "same_file"]


def require_plain_target(path: Path) -> None:
    """Raise HwflowError where a folder, device or pipe stands at `path`: a file would take the place of /dev/null."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # nothing is there, or writing says what is wrong
    if stat.S_ISDIR(mode):
        raise HwflowError(f"{path}: must be the name of a file to write, not a folder; add the file's name")
    if not stat.S_ISREG(mode):
        raise HwflowError(f"{path}: must be the name of a file to write, not a pipe or a device; choose another name")


def require_folder(path: Path, option: str) -> None:
    """Raise HwflowError where the folder of `path` is not there: a slip of the pen must not make folders."""
    if not path.parent.is_dir():
        raise HwflowError(f"{path}: the folder '{path.parent}' must exist and be writable; make it, or choose another "
                          f"place with {option}")


def same_file(a: Path, b: Path) -> bool:
    """True where both are names of one file, by whatever links."""
    try:
        return a.samefile(b)
    except (OSError, ValueError):
        return False  # one of them does not exist
