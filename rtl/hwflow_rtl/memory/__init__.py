"""Memories outside of the FPGA: SDR SDRAM, QSPI flash, their controllers, and streams of weights from them."""

from .flash import FlashController, FlashError
from .flash_pads import FlashPads
from .flash_part import FlashClocks, FlashPart, FlashTiming
from .flash_pins import flash_pins
from .part import MemoryClocks, MemoryPart, PartNumberError, request_of
from .sdram import SdramController
from .sdram_part import SdramClocks, SdramPart, SdramTiming
from .sdram_pins import sdram_pins
from .seal import SealCheck, SealedController, SealedFlash
from .weight_image import WeightImage
from .weight_memory import WeightMemory
from .weight_reader import WeightReader
from .weight_sharing import WeightSharing
from .weight_stream import WeightStream

__all__ = [
    "FlashClocks", "FlashController", "FlashError", "FlashPads", "FlashPart", "FlashTiming", "MemoryClocks",
    "MemoryPart", "PartNumberError", "SdramClocks", "SdramController", "SdramPart", "SdramTiming", "SealCheck",
    "SealedController", "SealedFlash", "WeightImage", "WeightMemory", "WeightReader", "WeightSharing", "WeightStream",
    "flash_pins", "request_of", "sdram_pins"]
