"""Commands that must fail as rows of a table: words, files, what is said, exit code."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command import Cli

#: What a file holds; or what makes it at its path.
Content = bytes | str | Callable[[Path], object]


@dataclass(frozen=True)
class Refusal:
    """`words` must fail with `code` and say `message`: where it begins or ends with "...", any text may stand there.

    `files` are those of the folder besides the fixtures' ones.
    """

    words: str
    message: str
    files: Mapping[str, Content] = field(default_factory=dict)
    code: int = 2

    def check(self, cli: Cli) -> str:
        """The whole message; the same as text and as JSON."""
        for name, content in self.files.items():
            write(Path(name), content)
        said = cli.refuses(*self.words.split(), code=self.code)
        start, end = self.message.endswith("..."), self.message.startswith("...")
        text = self.message[3 * end:len(self.message) - 3 * start]
        found = text in said if start and end else said.startswith(text) if start else said.endswith(text)
        assert found if start or end else said == text, said
        return said


def write(path: Path, content: Content) -> None:
    if isinstance(content, str):
        path.write_text(content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)


def npz(**arrays: np.ndarray) -> bytes:
    """An NPZ file; objects are pickled."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


def table(rows: Mapping[str, Refusal]) -> pytest.MarkDecorator:
    """The parameter `refusal` of a test, with a case for each row."""
    return pytest.mark.parametrize("refusal", rows.values(), ids=list(rows))
