"""Guesses at what a misspelt name means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from hwflow.onnx.rules.finding import quoted


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
        found: list[str] = []
        for name in names:
            if name and abs(len(name) - len(wrong)) <= 3 and len(name) <= self.LONGEST:
                found.append(name)
            if len(found) == self.CANDIDATES:
                break
        return found
