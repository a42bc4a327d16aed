"""Simulation of a core: Verilator compiles it, cocotb plays frames through it, numpy compares every stage.

`compile()` turns a core (`hwflow_rtl.core.Core`) into a cached executable.  `run()` plays frames through it, on request
with random stalls.  It compares the beats at the output of every stage and of the core with the expected integers, by
equality.  If a run deadlocks, its result says which links are full or empty since which cycle, and which stage blocks.
"""

from .compile import Simulation, compile
from .diagnosis import Deadlock, LinkState
from .results import (
    Boundary,
    BoundaryResult,
    Difference,
    ElementShape,
    MemoryOrder,
    OutputResult,
    RunResult,
    StallPattern,
)
from .run import run

__all__ = ["Boundary", "BoundaryResult", "Deadlock", "Difference", "ElementShape", "LinkState",
           "MemoryOrder", "OutputResult", "RunResult", "Simulation", "StallPattern", "compile", "run"]
