"""Memories for weights: SDR SDRAM, QSPI flash, the user flash of an FPGA, their controllers, and streams from them."""

from .flash import FlashController, FlashError, FlashPads, FlashPart
from .flash_part import FlashClocks, FlashTiming, flash_pins
from .part import MemoryClocks, MemoryPart, PartNumberError, request_of
from .sdram import SdramController, SdramPart
from .sdram_part import SdramClocks, SdramTiming, sdram_pins
from .seal import AnyFlash, SealCheck, SealedController, SealedFlash
from .user_flash import UserFlashCell, UserFlashClocks, UserFlashController, UserFlashPart, UserFlashTiming
from .weight_memory import WeightMemory
from .weight_reader import WeightReader
from .weight_sharing import WeightImage, WeightSharing, WeightStream

__all__ = [
    "AnyFlash", "FlashClocks", "FlashController", "FlashError", "FlashPads", "FlashPart", "FlashTiming",
    "MemoryClocks", "MemoryPart", "PartNumberError", "SdramClocks", "SdramController", "SdramPart", "SdramTiming",
    "SealCheck", "SealedController", "SealedFlash", "UserFlashCell", "UserFlashClocks", "UserFlashController",
    "UserFlashPart", "UserFlashTiming", "WeightImage", "WeightMemory", "WeightReader", "WeightSharing", "WeightStream",
    "flash_pins", "request_of", "sdram_pins"]
