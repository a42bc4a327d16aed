"""Simulated flashes, QSPI and inside of an FPGA, that check their data sheets, and programs that run commands and
requests into them."""

from .chip import Chip, ChipResult, Edge, compile_chip
from .kinds import flash_at, flash_chip, flash_model
from .model import MODEL, VIOLATIONS, Flash, FlashLimits
from .on_board import board_chip
from .reads import ReadResult, Reads, compile_beats, compile_reads
from .weights import FlashTraffic, compile_flash_traffic

__all__ = [
    "MODEL", "VIOLATIONS", "Chip", "ChipResult", "Edge", "Flash", "FlashLimits", "FlashTraffic",
    "ReadResult", "Reads", "board_chip", "compile_beats", "compile_chip", "compile_flash_traffic", "compile_reads",
    "flash_at", "flash_chip", "flash_model"]
