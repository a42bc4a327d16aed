"""Products of matrices, and sums of products by Einstein's notation."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.element_types import widened
from hwflow.onnx.ops.shapes import common_shape


def _known(x: Arr) -> Known:
    return Known(x.dtype, x.shape)


def _matmul(call: Call, a: Arr, b: Arr) -> Arr:
    result = _matmul_shapes(call, _known(a), _known(b))
    call.check_size(result.shape, result.dtype)
    call.work(math.prod(result.shape) * a.shape[-1])
    return np.asarray(np.matmul(widened(a), widened(b))).astype(a.dtype, copy=False)


def _matmul_shapes(call: Call, a: Known, b: Known) -> Known:
    """numpy's rule: a vector is a row on the left, a column on the right; leading axes broadcast."""
    left = a.shape if a.ndim > 1 else (1, *a.shape)
    right = b.shape if b.ndim > 1 else (*b.shape, 1)
    try:
        if not a.shape or not b.shape or left[-1] != right[-2]:
            raise ValueError
        lead = common_shape(left[:-2], right[:-2])
    except ValueError:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)}") from None
    rows = left[-2:-1] if a.ndim > 1 else ()
    columns = right[-1:] if b.ndim > 1 else ()
    return Known(a.dtype, (*lead, *rows, *columns))


def _gemm(call: Call, a: Arr, b: Arr, c: Arr | None = None) -> Arr:
    """alpha * a' b' + beta * c, with a' and b' transposed where the attributes say so."""
    result = _gemm_shapes(call, _known(a), _known(b), None if c is None else _known(c))
    left = widened(a.T if call.integer("transA") else a)
    right = widened(b.T if call.integer("transB") else b)
    call.check_size(result.shape, result.dtype)
    call.work(math.prod(result.shape) * left.shape[1])
    y = _scaled(left @ right, call.number("alpha"))
    if c is not None:
        y = y + _scaled(widened(c), call.number("beta"))
    return np.asarray(y).astype(a.dtype, copy=False)


def _scaled(x: Arr, factor: float) -> Arr:
    """Integers times a fraction (or a factor that they cannot hold) go through float64."""
    if factor == 1:
        return x
    if x.dtype.kind in "iu" and not (factor.is_integer() and 0 <= factor < 1 << 31):
        return np.asarray(x * np.float64(factor))
    return np.asarray(x * x.dtype.type(factor))


def _gemm_shapes(call: Call, a: Known, b: Known, c: Known | None = None) -> Known:
    if a.ndim != 2 or b.ndim != 2:
        raise call.error(f"the inputs must be matrices, not have the shapes {list(a.shape)} and {list(b.shape)}")
    rows, inner = a.shape[::-1] if call.integer("transA") else a.shape
    inner_b, columns = b.shape[::-1] if call.integer("transB") else b.shape
    if inner != inner_b:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)} before transA/B")
    if c is not None:
        padded = (1,) * (2 - c.ndim) + c.shape
        if len(padded) != 2 or padded[0] not in (1, rows) or padded[1] not in (1, columns):
            raise call.error(f"C must be broadcastable to [{rows}, {columns}], not have the shape {list(c.shape)}")
    return Known(a.dtype, (rows, columns))


def _gemm_1(call: Call, a: Arr, b: Arr, c: Arr) -> Arr:
    """Before operator set 7, C is broadcast only with attribute broadcast=1."""
    _gemm_1_shapes(call, _known(a), _known(b), _known(c))
    return _gemm(call, a, b, c)


def _gemm_1_shapes(call: Call, a: Known, b: Known, c: Known) -> Known:
    result = _gemm_shapes(call, a, b, c)
    if not call.integer("broadcast") and c.shape != result.shape:
        raise call.error(
            f"C must have the shape {list(result.shape)} without attribute broadcast=1, not {list(c.shape)}",
            "export the model again"
        )
    return result


def _determinant(call: Call, x: Arr) -> Arr:
    """The determinant of each matrix in the last two axes."""
    result = _determinant_shapes(call, _known(x))
    call.check_size(result.shape, result.dtype)
    call.work(x.size * (x.shape[-1] if x.size else 0))
    return np.asarray(np.linalg.det(widened(x))).astype(x.dtype)


