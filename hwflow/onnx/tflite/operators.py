"""What each operator of TensorFlow Lite is converted by: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from hwflow.onnx.tflite import batches, elementwise, moving, recurrent, windows
from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Operator

#: Adds the nodes of one operator to a graph.
Handler: TypeAlias = Callable[[Conversion, Operator], None]


class Row(NamedTuple):
    """The handler of an operator, and its newest version that is known here."""

    handler: Handler
    version: int


def _rows(handler: Handler, text: str) -> dict[str, Row]:
    """`ADD:6 MUL:8`: operators with their newest versions."""
    return {name: Row(handler, int(version)) for name, version in (entry.split(":") for entry in text.split())}


ROWS: dict[str, Row] = {
    **_rows(windows.conv_2d, "CONV_2D:8"),
    **_rows(windows.depthwise_conv_2d, "DEPTHWISE_CONV_2D:7"),
    **_rows(windows.fully_connected, "FULLY_CONNECTED:14"),
    **_rows(windows.pool, "MAX_POOL_2D:3 AVERAGE_POOL_2D:3 L2_POOL_2D:1"),
    **_rows(windows.transpose_conv, "TRANSPOSE_CONV:5"),
    **_rows(windows.batch_matmul, "BATCH_MATMUL:4"),
    **_rows(elementwise.unary, "ABS:5 NEG:1 EXP:2 LOG:2 SQRT:2 SIN:2 COS:2 FLOOR:1 CEIL:1 ROUND:1 SIGN:2 RELU:3 "
            "LOGISTIC:3 TANH:3 ELU:1 HARD_SWISH:1 LOGICAL_NOT:1"),
    **_rows(elementwise.composed, "RSQRT:3 SQUARE:1 GELU:3 LEAKY_RELU:2 RELU6:3 RELU_N1_TO_1:1 RELU_0_TO_1:1"),
    **_rows(elementwise.binary, "ADD:6 SUB:5 MUL:8 DIV:2 MINIMUM:4 MAXIMUM:4 POW:1 SQUARED_DIFFERENCE:2 LOGICAL_AND:1 "
            "LOGICAL_OR:1 EQUAL:5 LESS:3 GREATER:2 LESS_EQUAL:2 GREATER_EQUAL:3 NOT_EQUAL:4"),
    **_rows(elementwise.add_n, "ADD_N:1"),
    **_rows(elementwise.prelu, "PRELU:1"),
    **_rows(elementwise.softmax, "SOFTMAX:4 LOG_SOFTMAX:2"),
    **_rows(elementwise.quantize, "QUANTIZE:6"),
    **_rows(elementwise.dequantize, "DEQUANTIZE:9"),
    **_rows(elementwise.densify, "DENSIFY:1"),
    **_rows(elementwise.cast, "CAST:9"),
    **_rows(elementwise.select, "SELECT:4 SELECT_V2:2"),
    **_rows(elementwise.l2_normalization, "L2_NORMALIZATION:2"),
    **_rows(elementwise.zeros_like, "ZEROS_LIKE:1"),
    **_rows(elementwise.fill, "FILL:4"),
    **_rows(elementwise.floor_divide, "FLOOR_DIV:3 FLOOR_MOD:2"),
    **_rows(elementwise.cumsum, "CUMSUM:1"),
    **_rows(batches.space_to_batch, "SPACE_TO_BATCH_ND:4"),
    **_rows(batches.batch_to_space, "BATCH_TO_SPACE_ND:4"),
    **_rows(recurrent.svdf, "SVDF:4"),
    **_rows(recurrent.lstm, "UNIDIRECTIONAL_SEQUENCE_LSTM:4"),
    **_rows(moving.concatenation, "CONCATENATION:7"),
    **_rows(moving.split, "SPLIT:5 SPLIT_V:3"),
    **_rows(moving.reshape, "RESHAPE:1"),
    **_rows(moving.squeeze, "SQUEEZE:2"),
    **_rows(moving.expand_dims, "EXPAND_DIMS:1"),
    **_rows(moving.transpose, "TRANSPOSE:9"),
    **_rows(moving.strided_slice, "STRIDED_SLICE:8"),
    **_rows(moving.slice_, "SLICE:8"),
    **_rows(moving.pad, "PAD:6 PADV2:6 MIRROR_PAD:3"),
    **_rows(moving.reduction, "MEAN:3 SUM:2 REDUCE_MAX:3 REDUCE_MIN:3 REDUCE_PROD:2"),
    **_rows(moving.gather, "GATHER:8"),
    **_rows(moving.gather_nd, "GATHER_ND:6"),
    **_rows(moving.pack, "PACK:5"),
    **_rows(moving.unpack, "UNPACK:6"),
    **_rows(moving.tile, "TILE:3"),
    **_rows(moving.broadcast_to, "BROADCAST_TO:4"),
    **_rows(moving.shape_of, "SHAPE:1 RANK:1"),
    **_rows(moving.arg, "ARG_MAX:3 ARG_MIN:3"),
    **_rows(moving.depth_and_space, "SPACE_TO_DEPTH:2 DEPTH_TO_SPACE:2"),
    **_rows(moving.resize, "RESIZE_BILINEAR:4 RESIZE_NEAREST_NEIGHBOR:4"),
    **_rows(moving.reverse, "REVERSE_V2:4"),
}
