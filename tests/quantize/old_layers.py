"""The forms of layers in their versions below 13: windows, products, reductions, loops and normalizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.quantize.dialects.cases import Maker
from tests.quantize.old_parts import F, Forms, Make, form, ints, second, unary, weights


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
        found["no is_test"] = form(lambda m, x, v: batch(m, x))
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


def layers() -> Forms:
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
        "GlobalMaxPool": unary("GlobalMaxPool"),
        "CumSum": lambda since: {
            "": form(lambda m, x, v: m.node("CumSum", x, np.array(1))),
            "back": form(lambda m, x, v: m.node("CumSum", x, np.array(-1), reverse=1, exclusive=1)),
        },
        "GlobalAveragePool": unary("GlobalAveragePool"),
        **{op: _reduction(op) for op in (
            "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare")},
        "ReduceLogSum": lambda since: {
            "": form(lambda m, x, v: m.node("ReduceLogSum", m.node("Sigmoid", x), axes=[2, 3]))},
        "RNN": _recurrent("RNN", 1), "GRU": _recurrent("GRU", 3), "LSTM": _recurrent("LSTM", 4),
        "InstanceNormalization": _instances,
        "LpNormalization": lambda since: {"": form(lambda m, x, v: m.node("LpNormalization", x, axis=1))},
        "MeanVarianceNormalization": unary("MeanVarianceNormalization"),
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
