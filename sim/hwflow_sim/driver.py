"""The cocotb test that runs inside the simulation: prepare, `go`, wait for `done`, compare, report.

Between `go` and `done` the clock runs in C++ without coming back to Python; the monitors of the bench record every
beat.  The folder in the environment variable HWFLOW_RUN holds what to play and receives the result.
"""

from __future__ import annotations

import os
from pathlib import Path

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

from .diagnosis import Deadlock, Waiting
from .exchange import EXPECTED, FRAMES, RESULT, SETTINGS, Settings, load, save
from .packing import pack, unpack
from .recorder import Recorder
from .results import Boundary, BoundaryResult, Difference, OutputResult, RunResult, Values


def first_difference(boundary: Boundary, beats: npt.NDArray[np.uint64],
                     expected: npt.NDArray[np.int64]) -> Difference | None:
    """The first element of uint64[beats, words] that is not that of int64[n, elements]; None if all that are due came
    and are equal.  Frame by frame, so that memory does not grow with the number of frames."""
    per_frame = boundary.beats_per_frame
    for frame, frame_expected in enumerate(expected):
        got, places = elements_of(boundary, beats[frame * per_frame : (frame + 1) * per_frame])
        came = places[: len(got)]
        unequal = np.flatnonzero(got != frame_expected[came])
        if len(unequal):
            index = int(came[unequal[0]])
            return Difference(frame, index, int(frame_expected[index]), int(got[unequal[0]]))
        if len(got) < len(places):
            index = int(places[len(got)])
            return Difference(frame, index, int(frame_expected[index]), None)
    return None


def elements_of(boundary: Boundary, beats: npt.NDArray[np.uint64]
                ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The elements in the beats of a frame, in the order in which they came, and where each of the frame, came or not,
    belongs: int64[those that came], int64[elements of a frame]."""
    got = unpack(beats, lanes=boundary.lanes, shape=boundary.carried)
    if boundary.order is None:
        return got, np.arange(boundary.elements_per_frame)
    real = boundary.order.places >= 0
    return got[real[: len(got)]] + boundary.order.offset, boundary.order.places[real]


def whole_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.int64]:
    """The complete frames among the beats, `count` at most: int64[n, elements]."""
    return narrow_frames(boundary, beats, count).astype(np.int64)


def narrow_frames(boundary: Boundary, beats: npt.NDArray[np.uint64], count: int) -> Values:
    """The same as `whole_frames`, in the narrowest type that holds the elements, and made frame by frame to save
    memory."""
    per_frame = boundary.beats_per_frame
    size = next(bits for bits in (8, 16, 32, 64) if boundary.shape.width <= bits)
    frames = np.empty((min(len(beats) // per_frame, count), boundary.elements_per_frame),
                      f"{'i' if boundary.shape.signed else 'u'}{size // 8}")
    for k, frame in enumerate(frames):
        got, places = elements_of(boundary, beats[k * per_frame : (k + 1) * per_frame])
        frame[places] = got
    return frames


@cocotb.test()
async def every_stage_equals_the_golden_model(dut) -> None:
    place = Path(os.environ["HWFLOW_RUN"])
    settings = load(place / SETTINGS, Settings)
    frames = [np.load(place / FRAMES.format(k), mmap_mode="r") for k in range(len(settings.inputs))]
    stimuli = [pack(array, lanes=end.lanes, shape=end.shape)
               for array, end in zip(frames, settings.inputs, strict=True)]
    recorder = Recorder(settings, len(frames[0]), stimuli)
    dut.go.value = 1
    await RisingEdge(dut.done)
    result = collect(recorder, place)
    save(place / RESULT, result)
    assert result.equal, "\n".join(result.failures())


def collect(recorder: Recorder, place: Path) -> RunResult:
    settings = recorder.settings
    expected = [place / EXPECTED.format(k) for k in range(len(settings.boundaries))]
    boundaries = [boundary_result(recorder, path, k) for k, path in enumerate(expected)]
    sources = {boundary.tensor: place / FRAMES.format(k) for k, boundary in enumerate(settings.inputs)}
    sources |= {boundary.tensor: path for boundary, path in zip(settings.boundaries, expected, strict=True)}
    outputs = tuple(output_result(recorder, sources[boundary.tensor], k) for k, boundary in enumerate(settings.outputs))
    lasts = [recorder.totals(number).last_cycle for number in recorder.sinks]
    simulated, seconds = recorder.clock()
    return RunResult(
        cycles=max((last + 1 for last in lasts if last is not None), default=0),
        boundaries={boundary.tensor: boundary for boundary in boundaries}, outputs=outputs,
        input_stall_cycles=tuple(recorder.totals(number).stalled for number in recorder.sources),
        links=tuple(recorder.link(e) for e in range(len(settings.edges))),
        deadlock=deadlock(recorder),
        simulated_cycles=simulated, seconds=seconds, waves=None)


def boundary_result(recorder: Recorder, expected: Path, k: int) -> BoundaryResult:
    """Boundary k against its expected elements."""
    boundary, due, totals = recorder.watched[k], recorder.due_beats(k), recorder.totals(k)
    beats = recorder.beats(k)
    difference = first_difference(boundary, beats, np.load(expected, mmap_mode="r"))
    firsts, dones = recorder.frame_cycles(k)
    return BoundaryResult(
        tensor=boundary.tensor, name=boundary.name, equal=difference is None and totals.beats == due,
        beats=totals.beats, expected_beats=due, busy_cycles=totals.busy, stall_cycles=totals.stalled,
        first_difference=difference, first_cycles=firsts, done_cycles=dones, last_cycle=totals.last_cycle,
        values=narrow_frames(boundary, beats, recorder.frames))


def output_result(recorder: Recorder, expected: Path, k: int) -> OutputResult:
    """The elements that the sink of output k received, against the elements of its source."""
    number = recorder.sinks[k]
    boundary, due, beats = recorder.watched[number], recorder.due_beats(number), recorder.beats(number)
    came = recorder.totals(number).beats
    difference = first_difference(boundary, beats, np.load(expected, mmap_mode="r"))
    violations, first_violation = recorder.violations(number)
    return OutputResult(
        name=boundary.name, tensor=boundary.tensor,
        equal=difference is None and came == due and violations == 0, beats=came, expected_beats=due,
        values=whole_frames(boundary, beats, recorder.frames), first_difference=difference,
        first_cycle=recorder.first_cycle(number), done_cycles=recorder.frame_cycles(number)[1], violations=violations,
        first_violation_cycle=first_violation)


def deadlock(recorder: Recorder) -> Deadlock | None:
    """None if every stream moved all that was due, or the run was stopped: then nothing stands still."""
    streams = []
    for number in (*recorder.sources, *range(len(recorder.settings.boundaries)), *recorder.sinks):
        totals = recorder.totals(number)
        streams.append(Waiting(recorder.watched[number].name, totals.beats, recorder.due_beats(number),
                               totals.last_cycle, totals.stalled_now, totals.busy_now))
    stopped = recorder.finish_cycle() == recorder.settings.stop_cycle
    if stopped or all(s.beats >= s.expected_beats for s in streams):
        return None
    links = tuple(recorder.link(e) for e in range(len(recorder.settings.edges)))
    return Deadlock(recorder.finish_cycle(), recorder.settings.idle_limit, tuple(streams), links)
