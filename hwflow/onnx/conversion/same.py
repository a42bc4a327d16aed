"""Versions of operators that need no rewriting, as data."""

from __future__ import annotations

__all__ = ["GREW", "GREW_ML", "WIDENED"]

#: Operators, and their versions that only take more element types than the version before, or say the same in other
#: words.  In both directions the node stays as it is, as far as the older version takes its types.
WIDENED: tuple[tuple[str, tuple[int, ...]], ...] = (
    (
        "Abs ArgMax ArgMin Ceil Concat Exp Expand Floor Gather GatherElements GatherND LRN Log Mean "
        "MeanVarianceNormalization Neg NonZero Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceMean ReduceProd ReduceSumSquare ScatterElements ScatterND Sigmoid Sign Slice "
        "SoftmaxCrossEntropyLoss SpaceToDepth Sqrt Sum Tanh Tile",
        (13,),
    ),
    (
        "Acos Acosh Asin Asinh Atan Atanh Bernoulli ConvTranspose Cos Cosh DeformConv Det Elu EyeLike GRU "
        "GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HardSigmoid HardSwish InstanceNormalization "
        "LSTM LpNormalization MaxRoiPool Mish Multinomial RNN RandomNormal RandomNormalLike RandomUniform "
        "RandomUniformLike RoiAlign Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu",
        (22,),
    ),
    ("Add Div Mul Relu Sub", (13, 14)),
    ("Cast", (9, 13, 21, 23, 25, 28)),
    ("CastLike", (21, 23, 25)),
    ("Celu Compress Einsum OneHot Optional OptionalHasElement ReverseSequence Unique", (28,)),
    ("Clip Max Min", (12, 13)),
    ("Constant", (9, 13, 19, 21, 23, 24, 25)),
    ("ConstantOfShape", (20, 21, 23, 24, 25)),
    ("Conv LpPool MaxUnpool", (11, 22)),
    ("CumSum", (14,)),
    ("DepthToSpace Mod", (13, 28)),
    ("DequantizeLinear", (19, 24, 25, 28)),
    ("Dropout NegativeLogLikelihoodLoss", (13, 22)),
    ("Equal", (11, 13, 19)),
    ("Flatten", (9, 13, 21, 23, 24, 25)),
    ("Gemm", (6, 9, 13)),
    ("Greater Less MatMul", (9, 13)),
    ("GreaterOrEqual LeakyRelu LessOrEqual Where", (16,)),
    ("Identity", (13, 14, 16, 19, 21, 23, 24, 25)),
    ("If", (11, 13, 16, 19, 21, 23, 24, 25)),
    ("IsInf", (20,)),
    ("IsNaN", (13, 20)),
    ("Loop", (13, 16, 19, 21, 23, 24, 25)),
    ("MaxPool", (12, 22)),
    ("OptionalGetElement", (18, 28)),
    ("PRelu", (9, 16)),
    ("Pad Transpose", (13, 21, 23, 24, 25)),
    ("Pow", (13, 15)),
    ("QLinearMatMul", (21,)),
    ("QuantizeLinear", (24, 25, 28)),
    ("ReduceMax ReduceMin", (12, 13, 20)),
    ("Reshape Shape Size", (13, 19, 21, 23, 24, 25)),
    ("Scan", (16, 19, 21, 23, 24, 25)),
    ("SplitToSequence TopK", (24,)),
    ("Squeeze Unsqueeze", (21, 23, 24, 25)),
)

#: Operators, and their versions that can do more than the version before: new attributes whose default means what was
#: meant before, negative axes, broadcasting.  Upward the node stays as it is.
GREW: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("ArgMax ArgMin Constant", (11, 12)),
    ("Attention", (24, 25)),
    ("AveragePool", (7, 10, 11, 19, 22)),
    ("BatchNormalization Shape", (15,)),
    ("BitShift SpaceToDepth", (28,)),
    ("Cast CastLike", (19, 24)),
    (
        "Compress Concat ConvTranspose DepthToSpace Flatten Gather Gemm Hardmax LogSoftmax Loop "
        "NonMaxSuppression OneHot ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
        "ReduceMin ReduceProd ReduceSum ReduceSumSquare Scan Slice Softmax Split Squeeze TopK Unsqueeze",
        (11,),
    ),
    ("DequantizeLinear", (13, 21, 23)),
    ("GRU LSTM RNN Reshape", (14,)),
    ("GatherND Pow", (12,)),
    ("LpPool OptionalHasElement", (18,)),
    ("Max Mean Min Sum", (8,)),
    ("MaxPool", (8, 10, 11)),
    ("Pad Resize", (18, 19)),
    ("QuantizeLinear", (13, 21, 23)),
    ("Range", (27,)),
    ("ScatterElements ScatterND", (16, 18)),
)

#: The same of ai.onnx.ml.
GREW_ML: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("LabelEncoder", (4,)),
    ("TreeEnsembleClassifier TreeEnsembleRegressor", (3,)),
)
