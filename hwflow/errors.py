"""Every failure that a user can cause or must act on.

A message reads "<thing> must be <rule>, not <value>", names the ONNX node, YAML key or file it is about, and ends with
what to do.  The command line prints the message alone, without a traceback, and exits with `exit_code`.
"""

from __future__ import annotations

__all__ = ["AnswerIsNo", "HwflowError", "MissingTool", "ToolFailed"]


class HwflowError(Exception):
    """The question was wrong: a bad file, an unknown name, an impossible setting.  Exit code 2."""

    exit_code = 2


class MissingTool(HwflowError):
    """A program or a package that the command needs is not installed.  Exit code 2."""


class AnswerIsNo(HwflowError):
    """The question was fine and the answer is no: a mismatch, a model that does not fit.  Exit code 1."""

    exit_code = 1


class ToolFailed(AnswerIsNo):
    """A tool that hwflow started (a compiler, yosys, nextpnr) reported an error.  Exit code 1."""
