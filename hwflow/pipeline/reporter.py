"""The listener of a pipeline while it works: the console of the command line, or nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from hwflow_base.files.durations import Durations
from hwflow_base.files.facts import plain
from hwflow_base.work import Watch, unwatched

from ..outcome import OutcomeWarning

#: Is called with (rows done, rows in all).
ShowRows = Callable[[int, int], None]


class Reporter(Protocol):
    """Hears of progress, results and warnings; `hwflow.views.console.terminal.Console` is one."""

    @property
    def watch(self) -> Watch:
        """Shows long work."""

    def remember(self, durations: Durations) -> None:
        """Expect that work takes as long as it did before."""

    def progress(self, text: str) -> None:
        """Say what happens now."""

    def next(self, text: str) -> None:
        """Say what the user may do after this command."""

    def warn(self, text: str) -> None:
        """Say that a result is one that nobody wants."""

    def step(self, text: str, kind: str = "", size: float = 1.0) -> AbstractContextManager[None]:
        """Show that `text` goes on, and afterwards how long it took."""

    def rows(self, text: str) -> AbstractContextManager[ShowRows]:
        """Show progress as `step` does, for work on rows."""


class Silence:
    """A reporter that says nothing."""

    watch: Watch = staticmethod(unwatched)

    def remember(self, durations: Durations) -> None:
        pass

    def progress(self, text: str) -> None:
        pass

    def next(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass

    @contextlib.contextmanager
    def step(self, text: str, kind: str = "", size: float = 1.0) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def rows(self, text: str) -> Iterator[ShowRows]:
        yield lambda done, total: None


class Warned:
    """The warnings so far: shown once, when they are found, and kept for JSON.

    Where several have one code and one place, the first says enough.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.warnings: list[OutcomeWarning] = []

    def add(self, warnings: Iterable[OutcomeWarning]) -> None:
        """Show those that are new."""
        for warning in warnings:
            if (warning.code, warning.where) not in {(known.code, known.where) for known in self.warnings}:
                self.warnings.append(warning)
                self.reporter.warn(str(warning))

    def facts(self) -> list[dict[str, str]]:
        """Plain data for JSON."""
        facts: list[dict[str, str]] = plain(self.warnings)
        return facts
