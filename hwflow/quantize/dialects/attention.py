"""Attention in one node, and what is written beside it, as products of matrices, Softmax and sums.

    scores = Q K^T * scale -> softcap -> + mask -> Softmax -> V

A mask must be constant.  What it hides entirely (-infinity, or any number as low) counts as `HIDDEN`.  `Attention`
multiplies both factors with the root of the scale; here it is one factor behind the product.

Einsum becomes products of matrices.  Letters that both operands have are batches, or are summed over; the others are
rows or columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hwflow.onnx.model import Attribute, Node
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Table
from hwflow.quantize.graphs import as_ints, attribute, label_of
from hwflow.quantize.passes.computed_masks import HIDDEN
from hwflow.quantize.passes.masks import FIXED

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
    writer = _Operands(rewriting, node, sizes)
    name, term = node.inputs[0], terms[0]
    for number, (other, following) in enumerate(zip(node.inputs[1:], terms[1:], strict=True), 1):
        later = {*output, *"".join(terms[number + 1 :])}
        name, term = writer.product(name, term, other, following, later, number)
    rest = [term.index(letter) for letter in term if letter not in output]
    if rest:
        name = writer.total(name, rest, "total")
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


class _Parts:
    """Writes nodes in place of `node`, each called after it and the `part` that it is."""

    def __init__(self, rewriting: Rewriting, node: Node) -> None:
        self.rewriting, self.base = rewriting, label_of(node)

    def node(self, op: str, *inputs: str, part: str, output: str = "", **attributes: Attribute) -> str:
        name = f"{self.base}.{part}"
        return self.rewriting.emit(op, *inputs, wish=name, output=output, name=name, attributes=attributes)

    def reshaped(self, x: str, shape: Sequence[int], part: str, output: str = "") -> str:
        name = f"{self.base}.{part}"
        return self.rewriting.reshaped(x, shape, name, output, name)

    def total(self, x: str, axes: Sequence[int], part: str) -> str:
        """The sum over axes, which go."""
        name = f"{self.base}.{part}".removesuffix("total") + "axes"
        return self.node("ReduceSum", x, self.rewriting.int64(name, axes), part=part, keepdims=0)


class _Operands(_Parts):
    """Writes the products of an Einsum; `sizes` are those of the letters."""

    def __init__(self, rewriting: Rewriting, node: Node, sizes: dict[str, int]) -> None:
        super().__init__(rewriting, node)
        self.sizes = sizes

    def product(self, a: str, first: str, b: str, second: str, later: set[str], number: int) -> tuple[str, str]:
        """The product of `a` with the letters `first` and `b` with `second`, and its letters, which are some of
        `later`."""
        a, first = self._own(a, first, {*second, *later}, f"left{number}")
        b, second = self._own(b, second, {*first, *later}, f"right{number}")
        both = [letter for letter in first if letter in second]
        batch, summed = ([c for c in both if (c in later) is is_later] for is_later in (True, False))
        rows, columns = ([c for c in term if c not in both] for term in (first, second))
        left = self._matrix(a, first, (batch, rows, summed), f"left{number}")
        right = self._matrix(b, second, (batch, summed, columns), f"right{number}")
        result = self.node("MatMul", left, right, part=f"product{number}")
        term = "".join((*batch, *rows, *columns))
        return self.reshaped(result, [self.sizes[c] for c in term], f"axes{number}"), term

    def _own(self, name: str, term: str, needed: set[str], part: str) -> tuple[str, str]:
        """Summed over the letters that nothing else has."""
        alone = [term.index(letter) for letter in term if letter not in needed]
        if not alone:
            return name, term
        return self.total(name, alone, f"{part}.total"), "".join(letter for letter in term if letter in needed)

    def _matrix(self, name: str, term: str, groups: tuple[list[str], ...], part: str) -> str:
        """Axes in the order of the groups: batches as they are, the letters of the other groups as one axis each."""
        order = [term.index(letter) for group in groups for letter in group]
        if order != list(range(len(order))):
            name = self.node("Transpose", name, part=f"{part}.ordered", perm=tuple(order))
        sizes = [self.sizes[c] for c in groups[0]] + [prod(self.sizes[c] for c in group) for group in groups[1:]]
        return self.reshaped(name, sizes, f"{part}.matrix")


#: What a mask adds to a score at most.
_MOST = 96.0

_MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Core:
    """Scaled dot-product attention of q [B, h, S, d], k [B, g, T, d] and v [B, g, T, w]; h is a multiple of g.

    `mask` is added to the scores [B, h, S, T], with -infinity where nothing may be seen; None: nothing is hidden.
    """

    scale: float
    softcap: float = 0.0
    mask: Arr | None = None


class _Writer(_Parts):
    """Writes attention."""

    def number(self, value: float, part: str) -> str:
        return self.rewriting.float32(f"{self.base}.{part}", value)

    def heads(self, x: str, shape: tuple[int, ...], count: int, part: str) -> str:
        """[B, S, heads * d] as [B, heads, S, d]; four axes stay as they are."""
        if len(shape) == 4:
            return x
        split = self.reshaped(x, (*shape[:2], count, shape[2] // count), f"{part}.split")
        return self.node("Transpose", split, part=part, perm=(0, 2, 1, 3))

    def attention(self, operands: Sequence[str], sizes: tuple[int, ...], core: _Core, output: str = "") -> str:
        """`operands` are q, k and v, `sizes` B, h, g, S, T, d and w; the result is [B, h, S, w]."""
        q, k, v = operands
        batch, heads, groups, queries, keys, depth, width = sizes
        shared = heads != groups
        if shared:  # the heads that share keys are rows of one product
            q = self.reshaped(q, (batch, groups, heads // groups * queries, depth), "grouped")
        turned = self.node("Transpose", k, part="keys", perm=(0, 1, 3, 2))
        scores = self.node("MatMul", q, turned, part="scores")
        if shared:
            scores = self.reshaped(scores, (batch, heads, queries, keys), "scores.heads")
        if core.scale != 1:
            scores = self.node("Mul", scores, self.number(core.scale, "scale"), part="scaled")
        if core.softcap:
            cap = self.number(core.softcap, "softcap")
            bent = self.node("Tanh", self.node("Div", scores, cap, part="uncapped"), part="bent")
            scores = self.node("Mul", bent, cap, part="capped")
        if core.mask is not None:
            seen = np.maximum(core.mask, HIDDEN).astype(np.float32)
            scores = self.node("Add", scores, self.rewriting.constant(f"{self.base}.mask", seen), part="masked")
        shares = self.node("Softmax", scores, part="shares", axis=-1)
        if not shared:
            return self.node("MatMul", shares, v, part="mixed", output=output)
        shares = self.reshaped(shares, (batch, groups, heads // groups * queries, keys), "shares.grouped")
        mixed = self.node("MatMul", shares, v, part="mixed")
        return self.reshaped(mixed, (batch, heads, queries, width), "mixed.heads", output)

    def joined(self, x: str, shape: tuple[int, ...], output: str) -> str:
        """[B, h, S, w] of `shape` as [B, S, h * w]."""
        batch, heads, queries, width = shape
        turned = self.node("Transpose", x, part="turned", perm=(0, 2, 1, 3))
        return self.reshaped(turned, (batch, queries, heads * width), "joined", output)


def _refuse_computed(rewriting: Rewriting, node: Node, names: dict[int, str]) -> None:
    """Refuse inputs that hardware has nothing for, by their position and what they are."""
    for position, what in names.items():
        if node.input(position):
            raise Refused(f"{what} '{node.input(position)}' has no hardware", FIXED)


def _mask(rewriting: Rewriting, name: str, what: str) -> Arr | None:
    """A constant mask as numbers that are added; Refused where the model computes it."""
    if not name:
        return None
    if not rewriting.is_constant(name):
        raise Refused(f"{what} '{name}' must be constant, not computed by the model", FIXED)
    numbers = rewriting.parameter(name, what)
    if numbers.dtype == np.bool_:
        return np.where(numbers, np.float32(0), np.float32(-np.inf))
    return numbers.astype(np.float32)


def _require_open(mask: Arr | None, shape: tuple[int, ...]) -> Arr | None:
    """`mask` broadcast to four axes; Refused where it hides all keys from a query, and None where it adds nothing."""
    if mask is None or not np.any(mask):
        return None
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if np.isnan(mask).any() or (mask > _MOST).any():
        raise Refused(f"a mask must be at most {_MOST} and no NaN, not {np.max(mask)}", "export the model again")
    if (np.broadcast_to(mask, (*mask.shape[:3], shape[3])).max(axis=3) <= HIDDEN).any():
        raise Refused("a mask must leave a key to each query", FIXED)
    return mask


def _hidden(allowed: Arr) -> Arr:
    return np.where(allowed, np.float32(0), np.float32(-np.inf))


def _attention(rewriting: Rewriting, node: Node) -> None:
    """ONNX's own: up to date with operator set 24."""
    _refuse_computed(rewriting, node, {4: "a cache of keys", 5: "a cache of values", 6: "a length of the keys"})
    if any(node.outputs[1:]):
        raise Refused("only its first output has hardware, not keys, values or scores", FIXED)
    q, k, v = (rewriting.shape(name) for name in node.inputs[:3])
    heads, groups = ((attribute(node, "q_num_heads", 0), attribute(node, "kv_num_heads", 0))
                     if len(q) == 3 else (q[1], k[1]))  # fmt: skip
    queries, keys = q[-2], k[-2]
    depth, width = (q[-1] // heads, v[-1] // groups) if len(q) == 3 else (q[-1], v[-1])
    mask = _attention_mask(rewriting, node, queries, keys)
    scale = attribute(node, "scale", 0.0) or 1 / math.sqrt(depth)
    core = _Core(scale, attribute(node, "softcap", 0.0), _require_open(mask, (q[0], heads, queries, keys)))
    writer, sizes = _Writer(rewriting, node), (q[0], heads, groups, queries, keys, depth, width)
    split = [writer.heads(name, shape, count, part) for name, shape, count, part in zip(
        node.inputs[:3], (q, k, v), (heads, groups, groups), ("q", "k", "v"), strict=True)]  # fmt: skip
    if len(q) == 4:
        writer.attention(split, sizes, core, node.outputs[0])
    else:
        writer.joined(writer.attention(split, sizes, core), (q[0], heads, queries, width), node.outputs[0])


def _attention_mask(rewriting: Rewriting, node: Node, queries: int, keys: int) -> Arr | None:
    """The numbers that are added to the scores: the mask, and -infinity where the attributes allow no look."""
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    allowed = np.ones((queries, keys), np.bool_)
    if attribute(node, "is_causal", 0):
        allowed &= ahead <= 0
    for name, distance in (("left_window_size", -ahead), ("right_window_size", ahead)):
        if (bound := attribute(node, name, -1)) >= 0:
            allowed &= distance <= bound
    mask = _mask(rewriting, node.input(3), "the mask")
    if mask is None:
        return _hidden(allowed)
    pad = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    padded: Arr = np.pad(mask, pad, constant_values=-np.inf) + _hidden(allowed)
    return padded


def _multi_head_attention(rewriting: Rewriting, node: Node) -> None:
    """com.microsoft: heads side by side, a bias for Q, K and V, and a constant bias of the scores."""
    _refuse_computed(rewriting, node, {4: "a mask of padding", 6: "a cache of keys", 7: "a cache of values"})
    if any(node.outputs[1:]):
        raise Refused("only its first output has hardware, not keys or values", FIXED)
    shapes = [rewriting.shape(name) if name else () for name in (*node.inputs, "", "")[:3]]
    if any(len(shape) != 3 for shape in shapes):
        raise Refused("query, key and value must be three tensors of three axes, not packed in one",
                      "export the model without packed queries, keys and values")
    writer, heads = _Writer(rewriting, node), attribute(node, "num_heads", 0)
    parts, start = list(node.inputs[:3]), 0
    bias = rewriting.parameter(node.input(3), "its bias") if node.input(3) else None
    for number, (name, shape) in enumerate(zip(node.inputs[:3], shapes, strict=True)):
        if bias is not None:
            own = rewriting.constant(f"{writer.base}.bias{number}", bias[start : start + shape[2]])
            parts[number] = writer.node("Add", name, own, part=f"biased{number}")
            start += shape[2]
    _packed(rewriting, node, parts, shapes, heads, node.input(5))


def _packed(rewriting: Rewriting, node: Node, parts: Sequence[str], shapes: Sequence[tuple[int, ...]],
            heads: int, bias: str) -> None:
    """Attention of q, k and v [B, S, heads * d] of com.microsoft; `bias` is added to the scores."""
    (batch, queries, depth), (_, keys, _), (_, _, width) = shapes
    mask = _mask(rewriting, bias, "the bias of the scores")
    if attribute(node, "unidirectional", 0):
        hidden = _hidden(np.arange(keys) - (keys - queries) <= np.arange(queries)[:, None])
        mask = hidden if mask is None else mask + hidden
    scale = attribute(node, "scale", 0.0) or 1 / math.sqrt(depth // heads)
    core = _Core(scale, 0.0, _require_open(mask, (batch, heads, queries, keys)))
    writer = _Writer(rewriting, node)
    split = [writer.heads(name, shape, heads, part)
             for name, shape, part in zip(parts, shapes, ("q", "k", "v"), strict=True)]
    sizes = (batch, heads, heads, queries, keys, depth // heads, width // heads)
    writer.joined(writer.attention(split, sizes, core), (batch, heads, queries, width // heads), node.outputs[0])


def _microsoft_attention(rewriting: Rewriting, node: Node) -> None:
    """com.microsoft Attention: the projections of one input, with weights and biases side by side, and the heads."""
    _refuse_computed(rewriting, node, {3: "a mask of padding", 4: "a cache of keys and values"})
    if attribute(node, "do_rotary", 0) or any(node.outputs[1:]):
        raise Refused("do_rotary, and outputs behind the first, have no hardware", FIXED)
    x, weights = rewriting.shape(node.inputs[0]), rewriting.parameter(node.inputs[1], "its weights")
    widths = as_ints(node.attributes.get("qkv_hidden_sizes", ())) or (weights.shape[1] // 3,) * 3
    bias = rewriting.parameter(node.input(2), "its bias") if node.input(2) else None
    writer, parts, start = _Writer(rewriting, node), [], 0
    for width, part in zip(widths, ("query", "key", "value"), strict=True):
        own = slice(start, start + width)
        w = rewriting.constant(f"{writer.base}.{part}.weights", np.ascontiguousarray(weights[:, own]))
        projected = writer.node("MatMul", node.inputs[0], w, part=part)
        if bias is not None:
            b = rewriting.constant(f"{writer.base}.{part}.bias", bias[own])
            projected = writer.node("Add", projected, b, part=f"{part}.biased")
        parts.append(projected)
        start += width
    shapes = [(x[0], x[1], width) for width in widths]
    _packed(rewriting, node, parts, shapes, attribute(node, "num_heads", 0), node.input(5))


def _skip_layer_normalization(rewriting: Rewriting, node: Node) -> None:
    """A sum, or two, and a LayerNormalization over the last axis; also the sum."""
    writer, outputs = _Writer(rewriting, node), (*node.outputs, "", "", "")[:4]
    if outputs[1] or outputs[2]:
        raise Refused("only its result and the sum have hardware, not mean and deviation", "export it for inference")
    biased = bool(node.input(4))
    total = writer.node("Add", *node.inputs[:2], part="sum", output="" if biased else outputs[3])
    if biased:
        total = writer.node("Add", total, node.inputs[4], part="biased", output=outputs[3])
    inputs = [total, *(name for name in node.inputs[2:4] if name)]
    epsilon = attribute(node, "epsilon", 1e-12)
    writer.node("LayerNormalization", *inputs, part="normal", output=outputs[0], axis=-1, epsilon=epsilon)


RULES: Table = {
    ("", "Attention"): _attention,
    ("", "Einsum"): einsum,
    (_MICROSOFT, "Attention"): _microsoft_attention,
    (_MICROSOFT, "MultiHeadAttention"): _multi_head_attention,
    (_MICROSOFT, "SkipLayerNormalization"): _skip_layer_normalization,
}
