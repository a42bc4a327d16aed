"""Started as a program of its own in front of a tool: becomes the tool, which ends when hwflow does, even killed.

    python launcher.py PID COMMAND ...

PID is the process that starts it.  Linux alone: the kernel sends SIGKILL when the thread that started this one ends
(prctl(2), PR_SET_PDEATHSIG), and what a program is replaced by keeps that.  Imports nothing of hwflow: it
starts at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: From linux/prctl.h.
PR_SET_PDEATHSIG = 1
#: What a shell says of a command that cannot be run.
NOT_RUN = 127


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked
        sys.exit(-signal.SIGKILL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"error: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(NOT_RUN)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
