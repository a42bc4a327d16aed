"""Simulated flashes, QSPI and inside of an FPGA, that check their data sheets."""

from .model import (
    MODEL,
    VIOLATIONS,
    Flash,
    FlashLimits,
    board_chip,
    flash_at,
    flash_chip,
    flash_model,
    flash_of,
    flash_violations,
    write_cells,
)

__all__ = [
    "MODEL", "VIOLATIONS", "Flash", "FlashLimits", "board_chip", "flash_at", "flash_chip", "flash_model", "flash_of",
    "flash_violations", "write_cells"]
