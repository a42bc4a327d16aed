"""Small random networks of one operator each, in every width that TensorFlow Lite has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hwflow.onnx.model import Array
from hwflow.onnx.tflite.schema import DTYPES
from tests.tflite.writer import Maker

FLOAT, INT8, UINT8, INT16 = "FLOAT32", "INT8", "UINT8", "INT16"
#: The widths that most operators have.
EIGHT = (FLOAT, INT8, UINT8)
ALL = (FLOAT, INT8, UINT8, INT16)
SIGNED = (FLOAT, INT8, INT16)


@dataclass
class Case:
    """A network that is made; `m` grows, `inputs` and `outputs` are its tensors."""

    rng: np.random.Generator
    width: str
    m: Maker = field(default_factory=Maker)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def scaled(self, name: str, shape: Sequence[int], span: float = 4.0, *, like: int | None = None,
               fixed: tuple[float, int] | None = None) -> int:
        """An activation of the case's width whose numbers are about -span to span."""
        if self.width == FLOAT:
            return self.m.tensor(name, shape, FLOAT)
        info = np.iinfo(DTYPES[self.width])
        middle = (int(info.min) + int(info.max) + 1) // 2
        zero = 0 if self.width == INT16 else middle + int(self.rng.integers(-20, 21))
        scale = 2 * span / (int(info.max) - int(info.min)) * float(self.rng.uniform(0.8, 1.2))
        if like is not None:
            quantization = self.m.tensors[like][4]
            scale, zero = float(quantization[2][0]), int(quantization[3][0])
        if fixed is not None:
            scale, zero = fixed
        return self.m.tensor(name, shape, self.width, scale=scale, zero=zero)

    def input(self, shape: Sequence[int], span: float = 4.0, *, like: int | None = None) -> int:
        index = self.scaled(f"x{len(self.inputs)}", shape, span, like=like)
        self.inputs.append(index)
        return index

    def output(self, shape: Sequence[int], span: float = 4.0, *, like: int | None = None,
               fixed: tuple[float, int] | None = None) -> int:
        index = self.scaled(f"y{len(self.outputs)}", shape, span, like=like, fixed=fixed)
        self.outputs.append(index)
        return index

    def moved(self, shape: Sequence[int]) -> int:
        """An output with the scale of the first input."""
        return self.output(shape, like=self.inputs[0] if self.width != FLOAT else None)

    def ints(self, values: Any, name: str = "numbers") -> int:
        array = np.array(values, np.int32)
        return self.m.tensor(f"{name}{len(self.m.tensors)}", array.shape, "INT32", array)

    def weights(self, shape: Sequence[int], axis: int) -> int:
        """Constant weights: per channel where they are int8."""
        if self.width == FLOAT:
            return self.m.tensor("w", shape, FLOAT, self.rng.normal(0, 0.4, shape))
        if self.width == UINT8:
            values = self.rng.integers(0, 256, shape)
            return self.m.tensor("w", shape, UINT8, values, scale=0.01, zero=int(self.rng.integers(100, 150)))
        return self.m.tensor("w", shape, INT8, self.rng.integers(-127, 128, shape),
                             scale=self.rng.uniform(0.005, 0.015, shape[axis]), axis=axis)

    def bias(self, count: int, x: int, w: int) -> int:
        if self.width == FLOAT:
            return self.m.tensor("b", [count], FLOAT, self.rng.normal(0, 1, count))
        scale = self.m.tensors[x][4][2][0] * self.m.tensors[w][4][2]
        wide = self.width == INT16
        values = np.round(self.rng.normal(0, 1, count) / np.broadcast_to(scale, [count]))
        return self.m.tensor("b", [count], "INT64" if wide else "INT32", values, scale=scale)

    def operator(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "",
                 **options: Any) -> None:
        self.m.operator(kind, inputs, outputs, table, options)

    def file(self) -> bytes:
        return self.m.file(self.inputs, self.outputs)

    def row(self) -> list[Array]:
        """Random inputs."""
        found = []
        for index in self.inputs:
            fields = self.m.tensors[index]
            type_ = [name for k, name in enumerate(TYPE_NAMES) if k == fields[1][1]][0]
            dtype, shape = DTYPES[type_], tuple(fields[0].tolist())
            if dtype.kind == "f":
                found.append(self.rng.uniform(-4, 4, shape).astype(dtype))
            else:
                info = np.iinfo(dtype)
                found.append(self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype))
        return found


