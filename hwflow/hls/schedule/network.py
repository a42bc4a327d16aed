"""Stages with what joins them, and the cycle of every beat on every link when frames are played through them.

See `timeline` for what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.times import StageTimes, Times, in_turn, with_room
from hwflow_rtl.vendor import Technology

from hwflow.hls.schedule.links import LinkPlan, Played, collected, in_spram, later, leaving, passed_on, waiting
from hwflow.layers.formats import IntArray
from hwflow.stages.folding import Folding
from hwflow.stages.stage import Stage

#: Frames that are played until the schedule repeats itself: the first enters an empty design, the second follows the
#: end of the first.
FRAMES = 3
#: Rounds of computing how full queues stall their sources, and how gearboxes wait for their readers, which can only
#: move beats to later cycles; few networks need more than five.
LATENCY_ROUNDS = 400
#: Frames that are played until they follow each other in step, where they hand states on; few need more than six.
MOST_FRAMES = 48
#: Beats that may wait in tables for a stage that lets them in later.
FEW = 16
#: No source is stalled.
FREE: Mapping[Endpoint, Times] = {}


class Network:
    """Stages with their foldings, and what joins them."""

    def __init__(self, stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
                 technology: Technology):
        self.stages = stages
        self.foldings = foldings
        self.links = tuple(links)
        self.technology = technology
        sources = [link.source for link in links]
        self.forked = [sources.count(link.source) > 1 for link in links]
        #: The links into each stage.
        self.into: list[list[int]] = [[] for _ in stages]
        for e, link in enumerate(links):
            if link.sink.of_stage:
                self.into[link.sink.number].append(e)
        #: The link that writes each state.
        self.written = {link.sink: e for e, link in enumerate(links) if link.sink.of_state}
        #: The stages that let frames in only at times.
        self.letting_in = {k for k, (stage, folding) in enumerate(zip(stages, foldings, strict=True))
                           if stage.lets_in(folding)}

    def outputs(self, position: int) -> list[Endpoint]:
        """Those of a stage."""
        return [Endpoint.stage(position, port) for port in range(len(self.stages[position].outputs))]

    def placed(self) -> Network:
        """The same with queues in SPRAM where that is best."""
        taken = sum(stage.cost(folding, self.technology).spram
                    for stage, folding in zip(self.stages, self.foldings, strict=True) if stage.takes_frames_at_once)
        return Network(self.stages, self.foldings, in_spram(self.links, self.technology, taken), self.technology)

    def one_frame(self) -> dict[Endpoint, Times]:
        """A beat in every cycle at each input."""
        return {link.source: np.arange(link.elements // link.lanes_out, dtype=np.int64)
                for link in self.links if link.source.of_core}

    def play_paced(self, interval: int, frames: int = FRAMES, *, rounds: int = LATENCY_ROUNDS) -> Played:
        """The cycle of every beat if a new frame starts every `interval` cycles, evenly spread.

        Usually the last two frames are equal, but for `interval` cycles: so are all frames after them.  They show what
        full memories of stages delay, for no stage has more frames at once than come before the last `FRAMES`.
        Else it plays as many more as are in the design at the same time.  It plays `frames` at least.  With states it
        plays `rounds`, see `stage_times`.
        """
        frames = max(frames, FRAMES)
        if self.written:
            return self.read_late(*self.play_in_step(interval, rounds), interval)
        played = self.play(self.evenly(interval, frames))
        needed = FRAMES + played.ahead(self.links, frames, interval)
        if needed > frames:
            frames = needed
            played = self.play(self.evenly(interval, frames))
        if (self.steps(played, frames)[-1] == interval).all():
            return replace(played, frames=frames, interval=interval)
        first = max(int(times[-1]) for times in self.play(self.one_frame()).departures.values())
        return self.play(self.evenly(interval, frames + first // interval))

    def play_in_step(self, interval: int, rounds: int) -> tuple[Played, int]:
        """Play frames that hand states on until the last ones follow each other as those before; and how many.

        They do so every `interval` cycles where no frame has to wait longer for a state.
        """
        frames = FRAMES + 1
        while True:
            played = self.play(self.evenly(interval, frames), rounds=rounds)
            before, last = self.steps(played, frames)[-2:]
            if np.array_equal(before, last) or frames >= MOST_FRAMES:
                return played, frames
            frames = min(2 * frames, MOST_FRAMES)

    def pace_of_states(self, interval: int, rounds: int) -> int:
        """The fewest cycles from frame to frame, at least `interval`, with which no frame waits longer and longer for
        the states that the one before hands on; `rounds` as of `stage_times`."""
        while True:
            played, frames = self.play_in_step(interval, rounds)
            slowest = int(self.steps(played, frames)[-1].max())
            if slowest <= interval:
                return interval
            interval = slowest

    def steps(self, played: Played, frames: int) -> IntArray:
        """The cycles by which each moment of a frame follows that of the frame before, [frames - 1, moments]."""
        taken = (times for e, times in played.taken.items() if not self.links[e].sink.of_state)
        moments = (*played.departures.values(), *played.arrivals.values(), *taken)
        rows: IntArray = np.concatenate([times.reshape(frames, -1) for times in moments], axis=1)
        return np.diff(rows, axis=0)

    def read_late(self, played: Played, frames: int, interval: int) -> Played:
        """The same where beats of a state wait for their readers in the queue of the link that writes it, not in one of
        each reader: they leave for all readers when the first one wants them."""
        departures, taken = dict(played.departures), dict(played.taken)
        for state, written in self.written.items():
            wanted = [self.wanted(e, played) for e, link in enumerate(self.links) if link.source == state]
            departures[state] = in_turn(np.maximum(played.departures[state], np.minimum.reduce(wanted)))
            beats = departures[state].reshape(frames, -1)
            taken[written] = np.concatenate([beats[1:], beats[-1:] + interval]).reshape(-1)
        return replace(played, departures=departures, taken=taken, frames=frames, interval=interval)

    def wanted(self, e: int, played: Played) -> Times:
        """The last cycles in which beats of the source of link e may leave it so that its sink gets them in time."""
        link = self.links[e]
        gone = leaving(link, played.taken[e], np.arange(len(played.departures[link.source])))
        return gone - (link.queue(self.technology).latency if self.forked[e] or link.depth else 0)

    def evenly(self, interval: int, frames: int) -> dict[Endpoint, Times]:
        """The beats of so many frames at each input, evenly spread over the interval, or at its beginning where the
        readers take frames at once, or where frames have to wait for states."""
        spread = interval if not self.letting_in else min(interval, cycles_before(
            self.stages, self.foldings, self.links, self.letting_in, self.technology))
        if self.written:
            spread = min(spread, self.slowest())
        return {source: np.concatenate([
            frame * interval + (times if self.taken_at_once(source) else times * spread // len(times))
            for frame in range(frames)]) for source, times in self.one_frame().items()}

    def slowest(self) -> int:
        """The interval of the slowest stage or link."""
        stages = (stage.schedule(folding, self.technology).interval
                  for stage, folding in zip(self.stages, self.foldings, strict=True))
        return max(*stages, *(link.cycles for link in self.links))

    def late(self, interval: int) -> int:
        """The cycles by which a frame comes too early for a stage that lets it in later, at most; 0 where so few beats
        wait that a small queue holds them."""
        if not self.letting_in:
            return 0
        played = self.play(self.evenly(interval, FRAMES))
        longest = 0
        for e, link in enumerate(self.links):
            if link.sink.of_stage and link.sink.number in self.letting_in and not (
                    self.taken_at_once(link.source) and not self.forked[e]):
                arrivals, taken = (times.reshape(FRAMES, -1) for times in (played.arrivals[e], played.taken[e]))
                if waiting(played.arrivals[e], played.taken[e]) > FEW:
                    longest = max(longest, int(max(taken[1:, 0] - arrivals[1:, 0])))
        return longest

    def taken_at_once(self, source: Endpoint) -> bool:
        """Whether all readers of an input take its frames at once: then it may wait while they compute."""
        return source.of_core and all(
            link.sink.of_stage and self.stages[link.sink.number].takes_frames_at_once
            for link in self.links if link.source == source)

    def play(self, offered: Mapping[Endpoint, Times], held: Mapping[Endpoint, Times] = FREE,
             left: Mapping[Endpoint, Times] = FREE, *, rounds: int = 1) -> Played:
        """The cycle of every beat of every stream, with unlimited queues, if the inputs offer their beats as `offered`.

        `held` has for a source the cycles before which its beats cannot leave; `left` those in which they did when this
        was played before, as `Stage.times` wants it.  `rounds`: see `stage_times`.  States are what the inputs' frames
        make of them: a round more for each frame.
        """
        if not self.written:
            return self.play_with(offered, held, left, rounds)
        handed = self.handed_on(offered, None)
        while True:
            played = self.play_with({**offered, **handed}, held, left, rounds)
            later_handed = self.handed_on(offered, played)
            if all(np.array_equal(handed[state], later_handed[state]) for state in handed):
                return self.with_states_taken(played, handed)
            handed = later_handed

    def handed_on(self, offered: Mapping[Endpoint, Times], played: Played | None) -> dict[Endpoint, Times]:
        """The cycles in which the beats of each state come: when the frame is offered at the first input, in the first
        frame at once, in each other one as they were written in the frame before; without `played` all at once."""
        first, handed = Endpoint.core(0), {}
        frames = len(offered[first]) // len(self.one_frame()[first])
        begins = offered[first].reshape(frames, -1)[:, 0].copy()
        if played is not None:  # the beat is offered when the one before it has left
            begins[1:] = np.maximum(begins[1:], played.departures[first].reshape(frames, -1)[:-1, -1] + 1)
        for state, e in self.written.items():
            beats = self.links[e].elements // self.links[e].lanes_in
            written = np.zeros(frames * beats, np.int64) if played is None else played.arrivals[e]
            come = np.concatenate([np.zeros(beats, np.int64), written[:-beats]]).reshape(frames, beats)
            handed[state] = in_turn(np.maximum(come, begins[:, None]).reshape(-1))
        return handed

    def with_states_taken(self, played: Played, handed: Mapping[Endpoint, Times]) -> Played:
        """With the cycles in which what is written leaves its link: in the next frame, as far as one was played."""
        taken = dict(played.taken)
        for state, e in self.written.items():
            beats = self.links[e].elements // self.links[e].lanes_in
            taken[e] = np.concatenate([played.departures[state][beats:], played.arrivals[e][-beats:]])
        return replace(played, taken=taken)

    def play_with(self, offered: Mapping[Endpoint, Times], held: Mapping[Endpoint, Times],
                  left: Mapping[Endpoint, Times], rounds: int) -> Played:
        """The same with the beats of states as they are `offered`."""
        departures = {source: later(times, held.get(source)) for source, times in offered.items()}
        arrivals: dict[int, Times] = {}
        taken: dict[int, Times] = {}
        for position, edges in enumerate(self.into):
            arrivals |= {e: self.arriving(e, departures[self.links[e].source]) for e in edges}
            outputs = self.outputs(position)
            moves = self.stage_times(position, edges, arrivals, [left[each] for each in outputs] if left else None,
                                     rounds=rounds)
            for output, times in zip(outputs, (moves.departures, *moves.further), strict=True):
                departures[output] = later(times, held.get(output))
            taken |= dict(zip(edges, moves.taken, strict=True))
        for e, link in enumerate(self.links):
            if not link.sink.of_stage:
                arrivals[e] = taken[e] = self.arriving(e, departures[link.source])
        return Played(departures, arrivals, taken)

    def stage_times(self, position: int, edges: Sequence[int], arrivals: dict[int, Times],
                    left: Sequence[Times] | None = None, *, rounds: int) -> StageTimes:
        """The cycles in which a stage takes and gives beats.

        The rounds after the first move `arrivals` to later cycles where a gearbox waits for the stage: a gearbox to
        more lanes begins to collect a beat when the stage has taken the beat before it.
        """
        stage, folding = self.stages[position], self.foldings[position]
        for more in reversed(range(rounds)):
            moves = stage.times(folding, self.technology, *(arrivals[e] for e in edges), left=left)
            if not more:
                break
            waited = {e: collected(self.links[e], arrivals[e], taken)
                      for e, taken in zip(edges, moves.taken, strict=True)}
            if all(np.array_equal(waited[e], arrivals[e]) for e in edges):
                break
            arrivals |= waited
        return moves

    def play_held_back(self, offered: Mapping[Endpoint, Times]) -> Played:
        """Play the beats where full queues stall their sources: stages take nothing more, and so on up to the inputs.

        Without ways that part this moves no output's first beat.  Each round plays on what stalled in the one before,
        so no beat moves to an earlier cycle; it is played until nothing stalls that did not stall before.
        """
        played = self.play(offered, rounds=LATENCY_ROUNDS)
        state: list[Times] = []
        parting = any(self.forked) or any(len(stage.outputs) > 1 for stage in self.stages)
        for _ in range(LATENCY_ROUNDS if parting else 0):
            room = self.room(played)
            before, state = state, [*room.values(), *played.departures.values()]
            if before and all(map(np.array_equal, before, state)):
                break
            played = self.play(offered, room, played.departures, rounds=LATENCY_ROUNDS)
        return played

    def room(self, played: Played) -> dict[Endpoint, Times]:
        """For each source the cycles from which its readers, or their queues and gearboxes, have room for its beats."""
        leaving_times: dict[Endpoint, Times] = {}
        for e, link in enumerate(self.links):
            departures = played.departures[link.source]
            taken = self.taken_after_gearbox(e, played)
            if self.forked[e] or link.depth:
                queue = link.queue(self.technology)
                gone = passed_on(link, departures + queue.latency, taken)
                gone = with_room(np.zeros_like(gone), gone, queue.capacity, back=1)
            else:
                gone = passed_on(link, departures, taken)
            leaving_times[link.source] = np.maximum(leaving_times.get(link.source, 0), gone)
        return leaving_times

    def taken_after_gearbox(self, e: int, played: Played) -> Times:
        """The cycles in which the beats of link e leave its gearbox: into the sink, or into the queue before it."""
        link, taken = self.links[e], played.taken[e]
        if link.depth_after:
            queue = link.queue_after(self.technology)
            taken = with_room(played.arrivals[e] - queue.latency, taken, queue.capacity, back=1)
        return taken

    def arriving(self, e: int, departures: Times) -> Times:
        """The cycles in which the beats of a source reach the sink of link e, after its queues and its gearbox."""
        link = self.links[e]
        if self.forked[e] or link.depth:
            departures = Fork.times(departures, width=link.width_out, depth=link.depth, technology=self.technology,
                                    spram=link.spram)
        arrivals = Gearbox.times(departures, lanes_in=link.lanes_out, lanes_out=link.lanes_in)
        return arrivals + link.queue_after(self.technology).latency if link.depth_after else arrivals

    def any_in_memories(self) -> bool:
        """Whether the queue of any link is in RAM blocks or SPRAM."""
        queues = [link.queue(self.technology) for link in self.links]
        queues += [link.queue_after(self.technology) for link in self.links if link.depth_after]
        return any(queue.in_blocks or queue.in_spram for queue in queues)


def cycles_before(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
                  letting_in: Set[int], technology: Technology) -> int:
    """The fewest cycles in which all stages and links before the stages `letting_in` take a frame."""
    sources: dict[int, list[int]] = {position: [] for position in range(len(stages))}
    for link in links:
        if link.sink.of_stage and link.source.of_stage:
            sources[link.sink.number].append(link.source.number)
    before: set[int] = set()
    for position in range(len(stages)):  # a stage comes after those that it reads
        if position not in letting_in and before.issuperset(sources[position]):
            before.add(position)
    cycles = [stages[k].schedule(foldings[k], technology).interval for k in before]
    cycles += [link.cycles for link in links if link.sink.of_stage
               and (not link.source.of_stage or link.source.number in before)]
    return max(cycles)
