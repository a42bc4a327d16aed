"""When beats move: those that wait in the queue and gearbox of a link, and the cycles of all beats of some frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.times import Times, in_turn

from hwflow.hls.schedule.links import LinkPlan
from hwflow.layers.formats import IntArray


def parts_of(link: LinkPlan) -> int:
    """Beats of the source that a gearbox to more lanes collects for a beat of the sink, which no queue holds; else
    1."""
    parts, rest = divmod(link.lanes_in, link.lanes_out)
    return 1 if rest or link.depth_after else max(1, parts)


def collected(link: LinkPlan, arrivals: Times, taken: Times) -> Times:
    """The arrivals of wide beats, each collected from its source, one element a cycle, after the beat before it."""
    parts = parts_of(link)
    if parts == 1 or (taken == arrivals).all():
        return arrivals
    return in_turn(np.concatenate([arrivals[:1], np.maximum(arrivals[1:], taken[:-1] + parts)]), parts)


def later(times: Times, held: Times | None) -> Times:
    return times if held is None else in_turn(np.maximum(times, held))


def waiting(entered: Times, gone: Times) -> int:
    """The largest number of beats that have entered and not left, over all cycles."""
    return int(np.max(np.arange(1, len(entered) + 1) - np.searchsorted(gone, entered, side="left")))


def leaving(link: LinkPlan, taken: Times, beats: IntArray, skid: int = 0) -> Times:
    """The cycles in which beats of the source leave the queue.

    They go to the sink, or into the gearbox after it has given the beats that it held before.  The gearbox can hold
    `skid` more beats of its narrow side, and then uses free room one cycle later.
    """
    if link.lanes_out == link.lanes_in:
        return taken[beats]
    both = lcm(link.lanes_out, link.lanes_in)
    if skid and both not in (link.lanes_out, link.lanes_in):  # joined to their multiple, which is then split
        joined = (beats - skid) * link.lanes_out // both
        before = (joined - 1) * (both // link.lanes_in) - 1 - skid
    elif link.lanes_out < link.lanes_in:
        before = (beats - skid) * link.lanes_out // link.lanes_in - 1
    else:
        before = beats * link.lanes_out // link.lanes_in - 1 - skid
    return np.where(before < 0, 0, taken[np.maximum(before, 0)] + (skid > 0))


@dataclass(frozen=True)
class Played:
    """The cycle of every beat: `departures` by source; `arrivals` and `taken` by link, in beats of its sink.

    Where `frames` is not 0, that many frames were played, and all later ones follow the last one every `interval`
    cycles.
    """

    departures: Mapping[Endpoint, Times]
    arrivals: Mapping[int, Times]
    taken: Mapping[int, Times]
    frames: int = 0
    interval: int = 0

    def waiting(self, entered: Times, gone: Times) -> int:
        """The largest number of beats that have entered and not left, over all cycles of all frames.

        It grows from frame to frame until as many frames are in the design as ever are; so the last ones have it.  Of
        these, a beat that enters in cycle s of an interval finds the beats of each earlier frame gone that left in an
        earlier cycle of their interval, or some intervals before.
        """
        if not self.frames:
            return waiting(entered, gone)
        entering, leaving = entered.reshape(self.frames, -1)[-1], gone.reshape(self.frames, -1)[-1]
        whole_in, part_in = np.divmod(entering, self.interval)
        whole_out, part_out = np.divmod(leaving, self.interval)
        before = np.searchsorted(np.sort(part_out), part_in, side="left")
        still = np.arange(1, len(entering) + 1) - len(entering) * whole_in + int(whole_out.sum()) - before
        return max(int(still.max()), waiting(entered, gone))

    def ahead(self, links: Sequence[LinkPlan], frames: int, interval: int) -> int:
        """The most frames that follow one into a stage before it has left, if each of `frames` played ones stays as
        long as the last one and they come every `interval` cycles.

        A stage with several inputs takes frames of one while it waits for another, as many as its memories hold; only
        a frame behind these waits on the link.  A stage with one input does not wait for what it has taken.
        """
        entered: dict[Endpoint, list[int]] = {}
        for link, taken in ((links[e], taken) for e, taken in self.taken.items() if links[e].sink.of_stage):
            entered.setdefault(link.sink, []).append(int(taken[-(len(taken) // frames)]))
        return max((int(self.departures[stage][-1] - min(firsts)) // interval
                    for stage, firsts in entered.items() if len(firsts) > 1), default=0)
