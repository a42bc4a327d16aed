"""Models in float16, bfloat16 or float64 become float32, in which everything here computes.

Every tensor keeps its name.  Inputs and outputs keep their types, with a Cast behind an input and in front of an
output; but outputs in bfloat16, which numpy's files cannot hold, become float32.

`floats_to_float64` tells a wrong rewrite from the rounding of a model's own floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node, TensorType, Value, ValueType
from hwflow.onnx.rewrite.passes import remove_identities
from hwflow.onnx.rewrite.renaming import renamed
from hwflow.quantize.graphs import Names, consumers

FLOAT32 = np.dtype(np.float32)
#: The element types that become float32.
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
OTHERS = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float64))

#: Attributes whose number is an element type.
TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_datatype", "output_dtype", "precision", "softmax_precision"})
_CODES = {entry.code for entry in ELEMENT_TYPES if entry.dtype in OTHERS}
_CODE = next(entry.code for entry in ELEMENT_TYPES if entry.dtype == FLOAT32)
_CODE_OF = {entry.dtype: entry.code for entry in ELEMENT_TYPES}

#: What reads a number beyond float32 as "no limit".
_LIMITS = frozenset({"Clip", "Max", "Min", "Where"})
_LARGEST = float(np.finfo(np.float32).max)


def float_note(model: Model) -> str | None:
    """A sentence on what `floats_to_float32` changes in the inferred `model`; None where it changes nothing."""
    dtypes = {name: array.dtype for name, array in model.graph.initializers.items() if array.dtype in OTHERS}
    dtypes |= {name: kind.dtype for name, kind in model.graph.types.items()
              if isinstance(kind, TensorType) and kind.dtype in OTHERS}
    if not dtypes:
        return None
    listed = " and ".join(sorted({str(dtype) for dtype in dtypes.values()}))
    return f"the model's {listed} tensors are computed in float32 ({len(dtypes)} tensors)"


def floats_to_float32(model: Model) -> Model:
    """`model`, of which all types are known, in float32.

    HwflowError for a float64 constant that float32 cannot hold, but for limits, which become the largest float32.
    """
    graph = model.graph
    if float_note(model) is None:
        return model
    names = Names(graph)
    front, renaming, types = _casts_behind_inputs(graph, names)
    changed = replace(_converted(graph, consumers(graph)), inputs=graph.inputs, outputs=_outputs(graph))
    nodes = [renamed(_without_cast(node, graph), renaming) for node in changed.nodes]
    positions = {name: index for index, node in enumerate(nodes) for name in node.outputs}
    behind, ends = list[Node](), dict[str, str]()
    for value in changed.outputs:
        if value.name in positions and value.tensor is not None and value.tensor.dtype in OTHERS:
            inner = names.new(f"{value.name}.float32")
            ends[value.name] = inner
            behind.append(_cast(inner, value.name, value.tensor.dtype))
            types[inner] = TensorType(FLOAT32, value.tensor.shape)
            producer = nodes[positions[value.name]]
            nodes[positions[value.name]] = replace(producer, name=producer.name or producer.outputs[0])
    nodes = [renamed(node, ends) for node in nodes]
    stated = {value.name: value.type for value in (*changed.inputs, *changed.outputs) if value.type is not None}
    result = replace(changed, nodes=(*front, *nodes, *behind), types={**changed.types, **types, **stated})
    return remove_identities(replace(model, graph=result))


def _casts_behind_inputs(graph: Graph, names: Names) -> tuple[list[Node], dict[str, str], dict[str, ValueType]]:
    """The Cast of each input of another type, and what the input is called and is behind it."""
    nodes, renaming, types = list[Node](), dict[str, str](), dict[str, ValueType]()
    for value in graph.inputs:
        if _is_other(value.type) and value.tensor is not None:
            result = renaming[value.name] = names.new(f"{value.name}.float32")
            nodes.append(_cast(value.name, result, FLOAT32))
            types[result] = TensorType(FLOAT32, value.tensor.shape)
    return nodes, renaming, types


def _outputs(graph: Graph) -> tuple[Value, ...]:
    """The outputs as users see them."""
    return tuple(
        replace(v, type=_type(v.type)) if v.tensor is not None and v.tensor.dtype == BFLOAT16 else v
        for v in graph.outputs
    )


def _cast(source: str, result: str, dtype: np.dtype[np.generic]) -> Node:
    return Node("Cast", (source,), (result,), {"to": _CODE_OF[dtype]}, f"{result}.cast")


def _is_other(kind: ValueType | None) -> bool:
    return isinstance(kind, TensorType) and kind.dtype in OTHERS


def _converted(graph: Graph, read: Mapping[str, list[Node]]) -> Graph:
    """A graph, and those in its attributes, with float32 in place of the others; its inputs and outputs, too."""
    return replace(
        graph,
        nodes=tuple(
            replace(node, attributes={key: _attribute(key, value) for key, value in node.attributes.items()})
            for node in graph.nodes
        ),
        inputs=tuple(replace(value, type=_type(value.type)) for value in graph.inputs),
        outputs=tuple(replace(value, type=_type(value.type)) for value in graph.outputs),
        initializers={name: _array(name, array, read) for name, array in graph.initializers.items()},
        types={name: kind for name, stated in graph.types.items() if (kind := _type(stated)) is not None},
    )


def _type(kind: ValueType | None) -> ValueType | None:
    if isinstance(kind, TensorType) and kind.dtype in OTHERS:
        return TensorType(FLOAT32, kind.shape)
    return kind


def _attribute(key: str, value: Attribute) -> Attribute:
    if isinstance(value, Graph):
        return _converted(value, consumers(value))
    if isinstance(value, np.ndarray):
        return _array(key, value, {})
    if key in TYPE_ATTRIBUTES and isinstance(value, int) and value in _CODES:
        return _CODE
    return value


def _array(name: str, array: Array, read: Mapping[str, list[Node]]) -> Array:
    if array.dtype not in OTHERS:
        return array
    with np.errstate(over="ignore"):  # looked for below
        narrow = array.astype(FLOAT32)
    beyond = np.isinf(narrow) & np.isfinite(array.astype(np.float64))
    if not beyond.any():
        return narrow
    readers = read.get(name, [])
    if readers and {node.op_type for node in readers} <= _LIMITS:
        return np.where(beyond, np.copysign(np.float32(_LARGEST), narrow), narrow)
    where = [int(k) for k in np.argwhere(beyond)[0]]
    users = " and ".join(node.label for node in readers[:2])
    raise HwflowError(
        f"tensor '{name}' must hold numbers of float32, up to {_LARGEST:.3g}, not {array[tuple(where)]:g} at {where} "
        f"({np.count_nonzero(beyond)} such entries{'; in ' + users if users else ''})", "hardware is made of float32 "
        "models, scale the weights before the export"
    )


def _without_cast(node: Node, graph: Graph) -> Node:
    """An Identity in place of a Cast that changed one of these types into another."""
    if node.op_type not in ("Cast", "CastLike") or node.domain:
        return node
    kinds = [_type(_known(name, graph)) for name in (*node.inputs[:1], *node.outputs)]
    if not all(isinstance(kind, TensorType) and kind.dtype == FLOAT32 for kind in kinds):
        return node
    return replace(node, op_type="Identity", inputs=node.inputs[:1], attributes={})


def _known(name: str, graph: Graph) -> ValueType | None:
    array = graph.initializers.get(name)
    return graph.tensor_type(name) if array is None else TensorType(array.dtype, array.shape)


_FLOAT64 = np.dtype(np.float64)
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32))
_NARROW_CODES = {entry.code for entry in ELEMENT_TYPES if entry.dtype in _NARROW}
_FLOAT64_CODE = next(entry.code for entry in ELEMENT_TYPES if entry.dtype == _FLOAT64)


def floats_to_float64(model: Model) -> Model:
    """`model`, its inputs and outputs too, in float64; operators that do not take float64 refuse to be evaluated."""
    functions = tuple(replace(function, nodes=_doubled_nodes(function.nodes), types={}) for function in model.functions)
    return replace(model, graph=_doubled_graph(model.graph), functions=functions)


def doubled(array: Array) -> Array:
    """In float64 where it is float."""
    return array.astype(_FLOAT64) if array.dtype in _NARROW else array


def _doubled_graph(graph: Graph) -> Graph:
    return replace(
        graph,
        nodes=_doubled_nodes(graph.nodes),
        inputs=tuple(map(_doubled_value, graph.inputs)),
        outputs=tuple(map(_doubled_value, graph.outputs)),
        initializers={name: doubled(array) for name, array in graph.initializers.items()},
        types={},
    )


def _doubled_value(value: Value) -> Value:
    if value.tensor is None or value.tensor.dtype not in _NARROW:
        return value
    return replace(value, type=TensorType(_FLOAT64, value.tensor.shape))


def _doubled_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(
        replace(node, attributes={key: _doubled_attribute(key, value) for key, value in node.attributes.items()})
        for node in nodes
    )


def _doubled_attribute(key: str, value: Attribute) -> Attribute:
    if isinstance(value, Graph):
        return _doubled_graph(value)
    if isinstance(value, np.ndarray):
        return doubled(value)
    return _FLOAT64_CODE if key in TYPE_ATTRIBUTES and isinstance(value, int) and value in _NARROW_CODES else value
