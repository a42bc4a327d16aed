"""Where text goes: results to standard output, progress and failures to standard error.

With a terminal, long steps show how far they are, and there are colours; without one, plain lines.  No line is wider
than the terminal or COLUMNS, or 80 columns where there is neither.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import rich.bar
import rich.box
import rich.console
import rich.live
import rich.markup
import rich.table
import rich.text
from hwflow_base.files.durations import Durations
from hwflow_base.printable import clean, decimal, harmless
from hwflow_base.work import Work
from rich.cells import cell_len

#: Characters of a bar; seconds below which the times of work are not kept, because it found most of its results there.
WIDTH, SHORTEST = 20, 1.0
#: Columns of a terminal below which there are no bars.
NARROW = 72


class Watcher:
    """A `Watch` whose work is shown on `console` where that is a terminal, and remembered in `durations`."""

    def __init__(self, console: rich.console.Console, *, shown: bool) -> None:
        self.console, self.shown = console, shown
        self.durations: Durations | None = None
        self.lock = threading.Lock()
        self.works: list[Work] = []
        self.live: rich.live.Live | None = None

    @contextlib.contextmanager
    def __call__(self, name: str, kind: str = "", size: float = 1.0, phases: Sequence[str] = ("all",)
                 ) -> Iterator[Work]:
        """Show the work for the time of the body.  Its times are kept where the body comes to its end."""
        known = self.durations.expected(kind, size, phases) if self.durations and kind else {}
        work = Work(name, phases, known, shown=self.shown)
        with self.showing(work):
            yield work
        seconds = work.end()
        if self.durations and kind and work.usual and sum(seconds.values()) >= SHORTEST:
            self.durations.keep(kind, size, seconds)

    @contextlib.contextmanager
    def showing(self, work: Work) -> Iterator[None]:
        """One display holds the lines of all that goes on: a terminal has room for one."""
        if not self.shown:
            yield
            return
        with self.lock:
            self.works.append(work)
            if self.live is None:
                self.live = rich.live.Live(console=self.console, transient=True, get_renderable=self.lines)
                self.live.start()
        try:
            yield
        finally:
            with self.lock:
                self.works.remove(work)
                if not self.works and self.live is not None:
                    self.live.stop()
                    self.live = None

    def lines(self) -> rich.table.Table:
        """The name, the bar and the state of all work, a line each; a narrow terminal has no room for bars."""
        works = [(work, work.share, state_of(work)) for work in list(self.works)]
        states, bar = max((len(state) for *_, state in works), default=0), WIDTH if self.console.width >= NARROW else 0
        table = rich.table.Table.grid(padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True, overflow="ellipsis", width=max(1, self.console.width - states - bar - 3))
        table.add_column(no_wrap=True, width=bar)
        table.add_column(no_wrap=True, width=states)
        for work, share, state in works:
            name = clean(f"{work.name}: {work.text}" if work.text else work.name)
            drawn = "" if share is None or not bar else rich.bar.Bar(1.0, 0.0, share, width=bar)
            table.add_row(rich.text.Text(name), drawn, rich.text.Text(state, style="dim"))
        return table


def state_of(work: Work) -> str:
    """The time that work took, and what is known of its end: "63 %, 1:05, about 0:40 left"."""
    share, left, elapsed = work.share, work.left, clock_text(work.elapsed)
    if work.late:
        return f"{elapsed}, longer than the {clock_text(sum(work.expected.values()))} expected"
    if share is None:
        return elapsed
    after = "" if left is None else f", about {clock_text(left)} left"
    return f"{100 * share:.0f} %, {elapsed}{after}"


def clock_text(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# How text and tables fit the width of a terminal, or of 80 columns where nobody says how wide it is.


#: Width of what goes to a file or a pipe: the same on every machine.
PLAIN_WIDTH = 80
#: Nothing is readable in less.
NARROWEST = 40
#: Texts in a table are folded down to this width, or to their longest word, before the table is split.
FOLDED = 16
#: Longer words are broken.
LONGEST = 32
#: Between two columns of a table that has little room.
GAP = 2
#: A command in backquotes is one word, so that it can be copied.
WORDS = re.compile(r"[^\s`]*`[^`\n]*`[^\s`]*|\S+")


def asked_width(terminal: int | None) -> int:
    """COLUMNS where that is set, else the width of the terminal, else `PLAIN_WIDTH`."""
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and len(asked) < 8 else 0
    return max(width or terminal or PLAIN_WIDTH, NARROWEST)


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most `width` columns; only a word that is longer, like a path, takes a line of its own.

    What follows the first line of a long one is indented by two columns more.
    """
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> Iterator[str]:
    if cell_len(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip(" "))]
    text, first = indent, True
    for word in _words(line, width - len(indent) - 2):
        if not text.strip():
            text += word
        elif cell_len(text) + 1 + cell_len(word) <= width:
            text += f" {word}"
        else:
            yield text
            text, first = f"{indent}  {word}", False
    if text.strip() or first:
        yield text


