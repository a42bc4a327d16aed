"""Whether a tool failed because a disk is full: tools say that in many ways, and some not at all."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from ..errors import HwflowError

#: Errors that mean a full disk: no space, a quota, a limit of the size of files.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: How tools write them, in small letters.
WORDS = ("no space left on device", "disk quota exceeded", "file too large")
#: With less room than this, in bytes, what a tool was about to write did not fit.
LEAST = 8 << 20


class FullDisk(HwflowError):
    """There is no room for a result.  Exit code 2."""


def full_disk(what: str, folder: Path, log: Path, said: str) -> FullDisk | None:
    """The error to raise after `what` failed in `folder`, where no room is left there or for temporary files.

    None where the disk is not the reason.  `said` is what the tool wrote, into `log` of the build folder.
    """
    temporary = Path(tempfile.gettempdir())
    if not has_room(folder) or not has_room(log.parent):
        full, remedy = log.parent, "--build"
    elif not has_room(temporary):
        full, remedy = temporary, "the environment variable TMPDIR"
    elif any(words in said.lower() for words in WORDS):  # what was half-written is gone again
        full, remedy = log.parent, "--build"
    else:
        return None
    return FullDisk(
        f"the disk with the folder '{full}' is full, so that {what} could not write its results",
        f"make room, or choose another folder with {remedy} (the whole output is in '{log}')",
    )


def has_room(folder: Path) -> bool:
    """Whether a file of some size can be written: free space alone knows of no quota and no limit of a file's size."""
    try:
        if shutil.disk_usage(folder).free < LEAST:
            return False
        with tempfile.TemporaryFile(dir=folder, prefix=".room-") as file:
            file.write(bytes(LEAST))
            file.flush()
    except OSError as error:
        return error.errno not in FULL
    return True
