"""Static types for every value: unknown dims of the inputs are fixed, constants folded, and every shape computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.errors import HwflowError
from hwflow.onnx.calls import bind, describe, run
from hwflow.onnx.check import require_valid
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.ops.base import Call, Known, Operator

__all__ = ["MAX_FOLDED_BYTES", "infer"]

#: Constant folding refuses to make more than this; the largest models that fit a small FPGA need a few MiB.
MAX_FOLDED_BYTES = 1 << 28

#: Constants stay unfolded behind these: quantized weights must stay visible as integers and a scale.
_BARRIERS = frozenset({("", "DequantizeLinear")})


def infer(model: Model, input_shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """The model with static shapes: every value has an entry in `graph.types`, every constant is an initializer.

    `input_shapes` gives shapes to inputs whose dims the file leaves open.  An open first axis (the batch) is 1 by
    default, which `notes` of the result says.  Raises HwflowError for a model that `check` refuses, for any other open
    dim, for shapes that do not fit together, and for constants larger than MAX_FOLDED_BYTES in total.
    """
    require_valid(model)
    inputs, notes = _fixed_inputs(model.graph, input_shapes or {})
    walk = _Walk(model)
    for value in inputs:
        assert value.tensor is not None  # _fixed_inputs
        walk.add(value.name, Known(value.tensor.dtype, _numbers(value.tensor)))
    for name, array in model.graph.initializers.items():
        walk.add(name, Known(array.dtype, array.shape, array))
    for index in range(len(model.graph.nodes)):
        walk.visit(index)
    outputs = tuple(Value(v.name, walk.type_of(v.name)) for v in model.graph.outputs)
    notes += _contradictions(model.graph, walk)
    return replace(model, graph=walk.result(inputs, outputs), notes=model.notes + notes)


def _numbers(type_: TensorType) -> tuple[int, ...]:
    assert type_.shape is not None
    return tuple(d for d in type_.shape if isinstance(d, int))


def _fixed_inputs(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    known = {value.name for value in graph.inputs}
    for name in shapes:
        if name not in known:
            listed = ", ".join(f"'{n}'" for n in sorted(known)) or "none"
            raise HwflowError(f"--input-shape must name an input of the model ({listed}), not '{name}'")
    symbols: dict[str, int] = {}
    for value in graph.inputs:
        if value.name in shapes:
            _bind_symbols(value, tuple(shapes[value.name]), symbols)
    notes: list[str] = []
    fixed = tuple(_fixed_input(value, shapes.get(value.name), symbols, notes) for value in graph.inputs)
    return fixed, tuple(notes)


def _bind_symbols(value: Value, given: tuple[int, ...], symbols: dict[str, int]) -> None:
    """Compare a given shape with the file's, and learn what the names of its dims stand for."""
    assert value.tensor is not None  # require_valid
    stated = value.tensor.shape if value.tensor.shape is not None else (None,) * len(given)
    fits = len(stated) == len(given) and all(size > 0 for size in given)
    for dim, size in zip(stated, given, strict=False):
        expected = symbols.setdefault(dim, size) if isinstance(dim, str) else dim
        fits = fits and expected in (None, size)
    if not fits:
        raise HwflowError(
            f"--input-shape of '{value.name}' must fit the model's {describe(value.tensor.dtype, value.tensor.shape)}, "
            f"not be {','.join(map(str, given))}"
        )


def _fixed_input(value: Value, given: tuple[int, ...] | None, symbols: dict[str, int], notes: list[str]) -> Value:
    assert value.tensor is not None  # require_valid
    stated = value.tensor.shape
    if given is not None:
        return Value(value.name, TensorType(value.tensor.dtype, tuple(given)))
    dims = [symbols.get(dim) if isinstance(dim, str) else dim for dim in stated or ()]
    if stated is not None and dims and dims[0] is None:
        dims[0] = 1
        if None not in dims:
            notes.append(f"input '{value.name}': the open batch axis is fixed to 1")
    if stated is None or None in dims:
        example = ",".join("?" if d is None else str(d) for d in dims) if stated is not None else "1,3,32,32"
        raise HwflowError(
            f"the shape of input '{value.name}' must be known, not {describe(value.tensor.dtype, stated)}; "
            f"give it with --input-shape {value.name}={example.replace('?', '32')}"
        )
    return Value(value.name, TensorType(value.tensor.dtype, tuple(dims)))


