"""Sums of products over named axes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.precision import widened
from hwflow.onnx.ops.shapes import common_shape

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


OPERATORS: Table = {("", "Einsum"): (Operator(12, _einsum, _einsum_shapes),)}
