"""The forms that operators had in their versions below 13: what makes each of them behind a tensor [1, 4, 6, 6]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.schemas import find_schema
from tests.quantize.dialects.cases import Maker

__all__ = ["FORMS", "F", "Make", "weights"]

F = np.float32
#: Makes the operator behind a tensor [1, 4, 6, 6], in an operator set.
Make = Callable[[Maker, str, int], Any]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(0, 0.5, shape).astype(F)


def form(make: Make, **options: Any) -> tuple[Make, dict[str, Any]]:
    return make, options


def clip(m: Maker, x: str, opset: int, low: float, high: float) -> str:
    if opset < 11:
        return m.node("Clip", x, min=float(low), max=float(high))
    return m.node("Clip", x, F(low), F(high))


def second(m: Maker, x: str) -> str:
    """Another computed tensor of the shape of `x`."""
    return m.node("Conv", x, weights(4, 4, 1, 1, seed=1), weights(4, seed=1))


Forms = dict[str, Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]]

_UNARY = (
    "Abs Asinh Atan Celu Ceil Elu Erf Exp Floor HardSigmoid LeakyRelu Neg Relu Round Selu Shrink Sigmoid Sign "
    "Sinh Softplus Softsign Tanh ThresholdedRelu"
)
#: Functions with steps: an integer on the wrong side of one makes a large error.
_STEPS = {"Ceil": 20.0, "Floor": 20.0, "Round": 20.0, "Sign": 15.0}
_PARAMETERS: dict[str, dict[str, float]] = {
    "Elu": {"alpha": 2.0}, "HardSigmoid": {"alpha": 0.4, "beta": 0.3}, "LeakyRelu": {"alpha": 0.3},
    "Selu": {"alpha": 2.0, "gamma": 1.5}, "Celu": {"alpha": 0.5}, "ThresholdedRelu": {"alpha": 0.5},
    "Shrink": {"bias": 0.25, "lambd": 0.5},
}  # fmt: skip


def _unary(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    bound = {"decibels": _STEPS.get(op, 25.0)}

    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        legacy: dict[str, Any] = {}
        schema = find_schema("", op, since)
        if schema is not None and "consumed_inputs" in schema.attributes:
            legacy["consumed_inputs"] = [0]
        found = {"": form(lambda m, x, v: m.node(op, x, **legacy), **bound)}
        if op in _PARAMETERS:
            found["parameters"] = form(lambda m, x, v: m.node(op, x, **legacy, **_PARAMETERS[op]), **bound)
        return found

    return forms


def _limited(op: str, low: float) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    """A function of what is at least `low`."""
    return lambda since: {"": form(lambda m, x, v: m.node(op, clip(m, x, v, low, 6)))}


def _binary(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    """Constants for all, for each channel and for each row, and two computed tensors."""
    channels = np.array([0.5, 2, -1.5, 3], F)
    rows = np.array([0.5, 2, -1, 3, 0.25, -2], F)

    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        if since < 7:
            found = {
                "one": form(lambda m, x, v: m.node(op, x, F(1.5), broadcast=1)),
                "channels": form(lambda m, x, v: m.node(op, x, channels, broadcast=1, axis=1)),
                "rows": form(lambda m, x, v: m.node(op, x, rows, broadcast=1, axis=2)),
                "columns": form(lambda m, x, v: m.node(op, x, rows, broadcast=1)),
            }
        else:
            found = {
                "one": form(lambda m, x, v: m.node(op, x, F(1.5))),
                "channels": form(lambda m, x, v: m.node(op, x, channels[:, None, None])),
                "rows": form(lambda m, x, v: m.node(op, x, rows[:, None])),
            }
        if op != "Div":
            found["computed"] = form(lambda m, x, v: m.node(op, x, second(m, x)))
        return found

    return forms


def _power(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    more = {"broadcast": 1} if since < 7 else {}
    return {"square": form(lambda m, x, v: m.node("Pow", x, F(2), **more))}


def _compared(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    """The result chooses (Where came with 9), or is a number and multiplies."""
    bound = {"decibels": 20.0}  # an element on the wrong side of the threshold is chosen wrongly

    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        more = {"broadcast": 1} if since < 7 else {}
        to: Any = "FLOAT" if since < 6 else 1
        product = form(lambda m, x, v: m.node("Mul", x, m.node("Cast", m.node(op, x, F(0.5), **more), to=to)), **bound)
        if op == "Equal" and since < 11:
            return {}  # of integers only
        if since < 7:
            return {"product": product}
        chosen = form(lambda m, x, v: m.node("Where", m.node(op, x, F(0.5)), x, F(0.25)), opset=9, **bound)
        return {"product": product, "chosen": chosen}

    return forms


def _variadic(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        found = {"computed": form(lambda m, x, v: m.node(op, x, second(m, x)))}
        if since >= 8:
            found["one"] = form(lambda m, x, v: m.node(op, x, F(0.25)))
        return found

    return forms


def _clips(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    found = {"both": form(lambda m, x, v: clip(m, x, v, -0.5, 1))}
    if since < 11:
        found |= {"low": form(lambda m, x, v: m.node("Clip", x, min=0.25)),
                  "high": form(lambda m, x, v: m.node("Clip", x, max=0.25))}  # fmt: skip
        found["none"] = form(lambda m, x, v: m.node("Clip", x))
    else:
        found |= {"low": form(lambda m, x, v: m.node("Clip", x, F(0.25))),
                  "high": form(lambda m, x, v: m.node("Clip", x, "", F(0.25)))}  # fmt: skip
    return found


def _slopes(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    each = np.array([0.1, 0.5, 0.9, 0.25], F)
    shaped = each if since < 7 else each[:, None, None]
    return {"one": form(lambda m, x, v: m.node("PRelu", x, np.array([0.25], F))),
            "channels": form(lambda m, x, v: m.node("PRelu", x, shaped))}  # fmt: skip


def _elements() -> Forms:
    return {
        **{op: _unary(op) for op in _UNARY.split()},
        "Log": _limited("Log", 0.5), "Sqrt": _limited("Sqrt", 0.1), "Reciprocal": _limited("Reciprocal", 0.5),
        **{op: _binary(op) for op in ("Add", "Sub", "Mul", "Div")},
        **{op: _compared(op) for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")},
        **{op: _variadic(op) for op in ("Max", "Min", "Sum")},
        "Pow": _power, "Clip": _clips, "PRelu": _slopes,
        "Not": lambda since: {"": form(
            lambda m, x, v: m.node("Where", m.node("Not", m.node("Less", x, F(0.5))), x, F(0.25)),
            opset=9, decibels=20.0)},
        "Where": lambda since: {"": form(
            lambda m, x, v: m.node("Where", m.node("Greater", x, F(0.5)), x, F(0.25)), decibels=20.0)},
    }  # fmt: skip


def _batch(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    legacy: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if since == 1 else {}
    test = {"is_test": 1} if since < 7 else {}
    four = [weights(4, seed=2) + F(1.5), weights(4, seed=3), weights(4, seed=4), weights(4, seed=5) ** 2 + F(0.5)]

    def batch(m: Maker, x: str, count: int = 1, parameters: Any = four, **more: Any) -> str:
        names = [m.constant(value) for value in parameters]
        outputs = ("bn.y", "bn.mean", "bn.var", "bn.saved_mean", "bn.saved_var")[:count]
        return m.b.nodes("BatchNormalization", x, *names, outputs=outputs, name="bn", **legacy, **more)[0]

    found = {"inference": form(lambda m, x, v: batch(m, x, epsilon=1e-3, **test)),
             "training": form(lambda m, x, v: batch(m, x, 5))}  # fmt: skip
    if since < 7:
        found["is_test 0"] = form(lambda m, x, v: batch(m, x, 5, is_test=0))
    if since < 9:
        every = [np.broadcast_to(p[:, None, None], (4, 6, 6)).copy() for p in four]
        every[1] = weights(4, 6, 6, seed=6)
        found["spatial 0"] = form(lambda m, x, v: batch(m, x, 1, every, spatial=0, **test))
    return found


def _pool(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        found = {
            "": form(lambda m, x, v: m.node(op, x, kernel_shape=[2, 2], strides=[2, 2])),
            "padded": form(lambda m, x, v: m.node(op, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
            "same": form(lambda m, x, v: m.node(op, x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")),
        }
        if since >= 10:
            found["ceil"] = form(lambda m, x, v: m.node(op, x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1))
        if op == "MaxPool" and since >= 10:
            found["dilated"] = form(lambda m, x, v: m.node(op, x, kernel_shape=[2, 2], dilations=[2, 1]))
        if op == "AveragePool" and since >= 7:
            how = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
            found["counted"] = form(lambda m, x, v: m.node(op, x, **how))
        return found

    return forms


def _matrix(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    w = weights(5, 144)
    more = {"broadcast": 1} if since < 7 else {}
    found = {
        "": form(lambda m, x, v: m.node("Gemm", m.node("Flatten", x), w.T.copy(), weights(5), **more)),
        "transposed": form(lambda m, x, v: m.node("Gemm", m.node("Flatten", x), w, weights(5), transB=1, **more)),
        "scaled": form(lambda m, x, v: m.node(
            "Gemm", m.node("Flatten", x), w, weights(1, 5), transB=1, alpha=0.5, beta=2.0, **more)),
    }  # fmt: skip
    if since >= 11:
        found["no bias"] = form(lambda m, x, v: m.node("Gemm", m.node("Flatten", x), w, transB=1))
    return found


def _layers() -> Forms:
    return {
        "BatchNormalization": _batch,
        "Conv": lambda since: {
            "": form(lambda m, x, v: m.node("Conv", x, weights(5, 4, 3, 3), strides=[2, 1])),
            "group": form(lambda m, x, v: m.node("Conv", x, weights(4, 1, 3, 3), group=4, auto_pad="SAME_UPPER")),
        },
        "ConvTranspose": lambda since: {
            "": form(lambda m, x, v: m.node("ConvTranspose", x, weights(4, 3, 2, 2), strides=[2, 2])),
            "shape": form(lambda m, x, v: m.node(
                "ConvTranspose", x, weights(4, 3, 3, 3), strides=[2, 2], output_shape=[12, 12])),
        },
        "Gemm": _matrix,
        "MatMul": lambda since: {
            "": form(lambda m, x, v: m.node("MatMul", m.node("Flatten", x), weights(144, 5)))},
        "MaxPool": _pool("MaxPool"),
        "AveragePool": _pool("AveragePool"),
        "GlobalMaxPool": _unary("GlobalMaxPool"),
        "GlobalAveragePool": _unary("GlobalAveragePool"),
        **{op: _reduction(op) for op in (
            "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare")},
        "ReduceLogSum": lambda since: {
            "": form(lambda m, x, v: m.node("ReduceLogSum", m.node("Sigmoid", x), axes=[2, 3]))},
        "RNN": _recurrent("RNN", 1), "GRU": _recurrent("GRU", 3), "LSTM": _recurrent("LSTM", 4),
        "InstanceNormalization": _instances,
        "LpNormalization": lambda since: {"": form(lambda m, x, v: m.node("LpNormalization", x, axis=1))},
        "MeanVarianceNormalization": _unary("MeanVarianceNormalization"),
        "Einsum": lambda since: {"": form(
            lambda m, x, v: m.node("Einsum", x, weights(5, 4), equation="nchw,dc->ndhw"))},
        "LpPool": lambda since: {"": form(lambda m, x, v: m.node("LpPool", x, kernel_shape=[2, 2]))},
        "GlobalLpPool": lambda since: {"": form(lambda m, x, v: m.node("GlobalLpPool", x, p=1.0 if v < 2 else 1))},
        "Concat": lambda since: {
            "channels": form(lambda m, x, v: m.node("Concat", x, second(m, x), axis=1)),
            **({"no axis": form(lambda m, x, v: m.node("Concat", x, second(m, x)))} if since < 4 else {}),
            **({"back": form(lambda m, x, v: m.node("Concat", x, second(m, x), axis=-3))} if since >= 11 else {}),
        },
    }  # fmt: skip


def _reduction(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    return lambda since: {
        "keep": form(lambda m, x, v: m.node(op, x, axes=[2, 3])),
        "drop": form(lambda m, x, v: m.node(op, x, axes=[2, 3], keepdims=0)),
        **({"back": form(lambda m, x, v: m.node(op, x, axes=[-1, -2]))} if since >= 11 else {}),
    }


def _recurrent(op: str, gates: int) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
    """Four steps of 36 elements; the first version gives the sequence only where it is asked to."""
    w, r = weights(1, gates * 5, 36) / F(6), weights(1, gates * 5, 5)

    def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        more = {"output_sequence": 1} if since < 7 and op != "LSTM" else {}

        def made(m: Maker, x: str, opset: int) -> str:
            def shaped(name: str, *shape: int) -> str:
                old = opset < 5
                return m.node("Reshape", name, shape=list(shape)) if old else m.node("Reshape", name, ints(*shape))

            inputs = (shaped(x, 4, 1, 36), m.constant(w), m.constant(r))
            y, _ = m.b.nodes(op, *inputs, outputs=("steps", "last"), name="loop", hidden_size=5, **more)
            return shaped(y, 1, 20)

        return {"": form(made)}

    return forms


def _instances(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    legacy: dict[str, Any] = {"consumed_inputs": [0, 0, 0]} if since == 1 else {}
    return {"": form(lambda m, x, v: m.node(
        "InstanceNormalization", x, weights(4, seed=2) + F(1.5), weights(4, seed=3), **legacy))}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _dropouts(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    if since < 7:
        return {"is_test": form(lambda m, x, v: m.node("Dropout", x, ratio=0.4, is_test=1)),
                "training": form(lambda m, x, v: m.node("Dropout", x, ratio=0.4))}  # fmt: skip
    if since < 12:
        return {"": form(lambda m, x, v: m.node("Dropout", x, ratio=0.4))}
    return {"": form(lambda m, x, v: m.node("Dropout", x, F(0.4))),
            "training": form(lambda m, x, v: m.node("Dropout", x, F(0.4), np.array(True)))}  # fmt: skip


def _resized(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    up, down = np.array([1, 1, 2, 2], F), np.array([1, 1, 0.5, 0.5], F)
    if since < 11:
        return {"nearest": form(lambda m, x, v: m.node("Resize", x, up)),
                "smaller": form(lambda m, x, v: m.node("Resize", x, down)),
                "linear": form(lambda m, x, v: m.node("Resize", x, up, mode="linear"))}  # fmt: skip
    none = np.zeros(0, F)
    found = {"half pixel": form(lambda m, x, v: m.node("Resize", x, none, up))}
    for mode, near in (("asymmetric", "floor"), ("align_corners", "ceil"), ("tf_half_pixel_for_nn", "floor")):
        how = {"coordinate_transformation_mode": mode, "nearest_mode": near}
        found[mode] = form(lambda m, x, v, how=how: m.node("Resize", x, none, up, **how))  # type: ignore[misc]
    return found


def _upsampled(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    if since < 7:
        return {"": form(lambda m, x, v: m.node("Upsample", x, height_scale=2.0, width_scale=3.0))}
    if since < 9:
        return {"": form(lambda m, x, v: m.node("Upsample", x, scales=[1.0, 1.0, 2.0, 3.0]))}
    return {"": form(lambda m, x, v: m.node("Upsample", x, np.array([1, 1, 2, 3], F)))}


def _padded(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    pads = [0, 0, 1, 1, 0, 0, 1, 2]
    key = "paddings" if since < 2 else "pads"
    if since < 11:
        return {mode: form(lambda m, x, v, mode=mode: m.node("Pad", x, mode=mode, **{key: pads}))  # type: ignore[misc]
                for mode in ("constant", "reflect", "edge")}  # fmt: skip
    return {mode: form(lambda m, x, v, mode=mode: m.node("Pad", x, ints(*pads), mode=mode))  # type: ignore[misc]
            for mode in ("constant", "reflect", "edge")}  # fmt: skip


def _split(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    def parts(m: Maker, x: str, **how: Any) -> str:
        a, b = m.b.nodes("Split", x, outputs=("part.a", "part.b"), name="split", axis=1, **how)
        return m.node("Concat", b, a, axis=1)

    return {"equal": form(lambda m, x, v: parts(m, x)), "sizes": form(lambda m, x, v: parts(m, x, split=[1, 3]))}


def _slice(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
    if since < 10:
        return {"": form(lambda m, x, v: m.node("Slice", x, starts=[1, -3], ends=[4, 100], axes=[1, 2])),
                "all": form(lambda m, x, v: m.node("Slice", x, starts=[0, 1], ends=[1, 3]))}  # fmt: skip
    return {"": form(lambda m, x, v: m.node("Slice", x, ints(1, -3), ints(4, 100), ints(1, 2))),
            "steps": form(lambda m, x, v: m.node("Slice", x, ints(0), ints(6), ints(2), ints(2)))}  # fmt: skip


def _moves() -> Forms:
    def of_pooled(op: str, **how: Any) -> Make:
        return lambda m, x, v: m.node(op, m.node("GlobalMaxPool", x), **how)

    return {
        "Flatten": lambda since: {"": form(lambda m, x, v: m.node("Flatten", x)),
                                  "axis 0": form(lambda m, x, v: m.node("Flatten", x, axis=0))},
        "Reshape": lambda since: {"": form(
            (lambda m, x, v: m.node("Reshape", x, shape=[1, -1])) if since < 5
            else (lambda m, x, v: m.node("Reshape", x, ints(0, -1))))},
        "Squeeze": lambda since: {"": form(of_pooled("Squeeze", axes=[2, 3] if since < 11 else [-1, 2]))},
        "Unsqueeze": lambda since: {"": form(of_pooled("Unsqueeze", axes=[2]))},
        "Transpose": lambda since: {"": form(lambda m, x, v: m.node("Transpose", x, perm=[0, 1, 3, 2]))},
        "Identity": _unary("Identity"),
        "Dropout": _dropouts,
        "Compress": lambda since: {"": form(
            lambda m, x, v: m.node("Compress", x, np.array([1, 0, 1, 0], np.bool_), axis=1))},
        "DepthToSpace": lambda since: {
            "": form(lambda m, x, v: m.node("DepthToSpace", x, blocksize=2)),
            **({"CRD": form(lambda m, x, v: m.node("DepthToSpace", x, blocksize=2, mode="CRD"))} if since > 1 else {})},
        "SpaceToDepth": lambda since: {"": form(lambda m, x, v: m.node("SpaceToDepth", x, blocksize=2))},
        "Expand": lambda since: {"": form(
            lambda m, x, v: m.node("Expand", m.node("GlobalMaxPool", x), ints(1, 4, 3, 3)))},
        "Gather": lambda since: {"": form(lambda m, x, v: m.node("Gather", x, ints(3, 1), axis=1))},
        "GatherElements": lambda since: {"": form(
            lambda m, x, v: m.node("GatherElements", x, np.zeros((1, 4, 6, 2), np.int64), axis=3))},
        "GatherND": lambda since: {} if since < 12 else {"": form(
            lambda m, x, v: m.node("GatherND", x, np.array([[[2], [0]]], np.int64), batch_dims=1))},
        "ReverseSequence": lambda since: {"": form(
            lambda m, x, v: m.node("ReverseSequence", x, ints(4), batch_axis=0, time_axis=1))},
        "Slice": _slice, "Split": _split, "Pad": _padded, "Resize": _resized, "Upsample": _upsampled,
        "Tile": lambda since: {"": form(
            (lambda m, x, v: m.node("Tile", x, np.array(2, F), np.array(2, F))) if since < 6
            else (lambda m, x, v: m.node("Tile", x, ints(1, 1, 2, 1))))},
    }  # fmt: skip


def _ends() -> Forms:
    """What stands behind the last layer: there the host computes it, or `--hardware-argmax` chooses."""

    def soft(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
        # One wrong winner of Hardmax in fifty is 14 dB; over the wrong axes it is below 3.
        bound = 14.0 if op == "Hardmax" else 25.0
        return lambda since: {
            f"axis {axis}": form(lambda m, x, v, axis=axis: m.node(  # type: ignore[misc]
                op, x, **({} if axis is None else {"axis": axis})), tail=False, decibels=bound)
            for axis in (None, 2, 3)
        }  # fmt: skip

    def first(op: str) -> Callable[[int], dict[str, tuple[Make, dict[str, Any]]]]:
        def forms(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
            found = {"channels": form(lambda m, x, v: m.node(op, x, axis=1), tail=False, decibels=15.0)}
            if since == 12:
                how = {"axis": 1, "select_last_index": 1}
                found["last"] = form(lambda m, x, v: m.node(op, x, **how), tail=False, decibels=15.0)
            return found

        return forms

    def largest(since: int) -> dict[str, tuple[Make, dict[str, Any]]]:
        if since < 10:
            return {"": form(lambda m, x, v: m.b.nodes("TopK", x, outputs=("v", "i"), k=2, axis=1), tail=False)}
        return {"": form(lambda m, x, v: m.b.nodes("TopK", x, m.constant(ints(2)), outputs=("v", "i"), axis=1),
                         tail=False)}  # fmt: skip

    return {
        **{op: soft(op) for op in ("Softmax", "LogSoftmax", "Hardmax")},
        "ArgMax": first("ArgMax"), "ArgMin": first("ArgMin"), "TopK": largest,
        "Cast": lambda since: {"": form(
            lambda m, x, v: m.node("Cast", x, to="DOUBLE" if since < 6 else 11), tail=False)},
    }  # fmt: skip


#: Operator to its forms in a version, by name: what makes them, and fields of `Old` in `old_operators`.
FORMS: Forms = {**_elements(), **_layers(), **_moves(), **_ends()}
