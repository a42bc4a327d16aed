"""A search's answers in a file, so that an interrupted search goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from hwflow_base.files.state import StateLines


class Answers(MutableMapping[str, Mapping[str, object]]):
    """Answers of the search in `file`, a line each; those of another `context` are left alone."""

    def __init__(self, file: Path, context: str):
        self.lines = StateLines(file)
        self.context = context
        self.answers: dict[str, Mapping[str, object]] = {}
        for line in self.lines:
            key, answer = line.get("key"), line.get("answer")
            if line.get("context") == context and isinstance(key, str) and isinstance(answer, dict):
                self.answers[key] = answer

    def __getitem__(self, key: str) -> Mapping[str, object]:
        return self.answers[key]

    def __setitem__(self, key: str, answer: Mapping[str, object]) -> None:
        self.answers[key] = answer
        self.lines.add({"context": self.context, "key": key, "answer": answer})

    def __delitem__(self, key: str) -> None:
        del self.answers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)
