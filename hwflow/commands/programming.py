"""The command that puts a bitstream onto a board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..flow import Settings
from ..report.console import Console
from ..synth import load_board
from ..synth.flow import BITSTREAM_SUFFIX
from ..synth.program import program as put

__all__ = ["program"]

#: How long what was written lasts.
LASTS = {"sram": "until the power goes; --flash keeps it", "flash": "for good"}


def program(console: Console, settings: Settings) -> Mapping[str, Any]:
    """The bitstream that `hwflow synth` left below build/<model>/synth/<board>, into the board's SRAM or flash."""
    board = load_board(settings.board)
    folder = settings.build / settings.model.stem / "synth" / board.name / "bitstream"
    bitstream = folder / f"top.{BITSTREAM_SUFFIX[board.family]}"
    done = put(board, bitstream, flash=settings.flash, progress=console.progress)
    if done.memory == "flash" and not settings.flash:
        console.say(f"{board.name} takes bitstreams into its flash only")
    console.say(f"{board.name} runs {bitstream}: in its {done.memory}, {LASTS[done.memory]}")
    return {"board": board.name, "bitstream": str(bitstream), "memory": done.memory, "tool": done.tool,
            "version": done.version, "command": list(done.command)}
