"""The command line's way in and out.  Results go to standard output, progress to standard error; failures are one
message.

Exit codes: 0 fine; 1 the answer is no (mismatch, does not fit, check failed); 2 the question was wrong (bad file,
unknown board, missing tool); 70 error in hwflow; 130 interrupted, 143 ended by SIGTERM.  With --json
standard output holds one JSON object in every case: the result, or {"error": message, "exit_code": code}.

Whatever takes long to import is imported where an interrupt is heard already.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

from hwflow_base.errors import HwflowError
from hwflow_base.files.full_disk import FULL
from hwflow_base.printable import AS_NAMED

#: Exit code of a mistake in hwflow (EX_SOFTWARE of sysexits.h).
INTERNAL = 70


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of `hwflow`; always raises SystemExit.  `arguments` are those of the process if None."""
    if arguments is not None:
        answer(list(arguments))
    words = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):  # a file's name may have what the terminal's encoding has not
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=AS_NAMED)
    try:
        with interruptible():
            answer(words)
    except Interrupted as error:
        fail(*explain(error), words)


def answer(words: Sequence[str]) -> NoReturn:
    """Do what the words say and end with the exit code; every failure is one message, Interrupted passes."""
    try:
        code = call(words)
        sys.stdout.flush()
    except BrokenPipeError:  # `hwflow info x | head -1`: the reader has what it wanted
        silence_output()
        sys.exit(128 + signal.SIGPIPE)
    except (SystemExit, Interrupted):
        raise
    except BaseException as error:
        fail(*explain(error), words)
    sys.exit(code)


def call(words: Sequence[str]) -> int:
    """The exit code of a command that returned."""
    import warnings

    import click

    from .commands import cli

    # Amaranth complains of hardware that is made and not used: after a failure that is no news.
    warnings.filterwarnings("ignore", message="(?s).* created but never used")
    try:
        return int(cli.main(list(words), prog_name="hwflow", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2


def fail(message: str, code: int, words: Sequence[str]) -> NoReturn:
    """End with `code`; the message goes to standard error, and as JSON to standard output where that was asked for."""
    from ..views.console.terminal import Console

    if "--json" in words:
        with contextlib.suppress(OSError):
            print(json.dumps({"error": message, "exit_code": code}), flush=True)
    Console().fail(message)
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: what is left in the buffer would fail once more at the end, and change the exit code
        silence_output()
    sys.exit(code)


def silence_output() -> None:
    """Send what is still written to standard output nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def explain(error: BaseException) -> tuple[str, int]:
    """The message to the user about an error, and the exit code."""
    import click

    if isinstance(error, HwflowError) and error.exit_code != INTERNAL:
        return str(error), error.exit_code
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "hwflow"
        return f"{error.format_message().rstrip('.')}; see `{path} --help`", 2
    if isinstance(error, (Interrupted, KeyboardInterrupt, click.Abort)):
        number = error.signal if isinstance(error, Interrupted) else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        then = "; ".join(getattr(error, "__notes__", ())) or "and the next run goes on from what was finished"
        return f"{how}; nothing is half-written, {then}", 128 + number
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("hwflow"):
        return (f"the Python package of '{error.name}' must be installed with hwflow, but is missing: run `pip install "
                "hwflow` again (in a checkout: `make doctor`)"), 2
    if isinstance(error, MemoryError):
        return "the model needs more memory than this machine has", 2
    if isinstance(error, OSError):
        place = error.filename2 or error.filename
        remedy = "; make room, or choose another folder with --build" if error.errno in FULL else ""
        return f"{f'{place}: ' if place else ''}{error.strerror or error}{remedy}", 2
    return mistake(error), INTERNAL


def mistake(error: BaseException) -> str:
    """The message about an error that nobody foresaw; its details are in a file."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="hwflow-", suffix=".txt", delete=False) as report:
        report.writelines(traceback.format_exception(error))
    reason = (str(error).splitlines() or [""])[0]
    return (f"an error in hwflow ({type(error).__name__}: {reason}); please report it with the file "
            f"'{report.name}'")


# Ctrl-C, SIGTERM and SIGHUP as one exception, which arrives.  What a signal handler raises comes up wherever the
# program happens to be.  In a `__del__` (Amaranth's elaboratables have one), in the callback of a weak reference or of
# a library in C, Python drops it with a note ("Exception ignored in") and the program would go on.  So a timer looks
# again, and raises it anew where it is not on its way up any more.


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
