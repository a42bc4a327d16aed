"""The FPGA families of the boards.  Each has a folder with everything that differs from other families.

A family has a `Technology` for the gateware (`hwflow_rtl.vendor`), a `Family` for synthesis (a folder here) and models
of its cells for simulation (`hwflow_sim/cells`).  docs/add-a-family.md shows how one is added.
"""

from .base import Family, Limit, NetlistCells, Program, RoutedCells
from .ecp5 import ECP5Family
from .gowin import GowinFamily
from .ice40 import ICE40Family

__all__ = ["FAMILIES", "Family", "Limit", "NetlistCells", "Program", "RoutedCells"]

#: Every family by the name that a board file gives it.
FAMILIES: dict[str, Family] = {family.name: family for family in (ECP5Family(), ICE40Family(), GowinFamily())}