def _determinant_shapes(call: Call, x: Known) -> Known:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise call.error(f"the last two axes must be a square matrix, not those of {list(x.shape)}")
    return Known(x.dtype, x.shape[:-2])


_TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@dataclass
class _Sizes:
    """The sizes that the operands give to the letters of an equation and to the axes of its ellipses."""

    letters: dict[str, int]
    ellipsis: tuple[int, ...] = ()

    def add(self, call: Call, letter: str, size: int) -> None:
        known = self.letters.get(letter, 1)
        if 1 not in (known, size) and known != size:
            raise call.error(f"axis '{letter}' must have one size, not {known} and {size}")
        self.letters[letter] = size if known == 1 else known

    def broadcast(self, call: Call, shape: tuple[int, ...]) -> None:
        try:
            self.ellipsis = common_shape(self.ellipsis, shape)
        except ValueError:
            listed = f"{list(self.ellipsis)} and {list(shape)}"
            raise call.error(f"the axes of '...' must fit together by broadcasting, not be {listed}") from None

    def shape(self, term: str) -> tuple[int, ...]:
        before, dots, after = _split(term)
        middle = self.ellipsis if dots else ()
        return (*(self.letters[c] for c in before), *middle, *(self.letters[c] for c in after))


def _split(term: str) -> tuple[str, bool, str]:
    match = _TERM.fullmatch(term)
    assert match is not None, "_parse has seen it"
    return match[1], match[2] is not None, match[3]


def _parse(call: Call, count: int) -> tuple[list[str], str]:
    """The terms of the equation and that of the output."""
    equation = call.text("equation").replace(" ", "")
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    if len(terms) != count or any(_TERM.fullmatch(term) is None for term in (*terms, output)):
        raise call.error(f"the equation must be {count} terms of letters and '...', not '{call.text('equation')}'")
    letters = left.replace(",", "").replace(".", "")
    if not arrow:
        output = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    named = output.replace(".", "")
    if len(set(named)) != len(named) or not set(named) <= set(letters) or ("..." in output and "..." not in left):
        raise call.error(f"the output must name axes of the inputs, each once, not '{output}'")
    return terms, output


def _sizes(call: Call, terms: list[str], operands: tuple[Arr | Known, ...]) -> _Sizes:
    sizes = _Sizes({})
    for term, operand in zip(terms, operands, strict=True):
        before, dots, after = _split(term)
        middle = len(operand.shape) - len(before) - len(after)
        if middle < 0 or (middle and not dots):
            raise call.error(f"term '{term}' must name the axes of an input, not of one of shape {list(operand.shape)}")
        ends = (
            *zip(before, operand.shape, strict=False),
            *zip(after, operand.shape[len(before) + middle :], strict=True),
        )
        for letter, size in ends:
            sizes.add(call, letter, size)
        sizes.broadcast(call, operand.shape[len(before) : len(before) + middle])
    return sizes


def _einsum(call: Call, *operands: Arr) -> Arr:
    """Small floats in float32.  No step makes more elements than the largest operand or the result has."""
    terms, output = _parse(call, len(operands))
    sizes = _sizes(call, terms, operands)
    shape = sizes.shape(output)
    call.check_size(shape, operands[0].dtype)
    call.work(math.prod(sizes.letters.values()) * math.prod(sizes.ellipsis))
    limit = max(math.prod(shape), *(x.size for x in operands))
    equation = f"{','.join(terms)}->{output}"
    how = ("greedy", limit) if len(operands) > 1 else False
    result = np.einsum(equation, *(widened(x) for x in operands), optimize=how)
    return np.asarray(result).astype(operands[0].dtype, copy=False)


def _einsum_shapes(call: Call, *operands: Known) -> Known:
    terms, output = _parse(call, len(operands))
    return Known(operands[0].dtype, _sizes(call, terms, operands).shape(output))


OPERATORS: Table = {
    ("", "MatMul"): (Operator(1, _matmul, _matmul_shapes),),
    ("", "Gemm"): (
        Operator(1, _gemm_1, _gemm_1_shapes),
        Operator(7, _gemm, _gemm_shapes),
    ),
    ("", "Det"): (Operator(11, _determinant, _determinant_shapes),),
    ("", "Einsum"): (Operator(12, _einsum, _einsum_shapes),),
}
