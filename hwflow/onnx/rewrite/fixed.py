"""Inputs that never change: `with_constants` makes constants of them, `suggestion` finds those to name in a message."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.about import names_file
from hwflow.onnx.inference.open_sizes import batch_axes
from hwflow.onnx.model import Array, Dim, DType, Model, Node, TensorType, Value
from hwflow.onnx.operators import having
from hwflow.onnx.rewrite.renaming import reads
from hwflow.onnx.run.operands import describe
from hwflow.onnx.traits import Trait

#: An input with more elements is data; a parameter of a network has few.
_FEW = 8


@names_file
def with_constants(model: Model, constants: Mapping[str, Array]) -> Model:
    """`model` whose inputs named in `constants` are initializers with these elements.

    One element fills the whole input; a list of as many elements as the input has is in raster order.  An open size of
    the input follows from the number of elements, an open batch is 1.
    HwflowError: a name that is no input, elements that its type does not have, a number of them that does not fit.
    """
    graph = model.graph
    inputs = {value.name: value for value in (*graph.inputs, *graph.overridable)}
    arrays = {}
    for name, elements in constants.items():
        if name not in inputs:
            listed = ", ".join(f"'{known}'" for known in inputs) or "none"
            raise HwflowError(f"--constant {name}=... must name an input of the model ({listed}), not '{name}'")
        arrays[name] = _array(inputs[name], elements)
    if not arrays:
        return model
    if set(arrays) >= {value.name for value in graph.inputs}:
        raise HwflowError(
            "--constant must leave an input that changes, and none is left",
            "leave the constant of the network's data out")
    notes = tuple(f"input '{name}' is a constant" for name in arrays)
    left = replace(
        graph,
        inputs=tuple(value for value in graph.inputs if value.name not in arrays),
        overridable=tuple(value for value in graph.overridable if value.name not in arrays),
        initializers={**graph.initializers, **arrays},
        types={**graph.types, **{name: TensorType(array.dtype, array.shape) for name, array in arrays.items()}},
    )
    return replace(model, graph=left, notes=(*model.notes, *notes))


def _array(value: Value, elements: Array) -> Array:
    """The elements as the input `value` has them."""
    if value.tensor is None or value.tensor.dtype.kind not in "biufV":
        raise HwflowError(f"--constant {value.name}=... must name an input of numbers or of true and false, and "
                          f"'{value.name}' is another kind", "give its value to the exporter")
    dtype = value.tensor.dtype
    problem = _problem(dtype, elements)
    if problem:
        raise HwflowError(f"--constant {value.name}={shown(elements)} must be {problem}, because the input is "
                          f"{describe(dtype, value.tensor.shape)}", _as_whole(value.name, dtype, elements))
    shape = _shape(value.tensor.shape, elements)
    if shape is None:
        raise HwflowError(
            f"--constant {value.name}={shown(elements)} must fit the input, which is "
            f"{describe(dtype, value.tensor.shape)}, not have {elements.size} "
            f"{'element' if elements.size == 1 else 'elements'}", "give one for all of it, or each of them")
    filled = elements.reshape(shape) if elements.size > 1 else np.full(shape, elements.reshape(-1)[0])
    return filled.astype(dtype)


def _problem(dtype: DType, elements: Array) -> str:
    """What elements of this type must be, where some are not; empty where all are."""
    if dtype.kind == "b":
        return "" if elements.dtype.kind == "b" else "true or false"
    if elements.dtype.kind == "b":
        return "numbers"
    if dtype.kind in "iu":
        ends = np.iinfo(dtype.name)
        whole = elements.dtype.kind in "iu" and all(ends.min <= int(v) <= ends.max for v in elements.reshape(-1))
        return "" if whole else f"whole numbers from {ends.min} to {ends.max}"
    with np.errstate(all="ignore"):
        finite = elements.dtype.kind in "iuf" and bool(np.isfinite(elements.astype(dtype).astype(np.float64)).all())
    return "" if finite else "finite numbers"


def _as_whole(name: str, dtype: DType, elements: Array) -> str:
    """What to write where whole numbers of an integer type have a point or an exponent; "" else."""
    if dtype.kind not in "iu" or elements.dtype.kind != "f":
        return ""
    ends, numbers = np.iinfo(dtype.name), elements.reshape(-1).tolist()
    if not all(math.isfinite(v) and v == int(v) and ends.min <= v <= ends.max for v in numbers) or len(numbers) > 5:
        return ""
    return f"write --constant {name}={','.join(str(int(v)) for v in numbers)}"


def _shape(stated: tuple[Dim, ...] | None, elements: Array) -> tuple[int, ...] | None:
    """The shape of an input that is stated as `stated`; None where the elements do not fit it."""
    if stated is None:
        return elements.shape
    own = len(stated) == elements.ndim and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(stated, elements.shape, strict=True))
    if own:
        return elements.shape
    if elements.ndim > 1:
        return None
    dims = [dim if isinstance(dim, int) else None for dim in stated]
    known = math.prod(dim for dim in dims if dim is not None)
    if dims.count(None) == 1 and elements.size > 1 and known and not elements.size % known:
        return tuple(elements.size // known if dim is None else dim for dim in dims)
    batches = batch_axes(stated)
    filled = [1 if dim is None and (elements.size == 1 or axis in batches) else dim for axis, dim in enumerate(dims)]
    sizes = tuple(dim for dim in filled if dim is not None)
    return sizes if len(sizes) == len(filled) and elements.size in (1, math.prod(sizes)) else None


def shown(elements: Array) -> str:
    """The elements as the option has them."""
    words = [str(v).lower() if isinstance(v, bool) else _number(v) for v in elements.reshape(-1)[:5].tolist()]
    return ",".join([*words, *(["..."] if elements.size > 5 else [])])


def _number(value: float) -> str:
    """With a point or an exponent where the number is none of an integer type."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text}.0" if isinstance(value, float) and text.lstrip("-").isdigit() else text


