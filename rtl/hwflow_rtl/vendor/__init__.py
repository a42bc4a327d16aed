"""One `Technology` for each FPGA family, and the generic one for simulation."""

from .base import Resources, Technology, Timing
from .generic import Generic

__all__ = ["Generic", "Resources", "Technology", "Timing"]
