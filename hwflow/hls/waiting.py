"""Beats that wait on a link: in its queue, and in the gearbox that collects or splits them."""

from __future__ import annotations

from math import lcm

import numpy as np
from hwflow_rtl.stream.times import Times, in_turn

from ..layers.formats import IntArray
from .links import LinkPlan


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
