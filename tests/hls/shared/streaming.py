"""Random networks that hand tensors on from frame to frame: caches in front of inputs, and inputs that are fed back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.layers import Concat, Frame, Layer, LayerGraph, Rearrange
from hwflow.layers.base import State
from hwflow.layers.rearrange import Offsets, picked
from tests.hls.shared.networks import shared_network
from tests.layers.cases import integers
from tests.strategies.layer_graphs import TINY
from tests.strategies.layers import Taste


def streaming_network(seed: int, taste: Taste = TINY) -> LayerGraph:
    """The network of this seed: at least one of its inputs stays one."""
    return Streaming(shared_network(seed, taste), np.random.default_rng(seed)).made()


@dataclass
class Streaming:
    graph: LayerGraph
    rng: np.random.Generator
    before: list[Layer] = field(default_factory=list)
    after: list[Layer] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def made(self) -> LayerGraph:
        self.tensors = dict(self.graph.tensors)
        inputs, (first, *others) = [], self.graph.inputs
        for name in (first, *others):
            if self.tensors[name].frame.height > 1 and self.rng.random() < 0.7:
                inputs.append(self.cached(name))
            elif name == first or self.rng.random() < 0.4:
                inputs.append(name)
            else:
                self.fed_back(name)
        for name in inputs:
            if self.rng.random() < 0.4:
                self.delayed(name)
        return replace(self.graph, tensors=self.tensors, layers=(*self.before, *self.graph.layers, *self.after),
                       inputs=tuple(inputs), states=tuple(self.states))

    def tensor(self, name: str, like: str, frame: Frame) -> str:
        self.tensors[name] = replace(self.tensors[like], name=name, frame=frame)
        return name

    def moved(self, layers: list[Layer], source: str, name: str, offsets: Offsets) -> str:
        x = self.tensors[source]
        layers.append(Rearrange(name, (source,), name, x.format, *offsets, padding=x.format.low))
        return self.tensor(name, source, offsets.frame)

    def keep(self, read: str, write: str) -> None:
        x = self.tensors[read]
        shape = x.frame.height, x.frame.width, x.frame.channels
        initial = (integers(self.rng, x.format, shape) if self.rng.random() < 0.5
                   else np.full(shape, int(integers(self.rng, x.format, (1,))[0])))
        self.states.append(State(read, write, initial))

    def cached(self, name: str) -> str:
        """Some rows of the input are those of frames before."""
        frame = self.tensors[name].frame
        kept, across = int(self.rng.integers(1, frame.height)), frame.width * frame.channels
        read = self.tensor(f"{name}.old", name, replace(frame, height=kept))
        new = self.tensor(f"{name}.new", name, replace(frame, height=frame.height - kept))
        parts = [self.moved(self.before, part, f"{part}.row", raster(self.tensors[part].frame)) for part in (read, new)]
        if self.rng.random() < 0.3:
            parts.reverse()
        row = self.tensor(f"{name}.both", name, Frame(1, 1, frame.elements))
        self.before.append(Concat(f"{name}.concat", tuple(parts), row))
        self.moved(self.before, row, name, pixels(frame, 0))
        skipped = int(self.rng.integers(0, frame.height - kept + 1))
        self.keep(read, self.moved(self.after, row, f"{name}.next", pixels(
            replace(frame, height=kept), skipped * across)))
        return new

    def fed_back(self, name: str) -> None:
        """The input is any tensor of the frame before, in any order, or one of the same frame as it is."""
        x = self.tensors[name]
        sources = [each for each in self.graph.computed if self.tensors[each].format == x.format]
        source = self.tensors[sources[int(self.rng.integers(len(sources)))]]
        if source.frame == x.frame and self.rng.random() < 0.8:
            self.keep(name, source.name)
            return
        y = source.frame
        tables = [int(self.rng.integers(wide)) + np.arange(size) * self.rng.choice([1, 1, -1, 0])
                  for size, wide in ((x.frame.height, y.height), (x.frame.width, y.width),
                                     (x.frame.channels, y.channels))]
        offsets = picked(y, tables[0] % y.height, tables[1] % y.width, tables[2] % y.channels)
        self.keep(name, self.moved(self.after, source.name, f"{name}.next", offsets))

    def delayed(self, name: str) -> None:
        """An input of the frame before leaves, or that of two frames before."""
        read = name
        for k in range(int(self.rng.integers(1, 3))):
            before, read = read, self.tensor(f"{name}.before{k}", name, self.tensors[name].frame)
            self.keep(read, before)
        frame = self.tensors[name].frame
        out = self.moved(self.after, read, f"{name}.late", pixels(frame, 0))
        self.graph = replace(self.graph, outputs=(*self.graph.outputs, out))


def raster(frame: Frame) -> Offsets:
    """All elements as channels."""
    return Offsets(np.zeros(1, np.int64), np.zeros(1, np.int64), np.arange(frame.elements, dtype=np.int64))


def pixels(frame: Frame, start: int) -> Offsets:
    """The elements of a raster from `start` on as a frame."""
    return Offsets(start + np.arange(frame.height, dtype=np.int64) * frame.width * frame.channels,
                   np.arange(frame.width, dtype=np.int64) * frame.channels, np.arange(frame.channels, dtype=np.int64))
