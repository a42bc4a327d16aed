"""The command line.

One file for each command: its request, which declares its options, and its function, whose docstring is its help; it
prints for people and returns the same facts as plain data, with the "exit_code" of the process.  `commands` lists them,
`parser` is the way from words to requests, `entry` has the entry point and the exit codes, `interrupts` the handling of
Ctrl-C and SIGTERM.
"""

from .entry import explain, main

__all__ = ["explain", "main"]
