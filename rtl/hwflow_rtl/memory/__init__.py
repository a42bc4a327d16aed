"""Memories for weights: SDR SDRAM, QSPI flash, the user flash of an FPGA, their controllers, and streams from them."""

from .flash import FlashController, FlashError
from .flash_pads import FlashPads
from .flash_part import FlashClocks, FlashPart, FlashTiming
from .flash_pins import flash_pins
from .part import MemoryClocks, MemoryPart, PartNumberError, request_of
from .sdram import SdramController
from .sdram_part import SdramClocks, SdramPart, SdramTiming
from .sdram_pins import sdram_pins
from .seal import AnyFlash, SealCheck, SealedController, SealedFlash
from .user_flash import UserFlashController
from .user_flash_cell import UserFlashCell
from .user_flash_part import UserFlashClocks, UserFlashPart, UserFlashTiming
from .weight_image import WeightImage
from .weight_memory import WeightMemory
from .weight_reader import WeightReader
from .weight_sharing import WeightSharing
from .weight_stream import WeightStream

__all__ = [
    "AnyFlash", "FlashClocks", "FlashController", "FlashError", "FlashPads", "FlashPart", "FlashTiming",
    "MemoryClocks", "MemoryPart", "PartNumberError", "SdramClocks", "SdramController", "SdramPart", "SdramTiming",
    "SealCheck", "SealedController", "SealedFlash", "UserFlashCell", "UserFlashClocks", "UserFlashController",
    "UserFlashPart", "UserFlashTiming", "WeightImage", "WeightMemory", "WeightReader", "WeightSharing", "WeightStream",
    "flash_pins", "request_of", "sdram_pins"]
