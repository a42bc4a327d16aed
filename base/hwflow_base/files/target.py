"""Where and how files are written: a new file replaces an old one by renaming, which only a plain file survives."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hwflow_base.errors import HwflowError


def require_plain_target(path: Path) -> None:
    """Raise HwflowError where a folder, device or pipe stands at `path`: a file would take the place of /dev/null."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # nothing is there, or writing says what is wrong
    if stat.S_ISDIR(mode):
        raise HwflowError("must be the name of a file to write, not a folder", "add the file's name", where=str(path))
    if not stat.S_ISREG(mode):
        raise HwflowError(
            "must be the name of a file to write, not a pipe or a device", "choose another name", where=str(path)
        )


def require_folder(path: Path, option: str = "") -> None:
    """Raise HwflowError where there is no folder for the file `path`, which the user named with `option`: a slip of the
    pen must not make folders.  Only --build makes them.
    """
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise HwflowError(
            f"the folder '{path.parent}' must exist and be writable",
            f"make it, or choose another place{f' with {option}' if option else ''}",
            where=str(path),
        )


def same_file(a: Path, b: Path) -> bool:
    """True where both are names of one file, by whatever links."""
    try:
        return a.samefile(b)
    except (OSError, ValueError):
        return False  # one of them does not exist


def write_atomically(path: Path, text: str | bytes, option: str = "--build") -> None:
    """Write `text`, in UTF-8 unless it is bytes, to `path` under a temporary name and rename it; `option` is what names
    the place to the user."""
    with replacing(path, option) as working:
        working.write_bytes(text if isinstance(text, bytes) else text.encode())


@contextlib.contextmanager
def replacing(path: Path, option: str = "--build") -> Iterator[Path]:
    """A temporary name to write a file under.  Afterwards it is renamed to `path`, or removed where writing failed."""
    require_plain_target(path)
    create_folder(path.parent, option)
    working = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield working
        working.replace(path)
    except BaseException:  # also an interrupt: the name is known before there is a file
        working.unlink(missing_ok=True)
        raise


def create_folder(folder: Path, option: str = "--build") -> None:
    """Make `folder`, or say why it cannot be written; `option` is what names it to the user."""
    what = f"the build folder '{folder}'" if option == "--build" else f"the folder '{folder}'"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{what} must be writable: {error.strerror}; choose another one with {option}"
        raise HwflowError(reason) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HwflowError(f"{what} must be writable", f"choose another one with {option}")
