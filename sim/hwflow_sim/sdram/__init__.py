"""A simulated SDR SDRAM that checks its data sheet, and programs that run traffic into it."""

from .chip import Chip, ChipResult, Command, Pins, compile_chip
from .model import MODEL, VIOLATIONS, Sdram, SdramLimits
from .on_board import board_chip
from .traffic import Request, Traffic, TrafficResult, compile_traffic
from .weights import Taken, WeightTraffic, WeightTrafficResult, compile_weight_traffic

__all__ = [
    "MODEL", "VIOLATIONS", "Chip", "ChipResult", "Command", "Pins", "Request", "Sdram", "SdramLimits", "Taken",
    "Traffic", "TrafficResult", "WeightTraffic", "WeightTrafficResult", "board_chip", "compile_chip", "compile_traffic",
    "compile_weight_traffic"]
