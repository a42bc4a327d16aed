"""The command line.

`entry` has the entry point and the exit codes, `words` the commands, `options` their shared options, `help` the
sections of their help, `interrupts` the handling of Ctrl-C and SIGTERM.  `hwflow.commands` does the work.
"""

from .entry import explain, main

__all__ = ["explain", "main"]
