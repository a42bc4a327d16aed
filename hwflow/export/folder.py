"""The folder of an export: written as a whole, and never in place of what is not an export."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder

from .network import FACTS, Files, digest_of

#: Folders are named to the user by this option.
OPTION = "--output"


def require_room(folder: Path) -> None:
    """HwflowError where `folder` holds something that must not be replaced: a file, another's folder, edited files."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise HwflowError("an export must go into a folder, not into a file or a link", f"choose another {OPTION}",
                          where=str(folder))
    if not any(folder.iterdir()):
        return
    known = exported(folder)
    if known is None:
        raise HwflowError(f"the folder must be empty, or an earlier export with its {FACTS}",
                          f"choose another {OPTION}, or empty it", where=str(folder))
    edited = sorted(name for name, digest in known.items() if changed(folder / name, digest))
    if edited:
        raise HwflowError(f"files of an earlier export must not have been edited, but {', '.join(edited[:3])} "
                          f"{'was' if len(edited) == 1 else 'were'}: they would be lost",
                          f"move the folder, or choose another {OPTION}", where=str(folder))


def exported(folder: Path) -> Mapping[str, str] | None:
    """The files of the export in `folder` with their digests; None where it is none."""
    try:
        files = json.loads((folder / FACTS).read_text())["files"]
        return {str(name): str(value) for name, value in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def changed(path: Path, digest: str) -> bool:
    """Whether a file that is there is not as it was written."""
    return path.is_file() and digest_of(path.read_bytes()) != digest


def write_folder(folder: Path, files: Files, facts: str) -> None:
    """Put `files` and the facts into `folder`, in place of an earlier export.

    They are complete under another name before the folder gets them by renaming.  What was made beside an earlier
    export, as a simulation, stays.
    """
    require_room(folder)
    create_folder(folder.parent, OPTION)
    working = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        os.chmod(working, 0o777 & ~umask())
        for name, contents in {**files, FACTS: facts.encode()}.items():
            path = working / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
            if contents.startswith(b"#!"):
                path.chmod(0o777 & ~umask())
        replace(working, folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def replace(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`; what else an earlier export there has moves over."""
    if not folder.exists():
        os.rename(new, folder)
        return
    files = {FACTS, *(exported(folder) or ())}
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent)) / "old"
    os.rename(folder, old)
    os.rename(new, folder)
    for path in sorted(old.rglob("*")):
        name = str(path.relative_to(old))
        if not path.is_dir() or path.is_symlink():
            target = folder / name
            if name not in files and not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(path, target)
    shutil.rmtree(old.parent, ignore_errors=True)


def umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
