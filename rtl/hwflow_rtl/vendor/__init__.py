"""Multipliers, memories and PLLs: one `Technology` for each FPGA family, and a generic one for simulation."""

from .base import Resources, Technology, Timing, price
from .ecp5 import ECP5
from .generic import Generic
from .gowin import Gowin
from .ice40 import ICE40

__all__ = ["ECP5", "FAMILIES", "ICE40", "Generic", "Gowin", "Resources", "Technology", "Timing", "price"]

#: The technology of every family that a board can name.
FAMILIES: dict[str, type[Technology]] = {family.name: family for family in (ECP5, ICE40, Gowin)}
