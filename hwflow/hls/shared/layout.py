"""Where the channels of a tensor are in the words of a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hwflow.stages.sweep import Sweep, copied, is_wide

from ...layers.formats import EqualByValue, IntArray, Tensor


@dataclass(frozen=True, eq=False)
class Layout(EqualByValue):
    """Channel k is lane `slots[k] % columns` of word `slots[k] // columns`; int64[channels], ascending."""

    slots: IntArray
    columns: int

    @staticmethod
    def of(channels: Sequence[int], columns: int) -> Layout:
        """Runs of so many channels, each from a word of its own on; one run is the layout of a `Load` or `Store`."""
        slots, word = [], 0
        for count in channels:
            slots.append(word * columns + np.arange(count, dtype=np.int64))
            word += -(-count // columns)
        return Layout(np.concatenate(slots), columns)

    @cached_property
    def words(self) -> int:
        """The words of a pixel."""
        return int(self.slots[-1]) // self.columns + 1

    def spread(self, values: IntArray, rest: int) -> IntArray:
        """[..., channels] as [..., words, columns]; lanes without a channel are `rest`."""
        words = np.full((*values.shape[:-1], self.words * self.columns), rest, np.int64)
        words[..., self.slots] = values
        return words.reshape(*values.shape[:-1], self.words, self.columns)


class LaidOut:
    """Sweeps with a layout for every tensor, and copies where a layout must change.

    `sweeps` are in order; `tensors` and `layouts` have those of the frame memory by name.

    Parts of the channels that different sweeps make begin with a word of their own.  What is computed channel by
    channel has the layout of its operands.  Tensors that leave the stage have no gaps.
    """

    def __init__(self, sweeps: Sequence[Sweep], inputs: Sequence[Tensor], outputs: Sequence[str], columns: int) -> None:
        """`inputs` enter the stage, `outputs` leave it."""
        self.columns, self.outputs = columns, outputs
        self.tensors = {x.name: x for x in inputs}
        self.layouts = {x.name: self.plain(x) for x in inputs}
        self.sweeps: list[Sweep] = []
        parts: dict[str, dict[int, int]] = {}
        last: dict[str, Sweep] = {}
        for sweep in sweeps:
            parts.setdefault(sweep.output.name, {})[sweep.first_channel] = len(sweep.rescale.bias)
            last[sweep.output.name] = sweep
        for sweep in sweeps:
            if sweep.lane_wise:
                self.add_lane_wise(sweep)
            else:
                counts = parts[sweep.output.name]
                self.add(sweep, Layout.of([counts[first] for first in sorted(counts)], columns),
                         sweep is last[sweep.output.name])
        self.tensors |= {sweep.output.name: sweep.output for sweep in self.sweeps}

    def words(self, tensor: Tensor) -> int:
        """The words of the frame memory."""
        pixels = tensor.frame.height * tensor.frame.width
        return pixels * self.layouts[tensor.name].words * (2 if is_wide(tensor) else 1)

    def plain(self, tensor: Tensor) -> Layout:
        return Layout.of([tensor.frame.channels], self.columns)

    def add(self, sweep: Sweep, layout: Layout, last: bool) -> None:
        """A sweep that gives its results any layout; `last` of those that make its output."""
        y = sweep.output
        if y.name not in self.outputs or layout == self.plain(y):
            self.layouts[y.name] = layout
            self.sweeps.append(sweep)
            return
        parts = replace(y, name=f"{y.name}/parts")
        self.layouts[parts.name], self.layouts[y.name] = layout, self.plain(y)
        self.sweeps.append(replace(sweep, output=parts))
        if last:
            self.sweeps.append(copied(sweep.layer, parts, y))

    def add_lane_wise(self, sweep: Sweep) -> None:
        """A sweep that gives its results the layout of its operands, which must have one."""
        kinds = [self.layouts[x.name] for x in sweep.inputs]
        leaves = sweep.output.name in self.outputs
        if any(kind != kinds[0] for kind in kinds) or (leaves and kinds[0] != self.plain(sweep.output)):
            sweep = replace(sweep, inputs=tuple(self.in_order(sweep.layer, x) for x in sweep.inputs))
        self.layouts[sweep.output.name] = self.layouts[sweep.inputs[0].name]
        self.sweeps.append(sweep)

    def in_order(self, layer: str, x: Tensor) -> Tensor:
        """`x`, or a copy of it without gaps."""
        if self.layouts[x.name] == self.plain(x):
            return x
        copy = replace(x, name=f"{x.name}/in order")
        if copy.name not in self.layouts:
            self.layouts[copy.name] = self.plain(x)
            self.sweeps.append(copied(layer, x, copy))
        return copy
