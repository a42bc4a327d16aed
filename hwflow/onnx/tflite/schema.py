"""Numbers of TensorFlow Lite's schema (version 3): operators, types, and the fields of the tables with options.

Source: tensorflow/lite/schema/schema.fbs, of which only numbers and names are here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import ml_dtypes
import numpy as np

from hwflow.onnx.model import DType

#: What stands at bytes 4 to 8 of every file.
IDENTIFIER: Final = b"TFL3"

#: The version of the schema that files have.
VERSION: Final = 3

#: Names of operators by their number, from 0 on.
_OPERATORS = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
    LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
    CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
    EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR
    ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
    RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND
    COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
    NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
    PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE
    HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
    BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
    UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
    RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE
    STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
    STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
    STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
    STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE
    STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
    STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
    DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT"""
OPERATORS: Final = tuple(_OPERATORS.split())

#: Names of the types of elements by their number.
_TYPES = """
    FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE VARIANT
    UINT32 UINT16 INT4 BFLOAT16"""
TYPES: Final = tuple(_TYPES.split())

#: Types whose elements numpy has.  Elements of INT4 are two in a byte, and are read as int8.
DTYPES: Final[dict[str, DType]] = {
    "FLOAT32": np.dtype(np.float32), "FLOAT16": np.dtype(np.float16), "FLOAT64": np.dtype(np.float64),
    "BFLOAT16": np.dtype(ml_dtypes.bfloat16), "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8), "INT16": np.dtype(np.int16), "INT32": np.dtype(np.int32), "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8), "UINT16": np.dtype(np.uint16), "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64), "INT4": np.dtype(np.int8),
}  # fmt: skip

#: The activation in the options of an operator, by its number.
ACTIVATIONS: Final = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")


class OptionField(NamedTuple):
    """A field of a table with options: its number, struct's kind ("x" for a list of int32, "s" for a text), its
    default."""

    number: int
    kind: str
    default: float = 0


def _fields(text: str) -> dict[str, OptionField]:
    """`padding:b stride_w:i dilation_w@4:i=1`: names with their kinds, numbered from 0 on or from the one said."""
    fields, number = {}, 0
    for entry in text.split():
        name, _, kind = entry.partition(":")
        name, _, stated = name.partition("@")
        kind, _, default = kind.partition("=")
        number = int(stated or number)
        fields[name] = OptionField(number, kind, float(default or 0))
        number += 1
    return fields


class OptionTable(NamedTuple):
    """The number of a table in the union of all options, and its fields."""

    number: int
    name: str
    fields: dict[str, OptionField]


def _tables(*rows: tuple[int, str, str]) -> dict[str, OptionTable]:
    return {name: OptionTable(number, name, _fields(text)) for number, name, text in rows}


#: Tables with options that operators of hwflow read; of the others no field matters.
OPTIONS: Final = _tables(
    (1, "Conv2DOptions", "padding:b stride_w:i stride_h:i activation:b dilation_w:i=1 dilation_h:i=1"),
    (2, "DepthwiseConv2DOptions",
     "padding:b stride_w:i stride_h:i multiplier:i activation:b dilation_w:i=1 dilation_h:i=1"),
    (5, "Pool2DOptions", "padding:b stride_w:i stride_h:i filter_w:i filter_h:i activation:b"),
    (6, "SVDFOptions", "rank:i activation:b asymmetric:?"),
    (8, "FullyConnectedOptions", "activation:b weights_format:b keep_num_dims:? asymmetric:?"),
    (9, "SoftmaxOptions", "beta:f"),
    (10, "ConcatenationOptions", "axis:i activation:b"),
    (11, "AddOptions", "activation:b pot_scale:?=1"),
    (12, "L2NormOptions", "activation:b"),
    (15, "ResizeBilinearOptions", "align_corners@2:? half_pixel:?"),
    (17, "ReshapeOptions", "new_shape:x"),
    (19, "SpaceToDepthOptions", "block:i"),
    (21, "MulOptions", "activation:b"),
    (23, "GatherOptions", "axis:i batch_dims:i"),
    (27, "ReducerOptions", "keep_dims:?"),
    (28, "SubOptions", "activation:b pot_scale:?=1"),
    (29, "DivOptions", "activation:b"),
    (30, "SqueezeOptions", "dims:x"),
    (32, "StridedSliceOptions",
     "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?"),
    (35, "SplitOptions", "count:i"),
    (37, "CastOptions", "source:b target:b"),
    (40, "ArgMaxOptions", "type:b"),
    (49, "TransposeConvOptions", "padding:b stride_w:i stride_h:i activation:b"),
    (55, "ShapeOptions", "type:b"),
    (57, "ArgMinOptions", "type:b"),
    (59, "PackOptions", "count:i axis:i"),
    (61, "OneHotOptions", "axis:i"),
    (64, "UnpackOptions", "count:i axis:i"),
    (71, "UnidirectionalSequenceLSTMOptions",
     "activation:b cell_clip:f proj_clip:f time_major:? asymmetric:? diagonal:?"),
    (74, "ResizeNearestNeighborOptions", "align_corners:? half_pixel:?"),
    (75, "LeakyReluOptions", "alpha:f"),
    (77, "MirrorPadOptions", "mode:b"),
    (79, "SplitVOptions", "count:i"),
    (92, "IfOptions", "then_graph:i else_graph:i"),
    (93, "WhileOptions", "condition:i body:i"),
    (94, "DepthToSpaceOptions", "block:i"),
    (101, "BatchMatMulOptions", "adjoint_x:? adjoint_y:? asymmetric:?"),
    (102, "CumsumOptions", "exclusive:? reverse:?"),
    (103, "CallOnceOptions", "graph:i"),
    (111, "VarHandleOptions", "container:s shared_name:s"),
    (116, "GeluOptions", "approximate:?"),
)


def operator_name(number: int) -> str:
    """How an operator is called, by its number where the schema here does not have it."""
    return OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator code {number}"


def type_name(number: int) -> str:
    """How a type of elements is called, by its number where the schema here does not have it."""
    return TYPES[number] if 0 <= number < len(TYPES) else f"type {number}"