TYPE_NAMES = ("FLOAT32", "FLOAT16", "INT32", "UINT8", "INT64", "STRING", "BOOL", "INT16", "COMPLEX64", "INT8")

Making = Callable[[Case], None]


@dataclass(frozen=True)
class Kind:
    """How to make networks of an operator, and in which widths."""

    make: Making
    widths: tuple[str, ...]


def size(c: Case, low: int = 3, high: int = 8) -> int:
    return int(c.rng.integers(low, high + 1))


def pick(c: Case, *values: Any) -> Any:
    return values[int(c.rng.integers(len(values)))]


def window(c: Case) -> tuple[dict[str, int], Callable[[int, int, int, int], int]]:
    """Strides and padding, and how large the output is for (size, kernel, stride, dilation)."""
    same = bool(c.rng.integers(2))
    options = {"padding": 0 if same else 1, "stride_w": pick(c, 1, 2), "stride_h": pick(c, 1, 2)}

    def out(n: int, kernel: int, stride: int, dilation: int = 1) -> int:
        wide = dilation * (kernel - 1) + 1
        return -(-n // stride) if same else (n - wide) // stride + 1

    return options, out


def conv_2d(c: Case) -> None:
    h, w, ci, co, kh, kw = size(c, 5), size(c, 5), size(c, 1, 6), size(c, 1, 6), size(c, 1, 3), size(c, 1, 3)
    options, out = window(c)
    dilation = pick(c, 1, 2) if options["stride_w"] == options["stride_h"] == 1 and kh == kw else 1
    x = c.input([1, h, w, ci])
    weights = c.weights([co, kh, kw, ci], 0)
    y = c.output([1, out(h, kh, options["stride_h"], dilation), out(w, kw, options["stride_w"], dilation), co], 8.0)
    c.operator("CONV_2D", [x, weights, c.bias(co, x, weights)], [y], "Conv2DOptions", **options, dilation_w=dilation,
               dilation_h=dilation, activation=pick(c, 0, 1, 3))


def depthwise_conv_2d(c: Case) -> None:
    h, w, ci, mult, kh, kw = size(c, 5), size(c, 5), size(c, 1, 5), pick(c, 1, 1, 2), size(c, 1, 3), size(c, 1, 3)
    options, out = window(c)
    options["stride_h"] = options["stride_w"]
    x = c.input([1, h, w, ci])
    weights = c.weights([1, kh, kw, ci * mult], 3)
    stride = options["stride_w"]
    y = c.output([1, out(h, kh, stride, 1), out(w, kw, stride, 1), ci * mult], 6.0)
    c.operator("DEPTHWISE_CONV_2D", [x, weights, c.bias(ci * mult, x, weights)], [y], "DepthwiseConv2DOptions",
               **options, multiplier=mult, dilation_w=1, dilation_h=1, activation=pick(c, 0, 1, 3))


def fully_connected(c: Case) -> None:
    rows, ins, outs = pick(c, 1, 1, 3), size(c, 4, 12), size(c, 1, 6)
    x = c.input([rows, ins])
    weights = c.weights([outs, ins], 0)
    if c.width == INT8 and c.rng.integers(2):  # of a whole tensor, as before TensorFlow 2.17
        c.m.tensors[weights][4] = {2: np.array([0.01], np.float32), 3: np.array([0]), 6: ("i", 0)}
    y = c.output([rows, outs], 8.0)
    c.operator("FULLY_CONNECTED", [x, weights, c.bias(outs, x, weights)], [y], "FullyConnectedOptions",
               activation=pick(c, 0, 1, 3))


def pool(kind: str) -> Making:
    def make(c: Case) -> None:
        h, w, ch, kh, kw = size(c, 5), size(c, 5), size(c, 1, 5), size(c, 1, 3), size(c, 1, 3)
        options, out = window(c)
        x = c.input([1, h, w, ch])
        y = c.moved([1, out(h, kh, options["stride_h"], 1), out(w, kw, options["stride_w"], 1), ch])
        c.operator(kind, [x], [y], "Pool2DOptions", **options, filter_w=kw, filter_h=kh, activation=pick(c, 0, 1))
    return make


def transpose_conv(c: Case) -> None:
    h, w, ci, co, k = size(c), size(c), size(c, 1, 4), size(c, 1, 4), size(c, 2, 4)
    stride, same = pick(c, 1, 2), bool(c.rng.integers(2))
    oh, ow = (n * stride if same else (n - 1) * stride + k for n in (h, w))
    x = c.input([1, h, w, ci])
    weights = c.weights([co, k, k, ci], 0)
    y = c.output([1, oh, ow, co], 8.0)
    c.operator("TRANSPOSE_CONV", [c.ints([1, oh, ow, co]), weights, x], [y], "TransposeConvOptions",
               padding=0 if same else 1, stride_w=stride, stride_h=stride)


BINARY_OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def binary(kind: str, span: float = 8.0, *, same_scale: bool = False) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c), size(c, 1, 4)]
        other = pick(c, shape, shape, [shape[-1]], [1, 1, 1, shape[-1]], [1, shape[1], 1, 1])
        x = c.input(shape)
        like = x if same_scale and c.width != FLOAT else None
        z = c.input(other, like=like)
        y = c.output(shape, span, like=like)
        table = BINARY_OPTIONS.get(kind, "")
        if c.width == INT16 and kind in ("ADD", "SUB"):
            c.operator(kind, [x, z], [y], table, pot_scale=False)
        else:
            c.operator(kind, [x, z], [y], table, **({"activation": pick(c, 0, 1, 3)} if table else {}))
    return make


