"""One function for each command of the command line.  It prints for people and returns the same facts as plain data.

A result with "exit_code" sets the exit code of the process.
"""

from __future__ import annotations

from .board import run
from .checking import check, info
from .hardware import boards, build, doctor, sim, synth
from .integers import golden, quantize
from .onnx_files import convert, diff, extract, rules
from .programming import program
from .reporting import report
from .retraining import reweight
from .serving import serve

__all__ = [
    "boards",
    "build",
    "check",
    "convert",
    "diff",
    "doctor",
    "extract",
    "golden",
    "info",
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
