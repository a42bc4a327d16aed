"""What each command of the command line does.  A command prints for people and returns the same facts as plain data.

A result with "exit_code" sets the exit code of the process.
"""

from __future__ import annotations

from .board import run
from .hardware import boards, build, check, doctor, golden, info, quantize, sim, synth
from .onnx_files import convert, diff, extract, rules
from .programming import program
from .retraining import reweight

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
    "reweight",
    "rules",
    "run",
    "sim",
    "synth",
]
