"""Compiled things kept by content: a folder per key, complete or not there at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hwflow_base.files.cache import digest, is_intact, locked, replace_folder

MANIFEST = "step.json"


def cached_folder(cache: Path, key: str, make: Callable[[Path], None], say: Callable[[str], None]) -> tuple[Path, bool]:
    """The folder that `make` fills for `key`, and whether it was made now.

    Unlike `hwflow_base.files.cache.cached_step` the key is the whole truth: what is compiled depends on the
    emitted Verilog, not on the code that emitted it.  A lock for each key lets a second run wait for the first one's
    result.  What a killed run leaves is removed, and a damaged folder is made again.
    """
    place = cache / key
    with locked(place, say):
        folder = place / "built"
        if is_intact(folder, key):
            return folder, False
        working = Path(tempfile.mkdtemp(prefix=".built-", dir=place))
        try:
            make(working)
            files = {str(p.relative_to(working)): digest(p) for p in sorted(working.rglob("*")) if p.is_file()}
            (working / MANIFEST).write_text(json.dumps({"key": key, "files": files}, indent=1))
            replace_folder(working, folder)
        finally:
            shutil.rmtree(working, ignore_errors=True)
    return folder, True
