"""When each stage of a plan works on each frame, computed by the timeline without simulation.

Frames follow each other as fast as the inputs take them.  First and last beats are exact, as a simulation shows them:
to the cycle, but for results that full queues hold back, which are given one cycle later.  What a stage does between is
derived from its beats: its cycles of work belong to its results in equal parts and are as late as these allow, because
a pipeline gives a result as soon as it is computed.  A stage that gives its results only when most of a frame is there,
as a global average, works on beats as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.times import Times

from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.plan import Plan
from hwflow.hls.schedule.links import Played
from hwflow.hls.schedule.network import Network
from hwflow.stages.stage import Stage, StepTimes

#: Cycles of work that are this close belong together.
TOGETHER = 1e-6
Cycles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Activity:
    """The work of a stage with one frame, in cycles from the first beat into the idle design.

    It takes the first beat at `begin`, gives its first result at `first` and its last one at `end`.  It works from
    `starts[k]` to `ends[k]`, one after the other.
    """

    begin: int
    first: int
    end: int
    starts: Cycles
    ends: Cycles

    @property
    def works(self) -> float:
        """Cycles in which it works."""
        return float((self.ends - self.starts).sum())

    @property
    def fills(self) -> float:
        """Cycles in which it collects what it needs before it can begin to work."""
        return max(0.0, float(self.starts[0]) - self.begin)

    @property
    def waits(self) -> float:
        """Cycles in which it has begun and can do nothing: it waits for beats, weights, or room for its results."""
        return max(0.0, self.end - self.begin - self.fills - self.works)

    def shares(self, edges: Cycles) -> Cycles:
        """The share of its time that it works between each two neighbours of `edges`, which ascend."""
        moments = np.stack([self.starts, self.ends], axis=1).reshape(-1)
        done = np.repeat(np.append(0.0, np.cumsum(self.ends - self.starts)), 2)[1:-1]
        shares: Cycles = np.diff(np.interp(edges, moments, done)) / np.diff(edges)
        return shares


@dataclass(frozen=True)
class ScheduleRow:
    """A stage, or with `step` the layer that a shared stage computes, or `load` or `store` there; one activity a
    frame."""

    stage: str
    step: str
    frames: tuple[Activity, ...]


@dataclass(frozen=True)
class PathStep:
    """On the way to the first result of a frame: the first result of `stage` is there at `cycle`, `after` cycles after
    that of the stage before it, or after the first beat of the frame."""

    stage: str
    cycle: int
    after: int


@dataclass(frozen=True)
class FrameSchedule:
    """`inputs` and `outputs` have for each tensor and frame the cycles in which the first and the last beat are taken.

    `paths` has for each output the stages that decide when its first beat comes; their `after` add up to the plan's
    latency.
    """

    rows: tuple[ScheduleRow, ...]
    inputs: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    outputs: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    paths: tuple[tuple[PathStep, ...], ...]

    @property
    def end(self) -> int:
        """The last beat of all outputs and frames."""
        return max(last for _, frames in self.outputs for _, last in frames)


def schedule_frames(plan: Plan, frames: int = 3) -> FrameSchedule:
    """The schedule of so many frames back to back into the idle design."""
    stages = stages_of(plan.graph, plan.partition)
    network = Network(stages, [stage.folding for stage in plan.stages], plan.links, plan.device)
    offered = {source: np.arange(frames * len(times), dtype=np.int64) for source, times in network.one_frame().items()}
    played = network.play_held_back(offered)
    rows = [row for k, stage in enumerate(stages) for row in rows_of(plan, k, stage, played, frames)]
    inputs: dict[Endpoint, tuple[str, list[Times]]] = {}
    for e, link in enumerate(plan.links):
        if link.source.of_core:
            inputs.setdefault(link.source, (link.tensor, []))[1].append(played.taken[e])
    outputs = {link.sink: (link.tensor, e) for e, link in enumerate(plan.links) if link.sink.of_core}
    return FrameSchedule(
        tuple(rows),
        tuple((name, ends_of(taken, frames)) for _, (name, taken) in sorted(inputs.items())),
        tuple((name, ends_of([played.arrivals[e]], frames)) for _, (name, e) in sorted(outputs.items())),
        tuple(path_to(plan, e, played) for _, (_, e) in sorted(outputs.items())))


def ends_of(readers: Sequence[Times], frames: int) -> tuple[tuple[int, int], ...]:
    """The first and the last beat of each frame at any of the readers of a stream."""
    beats = [times.reshape(frames, -1) for times in readers]
    return tuple((min(int(times[k, 0]) for times in beats), max(int(times[k, -1]) for times in beats))
                 for k in range(frames))


def rows_of(plan: Plan, number: int, stage: Stage, played: Played, frames: int) -> list[ScheduleRow]:
    """The row of the stage, then the rows of what a shared stage does one after another."""
    planned = plan.stages[number]
    edges = [e for e, link in enumerate(plan.links) if link.sink == Endpoint.stage(number)]
    taken = [played.taken[e].reshape(frames, -1) for e in edges]
    left = [times for source, times in sorted(played.departures.items())
            if source.of_stage and source.number == number]
    departed = [times.reshape(frames, -1) for times in left]
    steps = stage.step_times(planned.folding, plan.device, *(played.arrivals[e] for e in edges), left=left)
    if steps:
        works = in_steps([step for step in steps if step.name not in ("load", "store")], frames)
    else:
        works = in_beats(max(taken, key=np.size), max(departed, key=lambda times: (times.shape[1], times[-1, -1])),
                         planned.schedule.work)
    whole = [Activity(min(int(times[k, 0]) for times in taken), min(int(times[k, 0]) for times in departed),
                      max(int(times[k, -1]) for times in departed), *together(*works[k])) for k in range(frames)]
    named: dict[str, list[StepTimes]] = {}
    for step in steps:
        named.setdefault(step.name, []).append(step)
    return [ScheduleRow(planned.name, "", tuple(whole)),
            *(ScheduleRow(planned.name, name, tuple(
                Activity(int(min(frame.begins[k] for frame in spans)), int(max(frame.ends[k] for frame in spans)),
                         int(max(frame.ends[k] for frame in spans)), *together(*work))
                for k, work in enumerate(in_steps(spans, frames)))) for name, spans in named.items())]


def in_beats(taken: Times, departures: Times, work: int) -> list[tuple[Cycles, Cycles]]:
    """For each frame, from when to when a stage works that takes and gives these beats, [frames, beats]."""
    frames, beats = departures.shape
    half = taken[:, taken.shape[1] // 2]
    if taken.shape[1] > beats and work <= taken.shape[1] and bool((half <= departures[:, 0]).all()):
        begins = taken.astype(np.float64)
        return [(frame, frame + work / taken.shape[1]) for frame in begins]
    part = work / beats
    before = np.arange(departures.size) * part
    ends = np.minimum.accumulate((departures.reshape(-1) - before)[::-1])[::-1] + before
    return [(end - part, end) for end in ends.reshape(frames, beats)]


def in_steps(steps: Sequence[StepTimes], frames: int) -> list[tuple[Cycles, Cycles]]:
    """For each frame, from when to when the steps work; the cycles in which one waits for weights are at its end."""
    begins, ends = (np.stack(times, axis=1).astype(np.float64)
                    for times in ([step.begins for step in steps], [step.ends - step.waits for step in steps]))
    return [(begins[k], ends[k]) for k in range(frames)]


def together(starts: Cycles, ends: Cycles) -> tuple[Cycles, Cycles]:
    """The same without what lies between parts that follow each other at once."""
    apart = starts[1:] - ends[:-1] > TOGETHER
    return starts[np.append(True, apart)], ends[np.append(apart, True)]


def path_to(plan: Plan, edge: int, played: Played) -> tuple[PathStep, ...]:
    """The stages before the output at the end of a link, from the input on: of several sources of a stage the one whose
    first beat comes last."""
    moments = [("", int(played.arrivals[edge][0]))]
    source = plan.links[edge].source
    while source.of_stage:
        moments.append((plan.stages[source.number].name, int(played.departures[source][0])))
        entering = [e for e, link in enumerate(plan.links) if link.sink == Endpoint.stage(source.number)]
        source = plan.links[max(entering, key=lambda e: int(played.arrivals[e][0]))].source
    moments.reverse()
    cycles = [0, *(cycle for _, cycle in moments)]
    return tuple(PathStep(name, cycle, cycle - before)
                 for (name, cycle), before in zip(moments, cycles, strict=False))
