"""Which inputs of a model may be missing: NaN or infinite in a row, and every result is a number all the same.

Trees, an Imputer and what asks whether a number is missing deal with it on the host.  Layers of integers cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from hwflow.onnx.dtypes import find_element_type
from hwflow.onnx.model import Array, Graph, Node
from hwflow.onnx.operators import having
from hwflow.onnx.traits import Trait

NAN, INFINITE = "NaN", "infinite"

#: What gives finite numbers of any: (domain, operator).
_ABSORBING = having(Trait.MISSING_ENDS)
#: The same on the host, where they compare what the file has: a layer would compare integers.
_COMPARISONS = having(Trait.COMPARISON)
#: What a missing number leaves missing, and nothing else of the row.
_PASSING = having(Trait.MISSING_STAYS)


def missing_taken(graph: Graph, *, host: bool = False) -> Mapping[str, frozenset[str]]:
    """For each input whether it may be `NAN` and `INFINITE`; `host`: every node of `graph` runs on the host."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    return {value.name: _taken(graph, makers, value.name, host) for value in graph.inputs}


def odd_places(array: Array, missing: Collection[str]) -> npt.NDArray[np.bool_]:
    """Where `array` is NaN or infinite, but for what is in `missing`."""
    if array.dtype.kind != "f":
        return np.zeros(array.shape, np.bool_)
    return (np.isnan(array) & (NAN not in missing)) | (np.isinf(array) & (INFINITE not in missing))


def _taken(graph: Graph, makers: Mapping[str, Node], start: str, host: bool) -> frozenset[str]:
    """The forms that the input `start` may have: all that no node stops at."""
    carried: dict[str, frozenset[str]] = {start: frozenset({NAN, INFINITE})}
    refused = frozenset[str]()
    for node in graph.nodes:
        kinds = frozenset[str]().union(*(carried.get(name, ()) for name in node.inputs))
        if not kinds:
            continue
        left = _behind(graph, makers, node, kinds, host)
        if left is None:
            refused |= kinds
        elif left:
            carried.update(dict.fromkeys(filter(None, node.outputs), left))
    for value in graph.outputs:
        refused |= carried.get(value.name, frozenset())
    read = any(start in node.inputs for node in graph.nodes)
    return frozenset({NAN, INFINITE}) - refused if read else frozenset()


def _behind(graph: Graph, makers: Mapping[str, Node], node: Node, kinds: frozenset[str],
            host: bool) -> frozenset[str] | None:
    """The gaps behind a node that reads it; None where the node cannot deal with it."""
    key = node.domain, node.op_type
    if key in _ABSORBING or (host and key in _COMPARISONS):
        return frozenset()
    if key in _PASSING:
        return kinds
    if key == ("", "Cast"):
        code = node.attributes.get("to")
        kind = find_element_type(code) if isinstance(code, int) else None
        return kinds if kind is not None and kind.dtype.kind == "f" else None
    if key == ("", "Where"):
        question = makers.get(node.inputs[0])
        asks = question is not None and question.op_type == "IsNaN" and question.inputs[0] == node.inputs[2]
        return kinds - {NAN} if asks else kinds
    if key == ("ai.onnx.ml", "Imputer"):
        replaced = node.attributes.get("replaced_value_float", 0.0)
        return kinds - {NAN} if isinstance(replaced, float) and np.isnan(replaced) else kinds
    return None
