"""Random small layers of every kind, in graphs; what they mean is in tests/networks/meaning.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
    MatMul,
    MaxPool,
    Multiply,
    Normalize,
    Rearrange,
    Recurrent,
    Requantize,
    RunningSum,
    Segments,
    Softmax,
    Tensor,
    TopK,
    Trees,
    WriteRow,
)
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import Rescale, Rounding, Thresholds
from hwflow.layers.window import Window
from tests.layers import recurrent_cases
from tests.layers.segment_cases import random_segments
from tests.networks.meaning import meaning

Rng = np.random.Generator

FORMATS = [BIPOLAR, *(IntFormat(bits, signed) for bits in range(1, 9) for signed in (True, False))]
NUMBERS = FORMATS[1:]


@dataclass(frozen=True)
class Case:
    """A graph of one layer."""

    graph: LayerGraph

    @property
    def layer(self) -> Layer:
        return self.graph.layers[0]

    def meaning(self, *frames: np.ndarray) -> np.ndarray:
        """What the layer makes of frames [h, w, c], one for each input."""
        known = dict(zip(self.graph.inputs, frames, strict=True))
        return meaning(self.graph, self.layer, *(known[name][None] for name in self.layer.inputs))[0]


def case(layer: Layer, inputs: dict[str, Tensor], y: IntFormat, zero_point: int = 0) -> Case:
    made = layer.output_frame(*(inputs[name].frame for name in layer.inputs))
    tensors = {**inputs, "y": Tensor("y", made, y, 0.25, zero_point)}
    return Case(LayerGraph("case", tensors, (layer,), tuple(inputs), ("y",)))


def pick(rng: Rng, formats: list[IntFormat]) -> IntFormat:
    """One of the formats; the bipolar one more often than others."""
    if formats[0].bipolar and rng.random() < 0.25:
        return formats[0]
    return formats[int(rng.integers(len(formats)))]


def tensor(rng: Rng, name: str, frame: Frame, format: IntFormat) -> Tensor:
    zero_point = 0 if format.bipolar else int(rng.integers(format.low, format.high + 1))
    return Tensor(name, frame, format, 0.5, zero_point)


def integers(rng: Rng, format: IntFormat, shape: tuple[int, ...]) -> np.ndarray:
    """Any integers of the format."""
    count = (format.high - format.low) // format.step + 1
    return format.low + format.step * rng.integers(0, count, shape)


def requantize(rng: Rng, channels: int, y: IntFormat, magnitude: int) -> Requantize:
    """Ratios that bring sums of `magnitude` into the range of `y`; ties and zero multipliers are among them."""
    bits = max(magnitude.bit_length() - y.bits, 0)
    fraction = int(rng.choice([0, 0, 1, 5]))
    wide = int(rng.choice([0, 4, 8, 14])) if magnitude < 1 << 20 else 0
    bits += wide
    return Requantize(
        bias=rng.integers(-magnitude // 4 - 1, magnitude // 4 + 2, channels) * 2**fraction // 3,
        multiplier=rng.choice([0, 1, 1, 3, 131071, (1 << 18 + wide) - 1, (1 << 17 + wide) + 1], channels),
        shift=rng.integers(bits, bits + 20, channels) + fraction,
        zero_point=int(rng.integers(y.low, y.high + 1)),
        low=int(rng.integers(y.low, (y.low + y.high) // 2 + 1)),
        high=y.high,
        fraction=fraction,
        rounding=list(Rounding)[int(rng.integers(len(Rounding)))],
    )


def rescale(rng: Rng, channels: int, y: IntFormat, magnitude: int) -> Rescale:
    """Either way from sums to elements of `y`."""
    if y.bipolar:
        return Thresholds(np.repeat(rng.integers(-magnitude, magnitude + 1, (channels, 1)), 2, axis=1), -1)
    if rng.integers(3):
        return requantize(rng, channels, y, magnitude)
    levels = int(rng.integers(0, y.high - y.low + 1))
    values = rng.integers(-magnitude, magnitude + 1, (channels, levels))
    values[:, : levels // 8] = -(2**40)  # below all that a sum can reach
    return Thresholds(np.sort(values, axis=1), y.low)


def conv(rng: Rng) -> Case:
    x, y, w = pick(rng, FORMATS), pick(rng, FORMATS), pick(rng, FORMATS)
    groups, depth, per_group = (int(n) for n in rng.integers(1, 4, 3))
    kernel, strides, dilations = ((int(n), int(m)) for n, m in rng.integers(1, 4, (3, 2)))
    pads = (0, 0, 0, 0) if x.bipolar else tuple(int(n) for n in rng.integers(0, 3, 4))
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(7, 10, 2)), groups * depth), x)
    weights = integers(rng, w, (groups * per_group, *kernel, depth))
    q = rescale(rng, len(weights), y, max(1, int(np.abs(weights).sum()) * max(-x.low, x.high) // 4))
    layer = Conv("conv", ("x",), "y", weights, w, x, q, strides, dilations, pads, groups)
    return case(layer, {"x": source}, y)


def dense(rng: Rng) -> Case:
    x, y, w = pick(rng, FORMATS), pick(rng, FORMATS), pick(rng, FORMATS)
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(1, 5, 3))), x)
    weights = integers(rng, w, (int(rng.integers(1, 7)), source.frame.elements))
    q = rescale(rng, len(weights), y, max(1, int(np.abs(weights).sum()) * max(-x.low, x.high) // 4))
    return case(Dense("dense", ("x",), "y", weights, w, x, q), {"x": source}, y)


def window(rng: Rng) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, ...]]:
    kernel, strides, dilations = ((int(n), int(m)) for n, m in rng.integers(1, 4, (3, 2)))
    return kernel, strides, dilations, tuple(int(rng.integers(0, k)) for k in (*kernel, *kernel))


def max_pool(rng: Rng) -> Case:
    x = pick(rng, FORMATS)
    kernel, strides, dilations, pads = window(rng)
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers((7, 7, 1), (10, 10, 4)))), x)
    layer = MaxPool("max", ("x",), "y", x, kernel, strides, dilations, pads, smallest=bool(rng.integers(2)))
    return case(layer, {"x": source}, x)


def average_pool(rng: Rng) -> Case:
    x, y = pick(rng, FORMATS), pick(rng, FORMATS)
    kernel, strides, dilations, pads = window(rng)
    pads = (0, 0, 0, 0) if x.bipolar else pads
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers((7, 7, 1), (10, 10, 4)))), x)
    magnitude = max(-x.low, x.high) * kernel[0] * kernel[1]
    if rng.random() < 0.4:
        return average_of_classes(rng, source, y, (kernel, strides, dilations, pads), magnitude)
    q = rescale(rng, source.frame.channels, y, magnitude)
    layer = AveragePool("mean", ("x",), "y", x, q, kernel, strides, pads, dilations)
    return case(layer, {"x": source}, y)


def average_of_classes(rng: Rng, x: Tensor, y: IntFormat, sizes, magnitude: int) -> Case:
    """Rows and columns of windows of any classes; padding adds nothing."""
    kernel, strides, dilations, pads = sizes
    counts = Window(kernel, strides, dilations, pads).positions(x.frame)
    many = tuple(int(n) for n in rng.integers(1, 4, 2))
    rows, columns = ((*rng.integers(0, n, count - 1).tolist(), n - 1) for n, count in zip(many, counts, strict=True))
    channels = x.frame.channels
    q = rescale(rng, many[0] * many[1] * channels, y, magnitude)
    layer = AveragePool("mean", ("x",), "y", x.format, q, kernel, strides, pads, dilations, rows, columns)
    return case(layer, {"x": x}, y)


def lookup(rng: Rng) -> Case:
    x, y = pick(rng, [*FORMATS, IntFormat(11, True), IntFormat(9, False)]), pick(rng, FORMATS)
    table = integers(rng, y, (1 << x.bits,))
    source = tensor(rng, "x", Frame(2, 5, 7), x)
    layer = Lookup("table", ("x",), "y", x, table)
    return case(layer, {"x": source}, y)


def segments(rng: Rng) -> Case:
    formats = [IntFormat(bits, signed) for bits in (9, 14, 16, 20, 32) for signed in (True, False)]
    x, y = pick(rng, [*NUMBERS, *formats]), pick(rng, [*NUMBERS, IntFormat(16, True), IntFormat(16, False)])
    octaves = True if x.bits > 16 else None
    source = tensor(rng, "x", Frame(2, 5, 7), x)
    return case(random_segments(rng, "segments", "x", "y", x, y, octaves), {"x": source}, y)


def embedding(rng: Rng) -> Case:
    y, bits, width = pick(rng, FORMATS), int(rng.integers(1, 7)), int(rng.integers(1, 9))
    x = IntFormat(bits, False)
    table = integers(rng, y, (1 << bits, width))
    source = Tensor("x", Frame(*(int(n) for n in rng.integers(1, 5, 3))), x, 1.0, 0)
    return case(Embedding("embedding", ("x",), "y", x, table), {"x": source}, y)


def operands(rng: Rng) -> dict[str, Tensor]:
    whole = Frame(*(int(n) for n in rng.integers((1, 1, 1), (5, 5, 7))))
    part = [whole, Frame(1, 1, whole.channels), Frame(1, 1, 1)][int(rng.integers(3))]
    frames = [whole, part] if rng.integers(2) else [part, whole]
    formats = [*FORMATS, IntFormat(13, False), IntFormat(16, True)]
    return {n: tensor(rng, n, frame, pick(rng, formats)) for n, frame in zip("ab", frames, strict=True)}


def factor(rng: Rng, bits: int) -> int:
    """18 or 26 significant bits, of any sign, at a place that leaves room for `bits` more in 63."""
    own = int(rng.choice([18, 26])) if bits < 30 else 18
    return int(rng.integers(-(2**own) + 1, 2**own)) << int(rng.integers(0, min(30, 63 - own - bits)))


def add(rng: Rng) -> Case:
    inputs, y = operands(rng), pick(rng, NUMBERS)
    bits = 2 + max(t.format.bits for t in inputs.values())
    m0, m1 = (factor(rng, bits) * int(rng.integers(4) > 0) for _ in "ab")
    shift, zero_point = int(rng.integers(0, 50)), int(rng.integers(y.low, y.high + 1))
    layer = Add("add", ("a", "b"), "y", (m0, m1), shift, zero_point, y.low, y.high)
    return case(layer, inputs, y)


def multiply(rng: Rng) -> Case:
    inputs, y = operands(rng), pick(rng, NUMBERS)
    m = factor(rng, 3 + sum(t.format.bits for t in inputs.values()))
    shift, zero_point = int(rng.integers(0, 50)), int(rng.integers(y.low, y.high + 1))
    layer = Multiply("gate", ("a", "b"), "y", m, shift, zero_point, y.low, y.high)
    return case(layer, inputs, y)


def concat(rng: Rng) -> Case:
    x = pick(rng, FORMATS)
    height, width, common = (int(n) for n in rng.integers(1, (5, 5, 4)))
    names = "abc"[: int(rng.integers(1, 4))]
    inputs = {n: Tensor(n, Frame(height, width, common * int(rng.integers(1, 4))), x, 0.25, 0) for n in names}
    layer = Concat("cat", (*inputs, "a"), "y")
    return case(layer, inputs, x)


def write_row(rng: Rng) -> Case:
    """As many rows as there are positions, in any number of blocks; the new row has its blocks as pixels, or none."""
    x, position = pick(rng, FORMATS), IntFormat(int(rng.integers(1, 4)), signed=False)
    blocks, width, rows = int(rng.integers(1, 4)), int(rng.integers(1, 7)), position.high + 1
    new = Frame(1, blocks, width) if rng.integers(2) else Frame(1, 1, blocks * width)
    old = Frame(1, blocks * rows, width) if rng.integers(2) else Frame(rows, blocks, width)
    inputs = {"x": Tensor("x", old, x, 0.25, 0), "row": Tensor("row", new, x, 0.25, 0),
              "position": Tensor("position", Frame(1, 1, 1), position, 1.0, 0)}
    return case(WriteRow("write", ("x", "row", "position"), "y", blocks, rows), inputs, x)


def table(rng: Rng, highest: int) -> np.ndarray:
    """Any offsets up to `highest`, some of them padding, in any order."""
    found = rng.integers(0, highest + 1, int(rng.integers(1, 6)))
    return np.where(rng.random(len(found)) < 0.2, -1, found)


def rearrange(rng: Rng) -> Case:
    x = pick(rng, [*FORMATS, IntFormat(32, True), IntFormat(32, False)])
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(1, 5, 3))), x)
    last = source.frame.elements - 1
    cuts = sorted(int(n) for n in rng.integers(0, last + 1, 2))
    rows, columns, channels = (table(rng, n) for n in (cuts[0], cuts[1] - cuts[0], last - cuts[1]))
    padding = int(integers(rng, x, ()))
    layer = Rearrange("move", ("x",), "y", x, rows, columns, channels, padding)
    y = Tensor("y", layer.output_frame(source.frame), x, source.scale, source.zero_point)
    graph = LayerGraph("case", {"x": source, "y": y}, (layer,), ("x",), ("y",))
    return Case(graph)


def between(rng: Rng, size: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Any places between any neighbours of an axis, in any order; where it has one entry, and one in four times,
    entries alone."""
    total = 1 if size == 1 or rng.random() < 0.25 else int(rng.choice([2, 4, 7, 31, 64, 640]))
    count = int(rng.integers(1, 8))
    places = rng.integers(0, size if total == 1 else size - 1, count)
    if rng.random() < 0.7:
        places = np.sort(places)
    return places, rng.integers(0, total + 1 if total > 1 else 1, count), total


