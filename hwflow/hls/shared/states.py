"""Tensors that a shared stage keeps from frame to frame: where they are, their first values, and the steps that move
what the next frame reads to its place.

A state has words of the frame memory for itself.  Where its next value is written by steps that read it for the last
time, element by element, it is written over it.  Else it is copied, when all is computed: a window of rows that shifts
moves down by a few words, in its own region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_rtl.shared.program import Constants
from hwflow_rtl.shared.shape import Sliding, Sums
from hwflow_rtl.shared.steps import Compute, Fill, Loops, ReadWalk, WriteWalk

from hwflow.hls.shared.constants import held_less, sweep_constants
from hwflow.hls.shared.frame_map import Over
from hwflow.hls.shared.in_place import InPlace, Lowerings
from hwflow.hls.shared.layout import LaidOut, Operand
from hwflow.hls.shared.lowering import Lowering
from hwflow.layers.base import LayerGraph, State
from hwflow.layers.formats import IntArray, Tensor
from hwflow.layers.rearrange import Rearrange
from hwflow.stages.kinds import stage_of
from hwflow.stages.sweep import Sweep, copied


@dataclass(frozen=True, eq=False)
class Handing:
    """Tensor `write` is copied to tensor `read` by `sweeps`, for `state`, when all is computed."""

    state: str
    read: Tensor
    write: Tensor
    sweeps: tuple[Sweep, ...]


def handings(graph: LayerGraph, laid: LaidOut) -> list[Handing]:
    """The copies for all states, in an order in which none overwrites what another has yet to read.

    What is in the region that it is copied to, but for whole pixels, and what is exchanged in a circle, waits in a
    tensor of its own meanwhile.
    """
    left = [handing(graph, state, laid) for state in laid.states if state.read != state.write]
    found: list[Handing] = []
    while left:
        ready = next((each for each in left if not any(
            other is not each and meets(laid, other.write, each.read) for other in left)), None)
        if ready is not None and (not meets(laid, ready.write, ready.read) or is_plain(laid, ready)):
            left.remove(ready)
            found.append(ready)
            continue
        each = left.pop(0) if ready is None else left.pop(left.index(ready))
        waiting = replace(each.write, name=f"{each.read.name}/waits")
        found.append(Handing(each.state, waiting, each.write, (copied(each.state, each.write, waiting),)))
        laid.add_waiting(waiting)
        left.append(copying(each.read, waiting))
    return found


def handing(graph: LayerGraph, state: State, laid: LaidOut) -> Handing:
    return copying(graph.tensors[state.read], laid.next_of(graph.tensors[state.read], graph.tensors[state.write]))


def copying(read: Tensor, write: Tensor) -> Handing:
    """The copy of a tensor to another with the same raster.  HwflowError where a shared stage has no steps for it."""
    if read.frame == write.frame:
        return Handing(read.name, read, write, (copied(read.name, write, read),))
    frame = read.frame
    rows, columns, channels = (np.arange(count, dtype=np.int64) * step for count, step in (
        (frame.height, frame.width * frame.channels), (frame.width, frame.channels), (frame.channels, 1)))
    layer = Rearrange(read.name, (write.name,), read.name, read.format, rows, columns, channels, read.format.low)
    graph = LayerGraph("state", {read.name: read, write.name: write}, (layer,), (write.name,), (read.name,))
    stage = stage_of(graph, layer)
    problem = stage.shared_problem()
    if problem:
        raise HwflowError(f"state '{read.name}' must have the pixels of its next value, {write.frame}, in a shared "
                          f"stage, not be {read.frame}: {problem}")
    return Handing(read.name, read, write, stage.sweeps())


def meets(laid: LaidOut, write: Tensor, read: Tensor) -> bool:
    """Whether a tensor may have words of the state `read`."""
    return any(laid.beside(one, read.name) for one in laid.views.made(write.name))


def is_plain(laid: LaidOut, handing: Handing) -> bool:
    """Whether the words of both follow each other in the same way."""
    return (handing.read.frame == handing.write.frame and laid.layouts[handing.read.name] == laid.layouts[
        handing.write.name] and not laid.is_scattered(handing.read) and not laid.is_scattered(handing.write))


def written_over(sweeps: Sequence[Sweep], laid: LaidOut, lowerings: Lowerings) -> dict[str, Over]:
    """The next values that are written over the states themselves, which no step reads later."""
    found, states = dict[str, Over](), laid.states
    for state in states:
        making = [k for k, sweep in enumerate(sweeps) if sweep.output.name == state.write]
        reading = [k for k, sweep in enumerate(sweeps) if state.read in (x.name for x in sweep.inputs)]
        alone = sum(other.write in (state.read, state.write) for other in states) == 1
        same = making and laid.layouts[state.read] == laid.layouts[state.write] and (
            laid.tensors[state.read].frame == laid.tensors[state.write].frame)
        if (not same or not alone or laid.views.fixed & {state.read, state.write}
                or max(reading, default=-1) > making[-1]
                or any(sweep.output.name != state.write for sweep in sweeps[making[0]:making[-1] + 1])):
            continue
        steps = [step for k in making for step in lowerings.steps(sweeps[k], state.read)]
        last, writes, order = InPlace.uses(steps, laid.words(laid.tensors[state.read]))
        if (last[writes] <= order).all():
            found[state.write] = Over(state.read, 0)
    return found


@dataclass(frozen=True, eq=False)
class HandingSteps:
    """Makes the steps of a `Handing`."""

    laid: LaidOut
    bases: Callable[[str], int]
    needs: Sums
    buffer: int
    windows: Sliding

    def steps(self, handing: Handing) -> Iterator[tuple[Compute, Constants]]:
        read, write = self.place(handing.read), self.place(handing.write)
        if is_plain(self.laid, handing):
            if read.base != write.base:
                yield self.moved(handing, write.base, read.base)
            return
        for sweep in handing.sweeps:
            yield from Lowering(sweep, (write,), read, self.needs, self.buffer, self.windows).steps()

    def moved(self, handing: Handing, source: int, target: int) -> tuple[Compute, Constants]:
        """Word after word, from the end that another word of the same region does not overwrite before it is read."""
        words, columns = self.laid.words(handing.read), self.laid.columns
        begin, way = (0, 1) if target < source else (words - 1, -1)
        constants = sweep_constants(handing.sweeps[0], self.needs)
        step = Compute(
            loops=Loops(width=words), read=ReadWalk(base=source + begin, column=way),
            write=WriteWalk(base=target + begin, column=way))
        bias, factor, extra = (
            np.full((1, columns), each[0]) for each in (constants.bias, constants.factor, constants.extra))
        step = replace(step, output=replace(step.output, zero_point=constants.zero_point))
        return step, Constants(bias, factor, extra, np.eye(columns, dtype=np.int64)[None, None])

    def place(self, tensor: Tensor) -> Operand:
        return self.laid.operand(tensor, self.bases)


def fills(states: Sequence[tuple[State, Operand]], tensors: Mapping[str, Tensor], columns: int
          ) -> tuple[list[Fill], IntArray | None]:
    """The steps that write the first values of states, and the image of those words whose lanes differ."""
    words: dict[int, tuple[int | None, IntArray]] = {}
    for state, operand in states:
        tensor = tensors[state.read]
        held = state.initial.reshape(-1, tensor.frame.channels) - held_less(tensor.format)
        value = int(held.flat[0]) if (held == held.flat[0]).all() else None
        addresses = operand.words_of(tensor.frame).reshape(-1)
        values = operand.layout.spread(held, int(held.flat[0])).reshape(-1, columns)
        words |= {address: (value, word) for address, word in zip(addresses.tolist(), values, strict=True)}
    found: list[Fill] = []
    image: list[IntArray] = []
    for address in sorted(words):
        value, word = words[address]
        if value is None:
            image.append(word)
        last = found[-1] if found else None
        if last is not None and last.base + last.words == address and last.value == value:
            found[-1] = replace(last, words=last.words + 1)
        else:
            found.append(Fill(address, 1, value))
    return found, np.array(image) if image else None