def _words(line: str, room: int) -> Iterator[str]:
    for word in WORDS.findall(line):
        if cell_len(word) <= room:
            yield word
        else:
            yield from word.split()


@dataclass(frozen=True)
class Column:
    """A column of a table that is narrower than it would like: its place among all columns, and the width it gets."""

    index: int
    width: int


def blocks(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, key: int, second: int = 0
           ) -> list[list[Column]]:
    """The columns in as many blocks as `width` needs; each begins with the first `key` columns, which name the row.

    Texts are folded between words first; only where that does not suffice columns are shared out among blocks, of
    which one begins with column `second`.
    """
    columns = [[row[k] for row in rows] for k in range(len(heads))]
    words = [[*head.split(), ""] for head in heads]
    widths = [max(map(cell_len, [*words[k], *column])) for k, column in enumerate(columns)]
    longest = [max(map(cell_len, [*words[k], *(w for cell in column for w in cell.split())]))
               for k, column in enumerate(columns)]
    numbers = [all(map(is_number, column)) for column in columns]
    floors = [w if number else min(w, max(min(longest[k], LONGEST), FOLDED))
              for k, (w, number) in enumerate(zip(widths, numbers, strict=True))]
    folded = _folded(widths, floors, width)
    if _total(folded) <= width:
        return [[Column(k, w) for k, w in enumerate(folded)]]
    names = [min(w, max(width // (2 * key), FOLDED)) for w in folded[:key]]
    room = width - _total(names) - GAP
    groups: list[list[Column]] = [[]]
    for k in range(key, len(heads)):
        column = Column(k, min(folded[k], room))
        if groups[-1] and (k == second or _total([c.width for c in (*groups[-1], column)]) > room):
            groups.append([])
        groups[-1].append(column)
    return [[*(Column(k, w) for k, w in enumerate(names)), *block] for block in groups]


def is_number(text: str) -> bool:
    return not text or text.translate(dict.fromkeys(map(ord, " ,.%-"))).isdigit()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _folded(widths: Sequence[int], floors: Sequence[int], width: int) -> list[int]:
    """The widths, of which the largest gives first until all fit or none can give any more."""
    narrowed = list(widths)
    while _total(narrowed) > width:
        givers = [k for k, w in enumerate(narrowed) if w > floors[k]]
        if not givers:
            break
        narrowed[max(givers, key=lambda k: narrowed[k])] -= 1
    return narrowed


#: How the heads of tables look in a terminal; rich leaves colours out in a pipe, and where NO_COLOR is set.
HEADS = "bold cyan"
#: Columns that the edges of a table take.
MARGIN = 2


class Stream(rich.console.Console):
    """rich ends the process when nobody reads any more; the command line decides that itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Console:
    """`quiet` (JSON on standard output) keeps tables and notes to itself; progress and failures still show.  Without
    `progress` (--quiet) warnings and failures alone show on standard error.  With `verbose` commands also show details.
    """

    def __init__(self, *, quiet: bool = False, progress: bool = True, verbose: bool = False):
        self.quiet, self.shows_progress, self.verbose = quiet, progress, verbose
        self.out, self.err = (stream_to(stderr) for stderr in (False, True))
        #: Shows long work on standard error.
        self.watch = Watcher(self.err, shown=self.shows_bars)

    def remember(self, durations: Durations) -> None:
        """Show how far long work is by the seconds that it took before."""
        self.watch.durations = durations

    def say(self, text: str) -> None:
        """A line of the result."""
        if not self.quiet:
            lines(self.out, text)

    def progress(self, text: str) -> None:
        """A line that says what happens now."""
        if self.shows_progress:
            lines(self.err, text, "dim")

    def next(self, text: str) -> None:
        """Say what the user may do after this command; a hint for people, not a part of the result."""
        if not self.quiet:
            self.progress(f"next: {text}")

    def warn(self, text: str) -> None:
        """A result that nobody wants."""
        self.headed("warning:", text, "bold yellow")

    def fail(self, text: str) -> None:
        self.headed("error:", text, "bold red")

    def headed(self, head: str, text: str, style: str) -> None:
        """A message on standard error, with its first word in `style`."""
        text_lines = rich.text.Text(wrapped(harmless(f"{head} {text}"), self.err.width))
        text_lines.stylize(style, 0, len(head))
        self.err.print(text_lines, soft_wrap=True)

    @property
    def shows_bars(self) -> bool:
        """Whether standard error is a terminal that may show what moves."""
        return self.err.is_terminal and self.shows_progress

    @contextlib.contextmanager
    def step(self, text: str, kind: str = "", size: float = 1.0) -> Iterator[None]:
        """Show that `text` goes on, and afterwards how long it took; `kind` and `size` as of a `Watch`."""
        started = time.monotonic()
        if not self.shows_bars:
            self.progress(f"{text} ...")
        with self.watch(text, kind, size):
            yield
        self.progress(f"{text}: {time.monotonic() - started:.1f} s")

    @contextlib.contextmanager
    def rows(self, text: str, rate: str = "") -> Iterator[Callable[[int, int], None]]:
        """The same as `step`, for work on rows: it gives a function to call with (rows done, rows in all).

        With `rate`, the unit of their rate, a terminal shows that, too."""
        started = time.monotonic()
        if not self.shows_bars:
            self.progress(f"{text} ...")
        with self.watch(text) as work:
            def show(done: int, total: int) -> None:
                work.count(done, total)
                if rate and done:
                    work.say(f"{decimal(done / max(work.elapsed, 1e-3))} {rate}")

            yield show
        self.progress(f"{text}: {time.monotonic() - started:.1f} s")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, key: int = 1,
              second: int = 0) -> None:
        """A table; columns whose entries are all numbers are aligned to the right.

        Where the terminal is too narrow, long texts take several lines.  Where that is not enough, columns follow in
        further tables: each has the first `key` columns, which name the rows, and one begins with column `second`.
        """
        if self.quiet:
            return
        numbers = [all(is_number(row[k]) for row in rows) for k in range(len(columns))]
        table = rich.table.Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, header_style=HEADS)
        for head, number in zip(columns, numbers, strict=True):
            table.add_column(head, justify="right" if number else "left", no_wrap=True)
        add_rows(table, rows)
        free = self.out.options.update(max_width=sys.maxsize)
        if self.out.measure(table, options=free).maximum <= self.out.width:
            self.out.print(table)
            return
        lines(self.out, title, "table.title")
        for block in blocks(columns, rows, self.out.width - MARGIN, key=key, second=second):
            self.out.print(narrow_table(columns, rows, numbers, block))


def stream_to(stderr: bool) -> Stream:
    """A console of the width that is asked for."""
    stream = Stream(stderr=stderr, highlight=False)
    return Stream(stderr=stderr, highlight=False, width=asked_width(stream.width if stream.is_terminal else None))


def lines(stream: Stream, text: str, style: str = "") -> None:
    """Print the text, wrapped to the width of the stream."""
    stream.print(rich.text.Text(wrapped(harmless(text), stream.width), style=style), soft_wrap=True)


def add_rows(table: rich.table.Table, rows: Sequence[Sequence[str]]) -> None:
    for row in rows:
        table.add_row(*(rich.markup.escape(cell) for cell in row))


def narrow_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool],
                 block: Sequence[Column]) -> rich.table.Table:
    """Some columns with little room: texts and heads take several lines."""
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, header_style=HEADS, padding=(0, 1, 0, 0), pad_edge=False)
    for column in block:
        table.add_column(heads[column.index], justify="right" if numbers[column.index] else "left", overflow="fold",
                         width=column.width)
    add_rows(table, [[row[column.index] for column in block] for row in rows])
    return table