def unary(kind: str, span: float = 4.0, *, fixed: Mapping[str, tuple[float, int]] | None = None, same: bool = False,
          table: str = "", **options: Any) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c), size(c, 1, 4)] if c.rng.integers(2) else [1, size(c, 3, 20)]
        x = c.input(shape)
        y = c.moved(shape) if same else c.output(shape, span, fixed=(fixed or {}).get(c.width))
        c.operator(kind, [x], [y], table, **options)
    return make


#: Scales of results that the kernels demand.
UNIT = {INT8: (1 / 256, -128), UINT8: (1 / 256, 0), INT16: (1 / 32768, 0)}
SYMMETRIC = {INT8: (1 / 128, 0), UINT8: (1 / 128, 128), INT16: (1 / 32768, 0)}
LOGS = {INT8: (16 / 256, 127), UINT8: (16 / 256, 255)}


def prelu(c: Case) -> None:
    shape = [1, size(c), size(c), size(c, 1, 4)]
    x = c.input(shape)
    slope = c.weights([1, 1, shape[3]], 2)
    if c.width != FLOAT:
        c.m.tensors[slope][4] = {2: np.array([0.01], np.float32), 3: c.m.tensors[slope][4][3][:1], 6: ("i", 0)}
    c.operator("PRELU", [x, slope], [c.output(shape)])


def concatenation(c: Case) -> None:
    count, axis = size(c, 2, 4), pick(c, 1, 2, 3, -1)
    shape, xs = [1, size(c), size(c), size(c, 1, 4)], []
    total = 0
    for _ in range(count):
        part = [*shape]
        part[axis] = size(c, 1, 4)
        total += part[axis]
        xs.append(c.input(part, like=xs[0] if xs and c.width != FLOAT else None))
    shape[axis] = total
    c.operator("CONCATENATION", xs, [c.moved(shape)], "ConcatenationOptions", axis=axis)


def split(c: Case) -> None:
    count, axis = size(c, 2, 3), pick(c, 1, 2, 3)
    shape = [1, size(c), size(c), size(c, 1, 4)]
    part = [*shape]
    shape[axis] = part[axis] * count
    x = c.input(shape)
    c.operator("SPLIT", [c.ints(axis), x], [c.moved(part) for _ in range(count)], "SplitOptions", count=count)


