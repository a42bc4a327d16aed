"""Tensors that are elements of others at other places: a shared stage reads them where they are.

A crop, a reshape or a part of the channels is a *view*: its elements follow each other in another tensor, or in several
that are one after another.  A Concat is a view where its parts are put so from the beginning: those of a 1 x 1 frame
pixel after pixel, or channels beside channels.  Nothing is copied then, and no step computes the tensor.

Each element is traced through all layers that only move elements; what they are called does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hwflow.layers.base import Layer, LayerGraph, State
from hwflow.layers.formats import Frame, IntArray, Tensor
from hwflow.stages.kinds import stage_of
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Sweep, copied

#: Where a graph keeps the views that were found.
KEY = "views in shared stages"
#: Layers that move more elements keep their own steps: tracing takes an int64 for each.
MOST_ELEMENTS = 1 << 20


class Spot(NamedTuple):
    """Where a tensor is in its region: its first pixel, and the number of its part of each pixel."""

    region: int
    pixel: int
    part: int


@dataclass
class Region:
    """Tensors that are beside each other: `pixels`, each of which has so many channels of one part after another."""

    pixels: int
    parts: tuple[int, ...]

    @property
    def channels(self) -> int:
        return sum(self.parts)


@dataclass(frozen=True, eq=False)
class View:
    """A tensor that is read where others are.

    Element (row, column, channel) of `frame` is in pixel `pixel` + row * `row_step` + column * `column_step` +
    `pixels[channel]` of the region of `first`, counted from the first pixel of `first`; its channel there is
    `channels[channel]`, counted from the first one of `first`.  `made` are the tensors that have the elements.
    """

    frame: Frame
    made: tuple[str, ...]
    first: str
    pixel: int
    row_step: int
    column_step: int
    pixels: IntArray
    channels: IntArray

    def in_order(self, region: Region) -> bool:
        """Whether it is a part of the region as a tensor of its own would be: whole pixels, one after another."""
        return (len(region.parts) == 1 and np.array_equal(self.channels, np.arange(region.channels))
                and not self.pixels.any() and (self.frame.width == 1 or self.column_step == 1)
                and (self.frame.height == 1 or self.row_step == self.frame.width))


@dataclass
class Views:
    """The views among the tensors of some layers.

    `frames` has the frames of all tensors that are made, with their places in `regions`; `copies` the sweeps that are
    left of a layer, by the name of its output.
    """

    regions: dict[int, Region] = field(default_factory=dict)
    spots: dict[str, Spot] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    copies: dict[str, tuple[Sweep, ...]] = field(default_factory=dict)

    def beside(self, name: str) -> tuple[str, ...]:
        """All tensors of the region in which tensor `name` is."""
        region = self.spots[name].region
        return tuple(other for other, spot in self.spots.items() if spot.region == region)

    def made(self, name: str) -> tuple[str, ...]:
        """The tensors in which the elements of tensor `name` are."""
        return self.views[name].made if name in self.views else (name,)

    @cached_property
    def fixed(self) -> Set[str]:
        """Tensors that are made, and whose words others rely on: they are in a region with others, or read by views."""
        read = {name for view in self.views.values() for name in view.made}
        return {name for name in self.spots if name in read or len(self.beside(name)) > 1}


def next_value(read: str) -> str:
    """The name of the view of what the state `read` will be, with the pixels of the state."""
    return f"{read}/next"


def views_of(graph: LayerGraph, layers: Sequence[Layer], entering: Sequence[str], leaving: Sequence[str],
             states: Sequence[State] = ()) -> Views:
    """The views among what `layers` make of the tensors `entering` and of `states`; those `leaving` are as a stage
    stores them.  Where the next value of a state has other pixels, there is a view of it, if it can be.

    They are found once for a graph and some layers: a search of partitions asks for the same ones many times."""
    known = graph.derived.setdefault(KEY, {})
    assert isinstance(known, dict), "only this module keeps something there"
    key = (tuple(map(id, layers)), tuple(entering), tuple(leaving), tuple(state.read for state in states))
    if key not in known:
        known[key] = found_views(graph, layers, entering, leaving, states)
    found: Views = known[key]
    return found


def found_views(graph: LayerGraph, layers: Sequence[Layer], entering: Sequence[str], leaving: Sequence[str],
                states: Sequence[State]) -> Views:
    """The same, found anew."""
    finder = Finder(graph, frozenset(entering), frozenset(leaving))
    for name in (*entering, *(state.read for state in states)):
        finder.makes(graph.tensors[name])
    for layer in layers:
        finder.add(layer)
    for state in states:
        frame = graph.tensors[state.read].frame
        trace = finder.trace(state.write)
        view = finder.view(frame, trace) if frame != graph.tensors[state.write].frame else None
        if view is not None:
            finder.is_view(next_value(state.read), view, trace)
    computed = any(finder.found.copies.get(layer.output, True) for layer in layers)
    return finder.found if computed else Views()  # a stage has something to compute


class Finder:
    """Goes through layers in order.

    `traces` says for each tensor where its elements are: numbers of elements of all tensors that are made, one after
    another.
    """

    def __init__(self, graph: LayerGraph, entering: Set[str], leaving: Set[str]):
        self.graph, self.entering, self.leaving = graph, entering, leaving
        self.found = Views()
        self.traces: dict[str, IntArray] = {}
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.firsts: list[int] = [0]

    def makes(self, tensor: Tensor) -> None:
        """A tensor is made, in a region of its own."""
        frame, name = tensor.frame, tensor.name
        self.found.frames[name] = frame
        self.new_region([(name, Spot(0, 0, 0))], Region(frame.height * frame.width, (frame.channels,)))
        self.numbers[name] = len(self.names)
        self.names.append(name)
        self.firsts.append(self.firsts[-1] + frame.elements)

    def new_region(self, spots: Sequence[tuple[str, Spot]], region: Region) -> None:
        number = len(self.found.regions)
        self.found.regions[number] = region
        self.found.spots |= {name: spot._replace(region=number) for name, spot in spots}

    def trace(self, name: str) -> IntArray:
        """The elements of a tensor by their numbers."""
        if name not in self.traces:
            first = self.firsts[self.numbers[name]]
            self.traces[name] = np.arange(first, first + self.found.frames[name].elements, dtype=np.int64)
        return self.traces[name]

    def add(self, layer: Layer) -> None:
        """A layer: its output is a view, or made."""
        stage, y = stage_of(self.graph, layer), self.graph.tensors[layer.output]
        large = max(self.graph.tensors[name].frame.elements for name in (y.name, *layer.inputs)) > MOST_ELEMENTS
        sources = None if large else stage.sources()
        if sources is not None and len(layer.inputs) == 1:
            self.moved(y, self.trace(layer.inputs[0])[sources])
        elif sources is not None and y.name not in self.leaving:
            self.joined(stage, sources)
        else:
            self.makes(y)

    def moved(self, y: Tensor, trace: IntArray) -> None:
        view = self.view(y.frame, trace)
        if view is None or (y.name in self.leaving and not view.in_order(self.region(view.first))):
            self.makes(y)
            return
        self.is_view(y.name, view, trace)
        self.found.copies[y.name] = ()

    def is_view(self, name: str, view: View, trace: IntArray) -> None:
        self.traces[name], self.found.views[name] = trace, view

    def region(self, name: str) -> Region:
        return self.found.regions[self.found.spots[name].region]

    def view(self, frame: Frame, trace: IntArray) -> View | None:
        """The view with these elements, if they are in one region and follow each other."""
        numbers = np.searchsorted(self.firsts, trace, side="right") - 1
        names = [self.names[k] for k in dict.fromkeys([int(numbers[0]), *np.unique(numbers).tolist()])]
        spots = [self.found.spots[name] for name in names]
        if len({spot.region for spot in spots}) > 1:
            return None
        region, (first, *_) = self.region(names[0]), spots
        begins = np.concatenate([[0], np.cumsum(region.parts)])
        pixel, channel = np.empty_like(trace), np.empty_like(trace)
        for name, spot in zip(names, spots, strict=True):
            number = self.numbers[name]
            mine = numbers == number
            own, of_pixel = np.divmod(trace[mine] - self.firsts[number], self.found.frames[name].channels)
            pixel[mine], channel[mine] = spot.pixel + own, begins[spot.part] + of_pixel
        shape = frame.height, frame.width, frame.channels
        pixel, channel = pixel.reshape(shape), channel.reshape(shape)
        origin, places = pixel[0, 0], channel[0, 0]
        row = int(pixel[1, 0, 0] - origin[0]) if frame.height > 1 else 0
        column = int(pixel[0, 1, 0] - origin[0]) if frame.width > 1 else 0
        expected = (origin + row * np.arange(frame.height)[:, None, None] + column * np.arange(frame.width)[:, None])
        follow = (np.diff(origin * region.channels + places) == 1).all()
        if min(row, column) < 0 or not follow or not np.array_equal(pixel, expected) or (channel != places).any():
            return None
        return View(frame, tuple(names), names[0], int(origin[0]) - first.pixel, row, column, origin - origin[0],
                    places - int(begins[first.part]))

    # Concats

    def joined(self, stage: LayerStage[Layer], sources: IntArray) -> None:
        """Put the operands of a Concat beside each other, and copies of those that cannot be."""
        name, frame = stage.layer.output, stage.y.frame
        parts = None
        if frame.height * frame.width == 1:
            parts = self.alike(stage)
        alike = parts is not None
        parts = self.side_by_side(stage) if parts is None else parts
        if parts is None:
            self.makes(stage.y)
            return
        copies = list(self.copied_parts(stage, parts, alike))
        names = [part or f"{name}/{k}" for k, part in enumerate(parts)]
        if alike:
            self.one_after_another(names)
        else:
            self.beside_each_other(names)
        traces = [self.trace(f"{name}/{k}" if part is None else operand)
                  for k, (part, operand) in enumerate(zip(parts, stage.layer.inputs, strict=True))]
        trace = np.concatenate(traces)[sources]
        view = self.view(frame, trace)
        assert view is not None, "what is put beside each other is a view"
        self.is_view(name, view, trace)
        self.found.copies[name] = tuple(copies)

    def whole(self, stage: LayerStage[Layer], k: int) -> str | None:
        """A tensor of the region of which operand `k` has all elements in order; None where there is none."""
        operand = stage.operands[k]
        trace = self.trace(operand.name)
        first = self.names[int(np.searchsorted(self.firsts, trace[0], side="right")) - 1]
        region, spot = self.region(first), self.found.spots[first]
        if (stage.layer.inputs.index(operand.name) < k or spot.pixel or spot.part
                or operand.frame.elements != region.pixels * region.channels):
            return None
        return None if self.view(Frame(region.pixels, 1, region.channels), trace) is None else first

    def alike(self, stage: LayerStage[Layer]) -> list[str | None] | None:
        """For each operand of a single pixel the tensor of its region, None for a copy, where the pixels of all these
        regions are alike."""
        wholes = [self.whole(stage, k) for k in range(len(stage.operands))]
        sizes = [(x.frame.elements, self.region(name).parts) for x, name in zip(stage.operands, wholes, strict=True)
                 if name is not None]
        parts = max(sizes, default=(0, ()))[1]
        if len(parts) != 1 or any(x.frame.elements % parts[0] for x in stage.operands):
            return None
        found = [name if name is not None and self.region(name).parts == parts else None for name in wholes]
        for name, x in zip(found, stage.operands, strict=True):
            if name is None and self.view(Frame(x.frame.elements // parts[0], 1, parts[0]), self.trace(x.name)) is None:
                return None
        return found

    def side_by_side(self, stage: LayerStage[Layer]) -> list[str | None] | None:
        """The same of regions with as many pixels as the output; None where each operand would be a copy.  What leaves
        or enters the stage has its pixels one after another."""
        pixels, found = stage.y.frame.height * stage.y.frame.width, list[str | None]()
        for k in range(len(stage.operands)):
            name = self.whole(stage, k)
            fits = name is not None and self.region(name).pixels == pixels and not self.is_stored(name, pixels)
            found.append(name if fits else None)
        return found if any(found) else None

    def is_stored(self, name: str, pixels: int) -> bool:
        """Whether the region of a tensor has pixels that must follow each other."""
        beside = set(self.found.beside(name))
        if pixels > 1 and beside & (self.entering | self.leaving):
            return True
        return any(beside.intersection(view.made) for name, view in self.found.views.items() if name in self.leaving)

    def copied_parts(self, stage: LayerStage[Layer], parts: Sequence[str | None], alike: bool) -> Iterator[Sweep]:
        """The sweeps that copy operands without a tensor in `parts`, into tensors that are made then."""
        name = stage.layer.output
        channels = next(self.region(part).channels for part in parts if part is not None)
        for k, (x, part) in enumerate(zip(stage.operands, parts, strict=True)):
            if part is not None:
                continue
            if alike and x.frame.channels != channels:
                x = replace(x, name=f"{name}/{k}/pixels", frame=Frame(x.frame.elements // channels, 1, channels))
                trace = self.trace(stage.layer.inputs[k])
                view = self.view(x.frame, trace)
                assert view is not None, "`alike` has looked"
                self.is_view(x.name, view, trace)
            copy = replace(x, name=f"{name}/{k}")
            self.makes(copy)
            yield copied(stage.layer.name, x, copy)

    def one_after_another(self, names: Sequence[str]) -> None:
        """One region of those of some tensors, whose pixels are alike."""
        spots, pixels, parts = list[tuple[str, Spot]](), 0, self.region(names[0]).parts
        for name in names:
            for other in self.found.beside(name):
                own = self.found.spots[other]
                spots.append((other, own._replace(pixel=pixels + own.pixel)))
            pixels += self.region(name).pixels
        self.new_region(spots, Region(pixels, parts))

    def beside_each_other(self, names: Sequence[str]) -> None:
        """One region of those of some tensors, which have as many pixels."""
        spots, parts = list[tuple[str, Spot]](), tuple[int, ...]()
        for name in names:
            for other in self.found.beside(name):
                own = self.found.spots[other]
                spots.append((other, own._replace(part=len(parts) + own.part)))
            parts += self.region(name).parts
        self.new_region(spots, Region(self.region(names[0]).pixels, parts))