@dataclass(frozen=True)
class Surroundings:
    """What stands in front of a node: the nodes, the model's inputs, and constants by name."""

    nodes: Sequence[Node]
    inputs: Sequence[Value]
    constants: Mapping[str, Array]
    #: Inputs with the data of the network (`data_inputs`).
    data: frozenset[str]


def data_inputs(nodes: Iterable[Node], inputs: Iterable[Value], constants: Container[str]) -> frozenset[str]:
    """The inputs that a layer of the network reads: a product, a convolution, a tree, ...

    Directly, or by nodes that compute with constants besides.  A comparison ends that: it decides, as parameters do.
    """
    origin = {value.name: value.name for value in inputs}
    found = set()
    for node in nodes:
        sources = {origin.get(name, "") for name in reads(node) if name not in constants}
        if (node.domain, node.op_type) in _LAYERS:
            found |= sources
        elif len(sources) == 1 and node.op_type not in _COMPARES:
            origin.update(dict.fromkeys(filter(None, node.outputs), *sources))
    return frozenset(found - {""})


def suggestion(names: Iterable[str], around: Surroundings) -> str:
    """The options that make constants of what the tensors `names` depend on, as `--constant sr=16000`.

    Empty where they depend on no input, or on one with the data of the network, and where no input would be left.
    """
    makers = {name: node for node in around.nodes for name in node.outputs if name}
    inputs = {value.name: value for value in around.inputs}
    seen, todo, found, compared = set[str](), list(names), list[Value](), list[Array]()
    while todo:
        name = todo.pop(0)
        if name in seen or not name:
            continue
        seen.add(name)
        if name in inputs:
            found.append(inputs[name])
        elif name in makers:
            node = makers[name]
            todo += reads(node)
            beside = node.inputs if node.op_type in _COMPARES else ()
            compared += [around.constants[other] for other in beside if other in around.constants]
    parameters = all(_is_parameter(value) and value.name not in around.data for value in found)
    if not found or not parameters or len(found) == len(inputs):
        return ""
    return " ".join(f"--constant {value.name}={_example(value, compared)}" for value in found)


_LAYERS = having(Trait.NETWORK)
_COMPARES = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def _is_parameter(value: Value) -> bool:
    """Whether an input is small enough to be something that never changes."""
    if value.tensor is None or value.tensor.dtype.kind not in "biuf":
        return False
    sizes = [dim if isinstance(dim, int) else 1 for dim in value.tensor.shape or ()]
    return math.prod(sizes) <= _FEW


def _example(value: Value, compared: Sequence[Array]) -> str:
    """A value that the model compares the input with, else a word for one; of a list as many as it has."""
    assert value.tensor is not None
    alike = [array for array in compared if array.dtype == value.tensor.dtype and array.size == 1]
    word = "true" if value.tensor.dtype.kind == "b" else shown(alike[0]) if alike else "NUMBER"
    shape = value.tensor.shape or ()
    count = math.prod(dim for dim in shape if isinstance(dim, int))
    is_open = any(not isinstance(dim, int) for axis, dim in enumerate(shape) if axis not in batch_axes(shape))
    return ",".join([*[word] * count, *(["..."] if is_open else [])])