def interpolate(rng: Rng) -> Case:
    x, y = pick(rng, FORMATS), pick(rng, FORMATS)
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(1, (6, 6, 7)))), x)
    rows, columns = between(rng, source.frame.height), between(rng, source.frame.width)
    q = rescale(rng, source.frame.channels, y, max(-x.low, x.high) * rows[2] * columns[2])
    layer = Interpolate("resize", ("x",), "y", x, q, *rows, *columns)
    return case(layer, {"x": source}, y)


def running_sum(rng: Rng) -> Case:
    x = pick(rng, [BIPOLAR, IntFormat(1, False), IntFormat(4, True), IntFormat(8, True), IntFormat(8, False)])
    frame = Frame(*(int(n) for n in rng.integers(1, (3, 3, 25))))
    source, exclusive = tensor(rng, "x", frame, x), bool(rng.integers(2))
    layer = RunningSum("sums", ("x",), "y", x, exclusive)
    return case(layer, {"x": source}, RunningSum.sums_of(source))


def top_k(rng: Rng) -> Case:
    """Few values, so that many are equal."""
    x = pick(rng, [BIPOLAR, IntFormat(1, False), IntFormat(2, True), IntFormat(3, False), IntFormat(8, True)])
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(1, (3, 3, 20)))), x)
    channels = source.frame.channels
    k, (largest, gives_indices, last) = int(rng.integers(1, channels + 1)), rng.integers(0, 2, 3).astype(bool).tolist()
    y = IntFormat(int(rng.integers(6, 9)), bool(rng.integers(2))) if gives_indices else x
    layer = TopK("best", ("x",), "y", x, k, largest, gives_indices, last)
    return case(layer, {"x": source}, y)