def _contradictions(graph: Graph, walk: _Walk) -> tuple[str, ...]:
    """Where the file states other types than its operators give; the operators are right."""
    claims = {**graph.types, **{v.name: v.type for v in graph.outputs}}
    stated = {name: claim for name, claim in claims.items() if isinstance(claim, TensorType)}
    notes = []
    for name, claim in stated.items():
        found = walk.known.get(name)
        if found is not None and not _agrees(claim, found):
            notes.append(
                f"'{name}' is {describe(found.dtype, found.shape)}, not {describe(claim.dtype, claim.shape)} "
                f"as the file says"
            )
    return tuple(notes)


def _agrees(claim: TensorType, found: Known) -> bool:
    if claim.dtype != found.dtype:
        return False
    if claim.shape is None:
        return True
    return len(claim.shape) == len(found.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(claim.shape, found.shape, strict=True)
    )


@dataclass
class _Walk:
    """One pass over the nodes in order; `known` grows, folded nodes are left out of `nodes`."""

    model: Model
    known: dict[str, Known] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    folded_bytes: int = 0

    def add(self, name: str, known: Known) -> None:
        self.known[name] = known

    def visit(self, index: int) -> None:
        call, operator = bind(self.model, index)
        assert operator is not None  # require_valid
        operands = [self.known[name] if name else None for name in call.node.inputs]
        results = _types(call, operator, operands)
        constant = all(operand is None or operand.value is not None for operand in operands)
        if constant and (call.node.domain, call.node.op_type) not in _BARRIERS:
            results = self.fold(call, operator, operands, results)
        if any(result.value is None for result in results):
            self.nodes.append(call.node)
            results = tuple(Known(result.dtype, result.shape) for result in results)
        for name, result in zip(call.node.outputs, results, strict=False):
            if name:
                self.add(name, result)

    def fold(
        self, call: Call, operator: Operator, operands: list[Known | None], results: tuple[Known, ...]
    ) -> tuple[Known, ...]:
        """The results with their elements, computed after their size is known to be acceptable."""
        if all(result.value is not None for result in results):
            return results
        self.folded_bytes += sum(_bytes(result) for result in results)
        if self.folded_bytes > MAX_FOLDED_BYTES:
            raise call.error(
                f"the constants that the model computes must take at most {MAX_FOLDED_BYTES >> 20} MiB, "
                f"not {self.folded_bytes >> 20}; this file cannot be trusted"
            )
        arrays = run(call, operator, [None if operand is None else operand.value for operand in operands])
        return tuple(Known(array.dtype, array.shape, array) for array in arrays)

    def type_of(self, name: str) -> TensorType:
        return TensorType(self.known[name].dtype, self.known[name].shape)

    def result(self, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Graph:
        """The graph of the remaining nodes, with the constants that they and the outputs read."""
        read = {name for node in self.nodes for name in node.inputs} | {value.name for value in outputs}
        constants: dict[str, Array] = {
            name: known.value for name, known in self.known.items() if known.value is not None and name in read
        }
        computed = {name for node in self.nodes for name in node.outputs if name}
        kept = computed | constants.keys() | {value.name for value in inputs}
        return Graph(
            name=self.model.graph.name,
            nodes=tuple(self.nodes),
            inputs=inputs,
            outputs=outputs,
            initializers=constants,
            types={name: self.type_of(name) for name in self.known if name in kept},
        )


def _bytes(known: Known) -> int:
    size = known.dtype.itemsize
    for dim in known.shape:
        size *= dim
    return size


def _types(call: Call, operator: Operator, operands: list[Known | None]) -> tuple[Known, ...]:
    for position in operator.constant:
        operand = operands[position] if position < len(operands) else None
        if operand is not None and operand.value is None:
            raise call.error(
                f"input {position} ('{call.node.inputs[position]}') must be constant, not computed from the data; "
                f"hardware needs static shapes, export the model with fixed shapes"
            )
    try:
        with np.errstate(all="ignore"):
            assert operator.shapes is not None  # every operator of static models has one
            results = operator.shapes(call, *operands)
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        listed = ", ".join("-" if k is None else describe(k.dtype, k.shape) for k in operands) or "nothing"
        raise call.error(f"the inputs must suit the operator, not be {listed} ({error})") from None
    return results if isinstance(results, tuple) else (results,)
