"""Einsum as products of matrices.

Letters that both operands have are batches, or are summed over; the others are rows or columns.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hwflow.onnx.model import Node
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import attribute, label_of

#: The remedy for an equation that is no chain of products.
WRITE = "write it with MatMul, Mul, Transpose and ReduceSum"


def einsum(rewriting: Rewriting, node: Node) -> None:
    """Two operands at a time, from the left; each product keeps the letters that are needed later."""
    terms, output = _equation(rewriting, node)
    sizes: dict[str, int] = {}
    for term, name in zip(terms, node.inputs, strict=True):
        shape = rewriting.shape(name)
        if len(term) != len(shape) or len(set(term)) != len(term):
            raise Refused("an Einsum must have a letter of its own for each axis of an operand", WRITE)
        if any(sizes.setdefault(letter, size) != size for letter, size in zip(term, shape, strict=True)):
            raise Refused("axes of one letter must have one size in an Einsum", WRITE)
    writer = _Writer(rewriting, node, sizes)
    name, term = node.inputs[0], terms[0]
    for number, (other, following) in enumerate(zip(node.inputs[1:], terms[1:], strict=True), 1):
        later = {*output, *"".join(terms[number + 1 :])}
        name, term = writer.product(name, term, other, following, later, number)
    rest = [term.index(letter) for letter in term if letter not in output]
    if rest:
        axes = rewriting.constant(f"{writer.base}.axes", np.array(rest, np.int64))
        name = writer.node("ReduceSum", name, axes, part="total", keepdims=0)
        term = "".join(letter for letter in term if letter in output)
    writer.node("Transpose", name, part="ordered", output=node.outputs[0], perm=tuple(term.index(c) for c in output))


def _equation(rewriting: Rewriting, node: Node) -> tuple[list[str], str]:
    """The terms and the result, with letters for what '...' stands for."""
    left, arrow, output = attribute(node, "equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    ranks = [len(rewriting.shape(name)) - len(term.replace("...", "")) for name, term in
             zip(node.inputs, terms, strict=True) if "..." in term]  # fmt: skip
    free = [letter for letter in map(chr, range(ord("A"), ord("z") + 1)) if letter.isalpha() and letter not in left]
    most = max(ranks, default=0)
    dots = "".join(free[:most])
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        output = "..." * bool(ranks) + "".join(c for c in sorted(set(letters)) if letters.count(c) == 1)
    counts = iter(ranks)
    filled = [term.replace("...", dots[most - next(counts) :]) if "..." in term else term for term in terms]
    return filled, output.replace("...", dots)


class _Writer:
    """Writes the nodes in place of `node`; `sizes` are those of the letters."""

    def __init__(self, rewriting: Rewriting, node: Node, sizes: dict[str, int]) -> None:
        self.rewriting, self.base, self.sizes = rewriting, label_of(node), sizes

    def node(self, op: str, *inputs: str, part: str, output: str = "", **attributes: object) -> str:
        name = f"{self.base}.{part}"
        return self.rewriting.emit(op, *inputs, wish=name, output=output, name=name, attributes=attributes)  # type: ignore[arg-type]

    def product(self, a: str, first: str, b: str, second: str, later: set[str], number: int) -> tuple[str, str]:
        """The product of `a` with the letters `first` and `b` with `second`, and its letters, which are some of
        `later`."""
        a, first = self._own(a, first, {*second, *later}, f"left{number}")
        b, second = self._own(b, second, {*first, *later}, f"right{number}")
        both = [letter for letter in first if letter in second]
        batch, summed = ([c for c in both if (c in later) is kept] for kept in (True, False))
        rows, columns = ([c for c in term if c not in both] for term in (first, second))
        left = self._matrix(a, first, (batch, rows, summed), f"left{number}")
        right = self._matrix(b, second, (batch, summed, columns), f"right{number}")
        made = self.node("MatMul", left, right, part=f"product{number}")
        term = "".join((*batch, *rows, *columns))
        return self._reshaped(made, [self.sizes[c] for c in term], f"axes{number}"), term

    def _own(self, name: str, term: str, needed: set[str], part: str) -> tuple[str, str]:
        """Summed over the letters that nothing else has."""
        alone = [term.index(letter) for letter in term if letter not in needed]
        if not alone:
            return name, term
        axes = self.rewriting.constant(f"{self.base}.{part}.axes", np.array(alone, np.int64))
        made = self.node("ReduceSum", name, axes, part=f"{part}.total", keepdims=0)
        return made, "".join(letter for letter in term if letter in needed)

    def _matrix(self, name: str, term: str, groups: tuple[list[str], ...], part: str) -> str:
        """Axes in the order of the groups: batches as they are, the letters of the other groups as one axis each."""
        order = [term.index(letter) for group in groups for letter in group]
        if order != list(range(len(order))):
            name = self.node("Transpose", name, part=f"{part}.ordered", perm=tuple(order))
        sizes = [self.sizes[c] for c in groups[0]] + [prod(self.sizes[c] for c in group) for group in groups[1:]]
        return self._reshaped(name, sizes, f"{part}.matrix")

    def _reshaped(self, name: str, sizes: list[int], part: str) -> str:
        shape = self.rewriting.constant(f"{self.base}.{part}.shape", np.array(sizes, np.int64))
        return self.node("Reshape", name, shape, part=part)
