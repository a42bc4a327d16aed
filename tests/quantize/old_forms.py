"""The forms that operators had in their versions below 13: what makes each of them behind a tensor [1, 4, 6, 6]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.quantize.dialects.cases import Maker
from tests.quantize.old_layers import layers
from tests.quantize.old_parts import F, Forms, Make, clip, form, ints, second, unary

_UNARY = (
    "Abs Asinh Atan Celu Ceil Elu Erf Exp Floor HardSigmoid LeakyRelu Neg Relu Round Selu Shrink Sigmoid Sign "
    "Sinh Softplus Softsign Tanh ThresholdedRelu"
)


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
        **{op: unary(op) for op in _UNARY.split()},
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
        "Identity": unary("Identity"),
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
FORMS: Forms = {**_elements(), **layers(), **_moves(), **_ends()}
