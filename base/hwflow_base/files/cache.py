"""Cached steps: a step writes a folder, and is skipped when its inputs did not change and its files are intact.

A folder is written under a temporary name and renamed, so that a killed run leaves nothing half-written.  Beside its
files it holds `step.json`: the key of its inputs and the SHA-256 of each file, checked before the folder is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import filelock
import numpy as np
import numpy.typing as npt

from ..errors import HwflowError
from .sources import open_plain
from .target import create_folder

MANIFEST = "step.json"
#: The packages whose code decides what a step makes.
RESULTS_DEPEND_ON = ("hwflow_base", "hwflow", "hwflow_rtl")
#: How long a run waits for another one that uses the same build folder before it says so, in seconds.
PATIENCE = 0.5


def digest(*parts: bytes | str | Path) -> str:
    """SHA-256 over the parts in order; a path stands for the bytes of its file."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def content(array: npt.NDArray[np.generic]) -> bytes:
    """The elements of an array with their type and shape, for the key of a step."""
    return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()


@cache
def code_fingerprint() -> str:
    """A digest of hwflow's own source, part of every key: a new version never uses an old version's results."""
    specs = [find_spec(name) for name in RESULTS_DEPEND_ON]
    roots = [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]
    if len(roots) < len(RESULTS_DEPEND_ON):
        raise RuntimeError(f"the packages {', '.join(RESULTS_DEPEND_ON)} must be installed together")
    files = sorted((root, path) for root in roots for path in root.rglob("*.py"))
    return digest(*(path for _, path in files))


def cached_step(folder: Path, key: str, make: Callable[[Path], None], *, with_code: bool = True) -> bool:
    """Let `make` fill `folder`, unless it already holds the intact result for `key`.  True where it was made anew.

    `with_code` makes hwflow's own source a part of the key; without it, `key` says all that the result depends on.
    """
    key = digest(key, code_fingerprint()) if with_code else key
    if is_intact(folder, key):
        return False
    create_folder(folder.parent)
    working = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:  # also for an interrupt: the name is known before there is a folder
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir()
        make(working)
        write_manifest(working, key)
        replace_folder(working, folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return True


def write_manifest(folder: Path, key: str) -> None:
    """Write what `is_intact` compares: the key, and the digest of each file that is in `folder` now."""
    files = {str(p.relative_to(folder)): digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}
    (folder / MANIFEST).write_text(json.dumps({"key": key, "files": files}, indent=1))


def is_intact(folder: Path, key: str) -> bool:
    """True where `folder` holds the result for `key` and every file is as it was written."""
    try:
        with open_plain(folder / MANIFEST) as file:
            manifest = json.load(file)
        return bool(manifest["key"] == key
                    and all(is_plain(folder / name) and digest(folder / name) == value
                            for name, value in manifest["files"].items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def is_whole(folder: Path) -> bool:
    """True where `folder` holds the result of a step, whatever its key, and every file is as it was written."""
    try:
        with open_plain(folder / MANIFEST) as file:
            files = json.load(file)["files"]
        return bool(files) and all(is_plain(folder / name) and digest(folder / name) == value
                                   for name, value in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def is_plain(path: Path) -> bool:
    """Whether `path` can be read to its end: a pipe or a device in a build folder would block, or never end."""
    with open_plain(path):
        return True


def replace_folder(new: Path, old: Path) -> None:
    """Put `new` where `old` is; at no moment is there a half-written `old`."""
    if old.exists():
        discarded = Path(tempfile.mkdtemp(prefix=f".{old.name}-old-", dir=old.parent))
        os.rename(old, discarded / "old")
        os.rename(new, old)
        shutil.rmtree(discarded, ignore_errors=True)
    else:
        os.rename(new, old)


@contextlib.contextmanager
def locked(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold `folder` for this run; `say` is called once when another run has to end first."""
    create_folder(folder)
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=PATIENCE)
    except filelock.Timeout:
        say(f"waiting for another run that uses '{folder}'")
        lock.acquire()
    except OSError as error:
        raise HwflowError(
            f"the build folder '{folder}' must be writable: {error.strerror}", "choose another one with --build"
        ) from None
    try:
        sweep(folder)
        yield
    finally:
        lock.release()


def sweep(folder: Path) -> None:
    """Remove what killed runs left behind; the caller holds the lock."""
    for leftover in folder.glob(".*-*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
