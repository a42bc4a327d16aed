"""Static types for every value: unknown dims of the inputs are fixed, constants folded, and every shape computed.

What hardware needs.  `hwflow.onnx.inference` infers types of models whose sizes stay open.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.about import names_file
from hwflow.onnx.advice import BRANCHES, COMPUTED_SIZES, SIZES_OF_DATA, UNKNOWN
from hwflow.onnx.checker import require_valid
from hwflow.onnx.errors import LimitError, ShapeLimitError
from hwflow.onnx.inference.maps import Maps, with_classes, with_standard_set
from hwflow.onnx.inference.open_sizes import Shapes, contradictions, fixed_inputs, suiting_shapes
from hwflow.onnx.inference.rounds import Rounds, rounds_of
from hwflow.onnx.inference.rounds_at_once import rounds_at_once
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits, Meter
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import advice_on, having
from hwflow.onnx.ops.base import Call, Known, Operator
from hwflow.onnx.rewrite.fixed import Surroundings, data_inputs, suggestion
from hwflow.onnx.rewrite.inline import inline_functions
from hwflow.onnx.rewrite.renaming import Fresh, all_names, fresh_names, reads, spliced
from hwflow.onnx.run.calls import find, run
from hwflow.onnx.run.operands import dense, describe
from hwflow.onnx.traits import Trait

#: Constants stay unfolded behind these: quantized weights must stay visible as integers and a scale.
_BARRIERS = having(Trait.KEEPS_CONSTANTS)

#: What to do about operators that have no static shape, where a mask is no advice.
_OF_DATA = {
    "SequenceMap": "hardware needs static shapes and no rounds: write them out",
    **dict.fromkeys(("CastMap", "DictVectorizer"), "hardware needs tensors: leave out the node, and give the model the "
                    "array of the map's values"),
}
#: Operators whose results have as many elements as the data have such places.
_COUNTED = ("Compress", "NonZero", "Unique")


@names_file
def infer(
    model: Model, input_shapes: Mapping[str, tuple[int, ...]] | None = None, limits: Limits = DEFAULT_LIMITS
) -> Model:
    """The model with static shapes: every value has an entry in `graph.types`, every constant is an initializer.

    Functions are inlined, an If whose condition is constant is replaced by its branch, sequences of maps are the arrays
    of their values (`maps`), and inputs that have a default become constants, which `notes` of the result says.
    `input_shapes` gives shapes to inputs whose dims the file leaves open.  An open first axis (the batch) is 1 by
    default, which `notes` says too.
    Raises HwflowError for a model that `check` refuses, for any other open dim, for shapes that do not fit together or
    depend on data; LimitError for functions and constants beyond the limits.
    """
    require_valid(model, limits)
    model = with_standard_set(inline_functions(model, limits))
    graph, shapes = model.graph, input_shapes or {}
    inputs, notes = fixed_inputs(graph, shapes, lambda: _suiting(model, shapes, limits))
    walk = _walked(model, inputs, limits)
    if walk.refusal:
        raise walk.refusal
    outputs = tuple(Value(v.name, walk.type_of(v.name)) for v in graph.outputs)
    notes += (*_defaults(graph), *contradictions(graph, walk.known))
    static = replace(walk.result(graph.name, inputs, outputs), kept=graph.kept)
    inferred = replace(model, graph=static, training=(), notes=model.notes + notes)
    return with_classes(inferred, walk.maps.classes)


def suiting_inputs(model: Model, shapes: Shapes, limits: Limits = DEFAULT_LIMITS) -> Shapes | None:
    """Shapes for the inputs that `model` and `shapes` leave open, with which `infer` goes through.

    None where no size does that was tried, and for a model that `infer` refuses anyway.
    """
    try:
        require_valid(model, limits)
        return _suiting(with_standard_set(inline_functions(model, limits)), shapes, limits)
    except HwflowError:
        return None


def _suiting(model: Model, known: Shapes, limits: Limits) -> Shapes | None:
    def suits(shapes: Shapes) -> bool:
        try:
            inputs, _ = fixed_inputs(model.graph, shapes)
            walk = _walked(model, inputs, limits)
        except HwflowError:
            return False
        return all(0 not in walk.known[name].shape for node in walk.nodes for name in node.outputs if name)

    return suiting_shapes(model.graph, known, suits)


def _walked(model: Model, inputs: tuple[Value, ...], limits: Limits) -> _Walk:
    """The walk over a model without functions whose inputs have static shapes."""
    graph = model.graph
    read = {name for node in graph.nodes for name in reads(node)} | {value.name for value in graph.outputs}
    unread = frozenset(name for node in graph.nodes for name in node.outputs if name not in read)
    data = data_inputs(graph.nodes, inputs, graph.initializers)
    walk = _Walk(model.opsets, Meter(limits), fresh_names(all_names(graph)), inputs, unread, data, model.producer_name)
    for value in inputs:
        assert value.tensor is not None  # fixed_inputs
        walk.known[value.name] = Known(value.tensor.dtype, _numbers(value.tensor))
    walk.constants(graph, {})
    walk.visit_all(graph.nodes)
    return walk


def _numbers(type_: TensorType) -> tuple[int, ...]:
    assert type_.shape is not None
    return tuple(d for d in type_.shape if isinstance(d, int))


def _defaults(graph: Graph) -> Iterable[str]:
    """A sentence on inputs that a caller could feed and that have a default [GR-09]."""
    names = [f"'{value.name}'" for value in graph.overridable]
    if names:
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield f"inputs with a default are constants in hardware: {listed}"


@dataclass
class _Walk:
    """One pass over the nodes in order; `known` grows, folded nodes are left out of `nodes`."""

    opsets: Mapping[str, int]
    meter: Meter
    fresh: Fresh
    inputs: tuple[Value, ...]
    #: Results of nodes of the file that nothing reads.
    unread: frozenset[str]
    #: Inputs with the data of the network.
    data: frozenset[str]
    producer: str
    known: dict[str, Known] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    folded_bytes: int = 0
    #: Constants that were too large to compute, and the message about the first.
    unfolded: set[str] = field(default_factory=set)
    refusal: LimitError | None = None
    maps: Maps = field(default_factory=Maps)

    def constants(self, graph: Graph, names: Mapping[str, str]) -> None:
        """Take a graph's constants, by their names here."""
        for name, array in graph.initializers.items():
            self.known[names.get(name, name)] = Known(array.dtype, array.shape, array)
        for name, sparse in graph.sparse_initializers.items():
            self.meter.tensor(sparse.shape, sparse.values.dtype, f"sparse initializer '{name}'")
            array = dense(sparse)
            self.known[names.get(name, name)] = Known(array.dtype, array.shape, array)

    def visit_all(self, nodes: Sequence[Node]) -> None:
        """Visit nodes in order, and in place of an If those of its branch, of a loop those of its rounds."""
        waiting: deque[tuple[str, Node | Rounds]] = deque(
            (f"graph/node[{index}]", node) for index, node in enumerate(nodes))
        while waiting:
            path, node = waiting.popleft()
            self.meter.node(path)
            instead = node.step(self) if isinstance(node, Rounds) else self.instead(node, path)
            if instead is not None:
                waiting.extendleft((path, inner) for inner in reversed(instead))
            elif isinstance(node, Node):
                self.visit(node, path)

    def instead(self, node: Node, path: str) -> Sequence[Node | Rounds] | None:
        """What an If or a loop stands for; None for other nodes."""
        if node.domain or node.op_type not in ("If", "Loop", "Scan"):
            return None
        call = Call(node, self.opsets.get("", 0), path, find(node, self.opsets)[0], self.meter)
        rounds = rounds_of(call, self)
        if rounds is not None and (nodes := rounds_at_once(rounds, self)) is not None:
            return nodes
        branch = None if rounds else self.branch(node)
        if rounds is None and branch is None and (option := self.suggest(node.inputs[:1])):
            raise call.error("its condition must be constant, not computed from the inputs",
                             f"if the input never changes, give {option}")
        if node.op_type == "If" and branch is None and self.known[node.inputs[0]].value is None:
            raise call.error("its condition must be constant, not computed from the data",
                             BRANCHES.for_producer(self.producer))
        return [rounds] if rounds else branch

    def suggest(self, names: Iterable[str]) -> str:
        """The options that make constants of what these tensors depend on; empty where that is the data."""
        constants = {name: known.value for name, known in self.known.items() if known.value is not None}
        return suggestion(names, Surroundings(self.nodes, self.inputs, constants, self.data))

    def branch(self, node: Node) -> list[Node] | None:
        """The nodes that an If with a constant condition stands for, in names of this graph; None for others."""
        if len(node.inputs) != 1:
            return None
        condition = self.known[node.inputs[0]].value
        if condition is None or condition.size != 1:
            return None
        graph = node.attributes.get("then_branch" if condition.reshape(-1)[0] else "else_branch")
        if not isinstance(graph, Graph):
            return None
        prefix = (node.name or node.outputs[0])[-60:]
        own = [*graph.initializers, *graph.sparse_initializers]
        names = {name: self.fresh(f"{prefix}/{name}") for name in own}
        self.constants(graph, names)
        results = zip((value.name for value in graph.outputs), node.outputs, strict=False)
        nodes, _ = spliced(graph.nodes, names, results, self.fresh, prefix)
        return nodes

    def visit(self, node: Node, path: str) -> None:
        node = self.without_empty_parts(node)
        schema, operator = find(node, self.opsets)
        call = Call(node, self.opsets.get(node.domain, 0), path, schema, self.meter)
        tensors = self.maps.as_tensors(call, self.known)
        if tensors is not None:
            self.visit(tensors, path)
            return
        if operator is None:
            own = advice_on(node.domain, node.op_type)
            raise call.error("the operator must be one that hwflow has", (own or UNKNOWN).for_producer(self.producer))
        operands = [self.known[name] if name else None for name in node.inputs]
        constant = all(operand is None or operand.value is not None for operand in operands)
        random = schema is not None and schema.random
        late = self.unfolded.intersection(node.inputs)
        if late and any(k < len(node.inputs) and node.inputs[k] in late for k in operator.constant):
            assert self.refusal is not None
            raise ShapeLimitError(self.refusal.why, self.refusal.remedy, where=self.refusal.where)
        if late and all(name in late or operand is None or operand.value is not None
                        for name, operand in zip(node.inputs, operands, strict=True)):
            self.unfolded.update(filter(None, node.outputs))
        results = _types(call, operator, operands, self.suggest, self.producer)
        if constant and not random and (node.domain, node.op_type) not in _BARRIERS:
            results = self.fold(call, operator, operands, results)
        if any(name and result.value is None for name, result in zip(node.outputs, results, strict=False)):
            self.nodes.append(node)
            results = tuple(Known(result.dtype, result.shape) for result in results)
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                self.known[name] = result

    def without_empty_parts(self, node: Node) -> Node:
        """A Concat of those parts that have elements, as lists are that a loop fills; other nodes as they are."""
        if node.domain or node.op_type != "Concat":
            return node
        parts = tuple(name for name in node.inputs if name and 0 not in self.known[name].shape)
        return replace(node, inputs=parts) if parts and len(parts) < len(node.inputs) else node

    def fold(
        self, call: Call, operator: Operator, operands: list[Known | None], results: tuple[Known, ...]
    ) -> tuple[Known, ...]:
        """The results with their elements, computed after their size is known to be acceptable."""
        if all(result.value is not None for result in results):
            return results
        self.folded_bytes += sum(math.prod(result.shape) * result.dtype.itemsize for result in results)
        allowed = self.meter.limits.folded_bytes
        if self.folded_bytes > allowed:
            self.refusal = self.refusal or LimitError(
                f"the constants that the model computes must take at most {allowed >> 20} MiB (folded_bytes), not "
                f"{self.folded_bytes >> 20}",
                f"if you trust the model, raise it with --limit folded_bytes={self.folded_bytes}", where=call.where
            )
            self.unfolded.update(filter(None, call.node.outputs))
            return results
        values = run(call, operator, [None if operand is None else operand.value for operand in operands])
        folded = (Known(v.dtype, v.shape, v) if isinstance(v, np.ndarray) else None for v in values)
        return tuple(known or result for known, result in zip(folded, results, strict=False))

    def type_of(self, name: str) -> TensorType:
        return TensorType(self.known[name].dtype, self.known[name].shape)

    def result(self, name: str, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Graph:
        """The graph of the remaining nodes, with the constants that they and the outputs read."""
        read = {name for node in self.nodes for name in node.inputs} | {value.name for value in outputs}
        constants: dict[str, Array] = {
            name: known.value for name, known in self.known.items() if known.value is not None and name in read
        }
        computed = {name for node in self.nodes for name in node.outputs if name}
        available = computed | constants.keys() | {value.name for value in inputs}
        return Graph(
            name=name,
            nodes=tuple(self.nodes),
            inputs=inputs,
            outputs=outputs,
            initializers=constants,
            types={name: self.type_of(name) for name in self.known if name in available},
        )


def _types(
    call: Call, operator: Operator, operands: list[Known | None], suggest: Callable[[Iterable[str]], str], producer: str
) -> tuple[Known, ...]:
    if operator.shapes is None:
        raise call.error(
            "the outputs must be tensors whose shape follows from the shapes of the inputs, not from their elements",
            _OF_DATA.get(call.node.op_type) or SIZES_OF_DATA.for_producer(producer)
        )
    for position in operator.constant:
        operand = operands[position] if position < len(operands) else None
        if operand is not None and operand.value is None:
            option = suggest((call.node.inputs[position],))
            raise call.error(
                f"input {position} ('{call.node.inputs[position]}') must be constant, not computed from the data",
                f"if the input never changes, give {option}" if option else
                (SIZES_OF_DATA if call.node.op_type in _COUNTED else COMPUTED_SIZES).for_producer(producer)
            )
    try:
        with np.errstate(all="ignore"):
            results = operator.shapes(call, *operands)
    except HwflowError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, AttributeError, MemoryError) as error:
        listed = ", ".join("-" if k is None else describe(k.dtype, k.shape) for k in operands) or "nothing"
        raise call.error(f"the inputs must suit the operator, not be {listed} ({error})") from None
    return results if isinstance(results, tuple) else (results,)
