"""Memories outside of the FPGA: SDR SDRAM, QSPI flash, their controllers, and what makes streams of weights of them."""

from .flash import FlashController, FlashError
from .flash_part import FlashClocks, FlashPart, FlashTiming
from .flash_pins import flash_pins
from .part import MemoryClocks, MemoryPart, PartNumberError, request_of
from .sdram import SdramController
from .sdram_part import SdramClocks, SdramPart, SdramTiming
from .sdram_pins import sdram_pins
from .weight_reader import WeightReader
from .weight_store import WeightStore
from .weight_stream import WeightStream

__all__ = [
    "FlashClocks", "FlashController", "FlashError", "FlashPart", "FlashTiming", "MemoryClocks", "MemoryPart",
    "PartNumberError", "SdramClocks", "SdramController", "SdramPart", "SdramTiming", "WeightReader", "WeightStore",
    "WeightStream", "flash_pins", "request_of", "sdram_pins"]
