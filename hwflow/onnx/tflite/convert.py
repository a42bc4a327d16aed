"""A TensorFlow Lite file as a Model in QDQ form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.build import make_model
from hwflow.onnx.errors import InvalidModel, LimitError, Unsupported
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.rewrite.renaming import reads
from hwflow.onnx.run.evaluate import evaluate
from hwflow.onnx.tflite.conversion import Conversion
from hwflow.onnx.tflite.file import Operator, Subgraph, Tensor, parse
from hwflow.onnx.tflite.operators import ROWS
from hwflow.onnx.tflite.schema import IDENTIFIER
from hwflow.onnx.tflite.variables import Variables, states_of

_AGAIN = "the file is damaged: copy or export it again"

#: The operator set of the models: the first one whose quantizers have 16 bits.
OPSET = 21

#: The subgraph that is the model; the others are called by it.
_MAIN = 0


def is_tflite(data: memoryview) -> bool:
    """Whether bytes are a file of TensorFlow Lite, by the identifier that each of them has."""
    return bytes(data[4:8]) == IDENTIFIER


def read_tflite(data: memoryview, limits: Limits) -> Model:
    """The model in the bytes of a TensorFlow Lite file.

    Raises HwflowError (a class of `hwflow.onnx.errors`) for a file that is damaged, beyond `limits`, or has an operator
    without a form in ONNX.
    """
    file = parse(data, limits)
    graph = file.subgraphs[_MAIN]
    if len(graph.operators) > limits.nodes:
        raise LimitError(
            f"the model must have at most {limits.nodes:,} operators (nodes), not {len(graph.operators):,}"
        )
    _require_operators(graph)
    variables = Variables()
    c = Conversion(file, graph)
    inputs = _inputs(c, graph)
    _operators(c, graph, variables)
    outputs = [_output(c, graph.tensors[index]) for index in graph.outputs]
    states_in, states_out, metadata = states_of(c, variables)
    whole = _graph(c, graph, [*inputs, *states_in], [*outputs, *states_out])
    model = make_model(whole, opset=OPSET, producer_name="TensorFlow Lite", metadata=metadata)
    return replace(model, notes=tuple(c.notes))


def _require_operators(graph: Subgraph) -> None:
    """Unsupported, with all of them, where operators are not known here."""
    wrong = Counter(operator.kind for operator in graph.operators if operator.kind not in _KNOWN)
    if wrong:
        first = next(operator for operator in graph.operators if operator.kind in wrong)
        names = ", ".join(f"{kind} ({count})" if count > 1 else kind for kind, count in wrong.items())
        raise Unsupported(
            f"operators must be those of docs/tflite.md, not {names}",
            _REMEDIES.get(first.kind, "export the model without them, or up to them"), where=first.label,
        )


#: What to do about operators that others than these may take the place of.
_REMEDIES = {
    "WHERE": "it gives as many rows as there are true elements; end the model before it, and choose on the host",
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "CUSTOM TFLite_Detection_PostProcess"),
                    "end the model with the boxes and scores before it, and choose among them on the host"),
    **dict.fromkeys(("LSTM", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_LSTM",
                     "BIDIRECTIONAL_SEQUENCE_RNN"), "convert the model with tf2onnx to ONNX"),
}
_VARIABLES = {"VAR_HANDLE": 1, "READ_VARIABLE": 1, "ASSIGN_VARIABLE": 1, "CALL_ONCE": 1, "IF": 1, "WHILE": 1}
_KNOWN = ROWS.keys() | _VARIABLES.keys()


def _inputs(c: Conversion, graph: Subgraph) -> list[Value]:
    if not graph.outputs:
        raise InvalidModel("the model must have an output, not none", _AGAIN)
    if len(set(graph.inputs)) < len(graph.inputs):
        raise InvalidModel("the inputs of the model must be different tensors", _AGAIN)
    values = []
    for index in graph.inputs:
        tensor = graph.tensors[index]
        c.put_raw(tensor, c.names[index])
        values.append(Value(c.names[index], TensorType(tensor.dtype, tensor.open_shape)))
    return values


def _operators(c: Conversion, graph: Subgraph, variables: Variables) -> None:
    for operator in graph.operators:
        c.at(operator)
        try:
            _operator(c, operator, variables)
        except HwflowError as error:
            raise error if error.where == operator.label else error.at(operator.label) from None


def _operator(c: Conversion, operator: Operator, variables: Variables) -> None:
    newest = ROWS[operator.kind].version if operator.kind in ROWS else _VARIABLES[operator.kind]
    if not 1 <= operator.version <= newest:
        raise Unsupported(
            f"{operator.kind} must have a version of 1 to {newest}, not {operator.version}",
            "convert the model with an older TensorFlow, or update hwflow",
        )
    if operator.kind == "CALL_ONCE":
        _initialise(c, operator, variables)
    elif operator.kind == "IF":
        _if(c, operator)
    elif operator.kind == "WHILE":
        _while(c, operator)
    elif operator.kind == "VAR_HANDLE":
        variables.handle(c, operator)
    elif operator.kind == "READ_VARIABLE":
        variables.read(c, operator)
    elif operator.kind == "ASSIGN_VARIABLE":
        variables.assign(c, operator)
    else:
        ROWS[operator.kind].handler(c, operator)


def _initialise(c: Conversion, operator: Operator, variables: Variables) -> None:
    """CALL_ONCE: what its subgraph assigns is what variables have before the first run."""
    index = operator.read("CallOnceOptions").whole("graph")
    if not 0 < index < len(c.file.subgraphs):
        raise InvalidModel(
            f"must call one of the {len(c.file.subgraphs)} subgraphs after the first, not {index}", _AGAIN
        )
    graph = c.file.subgraphs[index]
    unknown = next((each for each in graph.operators if each.kind not in _KNOWN - {"CALL_ONCE"}), None)
    if unknown is not None:
        raise Unsupported(f"subgraph {index} must have operators of docs/tflite.md, not {unknown.kind}")
    inner, own = Conversion(c.file, graph, c), Variables()
    _operators(inner, graph, own)
    for variable in own.assigned():
        tensor = variable.assigned
        assert tensor is not None, "it is assigned"
        variables.start(variable.name, tensor, _computed(inner, tensor))


#: Subgraphs in subgraphs; one that calls itself has no end.
_DEEPEST = 8


def _if(c: Conversion, operator: Operator) -> None:
    """One of two subgraphs of the same inputs and outputs, as a boolean says."""
    options = operator.read("IfOptions")
    condition, *inputs = c.all_inputs(operator)
    value = c.raw(condition)
    if condition.shape:
        value = c.node("Squeeze", value)
    outputs = c.outputs(operator, len(operator.outputs))
    names = [c.raw(tensor) for tensor in inputs]
    branches = []
    for name in ("then_graph", "else_graph"):
        inner, ends = _called(c, options.whole(name), inputs, names, outputs)
        branches.append(_graph(inner, inner.graph, [], [Value(inner.node("Identity", end), None) for end in ends]))
    made = c.node_of("If", [value], len(outputs), then_branch=branches[0], else_branch=branches[1])
    for tensor, result in zip(outputs, made, strict=True):
        c.put_raw(tensor, result)


def _while(c: Conversion, operator: Operator) -> None:
    """A Loop: one subgraph says of the values whether another one makes the next values of them."""
    options = operator.read("WhileOptions")
    condition, body = (options.whole(name) for name in ("condition", "body"))
    values = c.all_inputs(operator)
    outputs = c.outputs(operator, len(values))
    names = [c.raw(tensor) for tensor in values]
    first = _condition(c, condition, values, names)
    carried = [c.name(f"{name}/round") for name in names]
    inner, ends = _called(c, body, values, carried, outputs)
    goes_on = _condition(inner, condition, values, ends)
    made_inside, results = {name for node in inner.nodes for name in node.outputs}, list[str]()
    for end in (goes_on, *ends):  # an output is what a node makes, and one output alone
        results.append(end if end in made_inside and end not in results else inner.node("Identity", end))
    types = [TensorType(np.dtype(np.int64), ()), TensorType(np.dtype(np.bool_), ())]
    types += [TensorType(tensor.dtype, None) for tensor in values]
    names_inside = (c.name("round"), c.name("goes_on"), *carried)
    inputs = [Value(name, kind) for name, kind in zip(names_inside, types, strict=True)]
    whole = _graph(inner, inner.graph, inputs, [Value(name, None) for name in results])
    made = c.node_of("Loop", ["", first, *names], len(outputs), body=whole)
    for tensor, result in zip(outputs, made, strict=True):
        c.put_raw(tensor, result)


def _condition(c: Conversion, index: int, values: Sequence[Tensor], names: list[str]) -> str:
    """The boolean that a subgraph computes of values, among the nodes of `c`."""
    inner, (end,) = _called(c, index, values, names, None)
    result = inner.graph.tensors[inner.graph.outputs[0]]
    if result.type_name != "BOOL" or np.prod(result.shape) != 1:
        raise InvalidModel(f"{result.label} of subgraph {index} must be one BOOL, not {result.type_name} "
                           f"{list(result.shape)}", _AGAIN)
    c.nodes += inner.nodes
    c.constants.update(inner.constants)
    c.final_names.update(inner.final_names)
    return c.node("Squeeze", end) if result.shape else end


def _called(c: Conversion, index: int, values: Sequence[Tensor], names: list[str], outputs: Sequence[Tensor] | None
            ) -> tuple[Conversion, list[str]]:
    """A subgraph whose inputs are the values `names` of the graph around, and what its outputs are.

    They are to be like `outputs`; without these there is one.
    """
    if not 0 < index < len(c.file.subgraphs) or c.depth >= _DEEPEST:
        raise InvalidModel(
            f"must call one of the {len(c.file.subgraphs)} subgraphs after the first, at most {_DEEPEST} deep, not "
            f"{index}", _AGAIN,
        )
    graph = c.file.subgraphs[index]
    if (len(graph.inputs), len(graph.outputs)) != (len(values), 1 if outputs is None else len(outputs)):
        raise InvalidModel(f"subgraph {index} must have as many inputs and outputs as its call", _AGAIN)
    _require_operators(graph)
    c.count_called(1 + len(graph.operators))
    inner = Conversion(c.file, graph, c)
    for k, (tensor, name) in enumerate(zip(values, names, strict=True)):
        own = graph.tensors[graph.inputs[k]]
        if (own.type_name, own.quantization) != (tensor.type_name, tensor.quantization):
            raise _unlike(own, index, tensor)
        inner.bind(own, name)
    _operators(inner, graph, Variables())
    if inner.own_states or inner.states:
        raise Unsupported(f"subgraph {index} must be without variables", "keep variables outside of branches and loops")
    ends = [graph.tensors[k] for k in graph.outputs]
    for tensor, stated in zip(ends, outputs or (), strict=outputs is not None):
        if (tensor.type_name, tensor.quantization) != (stated.type_name, stated.quantization):
            raise _unlike(tensor, index, stated)
    return inner, [inner.raw(tensor) for tensor in ends]


def _unlike(tensor: Tensor, index: int, other: Tensor) -> InvalidModel:
    return InvalidModel(f"{tensor.label} of subgraph {index} must have the type and scale of {other.label}", _AGAIN)


def _computed(c: Conversion, tensor: Tensor) -> Array:
    """What a subgraph without inputs computes."""
    if tensor.data is not None:
        return tensor.constant
    value = c.raw(tensor)
    whole = Graph("start", tuple(c.nodes), (), (Value(value, None),), c.constants)
    return np.asarray(evaluate(make_model(whole, opset=OPSET), {})[value])


def _output(c: Conversion, tensor: Tensor) -> Value:
    """An output of the model, which has the name of its tensor."""
    static = not any(each.is_open for each in c.graph.tensors)
    try:
        value = c.raw(tensor)
    except HwflowError as error:
        raise error.at("the outputs of the model") from None
    if c.final_names.get(value) != c.names[tensor.index]:  # an input, a constant, or one tensor twice
        value = c.node("Identity", value)
        c.final_names[value] = c.name(f"{c.names[tensor.index]}_output")
    return Value(value, TensorType(tensor.dtype, tensor.shape if static else (None,) * len(tensor.shape)))


def _renamed(node: Node, final: Mapping[str, str]) -> Node:
    """A node with other names of values, those in its branches included."""
    inside = {name: replace(graph, nodes=tuple(_renamed(inner, final) for inner in graph.nodes))
              for name, graph in node.attributes.items() if isinstance(graph, Graph)}
    return replace(node, inputs=tuple(final.get(name, name) for name in node.inputs),
                   outputs=tuple(final.get(name, name) for name in node.outputs),
                   attributes={**node.attributes, **inside})


def _needed(nodes: list[Node], wanted: set[str]) -> list[Node]:
    """Those on which `wanted` depends: a Conv may take the place of several operators."""
    needed = []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            needed.append(node)
            wanted.update(reads(node))
    return needed[::-1]


def _graph(c: Conversion, graph: Subgraph, inputs: list[Value], outputs: list[Value]) -> Graph:
    """The graph with its final names."""
    final = c.final_names

    def renamed(node: Node) -> Node:
        return _renamed(node, final)

    nodes = tuple(map(renamed, _needed(c.nodes, {value.name for value in outputs})))
    used = {name for node in nodes for name in reads(node)}
    constants = {name: array for name, array in c.constants.items() if name in used}
    ends = [replace(value, name=final.get(value.name, value.name)) for value in outputs]
    return Graph(graph.name or "main", nodes, tuple(inputs), tuple(ends), constants)
