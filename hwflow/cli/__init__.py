"""The command line: `entry` is the way in and out, `words` has the commands, `options` what they share, `help` the
sections of their help, `interrupts` Ctrl-C and SIGTERM.  `hwflow.commands` does the work."""

from .entry import explain, main

__all__ = ["explain", "main"]
