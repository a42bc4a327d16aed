"""The warnings of a command: shown once, when they are found, and kept for JSON."""

from __future__ import annotations

from collections.abc import Iterable

from ..outcome import OutcomeWarning
from .console import Console

__all__ = ["Warned"]


class Warned:
    """What was found so far; of what is the matter in one place, and has one code, the first says enough."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.found: list[OutcomeWarning] = []

    def add(self, warnings: Iterable[OutcomeWarning]) -> None:
        """Show those that are new."""
        for warning in warnings:
            if (warning.code, warning.where) not in {(known.code, known.where) for known in self.found}:
                self.found.append(warning)
                self.console.warn(str(warning))

    def facts(self) -> list[dict[str, str]]:
        """Plain data for JSON."""
        return [warning.facts() for warning in self.found]
