"""Records of what commands found, for the pages that show it later.

A record is a JSON file in the folder `records` beside the results: `build/<model>/records` where no board decides it,
`build/<model>/<board>/records` where one does.  It is written as a whole or not at all.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import sweep
from hwflow_base.files.sources import read_text
from hwflow_base.files.target import write_atomically

#: The folder of the records, beside the results that they are about.
RECORDS = "records"


@dataclass(frozen=True)
class Record:
    """What a command found.

    `key` names what it found it of: the design, or the integer model and its data.  `made` is the time in UTC, ISO
    8601.  `tools` are versions by name, `facts` plain data of the kind's own.
    """

    kind: str
    key: str
    facts: Mapping[str, Any]
    made: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


def keep(folder: Path, kind: str, key: str, facts: Mapping[str, Any], tools: Mapping[str, str] | None = None) -> None:
    """Write the record of this kind into `folder`, in place of an earlier one.

    `facts` must be data of JSON without NaN and infinities.  The caller holds the lock of the model's folder.
    """
    own = {"hwflow": version("hwflow"), "Python": platform.python_version()}
    made = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(kind, key, facts, made, {**own, **(tools or {})})
    sweep(folder / RECORDS)  # what a killed run began
    write_atomically(path_of(folder, kind), json.dumps(asdict(record), allow_nan=False))


def kept(folder: Path, kind: str) -> Record | None:
    """The record of this kind in `folder`; None where there is none.  HwflowError where the file is no record."""
    path = path_of(folder, kind)
    if not path.exists():
        return None
    try:
        found = json.loads(read_text(path))
        record = Record(**found)
        if not isinstance(record.facts, dict) or record.kind != kind:
            raise ValueError
    except (TypeError, ValueError, RecursionError):
        raise HwflowError(f"'{path}' must be a record of hwflow, and is damaged", "delete it, and run the command that "
                          "makes it again") from None
    return record


def path_of(folder: Path, kind: str) -> Path:
    return folder / RECORDS / f"{kind}.json"
