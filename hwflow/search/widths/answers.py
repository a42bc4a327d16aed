"""A search's answers in a file, so that an interrupted search goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from hwflow_base.files.target import create_folder, require_plain_target

#: A file of answers that is larger than this starts anew.
MAX_ANSWERS = 1 << 25


class Answers(MutableMapping[str, Mapping[str, Any]]):
    """Answers of the search in `file`, a line of JSON each; those of another `context` are left alone.

    A line is written at once, and one that is damaged is passed over: its answer is computed again.
    """

    def __init__(self, file: Path, context: str):
        self.file = file
        self.context = context
        self.known: dict[str, Mapping[str, Any]] = {}
        require_plain_target(file)
        create_folder(file.parent)
        if file.exists() and file.stat().st_size > MAX_ANSWERS:
            file.unlink()
        for line in file.read_bytes().splitlines() if file.exists() else ():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            if entry["context"] == self.context and isinstance(entry["answer"], dict):
                self.known[entry["key"]] = entry["answer"]
        except (ValueError, KeyError, TypeError, RecursionError):
            pass

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        return self.known[key]

    def __setitem__(self, key: str, answer: Mapping[str, Any]) -> None:
        self.known[key] = answer
        entry = {"context": self.context, "key": key, "answer": answer}
        with self.file.open("ab", buffering=0) as stream:
            torn = stream.tell() and not self._ends_with_newline()
            stream.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")

    def _ends_with_newline(self) -> bool:
        with self.file.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"

    def __delitem__(self, key: str) -> None:
        del self.known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)
