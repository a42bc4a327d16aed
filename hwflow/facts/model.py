"""The contents of a model, as plain data: interface, operators, parameters, work, quantization, and where each node
runs.

Models that hwflow cannot evaluate are described too; what cannot be known is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from hwflow_base.errors import HwflowError

from ..onnx import Model
from ..onnx.dtypes import element_type_of
from ..onnx.inference import Types, infer_types
from ..onnx.inference.claims import type_text
from ..onnx.model import Array, Graph, Node, TensorType, Value, ValueType
from ..onnx.operators import LAYOUT, QONNX_DOMAINS, QUANTIZERS, having, row_of
from ..onnx.rewrite.inline import inline_functions
from ..onnx.run.functions import function_path, graphs_of
from ..onnx.schemas import versions_of
from ..onnx.traits import Product, Trait
from ..onnx.versioning.numbers import version_text
from ..quantize import Quantized
from .places import Places, places

# Multiply-accumulate operations of single nodes, from the types of their operands.


#: The type of a value by name.
TypeOf: TypeAlias = Callable[[str], "ValueType | None"]
Shape: TypeAlias = tuple[int, ...]


def _shapes(names: Sequence[str], type_of: TypeOf) -> list[Shape | None]:
    """The shapes of values; None where one is left out or has an open size."""
    shapes: list[Shape | None] = []
    for name in names:
        type_ = type_of(name) if name else None
        known = isinstance(type_, TensorType) and type_.is_static and type_.shape is not None
        shapes.append(tuple(int(d) for d in type_.shape if isinstance(d, int)) if known else None)  # type: ignore[union-attr]
    return shapes


def _convolution(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Each output element is a sum over the channels of a group and the kernel; weights are [out, in / group, ...]."""
    weights = ins[3 if node.op_type == "QLinearConv" else 1]
    return math.prod(outs[0]) * math.prod(weights[1:]) if outs[0] is not None and weights is not None else None


