"""Each step from one version of an operator to the next, against numpy (or onnxruntime on the model as it was)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx import Model, convert_opset
from hwflow.onnx.build import make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.model import Value
from hwflow.onnx.rules.finding import Severity
from tests.quantize.models import session

NEWEST = 28
RNG = np.random.default_rng(5)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def listed(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@dataclass(frozen=True)
class Case:
    """A node of operator set `opset`; inputs in `constants` are initializers.  `expected`: None asks onnxruntime."""

    op: str
    opset: int
    inputs: tuple[Any, ...]
    expected: Any
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    outputs: tuple[str, ...] = ("y",)

    def model(self, shapes: bool = True) -> Model:
        given = {f"x{i}": array for i, array in enumerate(self.inputs) if array is not None}
        constants = {f"x{i}": given.pop(f"x{i}") for i in self.constants}
        node = make_node(self.op, (f"x{i}" for i in range(len(self.inputs))), self.outputs, name="n", **self.attributes)
        inputs = [Value(name, tensor_type(a.dtype, a.shape if shapes else None)) for name, a in given.items()]
        outputs = [Value(name, tensor_type(array.dtype)) for name, array in self.wanted().items()]
        return make_model(make_graph([node], inputs, outputs, constants), opset=self.opset)

    def wanted(self) -> dict[str, np.ndarray]:
        found = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        return {name: np.asarray(array) for name, array in zip(self.outputs, found, strict=True) if name}

    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{i}": a for i, a in enumerate(self.inputs) if a is not None and i not in self.constants}


def case(
    op: str, opset: int, *inputs: Any, expected: Any, constants: Any = (), outputs: Any = ("y",), **attributes: Any
) -> Case:
    return Case(op, opset, inputs, expected, attributes, tuple(constants), tuple(outputs))


def softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


def normalized(x: np.ndarray, scale: Any, bias: Any, mean: Any, var: Any) -> np.ndarray:
    """Parameters of a shape that broadcasts; float64 inside."""
    x, scale, bias, mean, var = (np.asarray(a, np.float64) for a in (x, scale, bias, mean, var))
    return ((x - mean) / np.sqrt(var + 1e-5) * scale + bias).astype(np.float32)


X = real(2, 3, 4, 5)
PER_CHANNEL, PER_PLANE, WEIGHTS = real(3), real(3, 4), real(5, 2)
GROUPS, TWICE = (listed(1, 2), listed(3, -4)), np.tile(X, (1, 2, 1, 1))
SPECTRUM = np.fft.fft(X, axis=1)
MODERN: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Equal": np.equal, "Less": np.less, "Greater": np.greater,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip


def of_type(op: str, array: np.ndarray) -> np.ndarray:
    if op in ("And", "Or", "Xor"):
        return array > 0
    return np.abs(array) + 0.5 if op == "Pow" else np.rint(array).astype(np.int64) if op == "Equal" else array


def binary(op: str, opset: int, b: np.ndarray, shape: tuple[int, ...], **attributes: Any) -> Case:
    a, b = of_type(op, X), of_type(op, b)
    return case(op, opset, a, b, expected=MODERN[op](a, b.reshape(shape)), broadcast=1, **attributes)


BROADCAST = [
    *(binary(op, 6 if op in ("Add", "Sub", "Mul", "Div") else 1, PER_CHANNEL, (3, 1, 1), axis=1) for op in MODERN),
    binary("Add", 1, PER_PLANE, (3, 4, 1), axis=-3, consumed_inputs=[0, 0]),
    binary("Add", 6, real(4, 5), (4, 5)),
    binary("Mul", 6, listed(2), (1,), axis=1),
    case("Sub", 6, X, X[::-1], expected=X - X[::-1]),
    case("PRelu", 6, X, PER_CHANNEL, expected=np.where(X < 0, X * PER_CHANNEL[:, None, None], X)),
    case("PRelu", 1, X, listed(0.5), expected=np.where(X < 0, X / 2, X), consumed_inputs=[0]),
    case(
        "PRelu",
        6,
        X[0, 0],
        listed(1, 2, 3, 4, 5),
        expected=np.where(X[0, 0] < 0, X[0, 0] * listed(1, 2, 3, 4, 5), X[0, 0]),
    ),
    case("Gemm", 1, X[0, 0], WEIGHTS, listed(1, 2), broadcast=1, expected=X[0, 0] @ WEIGHTS + listed(1, 2)),
]

STATISTICS = tuple(np.abs(real(3)) + 0.5 for _ in range(4))
FULL = tuple(np.abs(real(3, 4, 5)) + 0.5 for _ in range(4))
BATCH_MEAN, BATCH_VAR = X.mean(axis=(0, 2, 3)), X.var(axis=(0, 2, 3))
TRAINED = (
    normalized(X, *(p[:, None, None] for p in (*STATISTICS[:2], BATCH_MEAN, BATCH_VAR))),
    0.9 * STATISTICS[2] + 0.1 * BATCH_MEAN,
    0.9 * STATISTICS[3] + 0.1 * BATCH_VAR,
    BATCH_MEAN,
    BATCH_VAR,
)
FIVE = ("y", "mean", "var", "saved_mean", "saved_var")

NORMALIZATION = [
    case("BatchNormalization", 1, X, *STATISTICS, is_test=1, consumed_inputs=[0, 0, 0, 1, 1],
         expected=normalized(X, *(p[:, None, None] for p in STATISTICS))),
    case("BatchNormalization", 6, X, *STATISTICS, expected=TRAINED[0]),
    case("BatchNormalization", 6, X, *STATISTICS, expected=TRAINED, outputs=FIVE),
    case("BatchNormalization", 7, X, *FULL, spatial=0, expected=normalized(X, *FULL)),
    case("BatchNormalization", 7, X, *FULL, spatial=0, outputs=("y", "", "var"),
         expected=(normalized(X, *FULL[:2], X.mean(0), X.var(0)), None, 0.9 * FULL[3] + 0.1 * X.var(0))),
    case("BatchNormalization", 9, X, *STATISTICS, expected=TRAINED, outputs=FIVE),
    case("BatchNormalization", 9, X, *STATISTICS, expected=(TRAINED[0], None, TRAINED[2]), outputs=("y", "", "var")),
    *(case("Softmax", 9, X, axis=axis, expected=softmax(X, tuple(range(axis, 4)))) for axis in range(4)),
    case("Softmax", 11, X, axis=-2, expected=softmax(X, (2, 3))),
    case("LogSoftmax", 1, X, expected=np.log(softmax(X, (1, 2, 3)))),
    case("Hardmax", 11, X[:, 0], expected=(X[:, 0] == X[:, 0].max(axis=(1, 2), keepdims=True)).astype(np.float32)),
    case("GroupNormalization", 18, TWICE, *GROUPS, num_groups=2,
         expected=normalized(TWICE, *(p.repeat(3)[:, None, None] for p in GROUPS),
                             *(f(X, axis=(1, 2, 3), keepdims=True) for f in (np.mean, np.var)))),
]  # fmt: skip

BIG = np.float32([-np.inf, -2, 0.5, np.inf])
END = np.finfo(np.float32).max

ELEMENTWISE = [
    case("Clip", 1, BIG, expected=BIG),
    case("Clip", 1, BIG, min=0.0, expected=listed(0, 0, 0.5, np.inf)),
    case("Clip", 6, BIG, max=0.25, expected=listed(-END, -2, 0.25, 0.25)),
    case("Clip", 6, BIG.astype(np.float64), min=-1.5, max=0.25, expected=np.array([-1.5, -1.5, 0.25, 0.25])),
    case("Cast", 1, listed(0, 1.5), to="int32", expected=np.int32([0, 1])),
    case("Selu", 1, listed(-1, 2), expected=listed(1.0507 * 1.6732 * np.expm1(-1), 2 * 1.0507)),
    case("Relu", 1, listed(-1, 2), expected=listed(0, 2), consumed_inputs=[0]),
    case("Erf", 9, np.int32([-3, 0, 3]), expected=np.int32([0, 0, 0])),
    case("Dropout", 1, X, is_test=1, consumed_inputs=[0], expected=X),
    case("Dropout", 7, X, ratio=0.25, expected=(X, np.ones_like(X)), outputs=("y", "mask")),
    case("Dropout", 10, X, ratio=0.25, expected=(X, np.ones(X.shape, np.bool_)), outputs=("y", "mask")),
]

AXES = [
    case("ReduceMean", 1, X, axes=[1, 3], expected=X.mean((1, 3), keepdims=True)),
    case("ReduceMax", 13, X, keepdims=0, expected=X.max()),
    case("ReduceSum", 11, X, axes=[-1], keepdims=0, expected=X.sum(-1)),
    case("ReduceLogSum", 13, np.abs(X), axes=[2], expected=np.log(np.abs(X).sum(2, keepdims=True))),
    case("ReduceLogSumExp", 18, np.int64([[5, 6], [7, 7]]), expected=np.int64([[7]])),
    case("TopK", 1, X, k=2, axis=1, outputs=("y", "i"),
         expected=(-np.sort(-X, axis=1)[:, :2], np.argsort(-X, axis=1)[:, :2])),
    case("Squeeze", 1, X[:1], axes=[0], expected=X[0]),
    case("Unsqueeze", 11, X, axes=[0, -1], expected=X[None, ..., None]),
    case("Concat", 1, X, X, expected=np.concatenate([X, X], 1)),
    case("DFT", 17, X[..., None], expected=np.stack([SPECTRUM.real, SPECTRUM.imag], -1).astype(np.float32)),
]  # fmt: skip

MOVED = [
    case("Pad", 1, X[0, 0], paddings=[1, 0, 0, 2], expected=np.pad(X[0, 0], ((1, 0), (0, 2)))),
    case("Pad", 2, X[0, 0].astype(np.float64), pads=[1, 0, 0, 2], value=1.5,
         expected=np.pad(X[0, 0].astype(np.float64), ((1, 0), (0, 2)), constant_values=1.5)),
    case("Pad", 2, X[0, 0], pads=[1, 0, 0, 2], value=9.0, mode="edge",
         expected=np.pad(X[0, 0], ((1, 0), (0, 2)), "edge")),
    case("Reshape", 1, X, shape=[0, -1], expected=X.reshape(2, 60), consumed_inputs=[0]),
    case("Reshape", 1, X[0, 0, 0, :1], expected=X[0, 0, 0, 0]),
    case("Slice", 1, X, starts=[1, -2], ends=[9, 9], axes=[0, 3], expected=X[1:, ..., -2:]),
    case("Slice", 1, X, starts=[1], ends=[2], expected=X[1:2]),
    case("Split", 1, X, listed(1, 3), axis=2, outputs="ab", expected=(X[:, :, :1], X[:, :, 1:]), constants=(1,)),
    case("Split", 2, X, axis=1, split=[1, 2], outputs="ab", expected=(X[:, :1], X[:, 1:])),
    case("Split", 13, X, axis=2, outputs="ab", expected=(X[:, :, :2], X[:, :, 2:])),
    case("Split", 11, X, outputs="ab", expected=(X[:1], X[1:])),
    case("Tile", 1, X, listed(3).reshape(()), listed(1).reshape(()), constants=(1, 2),
         expected=np.tile(X, (1, 3, 1, 1))),
    case("Tile", 1, X, listed(3).reshape(()), listed(-3).reshape(()), expected=np.tile(X, (1, 3, 1, 1))),
    case("Scatter", 9, X[0, 0], np.int64([[3], [0]]), real(2, 1) * 0 + 7, axis=1,
         expected=np.where([[0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0] * 5, [0] * 5], np.float32(7), X[0, 0])),
]  # fmt: skip


def nearest(x: np.ndarray, *indices: list[int]) -> np.ndarray:
    return x[..., indices[0], :][..., indices[1]]


RESIZED = [
    case("Upsample", 1, X, height_scale=2.0, width_scale=1.4, mode="nearest",
         expected=nearest(X, [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 2, 2, 3, 4])),
    case("Upsample", 1, X[..., :2], height_scale=1.0, width_scale=2.0, mode="bilinear",
         expected=np.stack([X[..., 0], X[..., :2].mean(-1), X[..., 1], X[..., 1]], -1)),
    case("Upsample", 7, X, scales=[1.0, 1.0, 1.0, 2.0], expected=X.repeat(2, -1)),
    case("Upsample", 9, X, listed(1, 1, 2, 1), expected=X.repeat(2, 2), constants=(1,)),
    case("Resize", 10, X, listed(1, 1, 0.6, 1.4), expected=nearest(X, [0, 2], [0, 0, 1, 2, 2, 3, 4]), constants=(1,)),
    case("Resize", 10, X, listed(1, 1, 0.75, 1), expected=nearest(X, [0, 2, 3], [0, 1, 2, 3, 4]), constants=(1,)),
    case("Resize", 11, X, listed(), listed(1, 1, 1.5, 0.6), expected=None, constants=(1, 2), nearest_mode="floor",
         coordinate_transformation_mode="tf_half_pixel_for_nn"),
    case("Resize", 11, X, listed(), listed(), np.int64([2, 3, 7, 2]), expected=None, constants=(1, 2, 3),
         mode="linear", coordinate_transformation_mode="align_corners"),
    case("GridSample", 16, X, np.tanh(real(2, 3, 3, 2)), expected=None, mode="bicubic"),
    case("RoiAlign", 10, X, listed(0, 0, 2.5, 3, 1, 1, 4, 4).reshape(2, 4), np.int64([1, 0]), expected=None,
         output_height=2, output_width=2),
    case("LpPool", 1, X, p=1.0, kernel_shape=[4, 5], expected=np.abs(X).sum((2, 3), keepdims=True)),
    case("LpPool", 1, X, p=2.5, kernel_shape=[4, 6], pads=[0, 1, 0, 0],
         expected=(np.abs(X) ** 2.5).sum((2, 3), keepdims=True) ** 0.4),
    case("GlobalLpPool", 1, X, p=2.5, expected=(np.abs(X) ** 2.5).sum((2, 3), keepdims=True) ** 0.4),
    case("GlobalLpPool", 1, X, expected=np.sqrt((X * X).sum((2, 3), keepdims=True))),
]  # fmt: skip

SEQUENCE, W, R = real(3, 2, 4), real(1, 5, 4), real(1, 5, 5)


def rnn() -> np.ndarray:
    states, h = [], np.zeros((2, 5), np.float32)
    for x in SEQUENCE:
        h = np.tanh(x @ W[0].T + h @ R[0].T)
        states.append(h)
    return np.stack(states)[:, None]


def gru() -> np.ndarray:
    (wz, wr, wh), (rz, rr, rh) = (np.split(np.concatenate([a[0], a[0] / 2, -a[0]]), 3) for a in (W, R))
    h = np.zeros((2, 5), np.float32)
    for x in SEQUENCE:
        z, r = (1 / (1 + np.exp(-(x @ w.T + h @ u.T))) for w, u in ((wz, rz), (wr, rr)))
        h = (1 - z) * np.tanh(x @ wh.T + (r * h) @ rh.T) + z * h
    return h[None]


def three(a: np.ndarray) -> np.ndarray:
    return np.concatenate([a, a / 2, -a], 1)


RECURRENT = [
    case("RNN", 1, SEQUENCE, W, R, hidden_size=5, output_sequence=1, expected=rnn()),
    case("GRU", 1, SEQUENCE, three(W), three(R), hidden_size=5, expected=(None, gru()), outputs=("", "h")),
]

CASES = [*BROADCAST, *NORMALIZATION, *ELEMENTWISE, *AXES, *MOVED, *RESIZED, *RECURRENT]


#: What a refusal says where the file does not tell the number of axes.
NEEDS_SHAPES = {"Tile": "the number of axes of 'x0' decides what the node means"}


def label(one: Case) -> str:
    return f"{one.op}-{one.opset}-{','.join(f'{k}={v}' for k, v in one.attributes.items())}"[:60]


def require_same(one: Case, model: Model, expected: dict[str, np.ndarray]) -> None:
    found = onnx.evaluate(model, one.feeds())
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def with_answer(one: Case) -> Case:
    """What onnxruntime gives for the model as it is."""
    (array,) = session(replace(one, expected=np.float32(0)).model()).run(None, one.feeds())
    return replace(one, expected=array)


@pytest.mark.parametrize("one", CASES, ids=label)
@pytest.mark.parametrize("shapes", [True, False], ids=["", "unknown-ranks"])
def test_the_meaning_is_kept_in_all_newer_sets(one: Case, shapes: bool) -> None:
    one = with_answer(one) if one.expected is None else one
    if not shapes and one.op in NEEDS_SHAPES:
        with pytest.raises(ConversionError, match=NEEDS_SHAPES[one.op]):
            convert_opset(one.model(shapes), NEWEST)
        return
    for target in (13, NEWEST):
        if target > one.opset:
            made = convert_opset(one.model(shapes), target)
            assert made.opsets[""] == target
            assert [str(f) for f in onnx.check(made) if f.severity is Severity.ERROR] == []
            require_same(one, made, one.wanted())
