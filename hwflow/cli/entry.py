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
from collections.abc import Sequence
from typing import NoReturn

from hwflow_base.errors import HwflowError
from hwflow_base.files.full_disk import FULL
from hwflow_base.printable import AS_NAMED

from .interrupts import Interrupted, interruptible

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