def _transposed(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Each input element goes to the channels of a group and the kernel; weights are [in, out / group, ...]."""
    x, weights = ins[0], ins[1]
    return math.prod(x) * math.prod(weights[1:]) if x is not None and weights is not None else None


def _gemm(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    a, y = ins[0], outs[0]
    if a is None or y is None or len(a) != 2:
        return None
    return math.prod(y) * a[0 if node.attributes.get("transA") else 1]


def _matmul(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    a, y = ins[0], outs[0]
    return math.prod(y) * a[-1] if a is not None and y is not None and a else None


def _recurrent(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Every step of every row meets all weights of the input and of the state, in each direction."""
    x, weights, recurrence = ins[0], ins[1], ins[2]
    if x is None or weights is None or recurrence is None or len(x) != 3:
        return None
    return x[0] * x[1] * (math.prod(weights) + math.prod(recurrence))


def _attention(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Queries meet keys, then weights meet values.  A cache of past keys is not counted: None."""
    q, k, y = ins[0], ins[1], outs[0]
    if q is None or k is None or y is None or any(node.inputs[4:6]):
        return None
    return math.prod(q) * k[-2] + math.prod(y) * k[-2]


_Rule: TypeAlias = Callable[[Node, Sequence["Shape | None"], Sequence["Shape | None"]], "int | None"]
_MULTIPLICATIONS: Mapping[Product, _Rule] = {
    Product.ATTENTION: _attention,
    Product.CONVOLUTION: _convolution,
    Product.GEMM: _gemm,
    Product.MATMUL: _matmul,
    Product.RECURRENT: _recurrent,
    Product.TRANSPOSED: _transposed,
}


def macs_of(node: Node, type_of: TypeOf) -> int | None:
    """Multiply-accumulates of a node: 0 for operators that are no products, None where they depend on open sizes."""
    product = None if node.domain else row_of(node.domain, node.op_type).product
    if product is None:
        return 0
    least, _ = versions_of(node.domain, node.op_type)[-1].input_limits
    if len(node.inputs) < least or not node.outputs:
        return None
    return _MULTIPLICATIONS[product](node, _shapes(node.inputs, type_of), _shapes(node.outputs, type_of))


# Which kinds of quantization a model has, and in which widths.


def quantization_of(model: Model, types: Types, annotations: int) -> dict[str, Any]:
    """The kinds of quantization: the number of nodes ("qdq", "qoperator", "qonnx") or of annotations, and how often
    each width occurs."""
    constants = {name: array for name, array in model.graph.initializers.items() if array.size == 1}
    counts: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for node in _with_nested([*model.graph.nodes, *(n for f in model.functions for n in f.nodes)]):
        value = node.attributes.get("value")
        if node.op_type == "Constant" and isinstance(value, np.ndarray) and value.size == 1:
            constants[node.outputs[0]] = value
        kind = _kind(node)
        if kind:
            counts[kind] += 1
            width = _qonnx_width(node, constants) if kind == "qonnx" else _width(node, kind, types)
            if width:
                widths[width] += 1
    if annotations:
        counts["annotations"] = annotations
    return {"kinds": dict(counts), "widths": dict(widths)}


def _with_nested(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from _with_nested(graph.nodes)


def _kind(node: Node) -> str:
    if node.op_type in QUANTIZERS:
        return "qdq"
    if node.op_type.startswith("QLinear") or Trait.QOPERATOR in row_of(node.domain, node.op_type).traits:
        return "qoperator"
    return "qonnx" if node.domain in QONNX_DOMAINS else ""


def _width(node: Node, kind: str, types: Types) -> str:
    """The integer type that a node makes or reads."""
    name = node.inputs[0] if node.op_type == "DequantizeLinear" and node.inputs else next(iter(node.outputs), "")
    type_ = types[name]
    if not isinstance(type_, TensorType) or (kind == "qdq" and type_.dtype.kind == "f"):
        return ""
    return element_type_of(type_.dtype, "a tensor").name


def _qonnx_width(node: Node, constants: dict[str, Array]) -> str:
    if node.op_type == "BipolarQuant":
        return "1 bit"
    schema = next(iter(versions_of(node.domain, node.op_type)), None)
    names = zip(schema.inputs, node.inputs, strict=False) if schema is not None else ()
    array = next((constants.get(name) for formal, name in names if formal.name in ("bitwidth", "in_bitwidth")), None)
    if array is None:
        return ""
    bits = float(array.reshape(-1)[0])
    return f"{bits:g} bit{'' if bits == 1 else 's'}"


Facts = dict[str, Any]

#: Weights that pass these operators are still the weights of the product after them.
_ONE_TO_ONE = LAYOUT | QUANTIZERS | {"Cast"} | {name for _, name in having(Trait.KEEPS_CONSTANTS)}


def describe_model(
    source: Model, static: Callable[[], Model], trial: Callable[[], Quantized], annotations: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Facts, Types, Places]:  # fmt: skip
    """Everything there is to say of a model, with its types and places for a picture.

    `static` makes the model with static shapes, `trial` quantizes it; both may raise HwflowError.  `annotations` is the
    number of quantization annotations in the file; `shapes` are what is given for inputs that the file leaves open.
    """
    types, problem = _types(source, shapes or {})
    where = places(source, static, trial)
    facts = {**model_facts(source, types), **_work(source, shapes or {})}
    facts["quantization"] = quantization_of(source, types, annotations)
    facts["type_problems"] = [problem] if problem else [str(finding) for finding in types.findings]
    facts["where"] = dict(Counter(place.where.value for place in where.nodes))
    facts["nodes"] = [
        {"index": index, "name": node.name, "operator": _operator(node), "output": _first(node.outputs),
         "where": place.where.value, "reason": place.reason}
        for index, (node, place) in enumerate(zip(source.graph.nodes, where.nodes, strict=True))
    ]  # fmt: skip
    facts["problem"], facts["golden"] = where.problem, where.golden
    return facts, types, where


def _types(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Types, str]:
    try:
        return infer_types(model, shapes), ""
    except HwflowError as error:
        return Types({}, {}, ()), str(error)


def model_facts(model: Model, types: Types) -> Facts:
    """Facts of a model: what the file says of itself, its interface and its parts."""
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
    type_: ValueType | None = types[value.name] or value.type
    shape = list(type_.shape) if isinstance(type_, TensorType) and type_.shape is not None else None
    return {"name": value.name, "type": type_text(type_), "shape": shape}


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
