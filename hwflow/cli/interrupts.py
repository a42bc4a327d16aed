"""Ctrl-C, SIGTERM and SIGHUP as one exception, which arrives.

What a signal handler raises comes up wherever the program happens to be.  In a `__del__` (Amaranth's elaboratables have
one), in the callback of a weak reference or of a library in C, Python drops it with a note ("Exception ignored in")
and the program would go on.  So a timer looks again, and raises it anew where it is not on its way up any more.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How often the timer looks, in seconds: longer than any `__del__` runs, shorter than anybody waits.
PERIOD = 0.02


class Interrupted(BaseException):
    """The user, or the machine, wants the process to end.  No Exception, so that only cleaning up may catch it."""

    def __init__(self, number: int):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the body, whose work is all that the process is for, at the first signal to end.

    It leaves the body however it was lost on its way, also in place of what else the body ends with.  Later signals do
    not disturb the cleaning up, and signals after the body nothing at all.  A signal that the process ignores from its
    start (`nohup`, a job in the background) stays ignored.
    """
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        if not received:
            received.append(number)
            signal.setitimer(signal.ITIMER_REAL, PERIOD, PERIOD)
            raise Interrupted(number)

    def look_again(_number: int, _frame: FrameType | None) -> None:
        if received and not on_its_way():
            raise Interrupted(received[0])

    def unraisable(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, Interrupted):
            report(lost)

    report, sys.unraisablehook = sys.unraisablehook, unraisable
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        signal.signal(signal.SIGALRM, look_again)
        for number in heard:
            signal.signal(number, end)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        if received:
            ended = Interrupted(received[0])
            for note in getattr(sys.exception(), "__notes__", ()):  # of what was interrupted
                ended.add_note(note)
            raise ended from None


def on_its_way() -> bool:
    """Whether the code that runs now cleans up after Interrupted."""
    error = sys.exception()
    while error is not None and not isinstance(error, Interrupted):
        error = error.__context__
    return error is not None