def split_v(c: Case) -> None:
    axis = pick(c, 1, 2, 3)
    shape, sizes = [1, size(c), size(c), size(c, 1, 4)], [size(c, 1, 3) for _ in range(3)]
    shape[axis] = sum(sizes)
    x = c.input(shape)
    parts = [[*shape[:axis], n, *shape[axis + 1 :]] for n in sizes]
    stated = [*sizes[:2], -1] if c.rng.integers(2) else sizes
    c.operator("SPLIT_V", [x, c.ints(stated), c.ints(axis)], [c.moved(part) for part in parts], "SplitVOptions", count=3)


def strided_slice(c: Case) -> None:
    shape = [1, size(c), size(c), size(c, 2, 5)]
    masks = {name: int(c.rng.integers(16)) for name in ("begin_mask", "end_mask")}
    masks |= {name: int(c.rng.integers(16)) if c.rng.integers(3) == 0 else 0 for name in ("shrink_axis_mask",)}
    begins = [int(c.rng.integers(-n, n)) for n in shape]
    steps = [pick(c, 1, 1, 2, -1) for _ in shape]
    ends = [int(c.rng.integers(-n - 1, n + 2)) for n in shape]
    kept, entries = [], []
    for k in range(4):
        if masks["shrink_axis_mask"] >> k & 1:
            steps[k] = 1
            entries.append(begins[k])
            continue
        entry = slice(None if masks["begin_mask"] >> k & 1 else begins[k],
                      None if masks["end_mask"] >> k & 1 else ends[k], steps[k])
        if not len(range(shape[k])[entry]):
            masks["begin_mask"] |= 1 << k
            masks["end_mask"] |= 1 << k
            entry = slice(None, None, steps[k])
        entries.append(entry)
        kept.append(len(range(shape[k])[entry]))
    x = c.input(shape)
    c.operator("STRIDED_SLICE", [x, c.ints(begins), c.ints(ends), c.ints(steps)], [c.moved(kept)],
               "StridedSliceOptions", **masks)


def slice_(c: Case) -> None:
    shape = [1, size(c), size(c), size(c, 1, 4)]
    begins = [int(c.rng.integers(n)) for n in shape]
    sizes = [int(c.rng.integers(1, n - b + 1)) for n, b in zip(shape, begins, strict=True)]
    stated = [-1 if b + n == s and c.rng.integers(2) else n for n, b, s in zip(sizes, begins, shape, strict=True)]
    x = c.input(shape)
    c.operator("SLICE", [x, c.ints(begins), c.ints(stated)], [c.moved(sizes)])


def pad(kind: str) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c), size(c, 2, 4)]
        pairs = [[0, 0], *([int(c.rng.integers(2)), int(c.rng.integers(3 if n > 2 else 2))] for n in shape[1:])]
        x = c.input(shape)
        inputs, options = [x, c.ints(pairs)], {}
        if kind == "PADV2":
            value = c.scaled("value", [1])
            fields = c.m.tensors[value]
            if c.width != FLOAT:
                fields[4] = c.m.tensors[x][4]
            stored = np.array([3], DTYPES[c.width])
            fields[2] = ("I", len(c.m.buffers))
            c.m.buffers.append({0: np.frombuffer(stored.tobytes(), np.uint8)})
            inputs.append(value)
        if kind == "MIRROR_PAD":
            options = {"mode": pick(c, 0, 1)}
        y = c.moved([n + a + b for n, (a, b) in zip(shape, pairs, strict=True)])
        c.operator(kind, inputs, [y], "MirrorPadOptions" if options else "", **options)
    return make


def reshape(c: Case) -> None:
    shape = [1, size(c), size(c), size(c, 1, 4)]
    x = c.input(shape)
    c.operator("RESHAPE", [x, c.ints([1, shape[1], -1])], [c.moved([1, shape[1], shape[2] * shape[3]])])


def squeeze(c: Case) -> None:
    shape = [1, size(c), 1, size(c)]
    x = c.input(shape)
    c.operator("SQUEEZE", [x], [c.moved([1, shape[1], shape[3]])], "SqueezeOptions", dims=[2])


