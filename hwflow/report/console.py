"""Where text goes: results to standard output, progress and failures to standard error.

With a terminal, long steps show a spinner and colours; without one, plain lines.
"""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence

import rich.box
import rich.console
import rich.markup
import rich.progress
import rich.table

from .texts import clean

__all__ = ["Console"]

#: Width of tables where the output is not a terminal.
PLAIN_WIDTH = 150


class Stream(rich.console.Console):
    """rich ends the process when nobody reads any more; the command line decides that itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Console:
    """`quiet` (JSON on standard output) keeps tables and notes to itself; progress and failures still show."""

    def __init__(self, *, quiet: bool = False):
        self.quiet = quiet
        self.out = Stream(highlight=False)
        if not self.out.is_terminal:
            self.out = Stream(highlight=False, width=PLAIN_WIDTH)
        self.err = Stream(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """A line of the result."""
        if not self.quiet:
            self.out.print(rich.markup.escape(harmless(text)), soft_wrap=True)

    def progress(self, text: str) -> None:
        """A line that says what happens now."""
        self.err.print(f"[dim]{rich.markup.escape(harmless(text))}[/dim]")

    def warn(self, text: str) -> None:
        """A result that nobody wants, in lines of the terminal's width."""
        lines = textwrap.wrap(f"warning: {harmless(text)}", self.err.width, subsequent_indent="  ",
                              break_long_words=False, break_on_hyphens=False)
        self.err.print(rich.markup.escape("\n".join(lines)).replace("warning:", "[bold yellow]warning:[/]", 1))

    def fail(self, text: str) -> None:
        self.err.print(f"[bold red]error:[/] {rich.markup.escape(harmless(text))}")

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show that `text` goes on, and afterwards how long it took."""
        started = time.monotonic()
        if self.err.is_terminal:
            with self.err.status(rich.markup.escape(text)):
                yield
        else:
            self.progress(f"{text} ...")
            yield
        self.progress(f"{text}: {time.monotonic() - started:.1f} s")

    @contextlib.contextmanager
    def rows(self, text: str) -> Iterator[Callable[[int, int], None]]:
        """As `step`, for work on rows: what it gives is called with (rows done, rows in all)."""
        started = time.monotonic()
        if self.err.is_terminal:
            with rich.progress.Progress(console=self.err, transient=True) as bar:
                task = bar.add_task(rich.markup.escape(text), total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total)
        else:
            self.progress(f"{text} ...")
            yield lambda done, total: None
        self.progress(f"{text}: {time.monotonic() - started:.1f} s")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, wrapped: str = "") -> None:
        """A table; columns whose entries are all numbers stand to the right.

        Where the terminal is narrow, the column `wrapped` takes several lines, and no other column is cut for it.
        """
        if self.quiet:
            return
        table = rich.table.Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD)
        for k, column in enumerate(columns):
            number = all(is_number(row[k]) for row in rows)
            table.add_column(column, justify="right" if number else "left", no_wrap=column != wrapped,
                             overflow="fold" if column == wrapped else "ellipsis",
                             min_width=None if not wrapped or column == wrapped else max(len(r[k]) for r in rows))
        for row in rows:
            table.add_row(*(rich.markup.escape(cell) for cell in row))
        self.out.print(table)


def harmless(text: str) -> str:
    """The text with its lines, where names from a file cannot move the cursor or change colours."""
    return "\n".join(clean(line) for line in text.split("\n"))


def is_number(text: str) -> bool:
    return not text or text.replace(" ", "").replace(".", "").replace("%", "").replace("-", "").isdigit()
