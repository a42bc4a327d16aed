"""The cocotb test that runs inside the simulation: prepare, `go`, wait for `done`, compare, report.

Between `go` and `done` the clock runs in C++ without coming back to Python; the monitors of the bench record every
beat.  The folder in the environment variable HWFLOW_RUN holds what to play and receives the result.
"""

from __future__ import annotations

import os
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from .compare import first_difference, whole_frames
from .exchange import EXPECTED, FRAMES, SETTINGS, Settings, save_result
from .packing import pack
from .recorder import Recorder
from .results import Boundary, Deadlock, RunResult, StageResult, Waiting


@cocotb.test()
async def every_stage_equals_the_golden_model(dut) -> None:
    place = Path(os.environ["HWFLOW_RUN"])
    settings = Settings.load(place / SETTINGS)
    frames = np.load(place / FRAMES, mmap_mode="r")
    stimulus = pack(frames, lanes=settings.input_lanes, shape=settings.input_shape)
    recorder = Recorder(settings, len(frames), stimulus)
    dut.go.value = 1
    await RisingEdge(dut.done)
    result = collect(recorder, place)
    save_result(place, result)
    assert result.equal, "\n".join(result.failures())


def collect(recorder: Recorder, place: Path) -> RunResult:
    boundaries = recorder.settings.boundaries
    stages = tuple(stage_result(recorder, place, k) for k in range(len(boundaries)))
    sink = recorder.totals(recorder.sink)
    _, dones = recorder.frame_cycles(recorder.sink)
    violations, first_violation = recorder.violations()
    simulated, seconds = recorder.clock()
    return RunResult(
        cycles=0 if sink.last_cycle is None else sink.last_cycle + 1,
        stages=stages,
        output=whole_frames(boundaries[-1], recorder.beats(recorder.sink), recorder.frames),
        first_output_cycle=recorder.first_cycle(recorder.sink),
        frame_done_cycles=dones,
        input_stall_cycles=recorder.totals(recorder.source).stalled,
        deadlock=deadlock(recorder),
        violations=violations, first_violation_cycle=first_violation,
        simulated_cycles=simulated, seconds=seconds, waves=None)


def stage_result(recorder: Recorder, place: Path, k: int) -> StageResult:
    """Stage k against its expected elements; for the last one also what the sink received."""
    boundary: Boundary = recorder.settings.boundaries[k]
    expected = np.load(place / EXPECTED.format(k), mmap_mode="r")
    due = recorder.due_beats(k)
    numbers = [k, recorder.sink] if k == recorder.sink - 1 else [k]
    differences = [first_difference(boundary, recorder.beats(number), expected) for number in numbers]
    counts = [recorder.totals(number).beats for number in numbers]
    difference = next((d for d in differences if d is not None), None)
    beats = next((count for count in counts if count != due), due)
    totals = recorder.totals(k)
    firsts, dones = recorder.frame_cycles(k)
    return StageResult(
        name=boundary.name, equal=difference is None and beats == due, beats=beats, expected_beats=due,
        busy_cycles=totals.busy, stall_cycles=totals.stalled, first_difference=difference, first_cycles=firsts,
        done_cycles=dones, last_cycle=totals.last_cycle)


def deadlock(recorder: Recorder) -> Deadlock | None:
    """None if every stream moved all that was due: then the run ended by itself."""
    boundaries = recorder.settings.boundaries
    names = {recorder.source: "input", **{k: b.name for k, b in enumerate(boundaries)}, recorder.sink: "output"}
    streams = []
    for number, name in names.items():
        totals = recorder.totals(number)
        streams.append(Waiting(name, totals.beats, recorder.due_beats(number), totals.last_cycle, totals.stalled_now,
                               totals.busy_now))
    if all(s.beats >= s.expected_beats for s in streams):
        return None
    return Deadlock(recorder.finish_cycle(), recorder.settings.idle_limit, tuple(streams))
