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

import numpy as np
from hwflow_rtl.fork import Fork
from hwflow_rtl.streams import Gearbox
from hwflow_rtl.times import StageTimes, Times
from hwflow_rtl.vendor import Technology

from ..layers.base import Folding, LayerGraph
from ..layers.formats import IntArray
from .links import LinkPlan
from .support import hardware_layers

__all__ = ["Timeline", "with_queues"]

#: Frames until the schedule repeats itself, besides those that are on their way at a time: the first finds an empty
#: design, the second meets the first's end.
FRAMES = 3
#: Beats that may wait in a stage's own output queue, or in front of a reader, without a queue on the link.
SPARE = 2


@dataclass(frozen=True)
class Timeline:
    """`links` with the depths that their queues need.

    `latency`: for each output, the cycles from the first beat into the idle design to the output's first beat.
    """

    links: tuple[LinkPlan, ...]
    latency: tuple[int, ...]


def with_queues(graph: LayerGraph, foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
                interval: int) -> Timeline:
    """What follows from the foldings when a frame comes every `interval` cycles."""
    beats = {link.source: link.elements // link.lanes_out for link in links if link.source < 0}
    fast = {source: np.arange(count, dtype=np.int64) for source, count in beats.items()}
    alone = play(graph, foldings, links, technology, fast)
    frames = FRAMES + max(int(times[-1]) for times in alone.departures.values()) // interval
    paced = {source: np.concatenate([frame * interval + np.arange(count) * interval // count
                                     for frame in range(frames)]) for source, count in beats.items()}
    depths = depths_of(links, play(graph, foldings, links, technology, paced))
    deep = tuple(replace(link, depth=depth) for link, depth in zip(links, depths, strict=True))
    if any(in_blocks(link, technology) for link in deep):  # these take longer, and others wait for them
        again = depths_of(links, play(graph, foldings, deep, technology, paced))
        deep = tuple(replace(link, depth=max(link.depth, depth)) for link, depth in zip(deep, again, strict=True))
    played = play(graph, foldings, deep, technology, fast)
    firsts = {~link.sink: int(played.arrivals[e][0]) for e, link in enumerate(deep) if link.sink < 0}
    return Timeline(deep, tuple(firsts[k] for k in range(len(firsts))))


@dataclass(frozen=True)
class Played:
    """`departures` by source; `arrivals` and `taken` by link, in beats of its sink."""

    departures: Mapping[int, Times]
    arrivals: Mapping[int, Times]
    taken: Mapping[int, Times]


def play(graph: LayerGraph, foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
         offered: Mapping[int, Times]) -> Played:
    """Every beat of every stream, when the beats of the inputs come as `offered`."""
    departures = dict(offered)
    arrivals: dict[int, Times] = {}
    taken: dict[int, Times] = {}
    readers = {link.source: sum(other.source == link.source for other in links) for link in links}
    entering: dict[int, list[int]] = {}
    for e, link in enumerate(links):
        entering.setdefault(link.sink, []).append(e)
    for position, layer in enumerate(hardware_layers(graph)):
        for e in entering[position]:
            arrivals[e] = arriving(links[e], departures[links[e].source], readers[links[e].source], technology)
        made: StageTimes = layer.times(
            graph, foldings[position], technology, *(arrivals[e] for e in entering[position]))
        departures[position] = made.departures
        taken |= dict(zip(entering[position], made.taken, strict=True))
    for e, link in enumerate(links):
        if link.sink < 0:
            arrivals[e] = taken[e] = arriving(link, departures[link.source], readers[link.source], technology)
    return Played(departures, arrivals, taken)


def arriving(link: LinkPlan, departures: Times, readers: int, technology: Technology) -> Times:
    """When the beats of a source are at the sink: through the queue, if there is one, and the change of lanes."""
    if readers > 1 or link.depth:
        departures = Fork.times(
            departures, width=link.lanes_out * link.bits, depth=link.depth, technology=technology)
    return Gearbox.times(departures, lanes_in=link.lanes_out, lanes_out=link.lanes_in)


def in_blocks(link: LinkPlan, technology: Technology) -> bool:
    """Whether the queue of a link stands in RAM blocks."""
    return Fork.choice(width=link.lanes_out * link.bits, depth=link.depth, technology=technology).in_blocks


def depths_of(links: Sequence[LinkPlan], played: Played) -> list[int]:
    """Of each link, the most beats of its source that wait at a time."""
    depths = []
    for e, link in enumerate(links):
        departures = played.departures[link.source]
        count = np.arange(len(departures))
        gone = np.searchsorted(leaving(link, played.taken[e], count), departures, side="left")
        waiting = int(np.max(count + 1 - gone))
        alone = sum(other.source == link.source for other in links) == 1
        depths.append(0 if alone and waiting <= SPARE else waiting + SPARE)
    return depths


def leaving(link: LinkPlan, taken: Times, beats: IntArray) -> Times:
    """When beats of the source leave the queue: to the sink, or into the change of lanes when that has given what it
    held before."""
    if link.lanes_out == link.lanes_in:
        return taken[beats]
    before = beats * link.lanes_out // link.lanes_in - 1
    return np.where(before < 0, 0, taken[before])