def matmul(rng: Rng) -> Case:
    """Heads side by side or one after the other, the second operand in any order, constants for all or each place."""
    heads, rows, depth, columns = (int(n) for n in rng.integers(1, (4, 5, 7, 7)))
    interleaved = bool(rng.integers(2))
    order = str(rng.choice(["hnk", "hkn", "nhk", "khn"] if interleaved else ["hnk", "hkn"]))
    frames = [Frame(heads, rows, depth), Frame(1, heads * depth, columns)]
    inputs = {n: tensor(rng, n, frame, pick(rng, FORMATS)) for n, frame in zip("ab", frames, strict=True)}
    y = pick(rng, FORMATS)
    ends = [max(abs(t.format.low - t.zero_point), abs(t.format.high - t.zero_point)) for t in inputs.values()]
    places = rng.random() < 0.3
    q = rescale(rng, rows * columns if places else 1, y, max(1, depth * ends[0] * ends[1] // 4))
    made = Frame(rows, heads, columns) if interleaved else Frame(1, heads * rows, columns)
    layer = MatMul("product", ("a", "b"), "y", heads, rows, depth, columns, interleaved, order, made, q)
    return case(layer, inputs, y)


def rows_of(rng: Rng, formats: list[IntFormat]) -> tuple[Tensor, int]:
    """Few rows of up to 20 elements, most often the channels of a pixel, and their length.

    The scale is from where nothing differs to where only the largest counts.
    """
    frame = Frame(*(int(n) for n in rng.integers((1, 1, 1), (3, 4, 21))))
    x = tensor(rng, "x", frame, formats[int(rng.integers(len(formats)))])
    count = frame.channels if rng.random() < 0.7 else divisor(rng, frame.elements)
    return replace(x, scale=float(2.0 ** rng.uniform(-x.format.bits - 2, 3))), count


def divisor(rng: Rng, count: int) -> int:
    return int(rng.choice([n for n in range(1, count + 1) if count % n == 0]))


def softmax(rng: Rng) -> Case:
    x, count = rows_of(rng, [*NUMBERS[2:], IntFormat(11, True), IntFormat(12, False)])
    y = pick(rng, NUMBERS)
    scale, zero_point = float(2.0 ** -rng.uniform(1, y.bits + 1)), int(rng.integers(y.low, y.high + 1))
    layer = Softmax.of("softmax", x, Tensor("y", x.frame, y, scale, zero_point), count)
    return case(layer, {"x": x}, y, zero_point)


def normalize(rng: Rng) -> Case:
    x, count = rows_of(rng, [*NUMBERS[2:], IntFormat(12, True), IntFormat(16, True)])
    y = pick(rng, NUMBERS)
    shape = (int(rng.choice([1, x.frame.elements // count])), divisor(rng, count))
    centred, mean = (bool(n) for n in rng.integers(0, 2, 2))
    gamma, beta = rng.normal(size=shape) * rng.integers(0, 2, shape), rng.normal(size=shape)
    zero_point = int(rng.integers(y.low, y.high + 1))
    layer = Normalize.of(
        "norm", x, Tensor("y", x.frame, y, float(2.0 ** -rng.uniform(0, y.bits)), zero_point), centred=centred,
        mean=centred or mean, epsilon=float(rng.choice([0.0, 1e-9, 1e-5, 1e-3, 1.0])), gamma=gamma, beta=beta,
        elements=count)
    return case(layer, {"x": x}, y, zero_point)


def recurrent(rng: Rng) -> Case:
    y = pick(rng, NUMBERS)
    layer = recurrent_cases.random_layer(rng, y=y)
    x = tensor(rng, "x", Frame(1, int(rng.integers(1, 5)), len(layer.hidden_weights)), layer.input_format)
    return case(layer, {"x": x}, y)


def trees(rng: Rng) -> Case:
    """Any trees, some of them a single node; thresholds that no element reaches, and that all do."""
    x = pick(rng, NUMBERS)
    source = tensor(rng, "x", Frame(*(int(n) for n in rng.integers(1, (3, 3, 9)))), x)
    targets, aggregate = int(rng.integers(1, 5)), ("sum", "sum", "min", "max")[int(rng.integers(4))]
    nodes: list[list[int]] = []
    roots, leaves = [], 0

    def grown(depth: int, root: bool = False) -> int:
        nonlocal leaves
        if depth == 0 or (not root and rng.random() < 0.3):
            leaves += 1
            return -leaves
        own = len(nodes)
        nodes.append([])
        nodes[own] = [int(rng.integers(source.frame.channels)), int(rng.integers(x.low - 1, x.high + 3)),
                      int(rng.random() < 0.2), grown(depth - 1), grown(depth - 1)]
        return own

    for _ in range(int(rng.integers(1, 15))):
        roots.append(grown(int(rng.integers(1, 5)), root=True))
    features, thresholds, equal, fails, holds = np.array(nodes).T
    votes = rng.integers(-100, 101, (leaves, targets))
    layer = Trees("trees", ("x",), "y", x, features, thresholds, equal, np.stack([fails, holds], axis=1),
                  np.array(roots), votes, aggregate)
    y = IntFormat.covering(int(min(layer.ends.min(), votes.min())), int(max(layer.ends.max(), votes.max(), 0)))
    return case(layer, {"x": source}, y)


CASES: dict[type[Layer], Callable[[Rng], Case]] = {
    Conv: conv, Dense: dense, MaxPool: max_pool, AveragePool: average_pool, Lookup: lookup, Segments: segments,
    Embedding: embedding, Add: add,
    Multiply: multiply, Concat: concat, Rearrange: rearrange, TopK: top_k, RunningSum: running_sum, MatMul: matmul,
    Softmax: softmax, Normalize: normalize,
    Recurrent: recurrent, Trees: trees, WriteRow: write_row, Interpolate: interpolate}  # fmt: skip
