"""Random layer graphs by seed in which states only shift: Concat(state, x), a convolution of it, and its last rows as
the next state, written in several ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hwflow.layers import Concat, Conv, Frame, LayerGraph, Rearrange
from hwflow.layers.base import State
from hwflow.layers.formats import IntArray
from hwflow.layers.rearrange import Offsets
from hwflow.layers.rescale import Requantize
from tests.strategies.layer_graphs import TINY, Blocks
from tests.strategies.layers import Elements, Taste
from tests.strategies.numbers import integers

#: Without what reads a frame more than once, which takes long in a simulator.
SHIFTING = replace(TINY, without=("embedding", "matmul", "recurrent", "trees", "write_row", "top_k"))


def shifting_network(seed: int, taste: Taste = SHIFTING) -> LayerGraph:
    """One to three convolutions whose first rows are states, behind layers of any kind."""
    grown = Shifting(np.random.default_rng([seed, 0x51DE]), taste, f"shifting{seed}")
    rng = grown.rng
    x = grown.input(Frame(int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))))
    for _ in range(int(rng.integers(1, 4))):
        x = grown.path(x, int(rng.integers(0, 2)))
        x = grown.shifted(x)
    if rng.integers(2):
        grown.path(x, 1, least=1)
    return grown.with_states()


def mixed_network(seed: int, taste: Taste = SHIFTING) -> LayerGraph:
    """One or two caches whose channels are parted between convolutions of unlike lengths, which are joined again."""
    grown = Shifting(np.random.default_rng([seed, 0x3C0]), taste, f"mixed{seed}")
    rng = grown.rng
    x = grown.input(Frame(1, 1, int(rng.integers(2, 7))))
    for _ in range(int(rng.integers(1, 3))):
        x = grown.mixed(x)
        x = grown.dense(x, int(rng.integers(2, 5))) if rng.random() < 0.6 else x
    return grown.with_states()


class Shifting(Blocks):
    """A graph some of whose inputs become states."""

    def __init__(self, rng: np.random.Generator, taste: Taste, name: str) -> None:
        super().__init__(rng, taste, name)
        self.states: list[State] = []

    def shifted(self, x: str) -> str:
        """A convolution over the rows of `x` and those before them; over columns where there is one row."""
        rng, t = self.rng, self.tensors[x]
        like = Elements(t.format, t.zero_point)
        turned = rng.random() < 0.4
        new, width = (t.frame.height * t.frame.width, 1) if turned else (t.frame.height, t.frame.width)
        taps, apart, stride = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
        rows = int(rng.integers(max(1, (taps - 1) * apart + 1 - new), (taps - 1) * apart + 1))
        pads = not turned and t.format.contains(np.array(t.zero_point)) and rng.random() < 0.5
        initial = t.zero_point if pads else int(integers(rng, t.format, (1,))[0])

        channels, inner = t.frame.channels, width * t.frame.channels
        frame = (Frame(1, rows * width, channels), Frame(rows, width, channels), Frame(1, 1, rows * inner))[
            int(rng.integers(3)) if not turned else 0]
        state = self.input(frame, like)
        order = rng.permutation(rows * inner) if rng.random() < 0.3 else np.arange(rows * inner)
        joined = self.put(Concat, (self.moved(state, order, Frame(1, 1, rows * inner)),
                                   self.moved(x, np.arange(new * inner), Frame(1, 1, new * inner))), like)
        whole = Frame(1, rows + new, channels) if turned else Frame(rows + new, width, channels)
        window = self.moved(joined, np.arange(whole.elements), whole)
        y = self.window_of(window, (taps, apart, stride), pads, turned)
        last = np.empty(rows * inner, np.int64)
        last[order] = new * inner + np.arange(rows * inner)
        source = joined if rng.integers(2) else window
        write = self.moved(source, last, frame)
        shape = (frame.height, frame.width, frame.channels)
        self.states.append(State(state, write, np.full(shape, initial)))
        return y

    def mixed(self, x: str) -> str:
        """Convolutions of parts of the channels of a cache with `x`, each over so many of the last rows as it needs."""
        rng, t = self.rng, self.tensors[x]
        like, channels = Elements(t.format, t.zero_point), t.frame.channels
        ends = np.unique([0, channels, *rng.integers(1, channels + 1, int(rng.integers(1, 3)))])
        apart, taps = int(rng.integers(1, 3)), rng.integers(2, 6, len(ends) - 1)
        rows = (int(taps.max()) - 1) * apart
        state = self.input(Frame(rows, 1, channels), like)
        row = self.moved(state, np.arange(rows * channels), Frame(1, 1, rows * channels))
        joined = self.put(Concat, (row, x), like)
        made, format, fields = [], self.weight_format(), self.rescale_fields()
        for first, end, count in zip(ends[:-1], ends[1:], taps, strict=True):
            part = int(end - first)
            reach = (int(count) - 1) * apart + 1
            place = (rows + 1 - reach + np.arange(reach))[:, None] * channels + np.arange(first, end)
            read = self.moved_to(joined, place.reshape(reach, 1, part))
            groups = part if rng.random() < 0.7 else 1
            weights = integers(rng, format, (part, int(count), 1, part // groups))
            made.append(self.put(Conv, (read,), fields["like"], weights=weights, weight_format=format,
                                 input_format=t.format, groups=groups, dilations=(apart, 1),
                                 requantize=self.scaled(part, **fields)))
        order = rng.permutation(len(made)) if rng.random() < 0.2 else np.arange(len(made))
        y = self.put(Concat, tuple(made[k] for k in order), fields["like"]) if len(made) > 1 else made[0]
        write = self.moved(joined, channels + np.arange(rows * channels), Frame(rows, 1, channels))
        initial = int(integers(rng, t.format, (1,))[0])
        self.states.append(State(state, write, np.full((rows, 1, channels), initial)))
        return y

    def rescale_fields(self) -> dict[str, Any]:
        """What the rescalers of convolutions that are joined have in common."""
        like = self.elements(bipolar=False)
        return {"like": like, "shift": int(self.rng.integers(2, 12))}

    def scaled(self, channels: int, like: Elements, shift: int) -> Requantize:
        """A rescaler for so many channels."""
        multiplier = self.rng.integers(1, 1 << max(1, shift), channels)
        bias = self.rng.integers(-50, 50, channels)
        return Requantize(bias, multiplier, np.full(channels, shift), like.zero_point, like.format.low,
                          like.format.high)

    def moved_to(self, x: str, order: IntArray) -> str:
        """The elements of a row `x` that `order` [rows, 1, channels] has, equally far apart in each axis."""
        t = self.tensors[x]
        offsets = Offsets(order[:, 0, 0], np.zeros(1, np.int64), order[0, 0] - order[0, 0, 0])
        return self.put(Rearrange, (x,), Elements(t.format, t.zero_point), input_format=t.format, padding=t.format.low,
                        **offsets._asdict())

    def moved(self, x: str, order: IntArray, frame: Frame) -> str:
        """Element k of the output is element `order[k]` of `x`: in a frame, or channel by channel before one."""
        t = self.tensors[x]
        fields: dict[str, Any] = {"input_format": t.format, "padding": t.format.low}
        like, zero = Elements(t.format, t.zero_point), np.zeros(1, np.int64)
        row = np.arange(len(order))
        if not np.array_equal(order, order[0] + row):
            x = self.put(Rearrange, (x,), like, **fields, **Offsets(zero, zero, order)._asdict())
            order = row
        inner = frame.width * frame.channels
        offsets = Offsets(order[0] + np.arange(frame.height) * inner, np.arange(frame.width) * frame.channels,
                          np.arange(frame.channels))
        return self.put(Rearrange, (x,), like, **fields, **offsets._asdict())

    def window_of(self, x: str, along: tuple[int, int, int], pads: bool, turned: bool) -> str:
        """A convolution of so many taps, so far apart, with a stride along the rows."""
        rng, t, (taps, apart, stride) = self.rng, self.tensors[x], along
        across = 1 if turned else int(rng.integers(1, t.frame.width + 1))
        side = int(rng.integers(0, across)) if pads else 0
        kernel, strides, dilations = (taps, across), (stride, int(rng.integers(1, 3))), (apart, 1)
        if turned:
            kernel, strides, dilations = (1, taps), (1, stride), (1, apart)
        groups, cout = self.channels(t.frame.channels, None)
        format = self.weight_format()
        weights = integers(rng, format, (cout, *kernel, t.frame.channels // groups))
        return self.fitted(Conv, x, self.elements(), weights=weights, weight_format=format, input_format=t.format,
                           groups=groups, strides=strides, dilations=dilations, pads=(0, side, 0, side))

    def with_states(self) -> LayerGraph:
        graph = self.finished()
        inside = {name for layer in graph.layers for name in layer.inputs} | {state.write for state in self.states}
        reads = {state.read for state in self.states}
        outputs = tuple(layer.output for layer in graph.layers if layer.output not in inside)
        inputs = tuple(name for name in graph.inputs if name not in reads)
        whole = replace(graph, inputs=inputs, outputs=outputs, states=tuple(self.states))
        whole.check()
        return whole