def expand_dims(c: Case) -> None:
    n, k = size(c), size(c)
    x = c.input([1, n, k])
    axis = pick(c, 1, 2, -1)
    shape = [1, n, k]
    shape.insert(axis % 4, 1)
    c.operator("EXPAND_DIMS", [x, c.ints(axis)], [c.moved(shape)])


def transpose(c: Case) -> None:
    shape, order = [1, size(c), size(c), size(c)], [0, *(1 + c.rng.permutation(3)).tolist()]
    x = c.input(shape)
    c.operator("TRANSPOSE", [x, c.ints(order)], [c.moved([shape[k] for k in order])])


def reduction(kind: str) -> Making:
    def make(c: Case) -> None:
        shape, axes = [1, size(c), size(c), size(c, 2, 5)], pick(c, [1, 2], [3], [1], [2, 3], [-1])
        keep = bool(c.rng.integers(2))
        gone = {axis % 4 for axis in axes}
        result = [1 if k in gone else n for k, n in enumerate(shape) if keep or k not in gone]
        x = c.input(shape)
        same = kind in ("REDUCE_MAX", "REDUCE_MIN")
        y = c.moved(result) if same else c.output(result, 4.0 if kind == "MEAN" else 30.0)
        c.operator(kind, [x, c.ints(axes)], [y], "ReducerOptions", keep_dims=keep)
    return make


def resize(kind: str) -> Making:
    def make(c: Case) -> None:
        shape, target = [1, size(c), size(c), size(c, 1, 3)], [size(c, 2, 12), size(c, 2, 12)]
        corners = bool(c.rng.integers(2))
        x = c.input(shape)
        table = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
        c.operator(kind, [x, c.ints(target)], [c.moved([1, *target, shape[3]])], table, align_corners=corners,
                   half_pixel=not corners and bool(c.rng.integers(2)))
    return make


def gather(c: Case) -> None:
    shape, axis, count = [1, size(c), size(c)], pick(c, 1, 2), size(c, 1, 5)
    x = c.input(shape)
    places = c.ints(c.rng.integers(0, shape[axis], count))
    shape[axis] = count
    c.operator("GATHER", [x, places], [c.moved(shape)], "GatherOptions", axis=axis)


def gather_nd(c: Case) -> None:
    shape, count = [size(c), size(c), size(c)], size(c, 1, 4)
    x = c.input(shape)
    places = c.ints(np.stack([c.rng.integers(0, n, count) for n in shape[:2]], axis=1))
    c.operator("GATHER_ND", [x, places], [c.moved([count, shape[2]])])


def arg(kind: str) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c)]
        x = c.input(shape)
        y = c.m.tensor("y", shape[:2], "INT32")
        c.outputs.append(y)
        c.operator(kind, [x, c.ints(pick(c, 2, -1))], [y], "ArgMaxOptions" if kind == "ARG_MAX" else "ArgMinOptions",
                   type=2)
    return make


def pack(c: Case) -> None:
    shape, axis = [1, size(c), size(c)], pick(c, 1, 2, 3, -1)
    x = c.input(shape)
    z = c.input(shape, like=x if c.width != FLOAT else None)
    result = [*shape]
    result.insert(axis % 4, 2)
    c.operator("PACK", [x, z], [c.moved(result)], "PackOptions", count=2, axis=axis)


def unpack(c: Case) -> None:
    shape, axis = [1, size(c, 2, 3), size(c, 2, 3)], pick(c, 1, 2, -1)
    x = c.input(shape)
    part = [n for k, n in enumerate(shape) if k != axis % 3]
    outputs = [c.moved(part) for _ in range(shape[axis])]
    c.operator("UNPACK", [x], outputs, "UnpackOptions", count=shape[axis], axis=axis)


def batch_matmul(c: Case) -> None:
    rows, inner, columns = size(c), size(c), size(c)
    turned = bool(c.rng.integers(2))
    x, z = c.input([1, rows, inner], 2.0), c.input([1, columns, inner] if turned else [1, inner, columns], 2.0)
    c.operator("BATCH_MATMUL", [x, z], [c.output([1, rows, columns], 12.0)], "BatchMatMulOptions", adjoint_x=False,
               adjoint_y=turned)


