"""Compile an Amaranth core with Verilator, play frames through it from cocotb, compare every stage boundary.

`compile()` turns a core (`hwflow_rtl.core.Core`) into a cached executable; `run()` plays frames through it, with random
stalls where asked, and compares the beats at the output of every stage with arrays of integers, by equality.
"""

from .compile import Simulation, compile
from .results import Boundary, Deadlock, Difference, ElementShape, RunResult, StageResult, StallPattern
from .run import run

__all__ = ["Boundary", "Deadlock", "Difference", "ElementShape", "RunResult", "Simulation", "StageResult",
           "StallPattern", "compile", "run"]
