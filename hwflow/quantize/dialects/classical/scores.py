"""From the scores of classes to labels and probabilities, in standard operators that the host runs."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Node
from hwflow.quantize.dialects.rewriting import Refused, Rewriting

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

#: Scores nearer to 0 than this do not count for SOFTMAX_ZERO.
_NO_SCORE = 1e-7

#: Halley's steps from the approximation of the inverse error function (error 2e-3) to float32.
_STEPS = 2


def _float(r: Rewriting, wish: str, value: npt.ArrayLike) -> str:
    return r.constant(wish, np.asarray(value, np.float32))


def transformed(r: Rewriting, scores: str, kind: str, output: str) -> None:
    """`output` = the rows `scores` [n, classes] by the attribute post_transform `kind`."""
    match kind:
        case "NONE":
            r.emit("Identity", scores, output=output)
        case "LOGISTIC":
            r.emit("Sigmoid", scores, output=output)
        case "SOFTMAX":
            r.emit("Softmax", scores, output=output, attributes={"axis": -1})
        case "SOFTMAX_ZERO":
            _softmax_zero(r, scores, output)
        case "PROBIT":
            _probit(r, scores, output)
        case _:
            raise Refused(f"attribute 'post_transform' must be one of {', '.join(TRANSFORMS)}, not '{kind}'",
                          "export the model again")


def _softmax_zero(r: Rewriting, scores: str, output: str) -> None:
    """A softmax of the scores that are not 0."""
    wish = f"{output}.softmax_zero"
    sizes = r.emit("Abs", scores, wish=wish)
    counts = r.emit("Greater", sizes, _float(r, f"{wish}.none", _NO_SCORE), wish=wish)
    counted = r.emit("Cast", counts, wish=wish, attributes={"to": 1})
    every = r.emit("Softmax", scores, wish=wish, attributes={"axis": -1})
    some = r.emit("Mul", every, counted, wish=wish)
    total = r.emit("ReduceSum", some, r.constant(f"{wish}.axes", np.array([1], np.int64)), wish=wish,
                   attributes={"keepdims": 1})
    r.emit("Div", some, r.emit("Max", total, _float(r, f"{wish}.least", np.finfo(np.float32).tiny), wish=wish),
           output=output)


def _probit(r: Rewriting, scores: str, output: str) -> None:
    """sqrt(2) erfinv(2 p - 1): S. Winitzki's closed approximation (2008), then Halley's method."""
    wish = f"{output}.probit"

    def do(op: str, *inputs: str | float) -> str:
        names = [value if isinstance(value, str) else _float(r, f"{wish}.constant", value) for value in inputs]
        return r.emit(op, *names, wish=wish)

    y = do("Sub", do("Mul", scores, 2.0), 1.0)
    logarithm = do("Log", do("Sub", 1.0, do("Mul", y, y)))
    half = do("Add", do("Mul", logarithm, 0.5), 2 / (math.pi * 0.147))
    inner = do("Sqrt", do("Sub", do("Mul", half, half), do("Div", logarithm, 0.147)))
    x = do("Mul", do("Sqrt", do("Sub", inner, half)), do("Sign", y))
    for _ in range(_STEPS):
        error = do("Mul", do("Sub", do("Erf", x), y), math.sqrt(math.pi) / 2)
        step = do("Mul", error, do("Exp", do("Mul", x, x)))
        x = do("Sub", x, do("Div", step, do("Add", do("Mul", x, step), 1.0)))
    ends = do("Equal", do("Abs", y), 1.0)  # infinite there, where the steps have no number
    r.emit("Where", ends, do("Div", y, 0.0), do("Mul", x, math.sqrt(2)), output=output)


def two_scores(r: Rewriting, score: str, kind: str, complement: bool, output: str) -> None:
    """`output` [n, 2] from the `score` [n, 1] of the second class; the first has 1 - score (`complement`) or -score."""
    signs = _float(r, f"{output}.signs", [[-1, 1]])
    both = r.emit("Mul", score, signs, wish=f"{output}.both")
    if kind == "PROBIT" or (complement and kind != "LOGISTIC"):
        both = r.emit("Add", both, _float(r, f"{output}.whole", [[1, 0]]), wish=f"{output}.both")
    transformed(r, both, kind if kind in ("LOGISTIC", "PROBIT") else "NONE", output)


def best_label(r: Rewriting, node: Node, scores: str, labels: Array) -> None:
    """The first output of `node`: the label with the highest of `scores` [n, classes]."""
    if not node.outputs[0]:
        return
    chosen = r.emit("ArgMax", scores, wish=f"{node.outputs[0]}.class", attributes={"axis": 1, "keepdims": 0})
    r.emit("Gather", r.constant(f"{node.outputs[0]}.labels", labels), chosen, output=node.outputs[0])


def label_of_two(r: Rewriting, node: Node, score: str, limit: float, labels: Array) -> None:
    """The first output of `node`: the second label where `score` [n, 1] is above `limit`."""
    output = node.outputs[0]
    if not output:
        return
    above = r.emit("Greater", score, _float(r, f"{output}.limit", limit), wish=f"{output}.is_second")
    numbers = r.emit("Cast", above, wish=f"{output}.class", attributes={"to": 7})
    row = r.emit("Reshape", numbers, r.constant(f"{output}.shape", np.array([-1], np.int64)), wish=f"{output}.class")
    r.emit("Gather", r.constant(f"{output}.labels", labels), row, output=output)
