"""One function for each command of the command line.  It prints for people and returns the same facts as plain data.

A result with "exit_code" sets the exit code of the process.  Each function is imported when it is called first: the
command line has to know its options, and nothing more, to show a help or to complete a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.lazy_names import lazy_names

if TYPE_CHECKING:
    from .board import run
    from .checking import check, info
    from .exploring import explore
    from .hardware import boards, build, doctor, sim, synth
    from .integers import golden, quantize
    from .making_data import data
    from .onnx_files import convert, diff, extract, rules
    from .programming import program
    from .reporting import report
    from .retraining import reweight
    from .serving import serve
    from .starting import init

__all__ = [
    "boards",
    "build",
    "check",
    "convert",
    "data",
    "diff",
    "doctor",
    "explore",
    "extract",
    "golden",
    "info",
    "init",
    "program",
    "quantize",
    "report",
    "reweight",
    "rules",
    "run",
    "serve",
    "sim",
    "synth",
]

__getattr__, __dir__ = lazy_names(__name__, {
    "board": ("run",), "checking": ("check", "info"), "exploring": ("explore",),
    "hardware": ("boards", "build", "doctor", "sim", "synth"),
    "integers": ("golden", "quantize"), "making_data": ("data",), "onnx_files": ("convert", "diff", "extract", "rules"),
    "programming": ("program",), "reporting": ("report",), "retraining": ("reweight",), "serving": ("serve",),
    "starting": ("init",),
})