def tile(c: Case) -> None:
    shape, counts = [1, size(c), size(c, 1, 4)], [1, pick(c, 1, 2), pick(c, 1, 3)]
    x = c.input(shape)
    c.operator("TILE", [x, c.ints(counts)], [c.moved([n * k for n, k in zip(shape, counts, strict=True)])])


def blocks(kind: str) -> Making:
    def make(c: Case) -> None:
        h, w, ch, block = size(c, 1, 4), size(c, 1, 4), size(c, 1, 3), pick(c, 2, 3)
        large, small = [1, h * block, w * block, ch], [1, h, w, ch * block * block]
        to_depth = kind == "SPACE_TO_DEPTH"
        x = c.input(large if to_depth else small)
        c.operator(kind, [x], [c.moved(small if to_depth else large)],
                   "SpaceToDepthOptions" if to_depth else "DepthToSpaceOptions", block=block)
    return make


def comparison(kind: str) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c)]
        x, z = c.input(shape), c.input(shape)
        y = c.m.tensor("y", shape, "BOOL")
        c.outputs.append(y)
        c.operator(kind, [x, z], [y])
    return make


def select(kind: str) -> Making:
    def make(c: Case) -> None:
        shape = [1, size(c), size(c)]
        x = c.input(shape)
        z = c.input(shape, like=x if c.width != FLOAT else None)
        condition = c.m.tensor("which", shape, "BOOL", c.rng.integers(0, 2, shape))
        c.operator(kind, [condition, x, z], [c.moved(shape)])
    return make


def requantize(c: Case) -> None:
    shape = [1, size(c), size(c)]
    c.operator("QUANTIZE", [c.input(shape)], [c.output(shape, 5.0)])


def dequantize(c: Case) -> None:
    shape = [1, size(c), size(c)]
    y = c.m.tensor("y", shape, FLOAT)
    c.outputs.append(y)
    c.operator("DEQUANTIZE", [c.input(shape)], [y])


def cast(c: Case) -> None:
    shape = [1, size(c), size(c)]
    y = c.m.tensor("y", shape, "INT32")
    c.outputs.append(y)
    c.operator("CAST", [c.input(shape)], [y], "CastOptions", source=0, target=2)


