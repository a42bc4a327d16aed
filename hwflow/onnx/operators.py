"""The table of ONNX operators: one row for each, with all that hwflow knows of it but schema, kernel and steps.

The checker, inference, conversion, the quantizer and the reports ask this table.  An operator without a row has no
traits: it is evaluated, and runs on the host where that can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hwflow.onnx import advice
from hwflow.onnx.traits import FUSED, Product, Row, Total, Trait

#: Short, because most rows have some.
T = Trait

#: Versions of operators that take every type of element, as long as there were new types.
_EVERY = (21, 23, 24, 25)

#: What texts of attributes may be.
_AUTO_PAD = "NOTSET SAME_UPPER SAME_LOWER VALID"
_DIRECTION = "forward reverse bidirectional"
_REDUCTION = "none sum mean"
_SCATTER = "none add mul"
_RESIZE = "half_pixel pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn tf_crop_and_resize"
_TRANSFORM = "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"
_BRANCH = "BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ LEAF"

#: Limits, in words for docs/operators.md.
_CONV = "one or two spatial axes; weights and bias constant; any stride, dilation, group and padding with zeros"
_ROW = (
    "one factor constant, on either side, one matrix or one for each batch; bias constant; one scale per tensor or "
    "output channel; several rows are the pixels of a 1x1 convolution"
)
_TWO_MATRICES = "or both computed, over any batch axes; a constant factor is fused"
_HEADS = "as its products, Softmax and sums; masks constant, no cache of keys and values"
_POOL = "one or two spatial axes; any stride, padding and ceil_mode"
_SUM = "over any axes; rearranged only where these are no axes of the frame"
_NORM = "p 1 or 2"
_SMOOTH = (
    "one computed input (of more than 14 bits: in straight segments), or fused into the previous layer if it only "
    "rises or only falls"
)
_DECIDES = "functions of one computed tensor; the other operands constant, one value or one per channel"
_AFFINE = "with constants, one value or one per channel: fused, one per element: `average_pool`; "
_TWO = "of two computed tensors: equal shapes, or one of them [1, C, 1, 1] or a single element"
_ORDER = "free if the raster order stays the same, or if the next layer can permute its weights; else a Rearrange layer"
_BESIDE = "along any axis but the first; along height and width the elements are rearranged first; no constant parts"
_SIDE_BY_SIDE = ("concat", "rearrange")
_WRITTEN = "indices constant, no reduction: a Concat of what stands where"
_MOVE = "constant parameters; at most 4 axes"
_RESIZED = ("constant sizes or scales; mode nearest, or linear between two neighbours along one or two axes "
            "(no antialias); not cubic")
_SCALES = "scale and zero point constant; activations per tensor, weights per tensor or output channel; up to 16 bits"
_INTEGERS = "parameters constant; activations per tensor, weights per tensor or output channel"
_QONNX = "1 to 8 bits, scale, zero point and width constant; activations per tensor"

_RECURRENT = (
    "one sequence of any number of steps; weights, bias and initial states constant, or a state that is an input and "
    "an output and stays in the layer; both directions; clip; no peepholes, no sequence_lens, Y_c only as a state"
)
_ROWS = "along any axes; the axes that are not the fastest ones of the frame need a rearrange"
_NORMAL = f"{_ROWS}; scale and bias constant; further results are not there; within one step of the output"

_TREE = (
    "before all layers, or after quantized ones; features become ranks on the host; finite votes; at most 131072 "
    "nodes ([how](trees.md))"
)
_LINEAR = "a Gemm; labels and probabilities on the host"
_SVM = f"{_LINEAR}; kernels other than LINEAR are a table behind a product"

_PUTS = "a row along one axis, at a position from the host: as a TensorScatter"

_ROUNDS = (
    "a constant number of rounds: the recurrent layer that it is (RNN, GRU, LSTM), else the nodes of all rounds, "
    "at most 5000"
)

_TABLE = ("lookup", FUSED)

_STANDARD = (
    Row("Abs", T.FUNCTION | T.TURNING | T.NOT_NEGATIVE | T.IN_NORMALIZATION, same=(6, 13)),
    Row("Acos", same=(22,)),
    Row("Acosh", same=(22,)),
    Row("Add", T.AFFINE | T.IN_NORMALIZATION | T.MISSING_STAYS | T.READS_SQUARES, same=(6, 13, 14), broadcasts=7,
        layers=("add", FUSED),
        limits=f"{_AFFINE}{_TWO}"),
    Row("AffineGrid", advice=advice.GRID),
    Row("And", broadcasts=7),
    Row("ArgMax", T.RANKING | T.AXIS, same=(11, 12, 13), layers=("top_k",),
        limits="at the end, over the channels, with --hardware-argmax; else on the host"),
    Row("ArgMin", T.RANKING | T.AXIS, same=(11, 12, 13), layers=("top_k",),
        limits="at the end, over the channels, with --hardware-argmax; else on the host"),
    Row("Asin", same=(22,)),
    Row("Asinh", T.FUNCTION, same=(22,)),
    Row("Atan", T.FUNCTION, same=(22,)),
    Row("Atanh", same=(22,)),
    Row("Attention", T.NOT_ON_HOST | T.NETWORK, same=(24, 25), layers=("matmul", "softmax"),
        limits=f"{_HEADS}; its first output", product=Product.ATTENTION),
    Row("AveragePool", T.AVERAGE | T.WINDOW | T.HOMOGENEOUS | T.IMAGE, same=(7, 10, 11, 19, 22),
        layers=("average_pool",),
        limits=f"{_POOL}; count_include_pad 0 and 1", texts={"auto_pad": _AUTO_PAD}),
    Row("BatchNormalization", T.AFFINE, same=(6, 15), layers=(FUSED,), limits="for inference; after a layer"),
    Row("Bernoulli", same=(22,), advice=advice.RANDOM),
    Row("BitShift", same=(28,), broadcasts=7, texts={"direction": "LEFT RIGHT"}),
    Row("BitwiseAnd", broadcasts=7),
    Row("BitwiseOr", broadcasts=7),
    Row("BitwiseXor", broadcasts=7),
    Row("Cast", T.AT_END | T.ELEMENT | T.IN_NORMALIZATION, same=(9, 13, 19, *_EVERY, 28),
        texts={"round_mode": "up down nearest"}),
    Row("CastLike", same=(19, *_EVERY), texts={"round_mode": "up down nearest"}),
    Row("CausalConvWithState", T.NOT_ON_HOST, texts={"activation": "none silu swish"}),
    Row("Ceil", T.FUNCTION, same=(6, 13)),
    Row("Celu", T.FUNCTION, same=(28,)),
    Row("CenterCropPad", T.MOVE | T.PADS),
    Row("Clip", T.FUNCTION | T.CLAMP | T.IN_NORMALIZATION | T.READS_SQUARES, same=(12, 13), layers=_TABLE,
        limits="limits constant"),
    Row("Compress", T.MOVE, same=(11, 28)),
    Row("Concat", T.JOIN | T.MISSING_STAYS, same=(11, 13), layers=("concat", "rearrange"), limits=_BESIDE),
    Row("Constant", same=(9, 11, 12, 13, 19, *_EVERY)),
    Row("ConstantOfShape", same=(20, *_EVERY)),
    Row("Conv", T.MATRIX | T.WINDOW | T.NETWORK | T.IMAGE, same=(11, 22), layers=("conv",), limits=_CONV,
        product=Product.CONVOLUTION, texts={"auto_pad": _AUTO_PAD}),
    Row("ConvInteger", T.NOT_ON_HOST | T.WINDOW | T.NETWORK | T.QOPERATOR, layers=("conv",),
        limits=f"{_CONV}; with the Cast and Mul after it; its input from a QuantizeLinear", product=Product.CONVOLUTION,
        texts={"auto_pad": _AUTO_PAD}),
    Row("ConvTranspose", T.NOT_ON_HOST | T.WINDOW | T.NETWORK, same=(11, 22), layers=("conv", "rearrange"),
        limits=f"{_CONV}; runs as a Conv whose channels become pixels", product=Product.TRANSPOSED,
        texts={"auto_pad": _AUTO_PAD}),
    Row("Cos", T.ELEMENT, same=(22,)),
    Row("Cosh", same=(22,)),
    Row("CumSum", T.OWN_LAYER, same=(14,), layers=("running_sum", "rearrange"),
        limits="along any axis but the first, which is constant; exact, then one rounding", advice=advice.RUNNING_SUM),
    Row("DFT", layers=("conv", "dense"), limits="real, forwards, along the axis before the last; length constant"),
    Row("DeformConv", T.NOT_ON_HOST | T.WINDOW, same=(22,), product=Product.CONVOLUTION, advice=advice.DEFORMED),
    Row("DepthToSpace", T.MOVE, same=(11, 13, 28), texts={"mode": "DCR CRD"}),
    Row("DequantizeLinear", T.QUANTIZER | T.AXIS | T.KEEPS_CONSTANTS, same=(13, 19, *_EVERY, 28), layers=(FUSED,),
        limits=_SCALES),
    Row("Det", same=(22,)),
    Row("Div", T.AFFINE | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(6, 13, 14), broadcasts=7,
        layers=(FUSED, "lookup", "multiply"),
        limits=f"by constants, one value or one per channel; {_TWO}: times the reciprocal"),
    Row("Dropout", T.LAYOUT | T.IN_NORMALIZATION | T.SAME, same=(6, 13, 22), layers=(FUSED,),
        limits="for inference, where it does nothing"),
    Row("DynamicQuantizeLinear", T.QOPERATOR, advice=advice.STATIC),
    Row("Einsum", T.NOT_ON_HOST | T.NETWORK, same=(28,), layers=("matmul", "conv", "rearrange", FUSED),
        limits="as MatMul and Transpose, two operands at a time; no diagonals; axes of one letter have one size",
        advice=advice.PRODUCTS),
    Row("Elu", T.FUNCTION, same=(6, 22)),
    Row("Equal", T.CHOICE | T.TURNING | T.COMPARISON, same=(11, 13, 19), broadcasts=7),
    Row("Erf", T.FUNCTION),
    Row("Exp", T.FUNCTION | T.NOT_NEGATIVE | T.IN_NORMALIZATION | T.NORMALIZATION_CORE, same=(6, 13)),
    Row("Expand", T.MOVE | T.IN_NORMALIZATION, same=(13,)),
    Row("EyeLike", same=(22,)),
    Row("Flatten", T.LAYOUT | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(9, 11, 13, *_EVERY)),
    Row("Floor", T.FUNCTION, same=(6, 13)),
    Row("GRU", T.NOT_ON_HOST | T.OWN_LAYER | T.NETWORK, same=(14, 22), layers=("recurrent", "conv"), limits=_RECURRENT,
        product=Product.RECURRENT, texts={"direction": _DIRECTION + " foward"}),
    Row("Gather", T.MOVE | T.AXIS | T.MISSING_STAYS, same=(11, 13), layers=(FUSED, "rearrange", "embedding"),
        limits=f"{_MOVE}; or rows of a constant table by integers that the host makes"),
    Row("GatherElements", T.MOVE, same=(13,)),
    Row("GatherND", T.MOVE, same=(12, 13)),
    Row("Gelu", T.FUNCTION | T.TURNING, texts={"approximate": "none tanh"}),
    Row("Gemm", T.MATRIX | T.NETWORK, same=(6, 9, 11, 13), layers=("dense", "conv", "matmul"),
        limits=f"{_ROW}; {_TWO_MATRICES}", product=Product.GEMM),
    Row("GlobalAveragePool", T.AVERAGE | T.HOMOGENEOUS | T.IMAGE, same=(22,), layers=("average_pool",)),
    Row("GlobalLpPool", T.OWN_LAYER | T.IMAGE, same=(22,), layers=("average_pool", "lookup"), limits=_NORM),
    Row("GlobalMaxPool", T.MAX_POOL | T.HOMOGENEOUS | T.IMAGE, same=(22,), layers=("max_pool",)),
    Row("Greater", T.CHOICE | T.COMPARISON, same=(9, 13), broadcasts=7),
    Row("GreaterOrEqual", T.CHOICE | T.COMPARISON, same=(16,), broadcasts=7),
    Row("GridSample", same=(22,), advice=advice.GRID,
        texts={"mode": {1: "bilinear nearest bicubic", 20: "nearest linear cubic"},
               "padding_mode": "zeros border reflection"}),
    Row("GroupNormalization", T.OWN_LAYER, layers=("normalize", "rearrange"), limits=_NORMAL),
    Row("HardSigmoid", T.FUNCTION | T.NOT_NEGATIVE, same=(6, 22)),
    Row("HardSwish", T.FUNCTION | T.TURNING, same=(22,)),
    Row("Hardmax", T.AT_END | T.AXIS, same=(11,)),
    Row("Identity", T.LAYOUT | T.ELEMENT | T.IN_NORMALIZATION | T.MISSING_STAYS | T.SAME,
        same=(13, 14, 16, 19, *_EVERY),
        layers=(FUSED,)),
    Row("If", T.NOT_ON_HOST, same=(11, 13, 16, 19, *_EVERY), limits="a constant condition: the nodes of its branch",
        advice=advice.BRANCHES),
    Row("ImageDecoder", texts={"pixel_format": "RGB BGR Grayscale"}),
    Row("InstanceNormalization", T.OWN_LAYER, same=(6, 22), layers=("normalize", "rearrange"), limits=_NORMAL),
    Row("IsInf", T.MISSING_ENDS, same=(20,)),
    Row("IsNaN", T.MISSING_ENDS, same=(13, 20)),
    Row("LRN", same=(13,), advice=advice.LOCAL_RESPONSE),
    Row("LSTM", T.NOT_ON_HOST | T.OWN_LAYER | T.NETWORK, same=(14, 22), layers=("recurrent", "conv"), limits=_RECURRENT,
        product=Product.RECURRENT, texts={"direction": _DIRECTION}),
    Row("LayerNormalization", T.OWN_LAYER, layers=("normalize", "rearrange"), limits=_NORMAL),
    Row("LeakyRelu", T.FUNCTION | T.HOMOGENEOUS, same=(6, 16)),
    Row("Less", T.CHOICE | T.COMPARISON, same=(9, 13), broadcasts=7),
    Row("LessOrEqual", T.CHOICE | T.COMPARISON, same=(16,), broadcasts=7),
    Row("LinearAttention", T.NOT_ON_HOST, texts={"update_rule": "linear gated delta gated_delta"}),
    Row("Log", T.FUNCTION | T.READS_SQUARES, same=(6, 13)),
    Row("LogSoftmax", T.KEEPS_ORDER | T.AT_END | T.AXIS, same=(11,)),
    Row("Loop", T.NOT_ON_HOST, same=(11, 13, 16, 19, *_EVERY), limits=_ROUNDS, advice=advice.ROUNDS),
    Row("LpNormalization", T.OWN_LAYER, same=(22,), layers=("normalize", "rearrange"), limits=f"p = 2; {_ROWS}"),
    Row("LpPool", T.NOT_ON_HOST | T.OWN_LAYER | T.WINDOW | T.IMAGE, same=(11, 18, 22),
        layers=("average_pool", "lookup"),
        limits=f"{_POOL}; {_NORM}", advice=advice.POOL_BY_NORM, texts={"auto_pad": _AUTO_PAD}),
    Row("MatMul", T.MATRIX | T.NETWORK, same=(9, 13), layers=("dense", "conv", "matmul"),
        limits=f"{_ROW}; {_TWO_MATRICES}", product=Product.MATMUL),
    Row("MatMulInteger", T.NOT_ON_HOST | T.NETWORK | T.QOPERATOR, layers=("dense", "conv"),
        limits=f"{_ROW}; with the Cast and Mul after it; its input from a QuantizeLinear", product=Product.MATMUL),
    Row("Max", T.CHOICE | T.IN_NORMALIZATION | T.READS_SQUARES, same=(6, 8, 12, 13), broadcasts=8,
        layers=("lookup", FUSED, "add"),
        limits=f"{_DECIDES}; or {_TWO}"),
    Row("MaxPool", T.MAX_POOL | T.WINDOW | T.HOMOGENEOUS | T.IMAGE, same=(8, 10, 11, 12, 22), layers=("max_pool",),
        limits=f"{_POOL}; any dilation; without the second output (indices)", texts={"auto_pad": _AUTO_PAD}),
    Row("MaxRoiPool", T.NOT_ON_HOST, same=(22,)),
    Row("MaxUnpool", same=(11, 22), advice=advice.UNPOOLING),
    Row("Mean", same=(6, 8, 13), broadcasts=8),
    Row("MeanVarianceNormalization", T.OWN_LAYER, same=(13,), layers=("normalize", "rearrange"), limits=_NORMAL),
    Row("Min", T.CHOICE, same=(6, 8, 12, 13), broadcasts=8, layers=("lookup", FUSED, "add"),
        limits=f"{_DECIDES}; or {_TWO}"),
    Row("Mish", T.FUNCTION | T.TURNING, same=(22,)),
    Row("Mod", same=(13, 28), broadcasts=7, layers=("lookup", FUSED),
        limits="fmod 1 of a computed float by a constant power of two", advice=advice.REST),
    Row("Mul", T.AFFINE | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(6, 13, 14), broadcasts=7,
        layers=("multiply", FUSED), limits=f"{_AFFINE}{_TWO}"),
    Row("Multinomial", same=(22,), advice=advice.RANDOM),
    Row("Neg", T.FUNCTION | T.IN_NORMALIZATION, same=(6, 13)),
    Row("NegativeLogLikelihoodLoss", same=(13, 22), texts={"reduction": _REDUCTION}),
    Row("NonMaxSuppression", same=(11,)),
    Row("NonZero", same=(13,)),
    Row("Not", T.CHOICE | T.ELEMENT),
    Row("OneHot", same=(11, 28)),
    Row("Optional", same=(28,)),
    Row("OptionalGetElement", same=(18, 28)),
    Row("OptionalHasElement", same=(18, 28)),
    Row("Or", broadcasts=7),
    Row("PRelu", T.FUNCTION, same=(6, 9, 16), broadcasts=7, layers=("conv", "lookup", FUSED),
        limits="slopes constant, one for all or one per channel"),
    Row("Pad", T.MOVE | T.PADS, same=(13, 18, 19, *_EVERY), layers=("rearrange", FUSED),
        limits="constant parameters; zeros around a window's input: fused",
        texts={"mode": {1: "constant reflect edge", 19: "constant reflect edge wrap"}}),
    Row("Pow", T.CHOICE | T.TURNING | T.IN_NORMALIZATION | T.NORMALIZATION_CORE, same=(12, 13, 15), broadcasts=7),
    Row("QLinearConv", T.NOT_ON_HOST | T.WINDOW | T.NETWORK | T.QOPERATOR, layers=("conv",),
        limits=f"{_CONV}; {_INTEGERS}",
        product=Product.CONVOLUTION, texts={"auto_pad": _AUTO_PAD}, integer_result=(6, 7)),
    Row("QLinearMatMul", T.NOT_ON_HOST | T.NETWORK | T.QOPERATOR, same=(21,), layers=("dense", "conv"),
        limits=f"{_ROW}; {_INTEGERS}",
        product=Product.MATMUL, integer_result=(6, 7)),
    Row("QuantizeLinear", T.QUANTIZER | T.AXIS, same=(13, *_EVERY, 28), layers=(FUSED,), limits=_SCALES,
        integer_result=(1, 2)),
    Row("RMSNormalization", T.OWN_LAYER, layers=("normalize", "rearrange"), limits=_NORMAL),
    Row("RNN", T.NOT_ON_HOST | T.OWN_LAYER | T.NETWORK, same=(14, 22), layers=("recurrent", "conv"), limits=_RECURRENT,
        product=Product.RECURRENT, texts={"direction": _DIRECTION}),
    Row("RandomNormal", same=(22,), advice=advice.RANDOM),
    Row("RandomNormalLike", same=(22,), advice=advice.RANDOM),
    Row("RandomUniform", same=(22,), advice=advice.RANDOM),
    Row("RandomUniformLike", same=(22,), advice=advice.RANDOM),
    Row("Range", same=(27,)),
    Row("Reciprocal", T.FUNCTION | T.TURNING | T.IN_NORMALIZATION, same=(6, 13)),
    Row("ReduceL1", T.REDUCES | T.OWN_LAYER, same=(11, 13), layers=("average_pool", "conv", "lookup", "rearrange"),
        limits=_SUM, total=Total(1, is_magnitude=True)),
    Row("ReduceL2", T.REDUCES | T.OWN_LAYER | T.IN_NORMALIZATION | T.NORMALIZATION_CORE, same=(11, 13),
        layers=("average_pool", "conv", "lookup", "rearrange"), limits=_SUM,
        total=Total(2, is_magnitude=True, function="Sqrt")),
    Row("ReduceLogSum", T.REDUCES | T.OWN_LAYER, same=(11, 13), layers=("average_pool", "conv", "rearrange"),
        limits=f"{_SUM}; of up to 256 levels", total=Total(function="Log")),
    Row("ReduceLogSumExp", T.REDUCES, same=(11, 13)),
    Row("ReduceMax", T.REDUCES | T.BEST | T.OWN_LAYER | T.IN_NORMALIZATION, same=(11, 12, 13, 20),
        layers=("max_pool", "top_k", "rearrange"), limits=_SUM),
    Row("ReduceMean", T.REDUCES | T.AVERAGE | T.OWN_LAYER | T.IN_NORMALIZATION, same=(11, 13),
        layers=("average_pool", "conv", "rearrange"), limits=_SUM, total=Total()),
    Row("ReduceMin", T.REDUCES | T.BEST | T.OWN_LAYER, same=(11, 12, 13, 20), layers=("max_pool", "top_k", "rearrange"),
        limits=_SUM),
    Row("ReduceProd", T.REDUCES, same=(11, 13)),
    Row("ReduceSum", T.REDUCES | T.OWN_LAYER | T.IN_NORMALIZATION, same=(11,),
        layers=("average_pool", "conv", "rearrange"), limits=_SUM, total=Total()),
    Row("ReduceSumSquare", T.REDUCES | T.OWN_LAYER | T.IN_NORMALIZATION, same=(11, 13),
        layers=("average_pool", "conv", "lookup", "rearrange"), limits=_SUM,
        total=Total(2, is_magnitude=True)),
    Row("Relu", T.FUNCTION | T.CLAMP | T.NOT_NEGATIVE | T.HOMOGENEOUS, same=(6, 13, 14), layers=_TABLE),
    Row("Reshape", T.LAYOUT | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(13, 14, 19, *_EVERY)),
    Row("Resize", T.MOVE | T.RESIZES, same=(18, 19), layers=(FUSED, "rearrange", "interpolate"), limits=_RESIZED,
        texts={"coordinate_transformation_mode": {1: _RESIZE, 19: _RESIZE + " half_pixel_symmetric"},
               "keep_aspect_ratio_policy": "stretch not_larger not_smaller",
               "mode": {1: "nearest linear", 11: "nearest linear cubic"},
               "nearest_mode": "round_prefer_floor round_prefer_ceil floor ceil"}),
    Row("ReverseSequence", T.MOVE, same=(28,)),
    Row("RoiAlign", same=(22,),
        texts={"coordinate_transformation_mode": "half_pixel output_half_pixel", "mode": "avg max"}),
    Row("Round", T.FUNCTION, same=(22,)),
    Row("STFT", layers=("conv",), limits="real signals; step, window and length constant"),
    Row("Scan", T.NOT_ON_HOST, same=(11, 16, 19, *_EVERY), limits=_ROUNDS, advice=advice.ROUNDS),
    Row("Scatter", layers=("write_row",), limits=_PUTS, advice=advice.SCATTER),
    Row("ScatterElements", same=(13, 16, 18), layers=(*_SIDE_BY_SIDE, "write_row"), limits=f"{_WRITTEN}; or {_PUTS}",
        advice=advice.SCATTER, texts={"reduction": {1: _SCATTER, 18: _SCATTER + " max min"}}),
    Row("ScatterND", same=(13, 16, 18), layers=(*_SIDE_BY_SIDE, "write_row"), limits=f"{_WRITTEN}; or {_PUTS}",
        advice=advice.SCATTER, texts={"reduction": {1: _SCATTER, 18: _SCATTER + " max min"}}),
    Row("Selu", T.FUNCTION, same=(22,)),
    Row("SequenceMap", T.NOT_ON_HOST),
    Row("Shape", T.OF_SHAPE, same=(13, 15, 19, *_EVERY)),
    Row("Shrink", T.FUNCTION),
    Row("Sigmoid", T.FUNCTION | T.NOT_NEGATIVE, same=(6, 13)),
    Row("Sign", T.FUNCTION, same=(13,)),
    Row("Sin", T.ELEMENT, same=(22,)),
    Row("Sinh", T.FUNCTION, same=(22,)),
    Row("Size", T.OF_SHAPE, same=(13, 19, *_EVERY)),
    Row("Slice", T.MOVE | T.MISSING_STAYS, same=(11, 13)),
    Row("Softmax", T.KEEPS_ORDER | T.AT_END | T.OWN_LAYER | T.AXIS, same=(11,), layers=("softmax", "rearrange"),
        limits="input of up to 12 bits, along any axis; within one step of the output"),
    Row("SoftmaxCrossEntropyLoss", same=(13,), texts={"reduction": _REDUCTION}),
    Row("Softplus", T.FUNCTION | T.NOT_NEGATIVE, same=(22,)),
    Row("Softsign", T.FUNCTION, same=(22,)),
    Row("SpaceToDepth", T.MOVE, same=(13, 28), texts={"mode": "DCR CRD"}),
    Row("Split", T.MOVE | T.MISSING_STAYS, same=(11,)),
    Row("SplitToSequence", same=(24,)),
    Row("Sqrt", T.FUNCTION | T.NOT_NEGATIVE | T.IN_NORMALIZATION | T.READS_SQUARES | T.NORMALIZATION_CORE,
        same=(6, 13)),
    Row("Squeeze", T.LAYOUT | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(11, *_EVERY)),
    Row("StringNormalizer", texts={"case_change_action": "LOWER UPPER NONE"}),
    Row("Sub", T.AFFINE | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(6, 13, 14), broadcasts=7, layers=("add", FUSED),
        limits=f"{_AFFINE}{_TWO}"),
    Row("Sum", same=(6, 8, 13), broadcasts=8, layers=("add", FUSED), limits=f"{_AFFINE}{_TWO}"),
    Row("Swish", T.FUNCTION | T.TURNING),
    Row("Tan", same=(22,)),
    Row("Tanh", T.FUNCTION, same=(6, 13)),
    Row("TensorScatter", T.NOT_ON_HOST | T.OWN_LAYER, layers=("write_row",),
        limits="one row of one sequence, at a position from the host", texts={"mode": "linear circular"}),
    Row("TfIdfVectorizer", texts={"mode": "TF IDF TFIDF"}),
    Row("ThresholdedRelu", T.FUNCTION, same=(22,)),
    Row("Tile", T.MOVE, same=(13,)),
    Row("TopK", T.RANKING, same=(11, 24), layers=("top_k",),
        limits="at the end, over the channels, with --hardware-argmax; else on the host"),
    Row("Transpose", T.LAYOUT | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(13, *_EVERY)),
    Row("Trilu", T.MOVE | T.PADS),
    Row("Unique", same=(28,)),
    Row("Unsqueeze", T.LAYOUT | T.IN_NORMALIZATION | T.MISSING_STAYS, same=(11, *_EVERY)),
    Row("Upsample", T.MOVE | T.RESIZES, layers=(FUSED, "rearrange", "interpolate"), limits=_RESIZED,
        texts={"mode": {1: "nearest bilinear", 7: "nearest linear"}}),
    Row("Where", T.CHOICE | T.TURNING, same=(16,), broadcasts=7),
    Row("Xor", broadcasts=7),
)

_CLASSICAL = (
    Row("ArrayFeatureExtractor", T.MISSING_STAYS),
    Row("CastMap", texts={"cast_to": "TO_FLOAT TO_STRING TO_INT64", "map_form": "DENSE SPARSE"}),
    Row("FeatureVectorizer", T.MISSING_STAYS),
    Row("LabelEncoder", same=(4,)),
    Row("LinearClassifier", T.NOT_ON_HOST | T.NETWORK, layers=("dense",), limits=_LINEAR,
        texts={"post_transform": _TRANSFORM}),
    Row("LinearRegressor", T.NOT_ON_HOST | T.NETWORK, layers=("dense",), limits=_LINEAR,
        texts={"post_transform": _TRANSFORM}),
    Row("Normalizer", texts={"norm": "MAX L1 L2"}),
    Row("SVMClassifier", T.NOT_ON_HOST | T.NETWORK, layers=("dense",), limits=_SVM,
        texts={"kernel_type": "LINEAR POLY RBF SIGMOID", "post_transform": _TRANSFORM}),
    Row("SVMRegressor", T.NOT_ON_HOST | T.NETWORK, layers=("dense",), limits=_SVM,
        texts={"kernel_type": "LINEAR POLY RBF SIGMOID", "post_transform": _TRANSFORM}),
    Row("Scaler", T.MISSING_STAYS),
    Row("TreeEnsemble", T.NOT_ON_HOST | T.OWN_LAYER | T.NETWORK | T.MISSING_ENDS, layers=("trees",), limits=_TREE),
    Row("TreeEnsembleClassifier", T.NOT_ON_HOST | T.NETWORK | T.MISSING_ENDS, same=(3,), layers=("trees",),
        limits=_TREE, texts={"nodes_modes": _BRANCH, "post_transform": _TRANSFORM}),
    Row("TreeEnsembleRegressor", T.NOT_ON_HOST | T.OWN_LAYER | T.NETWORK | T.MISSING_ENDS, same=(3,), layers=("trees",),
        limits=_TREE,
        texts={"aggregate_function": "AVERAGE SUM MIN MAX", "nodes_modes": _BRANCH, "post_transform": _TRANSFORM}),
)

_TRAINING = (
    Row("Momentum", texts={"mode": "standard nesterov"}),
)

_MICROSOFT = (
    Row("Attention", layers=("matmul", "softmax", "conv"), limits=f"{_HEADS}, no rotary positions"),
    Row("BiasGelu", layers=_TABLE, limits=f"{_SMOOTH}; bias constant"),
    Row("DequantizeLinear", T.KEEPS_CONSTANTS, layers=(FUSED,), limits=_SCALES),
    Row("DynamicQuantizeMatMul", advice=advice.STATIC),
    Row("FastGelu", layers=_TABLE, limits=f"{_SMOOTH}; bias constant"),
    Row("FusedConv", T.NETWORK, layers=("conv",), limits=f"{_CONV}; as Conv, Add and its activation"),
    Row("FusedGemm", T.NETWORK, layers=("dense", "conv"), limits=f"{_ROW}; as Gemm and its activation"),
    Row("FusedMatMul", T.NETWORK, layers=("dense", "conv", "matmul"), limits=f"{_ROW}; {_TWO_MATRICES}"),
    Row("Gelu", layers=_TABLE, limits=_SMOOTH),
    Row("MatMulIntegerToFloat", layers=("dense", "conv"), limits=f"{_ROW}; its input from a QuantizeLinear"),
    Row("MultiHeadAttention", T.NETWORK, layers=("matmul", "softmax"),
        limits=f"{_HEADS}; query, key and value are three tensors"),
    Row("QGemm", T.NETWORK, layers=("dense", "conv"), limits=f"{_ROW}; {_INTEGERS}", integer_result=(7, 8)),
    Row("QLinearAdd", T.QOPERATOR, layers=("add", FUSED), limits=f"{_INTEGERS}; {_TWO}", integer_result=(6, 7)),
    Row("QLinearAveragePool", T.QOPERATOR, layers=("average_pool",), limits=f"{_POOL}; {_INTEGERS}",
        integer_result=(3, 4)),
    Row("QLinearConcat", T.QOPERATOR, layers=("concat", "rearrange"), limits=f"{_INTEGERS}; {_BESIDE}",
        integer_result=(0, 1)),
    Row("QLinearGlobalAveragePool", T.QOPERATOR, layers=("average_pool",), limits=_INTEGERS, integer_result=(3, 4)),
    Row("QLinearLeakyRelu", T.QOPERATOR, layers=_TABLE, limits=_INTEGERS, integer_result=(3, 4)),
    Row("QLinearMul", T.QOPERATOR, layers=("multiply", FUSED), limits=f"{_INTEGERS}; {_TWO}", integer_result=(6, 7)),
    Row("QLinearSigmoid", T.QOPERATOR, layers=_TABLE, limits=_INTEGERS, integer_result=(3, 4)),
    Row("QLinearSoftmax", T.QOPERATOR, integer_result=(3, 4)),
    Row("QuantizeLinear", layers=(FUSED,), limits=_SCALES, integer_result=(1, 2)),
    Row("QuickGelu", layers=_TABLE, limits=_SMOOTH),
    Row("SkipLayerNormalization", layers=("add", "normalize"), limits="as an Add and a LayerNormalization"),
)

_QONNX_ROWS = (
    Row("BipolarQuant", T.KEEPS_CONSTANTS, layers=(FUSED, "lookup"), limits="one bit, -1 and +1; scale constant"),
    Row("IntQuant", T.KEEPS_CONSTANTS, layers=(FUSED, "lookup"), limits=_QONNX),
    Row("MultiThreshold", layers=(FUSED, "lookup"), limits="thresholds constant, one row for all or one per channel"),
    Row("Quant", T.KEEPS_CONSTANTS, layers=(FUSED, "lookup"), limits=_QONNX),
    Row("Trunc", layers=(FUSED, "lookup", "average_pool"),
        limits=f"{_QONNX}; after an average, or of a quantized tensor"),
)

#: What a row becomes that names no layers, by its traits.
_BECOMES: Mapping[Trait, tuple[tuple[str, ...], str]] = {
    T.FUNCTION: (_TABLE, _SMOOTH),
    T.CHOICE: (_TABLE, _DECIDES),
    T.LAYOUT: ((FUSED, "rearrange"), _ORDER),
    T.MOVE: ((FUSED, "rearrange"), _MOVE),
}
#: The operators of QONNX have three domains, of newer and older exporters.
QONNX_DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")


def _with_layers(row: Row) -> Row:
    becomes = next((becomes for trait, becomes in _BECOMES.items() if trait in row.traits), None)
    return row if row.layers or becomes is None else replace(row, layers=becomes[0], limits=becomes[1])


#: (domain, operator) to its row.
OPERATORS: Mapping[tuple[str, str], Row] = {
    (domain, row.name): _with_layers(row)
    for domains, rows in (
        (("",), _STANDARD),
        (("ai.onnx.ml",), _CLASSICAL),
        (("ai.onnx.preview.training",), _TRAINING),
        (("com.microsoft",), _MICROSOFT),
        (QONNX_DOMAINS, _QONNX_ROWS),
    )
    for domain in domains
    for row in rows
}
_NOTHING = Row("")


def row_of(domain: str, op_type: str) -> Row:
    """The row of an operator; one without traits where the table has none."""
    return OPERATORS.get((domain, op_type), _NOTHING)


def advice_on(domain: str, op_type: str) -> advice.Advice | None:
    """What to change in a model with an operator that has no hardware, or which hwflow does not know."""
    own = row_of(domain, op_type).advice
    measures = own is None and domain == "com.microsoft" and op_type.startswith("DynamicQuantize")
    return advice.STATIC if measures else own


def having(traits: Trait) -> frozenset[tuple[str, str]]:
    """The operators, by domain and name, that have one of the traits."""
    return frozenset(key for key, row in OPERATORS.items() if row.traits & traits)


def named(traits: Trait) -> frozenset[str]:
    """The names of the operators of the default domain that have one of the traits."""
    return frozenset(name for domain, name in having(traits) if not domain)


# Names of operators of the default domain, by what the quantizer does with them.
MATRIX = named(T.MATRIX)
MAX_POOLS = named(T.MAX_POOL)
POOLS = named(T.MAX_POOL | T.AVERAGE)
BEST = named(T.BEST)
SUMS = frozenset(name for (domain, name), row in OPERATORS.items() if row.total is not None and not domain)
AFFINE = named(T.AFFINE)
CLAMPS = named(T.CLAMP)
UNARY = named(T.FUNCTION)
SELECTIONS = named(T.CHOICE)
TURNING = named(T.TURNING)
#: Element by element, of one computed tensor or (through `AFFINE`) of two.
ELEMENTWISE = named(T.FUNCTION | T.AFFINE | T.CHOICE)
JOINS = named(T.JOIN)
LAYOUT = named(T.LAYOUT)
MOVES = named(T.MOVE)
PADS = named(T.PADS)
RESIZES = named(T.RESIZES)
SAME = named(T.SAME)
QUANTIZERS = named(T.QUANTIZER)
RANKINGS = named(T.RANKING)
ORDERLY = named(T.KEEPS_ORDER)
REDUCTIONS = named(T.REDUCES)

#: On the host, behind the hardware.
HOST_ONLY = named(T.AT_END | T.RANKING)
#: What may run on the host before the first integer.
HOST_BEFORE = named(T.LAYOUT | T.MOVE | T.AFFINE) | {"QuantizeLinear", "Cast"}
#: What may run on the host after the last integer.
HOST_AFTER = LAYOUT | MOVES | ELEMENTWISE | QUANTIZERS | HOST_ONLY
#: Layers with weights of their own, and control flow: hardware computes them, or nothing does.
NEVER_ON_HOST = frozenset(name for _, name in having(T.MATRIX | T.MAX_POOL | T.AVERAGE | T.NOT_ON_HOST))
#: (domain, operator) of what becomes a layer of its own where layers follow.
COMPUTED = having(T.OWN_LAYER)
#: What the quantizer has a place for between layers or at the end.
KNOWN = MATRIX | POOLS | ELEMENTWISE | JOINS | LAYOUT | MOVES | QUANTIZERS | HOST_ONLY
