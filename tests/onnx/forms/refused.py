"""What operators refuse: a node, its inputs, and the message."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.onnx.model import SparseTensor
from tests.onnx.forms.attention import heads, packed
from tests.onnx.forms.custom import microsoft, qonnx
from tests.onnx.forms.elementwise import BINARY, operands
from tests.onnx.forms.form import Case, case, draw, ints, number, real, whole, words
from tests.onnx.forms.learning import X5, classic, modern
from tests.onnx.forms.learning import case as learn
from tests.onnx.forms.made import E8M0, FLOAT, INT32
from tests.onnx.forms.normalization import batch
from tests.onnx.forms.products import reduction
from tests.onnx.forms.quantized import scale
from tests.onnx.forms.recurrent import layer
from tests.onnx.forms.signal import optimizer
from tests.onnx.forms.signal import whole as count

Rows = list[tuple[Case, str]]

NEWEST, HUGE = 28, 1 << 40
Q, K, V = heads(4, 2)
ONE = number(1)
S, L = draw(2, 3), np.array([0, 3])
X, IMAGE = np.zeros((2, 3), np.float32), np.zeros((1, 1, 2, 2), np.float32)
TEXTS = words("a", "b", "c", "b", shape=(2, 2))


def counted(**changed: Any) -> Case:
    """A vectorizer of one word."""
    plain = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
             "ngram_indexes": [0], "pool_int64s": [5]}  # fmt: skip
    return case("TfIdfVectorizer", 9, np.array([5]), attributes={**plain, **changed})


TOO_LARGE = ("a tensor must be at most 2,147,483,648 bytes (tensor_bytes), not {:,}; "
             "if you trust the model, raise it with --limit tensor_bytes={}")  # fmt: skip
CONV = (1, 3, 9, 8)
FILTERS = draw(4, 3, 3, 3)

#: Equations of Einsum and the shapes of their inputs.
EQUATIONS: list[tuple[str, list[tuple[int, ...]], str]] = [
    ("ij,jk->ik", [(2, 3), (4, 2)], "axis 'j' must have one size, not 3 and 4"),
    ("ij->ik", [(2, 3)], "the output must name axes of the inputs, each once, not 'ik'"),
    ("ij->ii", [(2, 3)], "the output must name axes of the inputs, each once, not 'ii'"),
    ("ij,jk->ik", [(2, 3)], "the equation must be 1 terms of letters and '...', not 'ij,jk->ik'"),
    ("i1->i", [(2, 3)], "the equation must be 1 terms of letters and '...', not 'i1->i'"),
    ("ijk->i", [(2, 3)], "term 'ijk' must name the axes of an input, not of one of shape [2, 3]"),
    ("i->i", [(2, 3)], "term 'i' must name the axes of an input, not of one of shape [2, 3]"),
    ("...i,...i->...", [(2, 3, 4), (5, 3, 4)], "the axes of '...' must fit together by broadcasting"),
]

#: Whole messages.
EXACT: Rows = [
    (case("Add", 6, draw(2, 3, 4), draw(3), broadcast=1),
     "the shape of the second input must be a part of [2, 3, 4] from axis 2 on, not [3]"),
    (case("Max", 6, draw(2, 3), draw(3)), "the input shapes must be equal before operator set 8, not [2, 3] and [3]"),
    (case("TopK", 24, X, ints(4), outputs=2), "k must be one number from 0 to 3, not 4"),
    (case("QuantizeLinear", 17, draw(3, 4), scale(1.0, 2.0), np.zeros(2, np.int8)),
     "scale and zero point must have the shape [4] of axis 1, not [2]"),
    (case("QuantizeLinear", 17, draw(3, 4), scale(1.0), np.zeros((), np.float16)),
     "the inputs must suit the operator, not be float32[3, 4], float32[], float16[] "
     "(input 2 'x2' must be tensor(int8) or tensor(uint8), not tensor(float16))"),
    (microsoft("MultiHeadAttention", *[draw(1, 3, 6)] * 3, num_heads=4), "'num_heads' must divide 6 and 6, not be 4"),
    (microsoft("MultiHeadAttention", draw(1, 3, 6), num_heads=4),
     "query, key and value must be three tensors of three axes; export the model for sequences of one length, "
     "without padding, caches and packed operands"),
    (microsoft("Attention", draw(1, 3, 6), draw(5, 24), num_heads=4),
     "the input [batch, positions, size] and the weights [size, all] must fit together, "
     "not have the shapes [1, 3, 6] and [5, 24]"),
    (case("Attention", 23, packed(Q), packed(K), packed(V)),
     "'q_num_heads' and 'kv_num_heads' must divide the last axes of Q, K and V, "
     "not have the shapes [2, 3, 16], [2, 5, 8] and [2, 5, 12]"),
    (case("Attention", 23, Q, draw(2, 3, 5, 4), draw(2, 3, 5, 6)),
     "the 4 heads of Q must be a multiple of the 3 heads of K and V"),
    (case("Attention", 23, Q, K, V, np.ones((2, 2), np.bool_)),
     "the mask must broadcast to [2, 4, 3, 5], not have the shape [2, 2]"),
    (case("Attention", 23, Q, K, V, qk_matmul_output_mode=4),
     "'qk_matmul_output_mode' must be 0 to 3, not 4; export the model again"),
    (case("LinearAttention", 27, draw(1, 2, 4), draw(1, 2, 4), draw(1, 2, 4), q_num_heads=2, kv_num_heads=2),
     "the inputs 'decay' and 'beta' must be those that the rule 'gated_delta' takes, no fewer, no more"),
    (case("RotaryEmbedding", 23, draw(1, 1, 2, 4), draw(3, 2), draw(3, 2), np.array([[0, 3]])),
     "'position_ids' must be 0 or more and below the 3 rows of the caches"),
    (case("QuantizeLinear", 21, draw(2, 3), scale(1.0), np.zeros((), np.int8), output_dtype=2),
     "'output_dtype' must be the type of the zero point, int8, not uint8"),
    (case("QuantizeLinear", 21, draw(2, 3), draw(2, 1), block_size=10**9),
     "'block_size' must be 0 to the size of axis 1, not 1000000000; quantize the model again"),
    (case("QuantizeLinear", 23, draw(2, 3), scale(1.0), precision=7),
     "'precision' must be a float type of 16 bits or more, not int64; export the model again"),
    (case("MatMulInteger", 10, whole(np.uint8, 2, 3), whole(np.uint8, 2, 3)),
     "the matrices must fit together, not have the shapes [2, 3] and [2, 3]"),
    (case("MatMulInteger", 10, whole(np.uint8, 2, 3), whole(np.uint8, 3, 4), whole(np.uint8, 3)),
     "scale and zero point must be one number or one for each row or column of [2, 3], not have the shape [3]"),
    (case("ConvInteger", 10, whole(np.uint8, 1, 1, 3, 3), whole(np.uint8, 1, 1, 2, 2), whole(np.uint8, 2)),
     "the zero point of the input must be one number, not have the shape [2]"),
    (microsoft("QLinearConcat", scale(1.0), number(0, np.uint8), whole(np.uint8, 2), scale(1.0), number(0, np.uint8),
               whole(np.uint8, 2), axis=0),
     "the inputs must be tensor, scale and zero point each time, not 4 in all"),
    (microsoft("QLinearSigmoid", whole(np.uint8, 2), scale(1.0, 2.0), None, scale(1.0)),
     "scale and zero point must be one number, not have the shape [2]"),
    (microsoft("FusedConv", draw(1, 1, 2, 2), draw(1, 1, 1, 1), activation="Gelu"),
     "'activation' must be one of affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, softplus, "
     "softsign, tanh, thresholdedrelu, not 'Gelu'"),
    (microsoft("BiasGelu", draw(2, 3), draw(2)), "the bias must have the shape [3], not [2]"),
    (case("BatchNormalization", 15, *batch(2, 3, 4)[:4], draw(4)),
     "the parameters must have the shape [3], not [4]"),
    (case("BatchNormalization", 15, *batch(2, 3, 4), outputs=3),
     "outputs beyond the first must not be named without training; export the model again"),
    (case("InstanceNormalization", 6, draw(2, 3, 4), draw(2), draw(2)),
     "scale and bias must have the shape [3], not [2]"),
    (case("GroupNormalization", 21, draw(2, 6, 4), draw(6), draw(6), num_groups=4),
     "'num_groups' must divide the channels of the input [2, 6, 4], not be 4"),
    (case("LayerNormalization", 17, draw(2, 3), draw(3), axis=2),
     "the axis must be -2 to 1, not 2; export the model again"),
    (case("LayerNormalization", 17, draw(1, 3), draw(2, 3)),
     "scale and bias must broadcast to the input [1, 3], not have the shape [2, 3]"),
    (case("LpNormalization", 22, draw(2, 3), p=3), "'p' must be 1 or 2, not 3; export the model again"),
    (case("LRN", 13, draw(2, 3), size=0), "'size' must be 1 or more and the input have channels, not 0 and [2, 3]"),
    (case("ConvTranspose", 11, draw(1, 4, 5, 5), draw(3, 2, 3, 3)),
     "1 groups must divide the channels, not input [1, 4, 5, 5] and weights [3, 2, 3, 3]"),
    (case("ConvTranspose", 11, draw(1, 4, 5, 5), draw(4, 2, 3, 3), output_shape=[3]),
     "'output_shape' must be 2 numbers of 1 or more, not [3]"),
    (case("ConvTranspose", 11, draw(1, 4, 2, 2), draw(4, 2, 3, 3), pads=[2, 2, 2, 2]),
     "the padding must leave something of the output, not its size [0, 0]"),
    (case("Conv", 11, draw(1, 4, 5, 5), draw(4, 4, 3, 3), draw(3)),
     "the bias must have the shape [4], not [3]"),
    (case("Conv", 11, draw(1, 4, 5, 5), draw(4, 4, 3, 3), strides=[1]),
     "'strides' must be 2 numbers of 1 or more, not [1]"),
    (case("LpPool", 2, draw(1, 4, 5, 5), kernel_shape=[2, 2], p=0),
     "'p' must be more than 0, not 0; export the model again"),
    (case("LpPool", 1, draw(1, 4, 5, 5)),
     "attribute 'kernel_shape' must be given, not left out; export the model again"),
    (case("MaxPool", 11, draw(1, 4, 5, 5), kernel_shape=[2]),
     "'kernel_shape' must be 2 numbers of 1 or more, not [2]"),
    (case("GlobalMaxPool", 1, draw(1, 4, 0)),
     "the input must have spatial axes with elements, not the shape [1, 4, 0]"),
    (case("DeformConv", 19, draw(1, 2, 5, 5), draw(2, 2, 3, 3), draw(1, 9, 3, 3)),
     "the input 'offset' must have the shape [1, 18, 3, 3], not [1, 9, 3, 3]"),
    (qonnx("Quant", [1.0], 1.0, 0.0, 8, rounding_mode="TIE"),
     "'rounding_mode' must be one of ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, ROUND_TO_ZERO, HALF_UP, HALF_DOWN, "
     "not 'TIE'; export the model again"),
    (qonnx("Quant", [1.0], 1.0, 0.0, 2.5), "the bit width must be a whole number of 1 to 64, not 2.5"),
    (qonnx("Quant", [1.0], [1.0, 2.0], 0.0, 8), "the parameters must broadcast to the input [1], not make it [2]"),
    (qonnx("MultiThreshold", draw(2, 3), draw(2, 4), out_dtype="UINT2"),
     "the thresholds must be for 1 or 3 channels, not 2"),
    (layer("GRU", direction="both"), "'direction' must be forward, reverse or bidirectional, not 'both'"),
    (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 3), draw(1, 6, 6)),
     "the input 'W' must have the shape [1, 6, 4], not [1, 6, 3]"),
    (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 4), draw(1, 6, 6), hidden_size=7),
     "'hidden_size' must be that of the weights, 6, not 7"),
    (case("RNN", 14, draw(5, 3, 4), draw(1, 6, 4), draw(1, 6, 6), None, np.array([1, 2, 9], np.int32)),
     "'sequence_lens' must be 0 to 5, not [1, 2, 9]"),
    (layer("RNN", activations=["Swish"]),
     "'activations' must be 1 names of affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, softplus, "
     "softsign, tanh, thresholdedrelu (case does not matter), not Swish"),
    (case("HannWindow", 17, count(0)),
     "the size of the window must be 1 or more, not 0; export the model again"),
    (case("DFT", 20, draw(2, 7, 1), None, count(2)),
     "the axis must not be the last, that of complex numbers, not 2; export the model again"),
    (case("DFT", 20, draw(2, 7, 2), onesided=1),
     "the input of a one-sided transform must be real, not have the shape [2, 7, 2]"),
    (case("DFT", 20, draw(2, 7, 3)),
     "the last axis of the input must be 1 (real) or 2 (complex), not of [2, 7, 3]"),
    (case("STFT", 17, draw(2, 7, 1), count(0), draw(4)),
     "the step of frames must be 1 or more, not 0; export the model again"),
    (case("STFT", 17, draw(2, 7, 1), count(1), draw(8)),
     "the length of frames must be 1 to the signal's 7, not 8"),
    (optimizer("Adam", ONE, count(0), draw(3), draw(3), draw(3), draw(2), outputs=3),
     "the tensors must be 4 equal parts of the same shapes, not [3], [3], [3], [2]"),
]  # fmt: skip

#: How messages start.
STARTS: Rows = [
    *((case(op, 6, *operands(op, (2, 3), (3,))),
       "the input shapes must be equal without attribute broadcast=1, not [2, 3] and [3]") for op in BINARY),
    *((reduction("ReduceSum", opset, S, [2]), "the axis must be -2 to 1, not 2") for opset in (1, 13)),
    *((case("Einsum", 12, *(draw(*shape) for shape in shapes), equation=equation), message)
      for equation, shapes, message in EQUATIONS),
    (case("Cast", 13, np.array(["Hello"], object), to=FLOAT), "the texts must be numbers that float32 holds"),
    (case("Cast", 13, np.array(["inf"], object), to=INT32), "the texts must be numbers that int32 holds"),
    (case("Cast", 1, ONE, to="INT24"), "attribute 'to' must be one of BOOL, DOUBLE"),
    (case("Cast", 24, ONE, to=E8M0, round_mode="odd"), "attribute 'round_mode' must be one of up, down, nearest"),
    (case("Range", 11, ONE, ONE, 0 * ONE), "'start', 'limit' and 'delta' (not 0) must be finite, not 1.0, 1.0, "),
    (case("Range", 11, 0 * ONE, 3e38 * ONE, np.array(1e-40, np.float32)), "the number of elements must be finite"),
    (case("EyeLike", 9, draw(2, 3, 4)), "the input must be a matrix, not have the shape [2, 3, 4]"),
    (case("RandomNormal", 1, shape=(2,), scale=-1.0), "attribute 'scale' must be 0 or more, not -1.0"),
    (case("Multinomial", 7, draw(3)), "the input must be [rows, classes]"),
    (case("Constant", 13, value_int=1, value_float=2.0), "a constant must have exactly one value"),
    (case("Constant", 13, sparse_value=SparseTensor(np.ones(1, np.float32), np.array([6]), (3, 2))),
     "the sparse value must have one index below [6] for each of its 1 values"),
    (classic(nodes_truenodeids=[0, 0, 0]), "the nodes must be trees, not have several ways to node 0"),
    (classic(nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "LEAF"], nodes_truenodeids=[1, 1, 0],
             nodes_falsenodeids=[2, 2, 0]), "the nodes must be trees, not have several ways to node 1"),
    (classic(nodes_falsenodeids=[9, 0, 0]), "the children must be nodes of their tree, not node 9"),
    (classic(nodes_falsenodeids=[-1, 0, 0]), "the children must be nodes of their tree, not node -1"),
    (classic(nodes_nodeids=[0, 1, 1]), "each node id must be there once in a tree, not twice"),
    (classic(nodes_nodeids=[0, 1, 1 << 62]), "the node ids must be 0, 1, ... in each tree"),
    (classic(nodes_values=[0.5]), "attribute 'nodes_values' must have 3 elements, not 1"),
    (classic(nodes_modes=["BRANCH_LEQ", "LEAF", "LEAVE"]), "'nodes_modes' must be 3 of BRANCH_LEQ, BRANCH_LT"),
    (classic(nodes_featureids=[2, 0, 0]), "the features must be 0 to 1, not 2 to 2"),
    (classic(target_ids=[0, 5]), "the targets of leaves must be 0 to 0, not 0 to 5"),
    (classic(target_treeids=[0, 1]), "'target_treeids' must be ids of trees"),
    (classic(target_nodeids=[1, 7]), "the leaves with votes must be nodes of their tree, not node 7"),
    (classic(aggregate_function="MEDIAN"), "'aggregate_function' must be one of AVERAGE, SUM, MIN, MAX"),
    (classic(post_transform="TANH"), "attribute 'post_transform' must be NONE, LOGISTIC"),
    (modern(nodes_truenodeids=[0, 0, 2]), "the nodes must be trees, not have several ways to node 0"),
    (modern(nodes_truenodeids=[1, 0, 4]), "'nodes_truenodeids' must be nodes below 3 or leaves below 4"),
    (modern(tree_roots=[3]), "'tree_roots' must be nodes below 3, not [3]"),
    (modern(nodes_modes=np.array([0, 7, 3], np.uint8)), "'nodes_modes' must be 0 to 6, not 0 to 7"),
    (modern(leaf_targetids=[0, 1, 0, 2]), "the targets of leaves must be 0 to 1, not 0 to 2"),
    (learn("LinearRegressor", 1, X5, coefficients=[1.0]), "there must be 1 x 2 coefficients and 1 intercepts"),
    (learn("Scaler", 1, X5, scale=[1.0] * 3), "'scale' must have 1 element or one for each feature of [5, 2]"),
    (learn("Normalizer", 1, X5, norm="L3"), "attribute 'norm' must be MAX, L1 or L2, not 'L3'"),
    (learn("ArrayFeatureExtractor", 1, X5, np.array([2])), "the indices must be 0 to 1, not 2 to 2"),
    (learn("OneHotEncoder", 1, np.array([3]), cats_int64s=[1], zeros=0), "the values must be among the categories"),
    (learn("LabelEncoder", 2, np.array([3]), keys_int64s=[1, 2], values_strings=["a"]),
     "the keys must be of the input's type and as many as the values"),
    (learn("ZipMap", 1, X5, classlabels_int64s=[1]), "there must be a label for each of 2 columns, not 1"),
    (case("NegativeLogLikelihoodLoss", 13, S, L), "the labels must be 0 to 2, not 3"),
    (case("SoftmaxCrossEntropyLoss", 13, S, L[:1]), "the labels must have the shape of the scores without axis 1"),
    (case("SoftmaxCrossEntropyLoss", 13, S, L, S[0, :2]), "the weights must be one for each of 3 classes, not [2]"),
    (case("NegativeLogLikelihoodLoss", 13, S, L, reduction="max"), "attribute 'reduction' must be none, sum or"),
    (case("StringNormalizer", 10, words("a", "b", shape=(2, 1))), "the input must have the shape [C] or [1, C]"),
    (case("StringNormalizer", 10, words("a"), case_change_action="TITLE"),
     "attribute 'case_change_action' must be LOWER"),
    (case("StringConcat", 20, words("a", "b", "c"), words("a", "b")),
     "the input shapes must fit together by broadcasting"),
    (counted(mode="IDFTF"), "there must be 1 'ngram_indexes' and 'mode' TF, IDF or TFIDF, not 1, 'IDFTF'"),
    (counted(ngram_counts=[2]), "'ngram_counts' must rise in whole n-grams up to the pool's size 1"),
    (counted(ngram_counts=[0, 0]), "'ngram_counts' must rise in whole n-grams up to the pool's size 1"),
    (counted(ngram_indexes=[-1]), "'ngram_indexes' must be numbers of 0 or more, not [-1]"),
    (counted(ngram_indexes=[1 << 40]), "a tensor must be at most"),
    (counted(pool_strings=["a"]), "the n-grams must be in one of pool_int64s and pool_strings"),
    (counted(weights=[1.0, 2.0], mode="IDF"), "there must be 1 weights, one for each n-gram, not 2"),
    (case("Add", 7, X, np.zeros(2, np.float32)), "the input shapes must fit together by broadcasting"),
    (case("Clip", 13, X, np.zeros(2, np.float32)), "input 'min' must be one number, not have the shape [2]"),
    (case("PRelu", 6, X, np.zeros(2, np.float32)), "the slope must have 1 or 3 elements (channels), not 2"),
    (case("PRelu", 16, X, np.zeros((2, 2, 3), np.float32)), "the slope must be broadcastable to [2, 3]"),
    (case("Gelu", 20, X, approximate="exact"), "attribute 'approximate' must be none or tanh, not 'exact'"),
    (case("SwiGLU", 28, X, X[:1]), "the input shapes must be equal, not [2, 3] and [1, 3]"),
    (case("BitShift", 11, X.astype(np.uint8), X.astype(np.uint8), direction="UP"),
     "attribute 'direction' must be LEFT or RIGHT, not 'UP'"),
    (case("BitCast", 26, X, to=7), "the bits of float32 must be read as a type of the same size, not as int64"),
    (case("BitCast", 26, X, to=8), "the bits of float32 must be read as a type of the same size, not as string"),
    (case("Softmax", 11, X, axis=2), "the axis must be -2 to 1, not 2"),
    (case("Det", 11, X), "the last two axes must be a square matrix, not those of [2, 3]"),
    (case("MatMul", 13, X, X), "the matrices must fit together, not be [2, 3] and [2, 3]"),
    (case("Gemm", 6, X, X.T, X[0, :2]), "C must have the shape [2, 2] without attribute broadcast=1"),
    (case("CumSum", 14, X, np.array(2)), "the axis must be -2 to 1, not 2"),
    (case("Dropout", 13, X, np.array(1, np.float32), np.array(True)), "the ratio must be 0 to below 1, not 1.0"),
]  # fmt: skip

#: Of operators that move elements, in their newest versions: inputs, attributes, whole messages.
MOVING: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Reshape", [X, ints(2, 3, 0)], {}, "0 in the new shape must stand for a dim of [2, 3], not be in [2, 3, 0]"),
    ("Reshape", [X, ints(0, -1)], {"allowzero": 1},
     "the new shape must keep 6 elements, not be [0, -1] for an input of [2, 3]"),
    ("Transpose", [X], {"perm": (0, 0)}, "'perm' must hold 0 to 1 once each, not [0, 0]"),
    ("Unsqueeze", [X, ints(0, -4)], {}, "'axes' must name each axis once, not be [0, -4]"),
    ("DepthToSpace", [X], {"blocksize": 2},
     "the input must be [N, C, H, W] with a 'blocksize' of 1 or more and mode DCR or CRD, "
     "not [2, 3] with 2 and 'DCR'"),
    ("DepthToSpace", [IMAGE], {"blocksize": 2}, "the channels must be a multiple of 4, not 1"),
    ("SpaceToDepth", [IMAGE], {"blocksize": 3}, "the height and width must be multiples of 3, not 2 and 2"),
    ("Split", [X, ints(3)], {"axis": 1, "num_outputs": 2},
     "'num_outputs' must be 1, the number of outputs, without sizes of the parts"),
    ("Tile", [X, ints(2)], {}, "the repeats must be 2 numbers of 0 or more, one per axis, not [2]"),
    ("Tile", [X, ints(2, -1)], {}, "the repeats must be 2 numbers of 0 or more, one per axis, not [2, -1]"),
    ("Slice", [X, ints(0, 0), ints(1, 1), ints(0, -2)], {}, "'axes' must name each axis once, not be [0, -2]"),
    ("Slice", [X, ints(0), ints(1), ints(2)], {}, "the axis must be -2 to 1, not 2; export the model again"),
    ("Pad", [X, ints(1)], {}, "pads must be 4 numbers, a begin and an end per axis, not [1]"),
    ("Pad", [X, ints(0, 0, 0, 0)], {"mode": "mirror"},
     "'mode' must be constant, reflect, edge or wrap, not 'mirror'"),
    ("Pad", [X[:0], ints(0, 0, 1, 0)], {"mode": "edge"},
     "an axis must have elements to be continued by mode 'edge', not 0"),
    ("CenterCropPad", [X, ints(1)], {}, "the shape must be 2 numbers, one per axis, not [1]"),
    ("GatherElements", [X, ints(0)], {},
     "the indices must have the rank of the data and, except in axis 0, no larger dims, "
     "not be [1] for data of [2, 3]"),
    ("GatherElements", [X, ints(2).reshape(1, 1)], {}, "the indices must be -2 to 1, not 2 to 2"),
    ("GatherND", [X, ints(0, -4).reshape(1, 2)], {}, "the indices must be -3 to 2, not -4 to -4"),
    ("GatherND", [X, ints(0, 0, 0)], {}, "the last dim of the indices must be 1 to 2, not 3"),
    ("GatherND", [X, X.astype(np.int64)[:1]], {"batch_dims": 1},
     "'batch_dims' must be a number of first dims that data and indices share, not 1 for [2, 3] and [1, 3]"),
    ("Compress", [X, X > 0], {},
     "the condition must have one axis and the input at least one, not be [2, 3] and [2, 3]"),
    ("OneHot", [ints(1), ints(1, 2), real(0, 1)], {},
     "the depth must be one number, not a tensor of the shape [2]"),
    ("OneHot", [ints(1), ints(1), real(0)], {}, "the values must be two, off and on, not a tensor of [1]"),
    ("ReverseSequence", [X, ints(1, 4)], {"batch_axis": 0, "time_axis": 1},
     "the lengths must be 2 numbers from 0 to 3, not [1, 4]"),
    ("ReverseSequence", [X, ints(1, 1, 1)], {"batch_axis": 1, "time_axis": 1},
     "'batch_axis' and 'time_axis' must be 0 and 1 or 1 and 0 of an input with two axes or more, "
     "not 1 and 1 of [2, 3]"),
    ("Trilu", [X[0]], {}, "the input must have two axes or more, not be [3]"),
    ("ScatterElements", [X, ints(0, 1).reshape(1, 2), X[:1]], {},
     "indices and updates must have one shape that fits into the data except in axis 0, "
     "not be [1, 2] and [1, 3] for data of [2, 3]"),
    ("ScatterElements", [X, ints(3).reshape(1, 1), X[:1, :1]], {"axis": 1},
     "the indices must be -3 to 2, not 3 to 3"),
    ("ScatterElements", [TEXTS, ints(0).reshape(1, 1), TEXTS[:1, :1]], {"reduction": "add"},
     "'reduction' must be none, or for numbers one of add, mul, max, min, not 'add' for texts"),
    ("ScatterND", [X, ints(0).reshape(1, 1), X], {},
     "the last dim of the indices must be 1 to 2 and the updates [1, 3], "
     "not indices of [1, 1] and updates of [2, 3]"),
    ("TensorScatter", [X, X[:, :1], ints(0, 3)], {"axis": 1},
     "the write indices must be 2 numbers from 0 to 2, not [0, 3]"),
    ("TensorScatter", [X, X], {"axis": 0},
     "the update must have the shape of the cache [2, 3] with at most 2 elements in axis 0, which must not be 0, "
     "and mode linear or circular, not [2, 3] and 'linear'"),
    ("ArgMax", [X[:0]], {}, "axis 0 must have 1 element or more, not be that of [0, 3]"),
    ("Resize", [X, None, real(1, 1), ints(1, 1)], {}, "either scales or sizes must be given, not both"),
    ("Resize", [X], {}, "either scales or sizes must be given, not none of them"),
    ("Resize", [X, None, real(1, 0)], {}, "the scales must be 2 numbers above 0, not [1.0, 0.0]"),
    ("Resize", [X, None, real(1, np.inf)], {}, "the scales must be 2 numbers above 0, not [1.0, inf]"),
    ("Resize", [X[:0], None, None, ints(1, 1)], {},
     "the sizes must be 2 numbers, 0 for an axis of 0 elements, not [1, 1]"),
    ("Resize", [X, None, None, ints(4, 4)], {"mode": "spline"},
     "'mode' must be nearest, linear or cubic, not 'spline'"),
    ("Resize", [X, None, None, ints(4, 4)], {"nearest_mode": "up"},
     "'nearest_mode' must be round_prefer_floor, round_prefer_ceil, floor or ceil, not 'up'"),
    ("Resize", [X, None, None, ints(4, 4)], {"coordinate_transformation_mode": "tf_half_pixel_for_nn"},
     "'coordinate_transformation_mode' must be one of operator set 28, not 'tf_half_pixel_for_nn'"),
    ("Resize", [X, real(0, 1), None, ints(4, 4)], {"coordinate_transformation_mode": "tf_crop_and_resize"},
     "roi must be 4 numbers, a start and an end per axis, for tf_crop_and_resize"),
    ("Resize", [TEXTS, None, None, ints(4, 4)], {"mode": "linear"},
     "'mode' must be nearest for texts, not 'linear'"),
    ("RoiAlign", [IMAGE, real(0, 0, 1, 1).reshape(1, 4), ints(1)], {},
     "the image of each region must be 0 to 0, not 1 to 1"),
    ("RoiAlign", [IMAGE, real(0, 0, 1, np.nan).reshape(1, 4), ints(0)], {},
     "'mode' must be avg or max, 'sampling_ratio' 0 or more and the regions finite, not 'avg' and 0"),
    ("MaxRoiPool", [IMAGE, real(-1, 0, 0, 1, 1).reshape(1, 5)], {"pooled_shape": (1, 1)},
     "the image of each region must be 0 to 0, not -1 to -1"),
    ("NonMaxSuppression", [X.reshape(1, 1, 6), X], {},
     "the boxes must be [N, n, 4] and the scores [N, classes, n], not [1, 1, 6] and [2, 3]"),
    ("GridSample", [IMAGE, X], {},
     "the grid must be [N, d1, ..., dr, r] for an input [N, C, D1, ..., Dr], not [2, 3] for [1, 1, 2, 2]"),
    ("AffineGrid", [X.reshape(1, 2, 3), ints(2, 1, 4, 4)], {},
     "the size must be [N, C, H, W] with theta [N, 2, 3] or [N, C, D, H, W] with theta [N, 3, 4], "
     "not [2, 1, 4, 4] with theta [1, 2, 3]"),
    ("MaxUnpool", [IMAGE, np.full((1, 1, 2, 2), 9)], {"kernel_shape": (2, 2)},
     "the indices must be -9 to 8, not 9 to 9"),
    ("MaxUnpool", [IMAGE, np.full((1, 1, 2, 2), -1)], {"kernel_shape": (2, 2)},
     "the indices must be 0 to 8, not -1 to -1"),
    ("Col2Im", [TEXTS.reshape(1, 4, 1), ints(2, 2), ints(2, 2)], {},
     "the elements must be numbers, not texts: what lies over each other is added"),
    ("Col2Im", [X.reshape(1, 3, 2), ints(4, 4), ints(2, 2)], {},
     "the input must be [N, C * 4, 9] for an image of [4, 4] in blocks of [2, 2], not [1, 3, 2]"),
]  # fmt: skip

#: Operator, the shape of its first input, constants behind it, attributes, whole message.  Inference says it, too,
#: where it looks that far: at no indices, not at the axis of Softmax; a convolution's attributes meet a rule first.
BOTH: list[tuple[str, tuple[int, ...], list[np.ndarray], dict[str, Any], str]] = [
    ("Reshape", (2, 3), [ints(4, 2)], {}, "the new shape must keep 6 elements, not be [4, 2] for an input of [2, 3]"),
    ("Reshape", (2, 3), [ints(-1, -1)], {},
     "the new shape must keep 6 elements, not be [-1, -1] for an input of [2, 3]"),
    ("Squeeze", (2, 3), [ints(1)], {}, "the axes to remove must have 1 element, not the axes [1] of [2, 3]"),
    ("Gather", (2, 3), [ints(2)], {}, "the indices must be -2 to 1, not 2 to 2"),
    ("Slice", (2, 3), [ints(0), ints(1), ints(0), ints(0)], {},
     "starts, ends, axes and steps must be of equal number with steps other than 0, not [0], [1], [0], [0]"),
    ("Split", (2, 3), [ints(1, 2)], {}, "the parts must be 1 sizes that add up to 2, not [1, 2]"),
    ("Expand", (2, 3), [ints(4)], {}, "the shape must be one that [2, 3] broadcasts to, not [4]"),
    ("Expand", (1,), [ints(1 << 40)], {}, TOO_LARGE.format(4 << 40, 4 << 40)),
    ("Pad", (2,), [ints(0, 1 << 40)], {}, TOO_LARGE.format((4 << 40) + 8, (4 << 40) + 8)),
    ("MatMul", (2, 3), [draw(2, 3)], {}, "the matrices must fit together, not be [2, 3] and [2, 3]"),
    ("Gemm", (2, 3), [draw(2, 3)], {}, "the matrices must fit together, not be [2, 3] and [2, 3] before transA/B"),
    ("TopK", (2, 3), [ints(4)], {}, "k must be one number from 0 to 3, not 4"),
    ("Add", (2, 3), [draw(4)], {}, "the input shapes must fit together by broadcasting, not be [2, 3] and [4]"),
    ("PRelu", (2, 3), [draw(2, 1, 1)], {},
     "the slope must be broadcastable to [2, 3], not have the shape [2, 1, 1]"),
    ("Softmax", (2, 3), [], {"axis": 5}, "the axis must be -2 to 1, not 5; export the model again"),
    ("Conv", CONV, [draw(4, 2, 3, 3)], {},
     "1 groups must divide the channels, not input [1, 3, 9, 8] and weights [4, 2, 3, 3]"),
    ("Conv", CONV, [draw(4, 3, 3)], {},
     "input and weights must have the same rank of 3 or more, not be [1, 3, 9, 8] and [4, 3, 3]"),
    ("Conv", (1, 3, 2, 2), [FILTERS], {},
     "the kernel [3, 3] must fit into the padded input, not exceed its size [2, 2]"),
    ("Conv", CONV, [FILTERS], {"kernel_shape": [5, 5]},
     "'kernel_shape' must be that of the weights, [3, 3], not [5, 5]"),
    ("Conv", CONV, [FILTERS], {"pads": [1, 1]}, "'pads' must be 4 numbers of 0 or more, not [1, 1]"),
    ("Conv", CONV, [FILTERS], {"strides": [0, 1]}, "'strides' must be 2 numbers of 1 or more, not [0, 1]"),
    ("Conv", CONV, [FILTERS], {"auto_pad": "SAME"},
     "'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not 'SAME'"),

]  # fmt: skip
EVALUATED_ONLY = ("Gather", "Softmax", "Conv")