KINDS: dict[str, Kind] = {
    "CONV_2D": Kind(conv_2d, ALL), "DEPTHWISE_CONV_2D": Kind(depthwise_conv_2d, ALL),
    "FULLY_CONNECTED": Kind(fully_connected, ALL), "TRANSPOSE_CONV": Kind(transpose_conv, ALL),
    "MAX_POOL_2D": Kind(pool("MAX_POOL_2D"), ALL), "AVERAGE_POOL_2D": Kind(pool("AVERAGE_POOL_2D"), ALL),
    "L2_POOL_2D": Kind(pool("L2_POOL_2D"), (FLOAT,)), "BATCH_MATMUL": Kind(batch_matmul, SIGNED),
    "ADD": Kind(binary("ADD"), ALL), "SUB": Kind(binary("SUB"), ALL), "MUL": Kind(binary("MUL", 16.0), ALL),
    "DIV": Kind(binary("DIV"), (FLOAT,)), "MINIMUM": Kind(binary("MINIMUM", same_scale=True), ALL),
    "MAXIMUM": Kind(binary("MAXIMUM", same_scale=True), ALL),
    "SQUARED_DIFFERENCE": Kind(binary("SQUARED_DIFFERENCE", 16.0), (FLOAT, INT8)),
    "POW": Kind(binary("POW"), ()),
    **{kind: Kind(unary(kind), (FLOAT,)) for kind in ("NEG", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SQUARE", "SIGN")},
    "ABS": Kind(unary("ABS"), SIGNED), "EXP": Kind(unary("EXP", 16.0), SIGNED),
    "ELU": Kind(unary("ELU"), (FLOAT, INT8)), "HARD_SWISH": Kind(unary("HARD_SWISH"), EIGHT),
    "GELU": Kind(unary("GELU", table="GeluOptions", approximate=False), (FLOAT, INT8, UINT8)),
    "RELU": Kind(unary("RELU"), ALL), "RELU6": Kind(unary("RELU6"), EIGHT),
    "RELU_N1_TO_1": Kind(unary("RELU_N1_TO_1"), EIGHT), "RELU_0_TO_1": Kind(unary("RELU_0_TO_1"), EIGHT),
    "LEAKY_RELU": Kind(unary("LEAKY_RELU", table="LeakyReluOptions", alpha=0.1), ALL), "PRELU": Kind(prelu, EIGHT),
    "LOGISTIC": Kind(unary("LOGISTIC", fixed=UNIT), ALL), "TANH": Kind(unary("TANH", fixed=SYMMETRIC), ALL),
    "SOFTMAX": Kind(unary("SOFTMAX", fixed=UNIT, table="SoftmaxOptions", beta=1.0), ALL),
    "LOG_SOFTMAX": Kind(unary("LOG_SOFTMAX", fixed=LOGS), EIGHT),
    "L2_NORMALIZATION": Kind(unary("L2_NORMALIZATION", fixed=SYMMETRIC, table="L2NormOptions"), EIGHT),
    "CONCATENATION": Kind(concatenation, ALL), "SPLIT": Kind(split, ALL), "SPLIT_V": Kind(split_v, ALL),
    "STRIDED_SLICE": Kind(strided_slice, ALL), "SLICE": Kind(slice_, ALL), "PAD": Kind(pad("PAD"), ALL),
    "PADV2": Kind(pad("PADV2"), EIGHT), "MIRROR_PAD": Kind(pad("MIRROR_PAD"), EIGHT),
    "RESHAPE": Kind(reshape, ALL), "SQUEEZE": Kind(squeeze, ALL), "EXPAND_DIMS": Kind(expand_dims, ALL),
    "TRANSPOSE": Kind(transpose, ALL), "MEAN": Kind(reduction("MEAN"), ALL), "SUM": Kind(reduction("SUM"), SIGNED),
    "REDUCE_MAX": Kind(reduction("REDUCE_MAX"), ALL), "REDUCE_MIN": Kind(reduction("REDUCE_MIN"), ALL),
    "REDUCE_PROD": Kind(reduction("REDUCE_PROD"), (FLOAT,)),
    "RESIZE_BILINEAR": Kind(resize("RESIZE_BILINEAR"), EIGHT),
    "RESIZE_NEAREST_NEIGHBOR": Kind(resize("RESIZE_NEAREST_NEIGHBOR"), EIGHT),
    "GATHER": Kind(gather, ALL), "GATHER_ND": Kind(gather_nd, SIGNED), "ARG_MAX": Kind(arg("ARG_MAX"), EIGHT),
    "ARG_MIN": Kind(arg("ARG_MIN"), EIGHT), "PACK": Kind(pack, ALL), "UNPACK": Kind(unpack, EIGHT),
    "TILE": Kind(tile, (FLOAT, INT8)), "SPACE_TO_DEPTH": Kind(blocks("SPACE_TO_DEPTH"), EIGHT),
    "DEPTH_TO_SPACE": Kind(blocks("DEPTH_TO_SPACE"), EIGHT),
    **{kind: Kind(comparison(kind), EIGHT) for kind in ("LESS", "GREATER", "EQUAL", "GREATER_EQUAL", "LESS_EQUAL",
                                                        "NOT_EQUAL")},
    "SELECT": Kind(select("SELECT"), (FLOAT, INT8)), "SELECT_V2": Kind(select("SELECT_V2"), (FLOAT, INT8)),
    "QUANTIZE": Kind(requantize, (INT8, UINT8, INT16)), "DEQUANTIZE": Kind(dequantize, (INT8, UINT8, INT16)),
    "CAST": Kind(cast, (FLOAT,)),
}  # fmt: skip


def made(kind: str, width: str, seed: int) -> Case:
    """The network of an operator with this seed."""
    case = Case(np.random.default_rng([seed, *kind.encode(), *width.encode()]), width)
    KINDS[kind].make(case)
    return case
