"""Frames a second in words: first what arrives and what limits it, then what each part does alone."""

from __future__ import annotations

from collections.abc import Iterator

from ..hls.plan import Plan
from ..host.rate import Limit, Rate, rate_of
from ..synth import Board
from .clock import CoreClock
from .console import Console
from .numbers import counted, rate_text

__all__ = ["board_rate", "limit_words", "rate_lines", "show_rate"]


def board_rate(plan: Plan, board: Board, clock: CoreClock, cycles: int | None = None) -> Rate:
    """Of `plan` on `board`; `cycles` is another interval than that of the plan, as a simulation has it."""
    return rate_of(plan, clock.mhz, board.transport.bytes_per_second, cycles)


def limit_words(rate: Rate, line: str) -> str:
    """What sets the pace; `line` is the way to the host."""
    return {Limit.LINE: f"as many as {line} carries", Limit.CORE: "as many as the FPGA computes",
            Limit.MEMORY: "as many as the memory beside the FPGA gives weights for"}[rate.limit]


def rate_lines(rate: Rate, line: str, clock: str) -> Iterator[str]:
    """Frames a second that arrive at the host, then those of the design and of the line alone."""
    most = f"{rate_text(rate.frames_per_second)} frames/s: {limit_words(rate, line)}"
    pace = f"a frame every {counted(rate.interval, 'cycle')} at {clock}"
    if rate.limit is Limit.LINE:
        yield most
        yield f"the FPGA alone: {rate_text(rate.core)} frames/s, {pace}"
    else:
        yield f"{most}, {pace}"
        yield f"{line} would carry {rate_text(rate.line)} frames/s"


def show_rate(console: Console, plan: Plan, board: Board, clock: CoreClock, cycles: int | None = None) -> None:
    for text in rate_lines(board_rate(plan, board, clock, cycles), board.transport.title, str(clock)):
        console.say(f"  {text}")
