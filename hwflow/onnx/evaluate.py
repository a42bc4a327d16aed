"""Evaluation of a model in numpy, node by node, in the element types that the model states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hwflow.errors import HwflowError
from hwflow.onnx.calls import bind, describe, run
from hwflow.onnx.errors import Unsupported
from hwflow.onnx.model import Array, Graph, Model, Value

__all__ = ["evaluate"]


def evaluate(model: Model, feeds: Mapping[str, npt.ArrayLike], fetch: Sequence[str] | None = None) -> dict[str, Array]:
    """The values of `fetch`, which may name any tensor of the graph; by default the graph's outputs.

    `feeds` holds one array per input, of the element type and shape that the model states (any size where it states
    none).  Only nodes that `fetch` depends on are computed, and only their inputs need to be fed.  Arrays that are
    returned may be views of each other or of the model: treat them as read-only.
    Raises HwflowError for wrong feeds, unknown names, and operators that hwflow lacks (all of them in one message).
    """
    graph = model.graph
    names = tuple(value.name for value in graph.outputs) if fetch is None else tuple(fetch)
    needed, reads = _needed(graph, names)
    _refuse_unsupported(model, needed)
    values: dict[str, Array] = dict(graph.initializers)
    values.update(_checked_feeds(graph, feeds, reads | set(names)))
    last_use = {name: index for index in needed for name in graph.nodes[index].inputs}
    for index in needed:
        call, operator = bind(model, index)
        assert operator is not None  # _refuse_unsupported
        node = call.node
        results = run(call, operator, [values[name] if name else None for name in node.inputs])
        values.update((name, a) for name, a in zip(node.outputs, results, strict=False) if name)
        for name in node.inputs:
            if last_use.get(name) == index and name not in names:
                values.pop(name, None)
    return {name: values[name] for name in names}


def _needed(graph: Graph, names: Iterable[str]) -> tuple[list[int], set[str]]:
    """The nodes that the names depend on, in order, and everything that those read."""
    producer = {name: index for index, node in enumerate(graph.nodes) for name in node.outputs if name}
    given = {value.name for value in graph.inputs} | graph.initializers.keys()
    wanted, needed, reads = list(names), set[int](), set[str]()
    while wanted:
        name = wanted.pop()
        if name in given:
            continue
        if name not in producer:
            raise HwflowError(f"'{name}' must be a tensor of the graph, not an unknown name; `hwflow info` lists them")
        index = producer[name]
        if index not in needed:
            needed.add(index)
            sources = [source for source in graph.nodes[index].inputs if source]
            reads.update(sources)
            wanted.extend(sources)
    return sorted(needed), reads


def _refuse_unsupported(model: Model, needed: Iterable[int]) -> None:
    bound = (bind(model, index) for index in needed)
    missing = [f"{call.path} {call.node.label}" for call, operator in bound if operator is None]
    if missing:
        raise Unsupported(
            f"the operators must be ones that hwflow evaluates, not those of {', '.join(missing)}; "
            f"`hwflow check` says more"
        )


def _checked_feeds(graph: Graph, feeds: Mapping[str, npt.ArrayLike], reads: set[str]) -> dict[str, Array]:
    inputs = {value.name: value for value in graph.inputs}
    unknown = [name for name in feeds if name not in inputs]
    missing = [name for name in inputs if name in reads and name not in feeds]
    if unknown or missing:
        listed = ", ".join(f"'{name}'" for name in inputs) or "none"
        found = ", ".join(f"'{name}'" for name in feeds) or "none"
        raise HwflowError(f"the fed arrays must be those of the model's inputs ({listed}), not {found}")
    return {name: _checked_feed(inputs[name], np.asarray(array)) for name, array in feeds.items()}


def _checked_feed(value: Value, array: Array) -> Array:
    if value.tensor is None:
        return array
    shape = value.tensor.shape
    fits = shape is None or (
        len(shape) == array.ndim
        and all(not isinstance(d, int) or d == n for d, n in zip(shape, array.shape, strict=True))
    )
    texts = value.tensor.dtype.kind == "O" and array.dtype.kind in "OUT"
    if not fits or not (texts or array.dtype == value.tensor.dtype):
        raise HwflowError(
            f"input '{value.name}' must be {describe(value.tensor.dtype, shape)}, "
            f"not {describe(array.dtype, array.shape)}; convert or reshape the array"
        )
    return array
