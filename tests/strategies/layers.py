"""Adds random layers to a graph, one kind at a time; every constant is fitted to the integers that really come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hwflow.layers import (
    Add,
    AveragePool,
    Concat,
    Conv,
    Dense,
    Embedding,
    Frame,
    Interpolate,
    IntFormat,
    Layer,
    LayerGraph,
    Lookup,
    MaxPool,
    Multiply,
    Normalize,
    Rearrange,
    Requantize,
    RunningSum,
    Segments,
    Softmax,
    Tensor,
    TopK,
)
from hwflow.layers.formats import IntArray
from hwflow.layers.rearrange import Offsets, depth_to_space, picked, space_to_depth, transposed
from hwflow.layers.rescale import Rescale
from tests.layers.segment_cases import random_segments
from tests.strategies.numbers import Elements, Rng, any_format, any_zero_point, factor, integers, rescale, spread
from tests.strategies.windows import Axis, any_axis, axis_to, both, classes_of

SUM = IntFormat(32, True)
SAMPLES = 5
SCALE = 0.25


@dataclass(frozen=True)
class Taste:
    """How large networks become: pixels of a side, channels, multiplications of a layer, blocks of layers.

    `joins`: with branches; `bits`: the widest elements; `without`: kinds of layers that do not occur.
    """

    side: int = 12
    channels: int = 24
    multiplications: int = 20_000
    blocks: int = 4
    joins: bool = True
    bits: int = 8
    without: tuple[str, ...] = ()


def divisor(rng: Rng, count: int) -> int:
    found = [n for n in range(1, count + 1) if count % n == 0]
    return found[int(rng.integers(len(found)))]


class Growing:
    """A graph that grows.  Every method adds a layer behind tensors that it is given, and returns its output."""

    def __init__(self, rng: Rng, taste: Taste, name: str) -> None:
        self.rng, self.taste = rng, taste
        self.tensors: dict[str, Tensor] = {}
        self.layers: list[Layer] = []
        self.inputs: list[str] = []
        #: A few frames of every tensor.
        self.samples: dict[str, IntArray] = {}
        self.graph = LayerGraph(name, self.tensors, (), (), ())

    def finished(self) -> LayerGraph:
        """The graph; what nothing reads is an output, and sometimes a tensor that is read."""
        read = {name for layer in self.layers for name in layer.inputs}
        outputs = [layer.output for layer in self.layers
                   if layer.output not in read or self.rng.random() < 0.05]
        return replace(self.graph, tensors=dict(self.tensors), layers=tuple(self.layers), inputs=tuple(self.inputs),
                       outputs=tuple(outputs))

    def frame(self, name: str) -> Frame:
        return self.tensors[name].frame

    def elements(self, *, bipolar: bool = True) -> Elements:
        format = any_format(self.rng, bipolar=bipolar, most_bits=self.taste.bits)
        return Elements(format, any_zero_point(self.rng, format))

    def input(self, frame: Frame, like: Elements | None = None) -> str:
        like, name = like or self.elements(), f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.tensors[name] = Tensor(name, frame, like.format, SCALE, like.zero_point)
        shape = (SAMPLES, frame.height, frame.width, frame.channels)
        self.samples[name] = integers(self.rng, like.format, shape)
        return name

    def put(self, kind: type[Layer], inputs: tuple[str, ...], like: Elements, **fields: Any) -> str:
        """Add a layer and evaluate it on the samples."""
        output = f"t{len(self.layers)}"
        layer = kind(name=f"{kind.kind}{len(self.layers)}", inputs=inputs, output=output, **fields)  # type: ignore[call-arg]
        frame = layer.output_frame(*(self.frame(name) for name in inputs))
        self.tensors[output] = Tensor(output, frame, like.format, SCALE, like.zero_point)
        layer.check(self.graph)
        self.samples[output] = layer.evaluate(self.graph, *(self.samples[name] for name in inputs))
        self.layers.append(layer)
        return output

    def fitted(self, kind: type[Layer], x: str, like: Elements, classes: int = 1, **fields: Any) -> str:
        """As `put` for a layer that requantizes sums: the constants fit the sums of the samples.

        They are those of all channels for each of the `classes` of pixels.
        """
        channels = (len(fields["weights"]) if "weights" in fields else self.frame(x).channels) * classes
        plain = Requantize(*np.array([[0] * channels, [1] * channels, [0] * channels], np.int64), 0, SUM.low, SUM.high)
        layer = kind(name="sums", inputs=(x,), output="sums", requantize=plain, **fields)  # type: ignore[call-arg]
        tensors = self.tensors | {"sums": Tensor("sums", layer.output_frame(self.frame(x)), SUM, 1.0, 0)}
        sums = layer.evaluate(replace(self.graph, tensors=tensors), self.samples[x])
        made = self.rescale(np.tile(sums, classes), like)
        return self.put(kind, (x,), like, requantize=made, **fields)

    def rescale(self, sums: IntArray, like: Elements) -> Rescale:
        """What makes elements of sums like these [..., channels]."""
        return rescale(self.rng, sums, like.format, like.zero_point)

    def weight_format(self) -> IntFormat:
        return any_format(self.rng, most_bits=self.taste.bits)

    # --- one layer of each kind

    def conv(self, x: str, wanted: Frame | None = None, like: Elements | None = None) -> str:
        """Any convolution; with `wanted` one whose output has this frame."""
        rng, t = self.rng, self.tensors[x]
        if wanted is not None and t.format.bipolar and (
                wanted.height > t.frame.height or wanted.width > t.frame.width):
            x = self.lookup(x, self.elements(bipolar=False))
            t = self.tensors[x]
        axes = self.axes(x, wanted)
        groups, cout = self.channels(t.frame.channels, wanted)
        weight_format = self.weight_format()
        weights = integers(rng, weight_format, (cout, axes[0].kernel, axes[1].kernel, t.frame.channels // groups))
        if self.work(t.frame, axes) * weights.size > self.taste.multiplications and wanted is None:
            return self.average_pool(x, like)
        return self.fitted(Conv, x, like or self.elements(), weights=weights, weight_format=weight_format,
                           input_format=t.format, groups=groups, **both(*axes))

    def channels(self, cin: int, wanted: Frame | None) -> tuple[int, int]:
        """Groups and outputs: one group most of the time, else depthwise or any number of groups."""
        rng = self.rng
        most = self.taste.channels
        groups = 1 if rng.random() < 0.5 else cin if rng.random() < 0.6 else divisor(rng, cin)
        if wanted is None:
            return groups, groups * int(rng.integers(1, max(1, min(most, 3 * cin) // groups) + 1))
        return groups if wanted.channels % groups == 0 else 1, wanted.channels

    def axes(self, x: str, wanted: Frame | None = None) -> tuple[Axis, Axis]:
        t = self.tensors[x]
        pads = t.format.contains(np.array(t.zero_point))
        if wanted is not None:
            return (axis_to(self.rng, t.frame.height, wanted.height, pads=pads),
                    axis_to(self.rng, t.frame.width, wanted.width, pads=pads))
        rows, columns = (any_axis(self.rng, size, pads=pads)
                         for size in (t.frame.height, t.frame.width))
        return Axis(1) if t.frame.height == 1 else rows, columns

    @staticmethod
    def work(frame: Frame, axes: tuple[Axis, Axis]) -> int:
        return axes[0].positions(frame.height) * axes[1].positions(frame.width)

    def dense(self, x: str, outputs: int | None = None, like: Elements | None = None) -> str:
        t, weight_format = self.tensors[x], self.weight_format()
        most = max(1, min(self.taste.channels, self.taste.multiplications // t.frame.elements))
        weights = integers(self.rng, weight_format,
                           (outputs or int(self.rng.integers(1, most + 1)), t.frame.elements))
        return self.fitted(Dense, x, like or self.elements(), weights=weights, weight_format=weight_format,
                           input_format=t.format)

    def max_pool(self, x: str) -> str:
        t, axes = self.tensors[x], self.axes(x)
        fields = both(*axes)
        smallest = "min_pool" not in self.taste.without and len(self.layers) % 4 == 3
        return self.put(MaxPool, (x,), Elements(t.format, t.zero_point), input_format=t.format,
                        kernel=(axes[0].kernel, axes[1].kernel), smallest=smallest, **fields)

    def average_pool(self, x: str, like: Elements | None = None, *, whole: bool | None = None) -> str:
        """A mean of windows, or of the whole frame."""
        t, rng = self.tensors[x], self.rng
        whole = rng.random() < 0.3 if whole is None else whole
        axes = (Axis(t.frame.height), Axis(t.frame.width)) if whole else self.axes(x)
        classes = [classes_of(axis, size) for axis, size in zip(axes, (t.frame.height, t.frame.width), strict=True)]
        apart = not t.format.bipolar and rng.random() < 0.4  # windows at the edges count fewer elements
        found = {"row_classes": classes[0], "column_classes": classes[1]} if apart else {}
        count = (max(classes[0]) + 1) * (max(classes[1]) + 1) if apart else 1
        return self.fitted(AveragePool, x, like or self.elements(), count, input_format=t.format,
                           kernel=(axes[0].kernel, axes[1].kernel), **found, **both(*axes))

    def interpolate(self, x: str, like: Elements | None = None) -> str:
        """Somewhat more or fewer pixels, at even distances in most cases."""
        t, axes = self.tensors[x], []
        for size in (t.frame.height, t.frame.width):
            count = min(int(self.rng.integers(1, 2 * size + 1)), self.taste.side)
            total = 1 if size == 1 else int(self.rng.choice([1, 2, 8, 15]))
            steps = np.arange(count) * int(self.rng.integers(1, total + 2)) % ((size - 1) * total + 1)
            places = np.minimum(steps // total, size - (2 if total > 1 else 1))
            axes.append((places, steps - places * total if total > 1 else np.zeros(count, np.int64), total))
        names = [f"{axis}{field}" for axis in ("row", "column") for field in ("s", "_weights", "_total")]
        fields = dict(zip(names, (*axes[0], *axes[1]), strict=True))
        return self.fitted(Interpolate, x, like or self.elements(), input_format=t.format, **fields)

    def lookup(self, x: str, like: Elements | None = None) -> str:
        like, t = like or self.elements(), self.tensors[x]
        table = integers(self.rng, like.format, (1 << t.format.bits,))
        return self.put(Lookup, (x,), like, input_format=t.format, table=table)

    def segments(self, x: str, like: Elements | None = None) -> str:
        like, t = like or self.elements(bipolar=False), self.tensors[x]
        made = random_segments(self.rng, "", x, "", t.format, like.format)
        chosen = {f.name: getattr(made, f.name) for f in fields(made)[3:]}
        return self.put(Segments, (x,), like, **chosen)

    def embedding(self, x: str, like: Elements | None = None) -> str:
        """A row of a few elements for each integer of `x`, which is unsigned."""
        like, t = like or self.elements(), self.tensors[x]
        width = int(self.rng.integers(1, max(1, self.taste.channels // t.frame.channels) + 1))
        table = integers(self.rng, like.format, (t.format.high + 1, width))
        return self.put(Embedding, (x,), like, input_format=t.format, table=table)

    def rearrange(self, x: str) -> str:
        """Resizing, crops, pads, shuffles, transposes."""
        t, offsets = self.tensors[x], self.offsets(self.frame(x))
        padding = int(integers(self.rng, t.format, (1,))[0])
        return self.put(Rearrange, (x,), Elements(t.format, t.zero_point), input_format=t.format, padding=padding,
                        **offsets._asdict())

    def top_k(self, x: str) -> str:
        """The largest or smallest channels: their indices or their values."""
        t, rng = self.tensors[x], self.rng
        k = 1 if rng.random() < 0.6 else int(rng.integers(1, min(4, t.frame.channels) + 1))
        indices = bool(rng.integers(2))
        bits = (t.frame.channels - 1).bit_length()
        like = Elements(IntFormat(max(1, bits + int(rng.integers(0, 2))), False), 0) if indices else Elements(
            t.format, t.zero_point)
        return self.put(TopK, (x,), like, input_format=t.format, k=k, largest=bool(rng.integers(2)),
                        gives_indices=indices, last_index=bool(rng.integers(2)))

    def running_sum(self, x: str) -> str:
        """Of the channels, and their mean, which has few bits again."""
        t = self.tensors[x]
        like = Elements(RunningSum.sums_of(t), 0)
        return self.average_pool(self.put(RunningSum, (x,), like, input_format=t.format,
                                          exclusive=bool(self.rng.integers(2))))

    def softmax(self, x: str) -> str:
        """Of the channels; the scale of the scores is such that their exponentials differ, but not too much."""
        x, like, rng = self.plain(x), self.elements(bipolar=False), self.rng
        t = self.tensors[x]
        scores = replace(t, scale=float(rng.uniform(0.5, 6) / spread(self.samples[x])))
        steps = (like.format.high - like.format.low + 1) * rng.uniform(0.5, 1.5)
        made = Tensor("t", t.frame, like.format, float(1 / steps), like.format.low)
        return self.put_made(Softmax.of("t", scores, made), x, Elements(like.format, like.format.low))

    def normalize(self, x: str) -> str:
        """Of the channels, with the mean or without, and with constants of any period."""
        x, like, rng = self.plain(x), self.elements(bipolar=False), self.rng
        t, centred = self.tensors[x], bool(rng.integers(2))
        shape = (int(rng.choice([1, t.frame.height * t.frame.width])), divisor(rng, t.frame.channels))
        scale = float(rng.uniform(2, 6) / (like.format.high - like.format.low + 1))
        layer = Normalize.of(
            "t", t, Tensor("t", t.frame, like.format, scale, like.zero_point), centred=centred,
            mean=centred or bool(rng.integers(2)), epsilon=float(rng.choice([0.0, 1e-5, 0.1])),
            gamma=rng.normal(1, 0.5, shape), beta=rng.normal(0, 0.5, shape))
        return self.put_made(layer, x, like)

    def plain(self, x: str) -> str:
        """`x`, or behind a table where its elements are bipolar."""
        return self.lookup(x, self.elements(bipolar=False)) if self.tensors[x].format.bipolar else x

    def put_made(self, layer: Layer, x: str, like: Elements) -> str:
        """Add a layer that is there but for its names."""
        found = {each.name: getattr(layer, each.name) for each in fields(layer)  # type: ignore[arg-type]
                 if each.name not in ("name", "inputs", "output")}
        return self.put(type(layer), (x,), like, **found)

    def offsets(self, frame: Frame) -> Offsets:
        """Of a frame that becomes no larger than the taste allows."""
        rng, most = self.rng, self.taste
        made = []
        for block in (2, 3):
            if frame.channels % block**2 == 0 and max(frame.height, frame.width) * block <= most.side:
                made += [depth_to_space(frame, block), depth_to_space(frame, block, channels_first=True)]
            if frame.height % block == 0 and frame.width % block == 0 and frame.channels * block**2 <= most.channels:
                made.append(space_to_depth(frame, block))
        if frame.channels <= most.side and max(frame.height, frame.width) <= most.channels:
            made.append(transposed(frame, tuple(int(k) for k in rng.permutation(3))))  # type: ignore[arg-type]
        if made and rng.random() < 0.5:
            return made[int(rng.integers(len(made)))]
        return picked(frame, *(self.indices(size, limit) for size, limit in (
            (frame.height, most.side), (frame.width, most.side), (frame.channels, most.channels))))

    def indices(self, size: int, limit: int) -> IntArray | None:
        """Of one axis: all in order, repeated, cropped, padded, in another order, or anything."""
        rng = self.rng
        first = int(rng.integers(0, size))
        last = int(rng.integers(first, size))
        choices = [
            None, None, np.arange(first, last + 1), np.arange(first, size, 2), rng.permutation(size),
            np.repeat(np.arange(size), 2), np.arange(size)[::-1],
            np.concatenate([np.full(1, -1), np.arange(size), np.full(int(rng.integers(0, 3)), -1)]),
            np.concatenate([np.arange(size), np.arange(size)[::-1][1:3]]),
            rng.integers(-1, size, int(rng.integers(1, limit + 1)))]
        found = choices[int(rng.integers(len(choices)))]
        return None if found is None or len(found) > limit else found

    # --- joins

    def add(self, a: str, b: str) -> str:
        """A sum or a difference."""
        like, rng = self.elements(bipolar=False), self.rng
        shift = int(rng.integers(0, 24))
        reach = (like.format.high - like.format.low) / 2
        ratios = [reach / spread(self.samples[x] - self.tensors[x].zero_point) * rng.uniform(0.3, 1.2) for x in (a, b)]
        signs = np.where(rng.random(2) < 0.15, -1, 1).tolist()
        multipliers = tuple(sign * factor(rng, ratio, shift) for sign, ratio in zip(signs, ratios, strict=True))
        return self.put(Add, (a, b), like, multipliers=multipliers, **self.ends(like, shift))

    def multiply(self, a: str, b: str) -> str:
        like, rng = self.elements(bipolar=False), self.rng
        shift = int(rng.integers(0, 24))
        products = np.prod(np.broadcast_arrays(
            *(self.samples[x] - self.tensors[x].zero_point for x in (a, b))), axis=0)
        ratio = (like.format.high - like.format.low) / 2 / spread(products) * rng.uniform(0.4, 1.5)
        sign = -1 if rng.random() < 0.1 else 1
        return self.put(Multiply, (a, b), like, multiplier=sign * factor(rng, ratio, shift), **self.ends(like, shift))

    def ends(self, like: Elements, shift: int) -> Mapping[str, int]:
        """The last fields of a join: sometimes it has a Relu."""
        low = like.zero_point if self.rng.random() < 0.3 and like.zero_point < like.format.high else like.format.low
        return {"shift": shift, "zero_point": like.zero_point, "low": low, "high": like.format.high}

    def concat(self, *parts: str) -> str:
        """Of tensors that have one format and zero point; those that differ pass a table first."""
        t = self.tensors[parts[0]]
        like = Elements(t.format, t.zero_point)
        same = [x if x == parts[0] or self.fits(x, t) else self.lookup(x, like) for x in parts]
        return self.put(Concat, tuple(same), like)

    def fits(self, x: str, t: Tensor) -> bool:
        other = self.tensors[x]
        return (other.format, other.zero_point) == (t.format, t.zero_point)
