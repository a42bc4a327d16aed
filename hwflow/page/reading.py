"""Records as sections read them: of this design or of another one, whole or damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hwflow_base.errors import HwflowError

from ..steps.records import Record, kept, path_of

__all__ = ["Found", "found", "when"]

#: Errors of facts that are not those that a command wrote: keys are missing, types are others.
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


@dataclass(frozen=True)
class Found:
    """The record of a kind, None where there is none; `current` where it is of what the page is about."""

    path: Path
    record: Record | None
    current: bool

    @property
    def usable(self) -> Record | None:
        """The record where it is current."""
        return self.record if self.current else None

    @property
    def other(self) -> bool:
        """Whether the record is of another design."""
        return self.record is not None and not self.current

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """HwflowError for facts in this context that are not those that a command wrote."""
        try:
            yield
        except DAMAGED as error:
            raise HwflowError(f"'{self.path}' must be a record of hwflow, and is damaged",
                              "delete it, and run the command that makes it again") from error


def found(folder: Path, kind: str, key: str) -> Found:
    """The record of this kind in `folder`, which is current where its key is `key`."""
    record = kept(folder, kind)
    return Found(path_of(folder, kind), record, record is not None and record.key == key)


def when(record: Record) -> str:
    """When it was made, to the minute.  ValueError where it does not say."""
    return f"{datetime.fromisoformat(record.made):%Y-%m-%d %H:%M} UTC"
