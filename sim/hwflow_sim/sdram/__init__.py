"""A simulated SDR SDRAM that checks its data sheet."""

from .model import MODEL, VIOLATIONS, Sdram, SdramLimits, board_chip

__all__ = ["MODEL", "VIOLATIONS", "Sdram", "SdramLimits", "board_chip"]
