"""A random network of each operator, in every width that TensorFlow Lite has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.tflite.case import ALL, EIGHT, FLOAT, INT8, INT16, SIGNED, UINT8, Case, Kind, Making, pick, size
from tests.tflite.moving_cases import (
    arg,
    batch_matmul,
    batch_to_space,
    blocks,
    cast,
    comparison,
    concatenation,
    cumsum,
    dequantize,
    expand_dims,
    fill,
    gather,
    gather_nd,
    pack,
    pad,
    reduction,
    requantize,
    reshape,
    resize,
    select,
    slice_,
    space_to_batch,
    split,
    split_v,
    squeeze,
    strided_slice,
    tile,
    transpose,
    unpack,
)


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


def positive(kind: str) -> Making:
    """Of squares."""
    def make(c: Case) -> None:
        shape = [1, size(c), size(c), size(c, 1, 4)]
        x = c.input(shape)
        squares = c.m.tensor("squares", shape, c.width)
        c.operator("SQUARE", [x], [squares])
        c.operator(kind, [squares], [c.output(shape)])
    return make


def dilated(c: Case) -> None:
    """A convolution between blocks of batches, with its activation, as converters write a dilated one."""
    d, k, h, w, ci, co = pick(c, 2, 3), 3, size(c, 7, 9), size(c, 7, 9), size(c, 1, 3), size(c, 1, 3)
    same = d * (k - 1) // 2
    pads = [[same, same + -(n + 2 * same) % d] for n in (h, w)]
    crops = [[0, -(n + 2 * same) % d] for n in (h, w)]
    x = c.input([1, h, w, ci])
    wide = [(n + a + b) // d for n, (a, b) in zip((h, w), pads, strict=True)]
    apart = c.scaled("apart", [d * d, *wide, ci], like=x if c.width != FLOAT else None)
    c.operator("SPACE_TO_BATCH_ND", [x, c.ints([d, d]), c.ints(pads)], [apart])
    weights = c.weights([co, k, k, ci], 0)
    y = c.output([1, h, w, co], 8.0)
    between = c.scaled("between", [d * d, *(n - 2 for n in wide), co], like=y if c.width != FLOAT else None)
    c.operator("CONV_2D", [apart, weights, c.bias(co, x, weights)], [between], "Conv2DOptions", padding=1, stride_w=1,
               stride_h=1, activation=pick(c, 0, 1))
    c.operator("BATCH_TO_SPACE_ND", [between, c.ints([d, d]), c.ints(crops)], [y])


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
    "CAST": Kind(cast, (FLOAT,)), "SPACE_TO_BATCH_ND": Kind(space_to_batch, EIGHT),
    "BATCH_TO_SPACE_ND": Kind(batch_to_space, EIGHT), "FILL": Kind(fill, (FLOAT,)), "CUMSUM": Kind(cumsum, (FLOAT,)),
    "FLOOR_DIV": Kind(binary("FLOOR_DIV"), (FLOAT,)), "RSQRT": Kind(positive("RSQRT"), (FLOAT,)),
    "SQRT": Kind(positive("SQRT"), (FLOAT,)), "LOG": Kind(positive("LOG"), (FLOAT,)),
    "DILATED": Kind(dilated, EIGHT),
}  # fmt: skip


def made(kind: str, width: str, seed: int) -> Case:
    """The network of an operator with this seed."""
    case = Case(np.random.default_rng([seed, *kind.encode(), *width.encode()]), width)
    KINDS[kind].make(case)
    return case
