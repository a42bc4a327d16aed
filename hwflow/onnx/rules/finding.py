"""Findings: violated rules as they are reported."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hwflow_base.errors import sentence

from hwflow.onnx.container.document import Document


class Severity(enum.Enum):
    """ERROR: the model has no meaning.  WARNING: it has one, but look at it.

    LENIENT: the specification forbids it and real exporters do it; `check` turns it into a WARNING, and in strict mode
    into an ERROR.
    """

    ERROR = "error"
    LENIENT = "lenient"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One violation of one rule at one place.

    `rule` is the identifier of the rule in `catalogue` ("GR-04"), `code` a stable name of what is wrong ("W-unsorted"),
    `path` a place in the file as "graph/node[12] 'conv1' (Conv)/attribute 'pads'", `message` reads
    "<thing> must be <rule>, not <value>", and `remedy` says what to do.
    """

    severity: Severity
    rule: str
    path: str
    message: str
    remedy: str
    code: str = ""

    @property
    def advice(self) -> str:
        """Advice, and the rule."""
        return f"{self.remedy} [{self.rule}{f' {self.code}' if self.code else ''}]"

    def __str__(self) -> str:
        return sentence(self.message, self.advice, self.path)


AGAIN = "export the model again"

#: Characters of a name that messages show: a file may hold names of megabytes.
_SHOWN = 100


def quoted(text: str) -> str:
    """A text of the file for a message: in quotes, on one line, not longer than a message bears."""
    if len(text) <= _SHOWN and text.isprintable():
        return f"'{text}'"
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 20]}...{text[-10:]}"
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short) + "'"


def error(rule: str, path: str, message: str, remedy: str = AGAIN) -> Finding:
    """A violation that leaves the model without a meaning."""
    return Finding(Severity.ERROR, rule, path, message, remedy)


def lenient(rule: str, code: str, path: str, message: str, remedy: str = AGAIN) -> Finding:
    """A violation that real exporters commit: a warning, in strict mode an error."""
    return Finding(Severity.LENIENT, rule, path, message, remedy, code)


def warning(rule: str, code: str, path: str, message: str, remedy: str = AGAIN) -> Finding:
    """Something allowed that deserves a look."""
    return Finding(Severity.WARNING, rule, path, message, remedy, code)


#: A rule gives its violations in a document; one function may report under several identifiers.
Rule: TypeAlias = Callable[[Document], Iterator[Finding]]


class Nearest:
    """Looks for names like a wrong one.  A damaged file may hold very many of both, so only some are compared."""

    GUESSES = 20
    CANDIDATES = 2000
    LONGEST = 80

    def __init__(self) -> None:
        self._left = self.GUESSES

    def guess(self, wrong: str, names: Iterable[str]) -> str:
        """ "perhaps 'conv1_out' or 'conv2_out' is meant, else ", or nothing."""
        if self._left <= 0:
            return ""
        self._left -= 1
        close = difflib.get_close_matches(wrong[: self.LONGEST], self._candidates(wrong, names), n=2, cutoff=0.7)
        return f"perhaps {' or '.join(map(quoted, close))} is meant, else " if close else ""

    def _candidates(self, wrong: str, names: Iterable[str]) -> Sequence[str]:
        near: list[str] = []
        for name in names:
            if name and abs(len(name) - len(wrong)) <= 3 and len(name) <= self.LONGEST:
                near.append(name)
            if len(near) == self.CANDIDATES:
                break
        return near
