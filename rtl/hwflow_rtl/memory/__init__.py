"""Memories outside of the FPGA: SDR SDRAM, its controller, and the reader that makes a stream of weights of it."""

from .part import MemoryClocks, MemoryPart, request_of
from .sdram import SdramController
from .sdram_part import SdramClocks, SdramNumberError, SdramPart, SdramTiming
from .sdram_pins import sdram_pins
from .weight_reader import WeightReader
from .weight_store import WeightStore
from .weight_stream import WeightStream

__all__ = [
    "MemoryClocks", "MemoryPart", "SdramClocks", "SdramController", "SdramNumberError", "SdramPart", "SdramTiming",
    "WeightReader", "WeightStore", "WeightStream", "request_of", "sdram_pins"]
