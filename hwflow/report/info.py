"""What is in a model, as plain data: interface, operators, parameters, work, quantization, and where each node runs.

Models that hwflow cannot evaluate are described too; what cannot be known is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hwflow_base.errors import HwflowError

from ..onnx import Model
from ..onnx.dtypes import element_type_of
from ..onnx.inference import Types, infer_types
from ..onnx.model import Array, Graph, Node, TensorType, Value, ValueType
from ..onnx.rewrite.inline import inline_functions
from ..onnx.run.functions import function_path, graphs_of
from ..onnx.versioning.semantic import version_text
from ..quantize import Quantized
from .macs import macs_of
from .places import Places, places
from .quantization import quantization_of
from .texts import type_text

__all__ = ["describe_model", "model_facts"]

Facts = dict[str, Any]

#: Weights that pass these operators are still the weights of the product after them.
_ONE_TO_ONE = frozenset(
    {"BipolarQuant", "Cast", "DequantizeLinear", "Identity", "IntQuant", "Quant", "QuantizeLinear", "Reshape",
     "Transpose", "Unsqueeze"}
)  # fmt: skip


def describe_model(
    source: Model, static: Callable[[], Model], trial: Callable[[], Quantized], annotations: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Facts, Types, Places]:  # fmt: skip
    """Everything there is to say of a model, with its types and places for a picture.

    `static` makes the model with static shapes, `trial` quantizes it; both may raise HwflowError.  `annotations` is the
    number of quantization annotations in the file; `shapes` are what is given for inputs that the file leaves open.
    """
    types, problem = _types(source, shapes or {})
    found = places(source, static, trial)
    facts = {**model_facts(source, types), **_work(source, shapes or {})}
    facts["quantization"] = quantization_of(source, types, annotations)
    facts["type_problems"] = [problem] if problem else [str(finding) for finding in types.findings]
    facts["where"] = dict(Counter(place.where.value for place in found.nodes))
    facts["nodes"] = [
        {"index": index, "name": node.name, "operator": _operator(node), "output": _first(node.outputs),
         "where": place.where.value, "reason": place.reason}
        for index, (node, place) in enumerate(zip(source.graph.nodes, found.nodes, strict=True))
    ]  # fmt: skip
    facts["problem"], facts["golden"] = found.problem, found.golden
    return facts, types, found


def _types(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Types, str]:
    try:
        return infer_types(model, shapes), ""
    except HwflowError as error:
        return Types({}, {}, ()), str(error)


def model_facts(model: Model, types: Types) -> Facts:
    """What the file says of itself, its interface and its parts."""
    graph = model.graph
    count, size = _parameters(graph)
    return {
        "ir_version": model.ir_version,
        "opsets": dict(model.opsets),
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "domain": model.domain,
        "model_version": {"number": model.model_version, "text": version_text(model.model_version)},
        "graph": graph.name,
        "metadata": dict(model.metadata),
        "author": model.metadata.get("model_author"),
        "license": model.metadata.get("model_license"),
        "doc": model.doc_string,
        "inputs": [_value(value, types) for value in graph.inputs],
        "defaults": [_value(value, types) for value in graph.overridable],
        "outputs": [_value(value, types) for value in graph.outputs],
        "operators": dict(sorted(Counter(_operator(node) for node in _every(model)).items())),
        "functions": [function_path(function) for function in model.functions],
        "training": len(model.training),
        "parameters": count,
        "parameter_bytes": size,
    }


def _value(value: Value, types: Types) -> Facts:
    found: ValueType | None = types[value.name] or value.type
    shape = list(found.shape) if isinstance(found, TensorType) and found.shape is not None else None
    return {"name": value.name, "type": type_text(found), "shape": shape}


def _operator(node: Node) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _first(names: Sequence[str]) -> str:
    return next(filter(None, names), "")


def _nested(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from _nested(graph.nodes)


def _every(model: Model) -> Iterator[Node]:
    """Nodes of the graph and of graphs in attributes; bodies of functions once each."""
    yield from _nested(model.graph.nodes)
    for function in model.functions:
        yield from _nested(function.nodes)


def _arrays(graph: Graph) -> Iterator[Array]:
    """Constants of a graph and below."""
    yield from graph.initializers.values()
    yield from (sparse.values for sparse in graph.sparse_initializers.values())
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.op_type == "Constant" and isinstance(value, np.ndarray):
            yield value
        for _, inner in graphs_of(node):
            yield from _arrays(inner)


def _parameters(graph: Graph) -> tuple[int, int]:
    """Number of elements of all constants, and their bytes in a file (texts do not count)."""
    count = size = 0
    for array in _arrays(graph):
        count += array.size
        if array.dtype.kind not in "OUT":
            size += -(-array.size * element_type_of(array.dtype, "a constant").bits // 8)
    return count, size


def _work(source: Model, shapes: Mapping[str, tuple[int, ...]]) -> Facts:
    """Multiply-accumulates of one frame: an open first axis of an input counts as 1, graphs in nodes count once."""
    try:
        model = inline_functions(source)
        types = infer_types(model, {**_single(model.graph), **shapes})
    except HwflowError:
        return {"layers": [], "macs": None}
    layers = list(_layers(model.graph, types.values, types.inner, "graph", {}))
    known = [layer["macs"] for layer in layers]
    return {"layers": layers, "macs": None if None in known else sum(known)}


def _single(graph: Graph) -> dict[str, tuple[int | str | None, ...]]:
    shapes = {}
    for value in graph.inputs:
        if value.tensor is not None and value.tensor.shape and not isinstance(value.tensor.shape[0], int):
            shapes[value.name] = (1, *value.tensor.shape[1:])
    return shapes


def _layers(
    graph: Graph, types: Mapping[str, ValueType], inner: Mapping[str, Mapping[str, ValueType]], path: str,
    around: Mapping[str, ValueType],
) -> Iterator[Facts]:  # fmt: skip
    """The nodes that multiply, with their work and their weights."""
    here = {**around, **types}
    constants = {name: array.size for name, array in graph.initializers.items()}
    for index, node in enumerate(graph.nodes):
        macs = macs_of(node, here.get)
        value = node.attributes.get("value")
        if node.op_type == "Constant" and isinstance(value, np.ndarray):
            constants[node.outputs[0]] = value.size
        elif node.op_type in _ONE_TO_ONE and node.inputs and node.inputs[0] in constants:
            constants[node.outputs[0]] = constants[node.inputs[0]]
        if macs != 0:
            weights = [constants[name] for name in node.inputs if name in constants]
            output = type_text(here.get(_first(node.outputs)))
            yield {"path": f"{path}/node[{index}]", "name": node.name or _first(node.outputs),
                   "operator": _operator(node), "output": output, "macs": macs, "parameters": sum(weights)}
        for name, body in graphs_of(node):
            place = f"{path}/node[{index}] {node.label}/attribute '{name}'"
            yield from _layers(body, inner.get(place, {}), inner, place, here)
