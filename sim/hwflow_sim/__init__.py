"""Compile an Amaranth core with Verilator, play frames through it from cocotb, compare every stage boundary.

`compile()` turns a core (`hwflow_rtl.core.Core`) into a cached executable; `run()` plays frames through it, with random
stalls where asked, and compares the beats at the output of every stage, and at every output of the core, with arrays
of integers, by equality.  A run that stands still says which link is full or empty since when, and who blocks whom.
"""

from .compile import Simulation, compile
from .diagnosis import Deadlock, LinkState
from .results import Boundary, Difference, ElementShape, OutputResult, RunResult, StageResult, StallPattern
from .run import run

__all__ = ["Boundary", "Deadlock", "Difference", "ElementShape", "LinkState", "OutputResult", "RunResult", "Simulation",
           "StageResult", "StallPattern", "compile", "run"]
