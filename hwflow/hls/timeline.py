"""When everything happens: how many words wait on each link, and when the first output comes, ahead of any simulation.

The stages are played with unlimited queues at the pace of the plan: each input comes evenly spread over the interval,
and every stage works as soon as it can.  What then waits on a link at most is the depth of its queue.  With queues of
these depths the same schedule is possible in hardware; and because a network of stages that wait for data and room is
monotone (nothing comes later because something else came earlier), the hardware, which starts everything as soon as
data and room allow, is never slower, and never gets stuck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.times import StageTimes, Times, in_turn
from hwflow_rtl.vendor import Technology

from ..layers.base import Folding
from ..layers.formats import IntArray
from .links import LinkPlan, in_spram
from .stages import Stage

__all__ = ["latencies", "with_queues"]

#: Frames until the schedule repeats itself, besides those that are on their way at a time: the first finds an empty
#: design, the second meets the first's end.
FRAMES = 3
#: Beats that may wait in a stage's own output queue, or in front of a reader, without a queue on the link.
SPARE = 2
#: Rounds in which full queues hold back their sources; each round can only make something later.
ROUNDS = 40
#: No source is held back.
FREE: Mapping[Endpoint, Times] = {}


def with_queues(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
                interval: int) -> tuple[LinkPlan, ...]:
    """`links` with the queues that they need when a frame comes every `interval` cycles."""
    network = Network(stages, foldings, links, technology)
    fast = network.one_frame()
    frames = FRAMES + max(int(times[-1]) for times in network.play(fast).departures.values()) // interval
    paced = {source: np.concatenate([frame * interval + np.arange(len(times)) * interval // len(times)
                                     for frame in range(frames)]) for source, times in fast.items()}
    network = network.deep_enough(network.play(paced), interval)
    network = Network(stages, foldings, in_spram(network.links, technology), technology)
    if network.any_in_memories():  # these take longer, and others wait for them
        network = network.deep_enough(network.play(paced), interval)
    return network.links


def latencies(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
              technology: Technology) -> tuple[int, ...]:
    """For each output, the cycles from the first beat into the idle design to the output's first beat.

    The inputs come as fast as they are taken; `links` have their queues.
    """
    network = Network(stages, foldings, links, technology)
    played = network.play_held_back(network.one_frame())
    firsts = {link.sink.number: int(played.arrivals[e][0]) for e, link in enumerate(links) if not link.sink.of_stage}
    return tuple(firsts[k] for k in range(len(firsts)))


@dataclass(frozen=True)
class Played:
    """`departures` by source; `arrivals` and `taken` by link, in beats of its sink."""

    departures: Mapping[Endpoint, Times]
    arrivals: Mapping[int, Times]
    taken: Mapping[int, Times]


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

    def one_frame(self) -> dict[Endpoint, Times]:
        """A beat in every cycle at each input."""
        return {link.source: np.arange(link.elements // link.lanes_out, dtype=np.int64)
                for link in self.links if not link.source.of_stage}

    def play(self, offered: Mapping[Endpoint, Times], held: Mapping[Endpoint, Times] = FREE, *,
             rounds: int = 1) -> Played:
        """Every beat of every stream, when the beats of the inputs come as `offered`, with unlimited queues.

        `held`: by source, cycles before which its beats cannot leave.  `rounds`: see `stage_times`.
        """
        departures = {source: later(times, held.get(source)) for source, times in offered.items()}
        arrivals: dict[int, Times] = {}
        taken: dict[int, Times] = {}
        entering: dict[Endpoint, list[int]] = {}
        for e, link in enumerate(self.links):
            entering.setdefault(link.sink, []).append(e)
        for position in range(len(self.stages)):
            stage = Endpoint.stage(position)
            edges = entering[stage]
            arrivals |= {e: self.arriving(e, departures[self.links[e].source]) for e in edges}
            made = self.stage_times(position, edges, arrivals, rounds=rounds)
            departures[stage] = later(made.departures, held.get(stage))
            taken |= dict(zip(edges, made.taken, strict=True))
        for e, link in enumerate(self.links):
            if not link.sink.of_stage:
                arrivals[e] = taken[e] = self.arriving(e, departures[link.source])
        return Played(departures, arrivals, taken)

    def stage_times(self, position: int, edges: Sequence[int], arrivals: dict[int, Times], *,
                    rounds: int) -> StageTimes:
        """When a stage takes and gives beats.

        In further rounds `arrivals` become later where a change of lanes has to wait for the stage: one to more lanes
        begins to collect a beat when the one before it is taken.
        """
        stage, folding = self.stages[position], self.foldings[position]
        for left in reversed(range(rounds)):
            made = stage.times(folding, self.technology, *(arrivals[e] for e in edges))
            if not left:
                break
            waited = {e: collected(self.links[e], arrivals[e], taken)
                      for e, taken in zip(edges, made.taken, strict=True)}
            if all(np.array_equal(waited[e], arrivals[e]) for e in edges):
                break
            arrivals |= waited
        return made

    def play_held_back(self, offered: Mapping[Endpoint, Times]) -> Played:
        """As `play`, with queues that are full hold back the source of a fork, and so its other readers."""
        held: Mapping[Endpoint, Times] = FREE
        played = self.play(offered, held, rounds=ROUNDS)
        for _ in range(ROUNDS):
            room = self.room(played)
            if all(np.array_equal(room[source], held.get(source, 0 * room[source])) for source in room):
                break
            held = room
            played = self.play(offered, held, rounds=ROUNDS)
        return played

    def room(self, played: Played) -> dict[Endpoint, Times]:
        """When the queues behind each fork have room for its beats."""
        found: dict[Endpoint, Times] = {}
        for e, link in enumerate(self.links):
            if self.forked[e] and not link.behind:
                departures = played.departures[link.source]
                queue = link.queue(self.technology)
                early = np.arange(max(0, len(departures) - queue.capacity))
                gone = np.maximum(leaving(link, played.taken[e], early, Gearbox.SKID),
                                  departures[early] + queue.latency)
                if link.lanes_out % link.lanes_in == 0:  # a beat is given away before the next one is taken
                    gone = in_turn(gone, link.lanes_out // link.lanes_in)
                free = np.concatenate([np.zeros(len(departures) - len(gone), np.int64), gone + 1])
                found[link.source] = np.maximum(found.get(link.source, 0), free)
        return found

    def arriving(self, e: int, departures: Times) -> Times:
        """When the beats of a source are at the sink of link e: through its queues and the change of lanes."""
        link = self.links[e]
        if self.forked[e] or link.depth:
            departures = Fork.times(departures, width=link.width_out, depth=link.depth, technology=self.technology,
                                    spram=link.spram)
        arrivals = Gearbox.times(departures, lanes_in=link.lanes_out, lanes_out=link.lanes_in)
        return arrivals + link.queue_behind(self.technology).latency if link.behind else arrivals

    def any_in_memories(self) -> bool:
        """Whether the queue of a link stands in RAM blocks or SPRAM."""
        queues = [link.queue(self.technology) for link in self.links]
        queues += [link.queue_behind(self.technology) for link in self.links if link.behind]
        return any(queue.in_blocks or queue.in_spram for queue in queues)

    def deep_enough(self, played: Played, interval: int) -> Network:
        """The same with queues for all that waits when played so, and no queue less deep than before."""
        deep = []
        for e, link in enumerate(self.links):
            depth, behind = self.depths(e, played, interval)
            deep.append(replace(link, depth=max(depth, link.depth), behind=max(behind, link.behind)))
        return Network(self.stages, self.foldings, deep, self.technology)

    def depths(self, e: int, played: Played, interval: int) -> tuple[int, int]:
        """The most beats that wait at a time in front of the change of lanes of link e, and behind it."""
        link = self.links[e]
        departures, arrivals, taken = played.departures[link.source], played.arrivals[e], played.taken[e]
        if link.behind or self.holds_back(link, arrivals, taken, interval):
            entered = arrivals - (link.queue_behind(self.technology).latency if link.behind else 0)
            return 0, waiting(entered, taken) + SPARE
        found = waiting(departures, leaving(link, taken, np.arange(len(departures))))
        return 0 if found <= SPARE and not self.forked[e] else found + SPARE, 0

    def holds_back(self, link: LinkPlan, arrivals: Times, taken: Times, interval: int) -> bool:
        """Whether a narrow source loses more cycles than it has to spare while wide beats wait for their sink."""
        if link.lanes_in <= link.lanes_out:
            return False
        frames = len(arrivals) * link.lanes_in // link.elements
        lost = int((taken - arrivals).sum()) // frames
        return lost > (interval - link.elements // link.lanes_out) // 2


def collected(link: LinkPlan, arrivals: Times, taken: Times) -> Times:
    """When wide beats are there, if each is collected, an element of its source in a cycle, behind the one before."""
    parts, rest = divmod(link.lanes_in, link.lanes_out)
    if parts == 1 or rest or link.behind or (taken == arrivals).all():
        return arrivals
    return in_turn(np.concatenate([arrivals[:1], np.maximum(arrivals[1:], taken[:-1] + parts)]), parts)


def later(times: Times, held: Times | None) -> Times:
    return times if held is None else in_turn(np.maximum(times, held))


def waiting(entered: Times, gone: Times) -> int:
    """The most beats that are there at a time."""
    return int(np.max(np.arange(1, len(entered) + 1) - np.searchsorted(gone, entered, side="left")))


def leaving(link: LinkPlan, taken: Times, beats: IntArray, skid: int = 0) -> Times:
    """When beats of the source leave the queue: to the sink, or into the change of lanes when that has given what it
    held before.

    The change of lanes holds `skid` more beats of its narrow side, and sees a cycle later that there is room for one.
    """
    if link.lanes_out == link.lanes_in:
        return taken[beats]
    both = lcm(link.lanes_out, link.lanes_in)
    if skid and both not in (link.lanes_out, link.lanes_in):  # joined to their multiple, which is split behind it
        joined = (beats - skid) * link.lanes_out // both
        before = (joined - 1) * (both // link.lanes_in) - 1 - skid
    elif link.lanes_out < link.lanes_in:
        before = (beats - skid) * link.lanes_out // link.lanes_in - 1
    else:
        before = beats * link.lanes_out // link.lanes_in - 1 - skid
    return np.where(before < 0, 0, taken[np.maximum(before, 0)] + (skid > 0))
