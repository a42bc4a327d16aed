"""How deep the queues of links must be so that a schedule is possible in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.times import Times

from hwflow.hls.schedule.links import LinkPlan, Played, collected, leaving, parts_of, passed_on
from hwflow.hls.schedule.network import Network

#: Beats that can wait without a queue on the link: in the output queue of the source, or at the input of the reader.
SPARE = 2
#: Rounds of computing how gearboxes wait for a stage; a round can only move beats to later cycles.
ROUNDS = 40


def deep_enough(network: Network, played: Played, interval: int) -> Network:
    """The same network with queues for all beats that wait in `played`, where a frame comes every `interval` cycles; no
    queue becomes less deep."""
    depths, deep = Depths(network, played, interval), []
    for e, link in enumerate(network.links):
        depth, after = depths.of(e)
        deep.append(replace(link, depth=max(depth, link.depth), depth_after=max(after, link.depth_after)))
    return Network(network.stages, network.foldings, deep, network.technology)


def least_queues(network: Network, interval: int) -> tuple[LinkPlan, ...]:
    """The links that keep their number of lanes with queues for the beats that wait in a first frame."""
    depths = Depths(network, network.play(network.evenly(interval, 1)), interval)
    return tuple(link if link.lanes_in != link.lanes_out else replace(link, depth=max(depths.before(e), link.depth))
                 for e, link in enumerate(network.links))


@dataclass(frozen=True)
class Depths:
    """What queues the links of `network` need for what was `played`, where frames come every `interval` cycles."""

    network: Network
    played: Played
    interval: int

    def of(self, e: int) -> tuple[int, int]:
        """The depths that the queues of link e need: before its gearbox, and after it."""
        network, link = self.network, self.network.links[e]
        if network.taken_at_once(link.source) and not network.forked[e]:
            return 0, 0
        arrivals, taken = self.played.arrivals[e], self.played.taken[e]
        if link.depth_after or e in self.slowing or self.holds_back(link, arrivals, taken):
            entered = arrivals - (link.queue_after(network.technology).latency if link.depth_after else 0)
            return 0, max(self.played.waiting(entered, taken) + SPARE, whole_frame(link, link.lanes_in))
        return max(self.before(e), SPARE + self.most(e) if e in self.holding else 0), 0

    def before(self, e: int) -> int:
        """The depth of the queue before the gearbox of link e where its source can spare the cycles that it loses."""
        network, link, most = self.network, self.network.links[e], self.most(e)
        if network.taken_at_once(link.source) and not network.forked[e]:
            return 0
        whole = whole_frame(link, link.lanes_out)
        # a frame of a state begins when its frame is offered at the first input, which no waiting beat may hold back
        spare = 1 if network.written and link.source == Endpoint.core(0) else SPARE
        return 0 if most <= spare and not network.forked[e] and not whole else max(most + SPARE, whole)

    def most(self, e: int) -> int:
        """The most beats that wait at the end of the source of link e."""
        link, departures = self.network.links[e], self.played.departures[self.network.links[e].source]
        return self.played.waiting(departures, leaving(link, self.played.taken[e], np.arange(len(departures))))

    @cached_property
    def slowing(self) -> set[int]:
        """The links whose gearboxes collect wide beats too slowly for a stage that takes several in quick succession.

        The stage would need more than `interval` cycles a frame, however early its sources are: a gearbox collects one
        wide beat at a time, so the next ones must wait in a queue after it.  Where `ROUNDS` do not show that the stage
        keeps its pace without such queues, it has them.
        """
        return {e for position, edges in enumerate(self.network.into) if not self.keeps_pace(position)
                for e in edges if parts_of(self.network.links[e]) > 1}

    def keeps_pace(self, position: int) -> bool:
        """Whether a stage takes a frame every `interval` cycles, also if its gearboxes wait for it; see `slowing`."""
        network, edges = self.network, self.network.into[position]
        links = [network.links[e] for e in edges]
        # at worst the stage waits for every wide beat, from its first part to its last one
        slower = sum(link.elements // link.lanes_out - link.elements // link.lanes_in
                     for link in links if parts_of(link) > 1)
        schedule = network.stages[position].schedule(network.foldings[position], network.technology)
        if schedule.interval + slower <= self.interval:
            return True
        arrivals = {e: self.played.arrivals[e] for e in edges}
        if all(self.collected_in_time(e, arrivals[e], self.played.taken[e]) for e in edges):
            return True
        moves = network.stage_times(position, edges, arrivals, rounds=ROUNDS)
        if not all(self.collected_in_time(e, arrivals[e], taken) for e, taken in zip(edges, moves.taken, strict=True)):
            return False
        frames = len(arrivals[edges[0]]) * links[0].lanes_in // links[0].elements
        before, last = moves.departures.reshape(frames, -1)[-2:, -1]
        return bool(last - before <= self.interval)

    def collected_in_time(self, e: int, arrivals: Times, taken: Times) -> bool:
        """Whether the gearbox of link e gives all beats as `arrivals` says, though it waits until they are `taken`."""
        return np.array_equal(collected(self.network.links[e], arrivals, taken), arrivals)

    def holds_back(self, link: LinkPlan, arrivals: Times, taken: Times) -> bool:
        """Whether a narrow source would lose more cycles than it has to spare: wide beats wait for their sink."""
        if link.lanes_in <= link.lanes_out:
            return False
        frames = len(arrivals) * link.lanes_in // link.elements
        lost = int((taken - arrivals).sum()) // frames
        return lost > (self.interval - link.elements // link.lanes_out) // 2

    @cached_property
    def holding(self) -> set[int]:
        """The links whose beats wait where there is no queue, so that their source would be later than in `played`.

        Not those to more lanes: `holds_back` says how many cycles their sources can spare.
        """
        network, waiting = self.network, dict[int, list[int]]()
        gone = dict(self.played.departures)
        for e, link in enumerate(network.links):
            if (link.source.of_stage and not link.sink.of_state and not network.forked[e] and not link.beats
                    and link.lanes_in <= link.lanes_out):
                gone[link.source] = passed_on(link, gone[link.source], self.played.taken[e])
                if not np.array_equal(gone[link.source], self.played.departures[link.source]):
                    waiting.setdefault(link.source.number, []).append(e)
        return {e for position, edges in waiting.items() if self.is_late(position, gone) for e in edges}

    def is_late(self, position: int, gone: Mapping[Endpoint, Times]) -> bool:
        """Whether a stage whose beats leave as `gone` says gives some later than in `played`."""
        network, outputs = self.network, self.network.outputs(position)
        moves = network.stages[position].times(
            network.foldings[position], network.technology,
            *(self.played.arrivals[e] for e in network.into[position]), left=[gone[output] for output in outputs])
        return any((times > self.played.departures[output]).any()
                   for output, times in zip(outputs, (moves.departures, *moves.further), strict=True))


def whole_frame(link: LinkPlan, lanes: int) -> int:
    """The beats of a frame of a state, which waits until the next frame comes and may not hold back what else is made
    of this one; 0 for other links."""
    return link.elements // lanes if link.sink.of_state else 0
