"""What becomes of each ONNX operator between layers, and within which limits: the table behind docs/operators.md.

Operators that are not in it run on the host around the hardware, or not at all (`where`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwflow.quantize.dialects.standard import RULES
from hwflow.quantize.operators import (
    BEST,
    COMPUTED,
    HOST_AFTER,
    HOST_BEFORE,
    HOST_ONLY,
    LAYOUT,
    MOVES,
    NEVER_ON_HOST,
    SELECTIONS,
    SUMS,
    UNARY,
)

__all__ = ["CATALOGUE", "FUSED", "Entry", "Host", "host"]

#: Not a layer of its own: a part of the layer before it, or a change of order that costs nothing.
FUSED = "fused"


@dataclass(frozen=True)
class Entry:
    """`kinds`: the layer kinds that an operator becomes, one or several of them, or `FUSED`; `limits` in words."""

    kinds: tuple[str, ...]
    limits: str = ""


_CONV = "one or two spatial axes; weights and bias constant; any stride, dilation, group and padding with zeros"
_ROW = (
    "one factor constant, on either side, one matrix or one for each batch; bias constant; one scale per tensor or "
    "output channel; several rows are the pixels of a 1x1 convolution"
)
_TWO_MATRICES = "or both computed, over any batch axes; a constant factor is fused"
_HEADS = "as its products, Softmax and sums; masks constant, no cache of keys and values"
_POOL = "one or two spatial axes; any stride, padding and ceil_mode"
_SUM = "over any axes; rearranged only where these are no axes of the frame"
_NORM = "p 1 or 2; input of up to 8 bits"
_SMOOTH = "one computed input of up to 8 bits, or fused into the previous layer if it only rises or only falls"
_DECIDES = "functions of one computed tensor; the other operands constant, one value or one per channel"
_AFFINE = "with constants, one value or one per channel: fused, one per element: `average_pool`; "
_TWO = "of two computed tensors: equal shapes, or one of them [1, C, 1, 1] or a single element"
_ORDER = "free if the raster order stays the same, or if the next layer can permute its weights; else a Rearrange layer"
_BESIDE = "along any axis but the first; along height and width the elements are rearranged first; no constant parts"
_MOVE = "constant parameters; at most 4 axes"
_NEAREST = "mode nearest with constant sizes or scales; nothing that computes between elements (linear, cubic)"
_SCALES = "scale and zero point constant; activations per tensor, weights per tensor or output channel; up to 16 bits"
_INTEGERS = "parameters constant; activations per tensor, weights per tensor or output channel"
_QONNX = "1 to 8 bits, scale, zero point and width constant; activations per tensor"

_RECURRENT = (
    "one sequence of any number of steps; weights, bias and initial states constant, or a state that is an input and "
    "an output and stays in the layer; both directions; clip; no peepholes, no sequence_lens, Y_c only as a state"
)
_ROWS = "along any axes; the axes that are not the fastest ones of the frame need a rearrange"
_NORMAL = f"{_ROWS}; scale and bias constant; further results are not there; within one step of the output"

_TABLE = ("lookup", FUSED)
_SETS: Mapping[str, Entry] = {
    **dict.fromkeys(UNARY, Entry(_TABLE, _SMOOTH)),
    **dict.fromkeys(SELECTIONS, Entry(_TABLE, _DECIDES)),
    **dict.fromkeys(LAYOUT, Entry((FUSED, "rearrange"), _ORDER)),
    **dict.fromkeys(MOVES, Entry((FUSED, "rearrange"), _MOVE)),
}
_STANDARD: Mapping[str, Entry] = {
    "STFT": Entry(("conv",), "real signals; step, window and length constant"),
    "DFT": Entry(("conv", "dense"), "real, forwards, along the axis before the last; length constant"),
    "Gather": Entry(
        (FUSED, "rearrange", "embedding"), f"{_MOVE}; or rows of a constant table by integers that the host makes"
    ),
    "Conv": Entry(("conv",), _CONV),
    "ConvTranspose": Entry(("conv", "rearrange"), f"{_CONV}; runs as a Conv whose channels become pixels"),
    "Gemm": Entry(("dense", "conv", "matmul"), f"{_ROW}; {_TWO_MATRICES}"),
    "MatMul": Entry(("dense", "conv", "matmul"), f"{_ROW}; {_TWO_MATRICES}"),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), Entry(("recurrent", "conv"), _RECURRENT)),
    "MaxPool": Entry(("max_pool",), f"{_POOL}; any dilation; without the second output (indices)"),
    "GlobalMaxPool": Entry(("max_pool",)),
    "AveragePool": Entry(("average_pool",), f"{_POOL}; count_include_pad 0 and 1"),
    "GlobalAveragePool": Entry(("average_pool",)),
    "Softmax": Entry(("softmax", "rearrange"), "input of up to 12 bits, along any axis; within one step of the output"),
    "LayerNormalization": Entry(("normalize", "rearrange"), _NORMAL),
    "RMSNormalization": Entry(("normalize", "rearrange"), _NORMAL),
    "GroupNormalization": Entry(("normalize", "rearrange"), _NORMAL),
    "InstanceNormalization": Entry(("normalize", "rearrange"), _NORMAL),
    "MeanVarianceNormalization": Entry(("normalize", "rearrange"), _NORMAL),
    "LpNormalization": Entry(("normalize", "rearrange"), f"p = 2; {_ROWS}"),
    **dict.fromkeys(SUMS, Entry(("average_pool", "conv", "rearrange"), _SUM)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare"),
                    Entry(("average_pool", "conv", "lookup", "rearrange"), f"{_SUM}; input of up to 8 bits")),
    "ReduceLogSum": Entry(("average_pool", "conv", "rearrange"), f"{_SUM}; of up to 256 levels"),
    **dict.fromkeys(BEST, Entry(("max_pool", "top_k", "rearrange"), _SUM)),
    "LpPool": Entry(("average_pool", "lookup"), f"{_POOL}; {_NORM}"),
    "GlobalLpPool": Entry(("average_pool", "lookup"), _NORM),
    "Add": Entry(("add", FUSED), _AFFINE + _TWO),
    "Sub": Entry(("add", FUSED), _AFFINE + _TWO),
    "Sum": Entry(("add", FUSED), _AFFINE + _TWO),
    "Mul": Entry(("multiply", FUSED), _AFFINE + _TWO),
    "Div": Entry(
        (FUSED, "lookup", "multiply"), f"by constants, one value or one per channel; {_TWO}: times the reciprocal"
    ),
    **dict.fromkeys(("Max", "Min"), Entry((*_TABLE, "add"), f"{_DECIDES}; or {_TWO}")),
    "BatchNormalization": Entry((FUSED,), "for inference; after a layer"),
    "Relu": Entry(_TABLE),
    "Clip": Entry(_TABLE, "limits constant"),
    "PRelu": Entry(("conv", "lookup", FUSED), "slopes constant, one for all or one per channel"),
    "Concat": Entry(("concat", "rearrange"), _BESIDE),
    "Identity": Entry((FUSED,)),
    "Dropout": Entry((FUSED,), "for inference, where it does nothing"),
    "Pad": Entry(("rearrange", FUSED), "constant parameters; zeros around a window's input: fused"),
    "Resize": Entry((FUSED, "rearrange"), _NEAREST),
    "Upsample": Entry((FUSED, "rearrange"), _NEAREST),
    "QuantizeLinear": Entry((FUSED,), _SCALES),
    "DequantizeLinear": Entry((FUSED,), _SCALES),
    "ArgMax": Entry(("top_k",), "at the end, over the channels, with --hardware-argmax; else on the host"),
    "ArgMin": Entry(("top_k",), "at the end, over the channels, with --hardware-argmax; else on the host"),
    "TopK": Entry(("top_k",), "at the end, over the channels, with --hardware-argmax; else on the host"),
    "Attention": Entry(("matmul", "softmax"), f"{_HEADS}; its first output"),
    "Einsum": Entry(("matmul", "conv", "rearrange", FUSED), "as MatMul and Transpose, two operands at a time; no "
                    "diagonals; axes of one letter have one size"),
    "QLinearConv": Entry(("conv",), f"{_CONV}; {_INTEGERS}"),
    "QLinearMatMul": Entry(("dense", "conv"), f"{_ROW}; {_INTEGERS}"),
    "ConvInteger": Entry(("conv",), f"{_CONV}; with the Cast and Mul after it; its input from a QuantizeLinear"),
    "MatMulInteger": Entry(
        ("dense", "conv"), f"{_ROW}; with the Cast and Mul after it; its input from a QuantizeLinear"),
}
_MICROSOFT: Mapping[str, Entry] = {
    "QuantizeLinear": Entry((FUSED,), _SCALES),
    "DequantizeLinear": Entry((FUSED,), _SCALES),
    "Attention": Entry(("matmul", "softmax", "conv"), f"{_HEADS}, no rotary positions"),
    "MultiHeadAttention": Entry(("matmul", "softmax"), f"{_HEADS}; query, key and value are three tensors"),
    "SkipLayerNormalization": Entry(("add", "normalize"), "as an Add and a LayerNormalization"),
    "QGemm": Entry(("dense", "conv"), f"{_ROW}; {_INTEGERS}"),
    "MatMulIntegerToFloat": Entry(("dense", "conv"), f"{_ROW}; its input from a QuantizeLinear"),
    "QLinearAdd": Entry(("add", FUSED), f"{_INTEGERS}; {_TWO}"),
    "QLinearMul": Entry(("multiply", FUSED), f"{_INTEGERS}; {_TWO}"),
    "QLinearAveragePool": Entry(("average_pool",), f"{_POOL}; {_INTEGERS}"),
    "QLinearGlobalAveragePool": Entry(("average_pool",), _INTEGERS),
    "QLinearConcat": Entry(("concat", "rearrange"), f"{_INTEGERS}; {_BESIDE}"),
    "QLinearLeakyRelu": Entry(_TABLE, _INTEGERS),
    "QLinearSigmoid": Entry(_TABLE, _INTEGERS),
}
_QONNX_OPERATORS: Mapping[str, Entry] = {
    "Quant": Entry((FUSED, "lookup"), _QONNX),
    "IntQuant": Entry((FUSED, "lookup"), _QONNX),
    "BipolarQuant": Entry((FUSED, "lookup"), "one bit, -1 and +1; scale constant"),
    "Trunc": Entry((FUSED, "lookup", "average_pool"), f"{_QONNX}; after an average, or of a quantized tensor"),
    "MultiThreshold": Entry((FUSED, "lookup"), "thresholds constant, one row for all or one per channel"),
}

_TREE = (
    "before all layers, or after quantized ones; features become ranks on the host; finite votes; at most 131072 "
    "nodes ([how](trees.md))"
)
_LINEAR = "a Gemm; labels and probabilities on the host"
_SVM = f"{_LINEAR}; kernel_type LINEAR; probabilities of two classes"
_CLASSICAL: Mapping[str, Entry] = {
    "TreeEnsemble": Entry(("trees",), _TREE),
    "TreeEnsembleClassifier": Entry(("trees",), _TREE),
    "TreeEnsembleRegressor": Entry(("trees",), _TREE),
    "LinearClassifier": Entry(("dense",), _LINEAR),
    "LinearRegressor": Entry(("dense",), _LINEAR),
    "SVMClassifier": Entry(("dense",), _SVM),
    "SVMRegressor": Entry(("dense",), _SVM),
}

#: (domain, operator) to what it becomes between layers.
CATALOGUE: Mapping[tuple[str, str], Entry] = {
    **{("", name): entry for name, entry in {**_SETS, **_STANDARD}.items()},
    **{("ai.onnx.ml", name): entry for name, entry in _CLASSICAL.items()},
    **{("com.microsoft", name): entry for name, entry in _MICROSOFT.items()},
    **{(domain, name): entry for name, entry in _QONNX_OPERATORS.items()
       for domain in ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")},
}  # fmt: skip


@dataclass(frozen=True)
class Host:
    """Where the host may run an operator around the hardware: in front of the first layer, behind the last."""

    before: bool
    after: bool


def host(domain: str, op_type: str) -> Host:
    """What the host does with an operator that hwflow evaluates."""
    if (domain, op_type) == ("com.microsoft", "QLinearSoftmax"):  # becomes Softmax between quantizers
        return Host(before=False, after=True)
    if domain not in ("", "ai.onnx.ml") or op_type in NEVER_ON_HOST or (domain, op_type) in RULES:
        return Host(before=False, after=False)
    if domain or ("", op_type) in COMPUTED or (("", op_type) not in CATALOGUE and op_type not in HOST_ONLY):
        return Host(before=True, after=True)
    # A node of HOST_ONLY, like one that moves elements by computed numbers, goes in front with all that it needs.
    return Host(before=op_type in HOST_BEFORE | HOST_ONLY, after=op_type in HOST_AFTER)
