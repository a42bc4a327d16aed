"""The C++ side of the bench, as seen by the Python that cocotb runs in the same process (see cpp/recorder.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .diagnosis import LinkState
from .exchange import Settings
from .packing import words_per_beat

INT, INT64, UINT64, DOUBLE = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double
WORDS, CYCLES = ctypes.POINTER(UINT64), ctypes.POINTER(INT64)
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "prepare": (None, INT, INT, INT, INT, INT64, INT64), "prepare_boundary": (None, INT, INT, INT64, INT64),
    "prepare_source": (None, INT, ctypes.c_void_p, UINT64), "prepare_stall": (None, INT, INT, INT),
    "word_count": (UINT64, INT), "words": (WORDS, INT), "frame_cycle_count": (UINT64, INT),
    "frame_cycles": (CYCLES, INT), "totals": (CYCLES, INT), "violation_count": (UINT64, INT),
    "first_violation": (INT64, INT), "link": (CYCLES, INT), "finish_cycle": (INT64,), "cycles": (UINT64,),
    "seconds": (DOUBLE,),
}
SEED_MIX = 0x9E3779B1  # 2**32 / golden ratio: neighbouring seeds give unlike states


@dataclass(frozen=True)
class Totals:
    """The counts of a monitor; `last_cycle` is None where no beat came."""

    beats: int
    last_cycle: int | None
    busy: int
    stalled: int
    busy_now: bool
    stalled_now: bool


class Recorder:
    """Prepares a run of `count` frames and reads what was recorded.

    Monitors are numbered: the stages, then the sinks of the outputs (`sinks`), then the sources of the inputs
    (`sources`).  `stimuli`, uint64[beats, words], are what the sources play.
    """

    def __init__(self, settings: Settings, count: int, stimuli: Sequence[npt.NDArray[np.uint64]]):
        self.settings = settings
        self.watched = (*settings.boundaries, *settings.output_boundaries, *settings.inputs)
        stages, inputs = len(settings.boundaries), len(settings.inputs)
        self.sinks = range(stages, len(self.watched) - inputs)
        self.sources = range(len(self.watched) - inputs, len(self.watched))
        self.frames = count
        self.stimuli = [np.ascontiguousarray(stimulus) for stimulus in stimuli]  # the C++ side reads them in place
        library = ctypes.CDLL(None)
        self.call = {}
        for name, (result, *arguments) in PROTOTYPES.items():
            function = self.call[name] = library[f"hwflow_{name}"]
            function.restype, function.argtypes = result, tuple(arguments)
        self.prepare()

    def prepare(self) -> None:
        call, settings = self.call, self.settings
        sources, ends = len(self.sources), len(self.sources) + len(self.sinks)
        stallable = ends + settings.weights
        stop = -1 if settings.stop_cycle is None else settings.stop_cycle
        call["prepare"](len(self.watched), sources, stallable, len(settings.edges), settings.idle_limit, stop)
        for number, boundary in enumerate(self.watched):
            call["prepare_boundary"](number, words_per_beat(boundary.lanes, boundary.carried), boundary.beats_per_frame,
                                     self.due_beats(number))
        for k, stimulus in enumerate(self.stimuli):
            call["prepare_source"](k, stimulus.ctypes.data, stimulus.size)
        for end in range(stallable):
            probability = settings.stalls.sink if sources <= end < ends else settings.stalls.source
            state = ((stallable * settings.stalls.seed + end + 1) * SEED_MIX) & 0xFFFF_FFFF or SEED_MIX
            call["prepare_stall"](end, round(probability * 65536), ctypes.c_int(state).value)

    def beats(self, number: int) -> npt.NDArray[np.uint64]:
        """uint64[beats, words]: what came at a boundary (of too many, a frame's worth at most)."""
        boundary = self.watched[number]
        words = self.array("word_count", "words", number)
        return words.reshape(-1, words_per_beat(boundary.lanes, boundary.carried))

    def frame_cycles(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cycles of the first and of the last beat of every complete frame."""
        cycles = self.array("frame_cycle_count", "frame_cycles", number)
        whole = min(len(cycles) // 2, self.frames)
        return tuple(map(int, cycles[: 2 * whole : 2])), tuple(map(int, cycles[1 : 2 * whole : 2]))

    def first_cycle(self, number: int) -> int | None:
        """The cycle of the very first beat."""
        cycles = self.array("frame_cycle_count", "frame_cycles", number)
        return int(cycles[0]) if len(cycles) else None

    def due_beats(self, number: int) -> int:
        return self.watched[number].beats_per_frame * self.frames

    def finish_cycle(self) -> int:
        return int(self.call["finish_cycle"]())

    def array(self, size: str, content: str, number: int) -> npt.NDArray[np.uint64]:
        count = int(self.call[size](number))
        if count == 0:
            return np.zeros(0, dtype=np.uint64)
        return np.ctypeslib.as_array(self.call[content](number), (count,))

    def totals(self, number: int) -> Totals:
        beats, last, busy, stalled, busy_now, stalled_now = self.call["totals"](number)[:6]
        return Totals(beats, None if last < 0 else last, busy, stalled, bool(busy_now), bool(stalled_now))

    def violations(self, number: int) -> tuple[int, int | None]:
        """How often the output of a sink broke the rule of streams, and in which cycle first."""
        count = int(self.call["violation_count"](number))
        return count, int(self.call["first_violation"](number)) if count else None

    def link(self, number: int) -> LinkState:
        edge = self.settings.edges[number]
        full, empty, level = self.call["link"](number)[:3]
        return LinkState(edge.source, edge.sink, edge.capacity, level, None if full < 0 else full,
                         None if empty < 0 else empty)

    def clock(self) -> tuple[int, float]:
        """Cycles simulated by this process, and the seconds they took."""
        return int(self.call["cycles"]()), float(self.call["seconds"]())
