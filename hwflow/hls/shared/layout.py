"""Where the channels of a tensor are in the words of a pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hwflow.hls.shared.frame_map import Over
from hwflow.hls.shared.views import Region, View, Views, next_value
from hwflow.layers.base import State
from hwflow.stages.sweep import Sweep, copied, is_wide

from ...layers.formats import EqualByValue, Frame, IntArray, Tensor


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


class Operand(NamedTuple):
    """Where a tensor is: its first word, the layout of a pixel, the words from row to row and from column to column."""

    base: int
    layout: Layout
    row: int
    column: int

    def words_of(self, frame: Frame) -> IntArray:
        """The addresses of its words: [pixels, words of a pixel]."""
        pixels = np.arange(frame.height)[:, None] * self.row + np.arange(frame.width) * self.column
        return self.base + pixels.reshape(-1, 1) + np.arange(self.layout.words)


class LaidOut:
    """Sweeps with a layout for every tensor, and copies where a layout must change.

    `sweeps` are in order; `tensors` has those of the frame memory by name, and views of them; `layouts` those of all.

    Parts of the channels that different sweeps make begin with a word of their own.  What is computed channel by
    channel has the layout of its operands.  Tensors that leave the stage, and those that others are views of, have no
    gaps.
    """

    def __init__(self, sweeps: Sequence[Sweep], inputs: Sequence[Tensor], outputs: Sequence[str], columns: int,
                 views: Views, states: Sequence[State] = ()) -> None:
        """`inputs` enter the stage, or are those of `states`, which it keeps; `outputs` leave it."""
        self.columns, self.outputs, self.views, self.states = columns, outputs, views, states
        self.kept = frozenset(name for state in states for name in (state.read, state.write))
        #: Tensors that wait while states are handed on.
        self.waiting: list[Tensor] = []
        self.without_gaps = frozenset([*outputs, *views.fixed, *self.kept])
        self.tensors = {x.name: x for x in inputs}
        self.layouts = {x.name: self.plain(x) for x in inputs}
        self.layouts |= {name: self.layout_of(view) for name, view in views.views.items()}
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
        #: The input that each frame begins with where there are states: nothing is computed of them before it is there.
        self.begins_with = self.first_read([x.name for x in inputs]) if states else None

    def first_read(self, inputs: Sequence[str]) -> str | None:
        """The one of `inputs` that the sweeps read first, or the first one; None where all are states."""
        entering = [name for name in inputs if name not in {state.read for state in self.states}]
        read = (name for sweep in self.sweeps for x in sweep.inputs for name in self.views.made(x.name))
        return next((name for name in (*read, *entering) if name in entering), None)

    def words(self, tensor: Tensor) -> int:
        """The words of the frame memory from the first to the last one of a tensor."""
        if tensor.name in self.views.spots:
            region = self.region(tensor.name)
            pixels = self.views.frames[tensor.name].height * self.views.frames[tensor.name].width
            if len(region.parts) > 1:
                return (pixels - 1) * self.pixel_words(region) + self.layouts[tensor.name].words
        pixels = tensor.frame.height * tensor.frame.width
        return pixels * self.layouts[tensor.name].words * (2 if is_wide(tensor) else 1)

    def operand(self, tensor: Tensor, bases: Callable[[str], int]) -> Operand:
        """Where a tensor is, where `bases` gives the first word of each that is made."""
        name, layout = tensor.name, self.layouts[tensor.name]
        view = self.views.views.get(name)
        if view is not None:
            pixel = self.pixel_words(self.region(view.first))
            return Operand(bases(view.first) + view.pixel * pixel, layout, view.row_step * pixel,
                           view.column_step * pixel)
        column = layout.words
        if name in self.views.spots and len(self.region(name).parts) > 1:
            column = self.pixel_words(self.region(name))
        return Operand(bases(name), layout, tensor.frame.width * column, column)

    def region(self, name: str) -> Region:
        """The region of a tensor that is made."""
        return self.views.regions[self.views.spots[name].region]

    def pixel_words(self, region: Region) -> int:
        """The words of a pixel of a region: each part begins with one of its own."""
        return sum(-(-part // self.columns) for part in region.parts)

    def layout_of(self, view: View) -> Layout:
        """The layout of a view, from the first word of the first of its tensors on."""
        region, spot = self.region(view.first), self.views.spots[view.first]
        slots = Layout.of(region.parts[spot.part:], self.columns).slots
        return Layout(view.pixels * self.pixel_words(region) * self.columns + slots[view.channels], self.columns)

    def offset(self, name: str) -> int:
        """The words from the beginning of its region to a tensor that is made."""
        region, spot = self.region(name), self.views.spots[name]
        return spot.pixel * self.pixel_words(region) + self.pixel_words(replace(region, parts=region.parts[:spot.part]))

    @property
    def together(self) -> dict[str, Over]:
        """Where the tensors of a region are from its first one on."""
        found = dict[str, Over]()
        firsts = dict[int, str]()
        for name, spot in self.views.spots.items():
            first = firsts.setdefault(spot.region, name)
            if name != first:
                found[name] = Over(first, self.offset(name) - self.offset(first))
        return found

    def beside(self, one: str, other: str) -> bool:
        """Whether two tensors that are made are in one region."""
        spots = self.views.spots
        return one == other or (one in spots and other in spots and spots[one].region == spots[other].region)

    def next_of(self, read: Tensor, write: Tensor) -> Tensor:
        """What the state `read` will be: tensor `write`, with the pixels of the state if there is a view with them."""
        name = next_value(read.name)
        return replace(read, name=name) if name in self.layouts else write

    def add_waiting(self, tensor: Tensor) -> None:
        """Another tensor of the frame memory, which waits while states are handed on."""
        self.tensors[tensor.name], self.layouts[tensor.name] = tensor, self.plain(tensor)
        self.waiting.append(tensor)

    def plain(self, tensor: Tensor) -> Layout:
        return Layout.of([tensor.frame.channels], self.columns)

    def add(self, sweep: Sweep, layout: Layout, last: bool) -> None:
        """A sweep that gives its results any layout; `last` of those that make its output."""
        y = sweep.output
        if y.name not in self.without_gaps or layout == self.plain(y):
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
        fixed = sweep.output.name in self.without_gaps
        scattered = any(self.is_scattered(x) for x in sweep.inputs)
        if scattered or any(kind != kinds[0] for kind in kinds) or (fixed and kinds[0] != self.plain(sweep.output)):
            sweep = replace(sweep, inputs=tuple(self.in_order(sweep.layer, x) for x in sweep.inputs))
        self.layouts[sweep.output.name] = self.layouts[sweep.inputs[0].name]
        self.sweeps.append(sweep)

    def is_scattered(self, x: Tensor) -> bool:
        """Whether the pixels of a tensor do not follow each other, each from its first word on."""
        operand, words = self.operand(x, lambda name: 0), self.layouts[x.name].words
        apart = x.name in self.views.views and self.layouts[x.name] != self.plain(x)
        return (apart or (x.frame.width > 1 and operand.column != words)
                or (x.frame.height > 1 and operand.row != x.frame.width * words))

    def in_order(self, layer: str, x: Tensor) -> Tensor:
        """`x`, or a copy of it without gaps."""
        if self.layouts[x.name] == self.plain(x) and not self.is_scattered(x):
            return x
        copy = replace(x, name=f"{x.name}/in order")
        if copy.name not in self.layouts:
            self.layouts[copy.name] = self.plain(x)
            self.sweeps.append(copied(layer, x, copy))
        return copy
