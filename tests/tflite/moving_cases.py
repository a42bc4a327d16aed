"""Networks of the operators that move, choose, reduce and compare elements."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.tflite.schema import DTYPES
from tests.tflite.case import FLOAT, Case, Making, pick, size


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
    c.operator("SPLIT_V", [x, c.ints(stated), c.ints(axis)], [c.moved(part) for part in parts], "SplitVOptions",
               count=3)


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


def space_to_batch(c: Case) -> None:
    block, h, w, ch = [pick(c, 1, 2), pick(c, 2, 3)], size(c, 1, 3), size(c, 1, 3), size(c, 1, 3)
    shape = [1, h * block[0] - 1, w * block[1] - 1, ch] if block[0] > 1 else [1, h, w * block[1] - 1, ch]
    pads = [[int(block[0] > 1), 0], [0, 1]]
    x = c.input(shape)
    c.operator("SPACE_TO_BATCH_ND", [x, c.ints(block), c.ints(pads)], [c.moved([block[0] * block[1], h, w, ch])])


def batch_to_space(c: Case) -> None:
    block, h, w, ch = [pick(c, 1, 2), pick(c, 2, 3)], size(c, 2, 3), size(c, 2, 3), size(c, 1, 3)
    crops = [[0, 1], [1, 0]]
    x = c.input([block[0] * block[1], h, w, ch])
    shape = [1, h * block[0] - 1, w * block[1] - 1, ch]
    c.operator("BATCH_TO_SPACE_ND", [x, c.ints(block), c.ints(crops)], [c.moved(shape)])


def fill(c: Case) -> None:
    shape = [1, size(c), size(c)]
    x = c.input(shape)
    three = c.m.tensor("value", [], c.width, np.array(3, DTYPES[c.width]))
    filled = c.m.tensor("filled", shape, c.width)
    c.operator("FILL", [c.ints(shape), three], [filled])
    c.operator("ADD", [x, filled], [c.output(shape)], "AddOptions")


def cumsum(c: Case) -> None:
    shape = [1, size(c), size(c)]
    x = c.input(shape)
    c.operator("CUMSUM", [x, c.ints(pick(c, 1, 2))], [c.output(shape)], "CumsumOptions",
               exclusive=bool(c.rng.integers(2)), reverse=bool(c.rng.integers(2)))
