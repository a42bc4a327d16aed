"""Simulated flashes, QSPI and inside of an FPGA, that check their data sheets."""

from .kinds import flash_at, flash_chip, flash_model, flash_of, flash_violations, write_cells
from .model import MODEL, VIOLATIONS, Flash, FlashLimits, board_chip

__all__ = [
    "MODEL", "VIOLATIONS", "Flash", "FlashLimits", "board_chip", "flash_at", "flash_chip", "flash_model", "flash_of",
    "flash_violations", "write_cells"]
