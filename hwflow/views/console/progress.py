"""Long work on a terminal: a line for each with its phase, the time that it took so far, and how far it is.

A bar shows what is counted, or what the times of earlier work say; without both there is no bar.  Work that takes
longer than earlier work loses its bar, too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

import rich.bar
import rich.console
import rich.live
import rich.table
import rich.text
from hwflow_base.files.durations import Durations
from hwflow_base.printable import clean
from hwflow_base.work import Work

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
