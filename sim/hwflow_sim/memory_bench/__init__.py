"""Programs that run commands, requests and streams of weights into a simulated memory chip, and measure."""

from .bare_chip import (
    BareFlash,
    BareFlashResult,
    BareSdram,
    BareSdramResult,
    Command,
    Edge,
    Pins,
    compile_bare_flash,
    compile_bare_sdram,
)
from .program import MemoryProgram, ProgramTop
from .traffic import FlashReads, Request, Traffic, TrafficResult, compile_beats, compile_reads, compile_traffic
from .weights import (
    FlashTraffic,
    Taken,
    WeightTraffic,
    WeightTrafficResult,
    compile_flash_traffic,
    compile_weight_traffic,
)

__all__ = [
    "BareFlash", "BareFlashResult", "BareSdram", "BareSdramResult", "Command", "Edge", "FlashReads", "FlashTraffic",
    "MemoryProgram", "Pins", "ProgramTop", "Request", "Taken", "Traffic", "TrafficResult", "WeightTraffic",
    "WeightTrafficResult", "compile_bare_flash", "compile_bare_sdram", "compile_beats", "compile_flash_traffic",
    "compile_reads", "compile_traffic", "compile_weight_traffic"]
