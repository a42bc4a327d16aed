"""The timeline: the cycle of every beat on every link, computed without simulation.

It gives the depths of the queues and the latency of each output.

The timeline plays the stages with unlimited queues, at the interval of the plan.  The beats of each input are spread
evenly over the interval, and every stage works as soon as it can.  The largest number of beats that wait on a link at
one time is the depth of its queue.  With queues of these depths the same schedule is possible in hardware.  A network
of stages that wait for data and room is monotonic: no beat moves later because another one moves earlier.  The hardware
starts everything as soon as data and room allow.  So it is never slower than the schedule, and never deadlocks.

A state gives in each frame the beats that were written in the frame before, when they have come and the frame is
offered at the first input; in the first frame they are there from the start.  So frames are played until none of them
moves any more, and where a frame has to wait for what the one before hands on, the interval is longer (`settled`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from hwflow_rtl.vendor import Technology

from hwflow.hls.schedule.depths import deep_enough, least_queues
from hwflow.hls.schedule.links import LinkPlan
from hwflow.hls.schedule.network import LATENCY_ROUNDS, Network
from hwflow.stages.folding import Folding
from hwflow.stages.stage import Stage

#: Longer and longer intervals that are tried so that frames need not wait.
PACES = 4


def pace_of(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
            interval: int) -> int:
    """The fewest cycles from frame to frame, at least `interval`, with which no frame has to wait in a queue for a
    stage that lets it in later.

    `interval` itself where no longer one helps: a frame that also takes another way around the stage has to wait.
    """
    network, pace = Network(stages, foldings, links, technology), interval
    for _ in range(PACES):
        late = network.late(pace)
        if not late:
            return pace
        pace += late
    return interval


def settled(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
            interval: int) -> tuple[tuple[LinkPlan, ...], int]:
    """`links` of a graph with states, with the queues that they need, and the fewest cycles from frame to frame, at
    least `interval`, with which no frame waits longer and longer for what the one before hands on.

    A queue on the way from a state to its next value adds its latency to that, and a longer interval may make queues
    deeper; so both are computed until they stay.  First as if no gearbox had to collect a beat after the one before it
    was taken, because queues after gearboxes see to that where it matters; then with what is left of it.
    """
    network, pace = Network(stages, foldings, links, technology), interval
    for rounds in (1, LATENCY_ROUNDS):
        while True:
            before = network.links, pace
            pace = network.pace_of_states(interval, rounds)
            network = deep_enough(network, network.play_paced(pace, rounds=rounds), pace).placed()
            if (network.links, pace) == before:
                break
        interval = pace
    return network.links, pace


def with_least_queues(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
                      technology: Technology, interval: int) -> tuple[LinkPlan, ...]:
    """`links` with the queues that the first of many frames needs: a bound for `deepening` in a fraction of its time.

    Frames that follow move no beat of the first one, and only add beats that wait.  A link that changes the number of
    lanes gets no queue here: it may have one on either side of its gearbox.
    """
    return least_queues(Network(stages, foldings, links, technology), interval)


def deepening(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan], technology: Technology,
              interval: int) -> Iterator[tuple[LinkPlan, ...]]:
    """`links` with the queues that they need when a new frame starts every `interval` cycles: the last ones.

    Those before are a bound: queues only get deeper, while memories with a larger latency become known.
    """
    network = Network(stages, foldings, links, technology)
    played = network.play_paced(interval)
    network = deep_enough(network, played, interval).placed()
    yield network.links
    if network.any_in_memories():  # queues in memories have a larger latency, and other branches wait for it
        yield deep_enough(network, network.play_paced(interval, played.frames), interval).links


def latencies(stages: Sequence[Stage], foldings: Sequence[Folding], links: Sequence[LinkPlan],
              technology: Technology) -> tuple[int, ...]:
    """For each output, the cycles from the first beat into the idle design to the output's first beat.

    The sources never stall the inputs; `links` have their queues.  A second frame follows at once: its first rows may
    be written into a ring in cycles in which the last windows of the first frame would be read.
    """
    network = Network(stages, foldings, links, technology)
    played = network.play_held_back({source: np.arange(2 * len(times))
                                     for source, times in network.one_frame().items()})
    firsts = {link.sink.number: int(played.arrivals[e][0]) for e, link in enumerate(links) if link.sink.of_core}
    return tuple(firsts[k] for k in range(len(firsts)))
