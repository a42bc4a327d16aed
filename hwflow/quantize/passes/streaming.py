"""Models whose state is an input and an output: the state stays on the chip from one frame to the next.

A streaming model computes a frame from the frame and a state, and gives the next state.  Where the state is one of a
recurrent layer, it never leaves the layer.  For those `keep_states` finds the inputs and outputs that are such states,
and writes the model so that each of them is a state of one layer: an input that is the initial_h or initial_c of an
RNN, GRU or LSTM, and its Y_h or Y_c as an output.  The model's metadata then has the pairs, under `KEY`, so every later
step knows them by `state_pairs`.

A pair is certain where elements only move on the way: the output has the layer's new state at the places from which the
input feeds its old one.  That is computed here with numbers in place of values, so neither names nor positions matter.
Any other state is a pair of an input and an output of the graph, as it is (`hwflow.quantize.passes.handed_on`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate_nodes
from hwflow.onnx.about import names_file
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import JOINS, LAYOUT, MOVES
from hwflow.onnx.rewrite.passes import simplify
from hwflow.onnx.run.sequences import FILE_KEY, INITIAL_KEY, KEY, initial_states, state_names, state_pairs
from hwflow.quantize.graphs import Names, ancestors, attribute, dynamic_inputs, label_of, producers, shape_of
from hwflow.quantize.passes.handed_on import found_pairs, proposals, require_pair, require_pairs, zero_points
from hwflow.quantize.passes.normalise import OPSET
from hwflow.quantize.passes.recurrent import INITIAL_STATES, RECURRENT, batch_second, is_recurrent
from hwflow.quantize.passes.tracing import traced_moves

#: What only moves elements.
_MOVING = LAYOUT | MOVES | JOINS | {"Cast"}

#: The first of the inputs of a recurrent node that are initial states, and of the outputs that are last ones.
_INITIAL, _LAST = 5, 1


@dataclass(frozen=True)
class _Port:
    """State number `number` of a recurrent node (0: h, 1: c)."""

    node: Node
    number: int

    @property
    def read(self) -> str:
        """The tensor of the initial state."""
        return self.node.inputs[_INITIAL + self.number]

    @property
    def title(self) -> str:
        return f"{('initial_h', 'initial_c')[self.number]} of {self.node.label}"

    @property
    def result(self) -> str:
        return f"{('Y_h', 'Y_c')[self.number]} of {self.node.label}"


@dataclass(frozen=True)
class _Fed:
    """A graph input that feeds the initial state of a port; `index` has the port's shape and places of the input."""

    port: _Port
    index: IntArray


@dataclass(frozen=True)
class _Numbers:
    """A number for each element of a last state, from 1 on, all different.

    `states`: of the states of each node, by its id and the number of the state, flat.  `tensors`: of the results of the
    nodes, in their shapes, with 0 for what is no last state; those inside of Y have the number that they have in Y_h.
    """

    states: dict[tuple[int, int], IntArray]
    tensors: dict[str, Array]


@names_file
def keep_states(model: Model, asked: Mapping[str, str] | None = None) -> Model:
    """`model`, whose shapes are static, with every state as an input and an output, and a note on each.

    A state of a recurrent layer is one of the layer; the others are those of the file, and `Graph.kept` has their
    names.  `asked` maps inputs to the outputs that are their next states; others are found.  A model without such
    inputs stays as it is, and so does one that went through this before.
    HwflowError: a state of a layer without an output that gives its next value, or that feeds something else besides;
    of `asked` and of the model's metadata, names that do not exist and pairs that are none.
    """
    known = state_pairs(model)
    if known and not asked:
        return _with_kept(model)
    asked = {name: output for name, output in (asked or {}).items() if known.get(name) != output}
    written = batch_second(model)
    fed = _fed_inputs(written)
    for name, output in asked.items():
        require_pair(model, name, output, of_layer=name in fed)
    pairs, numbers = dict[str, str](), _numbers(written.graph)
    for name, uses in fed.items():
        if known.get(name):
            continue
        _require_alone(written.graph, name, uses)
        pairs[name] = _output_of(written, name, uses, numbers, asked.get(name))
    others = {name: output for name, output in asked.items() if name not in fed}
    taken = {**pairs, **known, **others}
    others |= found_pairs(_with_moves_seen(model), taken, fed)
    require_pairs(model, {**known, **pairs, **others})
    if pairs:
        _require_whole(written.graph, fed)
        _require_zero(model, pairs)
        model = _written(written, fed, pairs, known)
    return _with_kept(_noted(model, others, proposals(model, {**taken, **others}, fed)))


def _with_moves_seen(model: Model) -> Model:
    """`model`, in which nothing but moving nodes is between an input and an output that has its elements."""
    return traced_moves(model) if model.opsets.get("", 0) >= OPSET else model


def _noted(model: Model, others: Mapping[str, str], proposed: Mapping[str, str]) -> Model:
    """`model` with the pairs `others` in its metadata, and a note on each and on each of those that are `proposed`."""
    notes = [*_notes(others)]
    notes += [f"input '{name}' and output '{output}' have the names, the shape and the type of a state; where they are "
              f"one, give --state {name}={output}, and it stays on the chip" for name, output in proposed.items()]
    states = {**state_pairs(model), **others}
    metadata = dict(model.metadata)
    if others:
        metadata |= {KEY: json.dumps(states), FILE_KEY: json.dumps({**state_names(model), **others})}
    new = tuple(note for note in notes if note not in model.notes)
    return replace(model, metadata=metadata, notes=(*model.notes, *new))


def _notes(pairs: Mapping[str, str]) -> Iterator[str]:
    """A sentence on each state."""
    for name, output in pairs.items():
        yield f"input '{name}' and output '{output}' are a state, which stays on the chip from one frame to the next"


def _with_kept(model: Model) -> Model:
    """`model` with the names of its states that are none of layers, and with what those are at first."""
    graph = model.graph
    pairs = state_pairs(model)
    ports = {name for node in graph.nodes if is_recurrent(node) for name in node.inputs[INITIAL_STATES] if name}
    own = {name: output for name, output in pairs.items() if name not in ports}
    require_pairs(model, own)
    kept = frozenset(own) | frozenset(own.values())
    if graph.kept == kept:
        return model
    zeros = zero_points(model, own)
    if zeros:
        stated = {name: array.ravel().tolist() for name, array in initial_states(model).items()}
        named = json.loads(model.metadata.get(INITIAL_KEY, "{}"))
        initial = {name: stated[name] if name in named else zeros[name] for name in own if name in {**named, **zeros}}
        model = replace(model, metadata={**model.metadata, INITIAL_KEY: json.dumps(initial)})
    initial_states(model)
    return replace(model, graph=replace(graph, kept=kept))


def _require_zero(model: Model, pairs: Mapping[str, str]) -> None:
    """A layer's own state begins with zeros."""
    states = {**state_pairs(model), **pairs}
    initial = initial_states(replace(model, metadata={**model.metadata, KEY: json.dumps(states)}))
    for name in pairs:
        if initial[name].any():
            raise HwflowError(
                f"state '{name}' of a recurrent layer must begin with zeros, not with what '{INITIAL_KEY}' says",
                "leave it out of that entry of the model's metadata"
            )


def _fed_inputs(model: Model) -> dict[str, list[_Fed]]:
    """The graph inputs that feed initial states, with what they feed."""
    graph, fed = model.graph, dict[str, list[_Fed]]()
    inputs = {value.name for value in graph.inputs}
    for node in graph.nodes:
        for number in range(0 if node.domain else RECURRENT.get(node.op_type, 0)):
            port = _Port(node, number)
            if len(node.inputs) <= _INITIAL + number or not port.read or port.read in graph.initializers:
                continue
            way = ancestors(graph, [port.read])
            sources = sorted({name for step in way for name in dynamic_inputs(step, graph) if name in inputs})
            sources = sources or [port.read]
            moving = all(step.op_type in _MOVING and not step.domain for step in way)
            if len(sources) != 1 or not moving or sources[0] not in inputs:
                raise HwflowError(
                    f"{port.title} must be constant, or an input of the model whose elements only move on their way "
                    f"there, and '{port.read}' is computed from {', '.join(map(repr, sources))}",
                    "no hardware loads a state that is computed: export the model with the layer's state as an input "
                    "and an output of its own, which begins with zeros, or cut it in front of the layer with `hwflow "
                    f"onnx extract MODEL front.onnx --to {shlex.quote(port.read)}` and run the rest on the host",
                )
            index = _traced(model, way, {sources[0]: _places(graph, sources[0])}, port.read)
            fed.setdefault(sources[0], []).append(_Fed(port, index))
    return fed


def _places(graph: Graph, name: str) -> Array:
    """The number of each element, in the tensor's shape."""
    shape = shape_of(graph, name) or ()
    size = int(np.prod(shape))
    return np.arange(size).reshape(shape).astype(np.float32)


def _traced(model: Model, way: list[Node], feeds: Mapping[str, Array], tensor: str) -> IntArray:
    """The numbers that arrive at the tensor `tensor` over the nodes `way`."""
    if tensor in feeds:
        return feeds[tensor].astype(np.int64)
    way = [replace(node, op_type="Identity", attributes={}) if node.op_type == "Cast" else node for node in way]
    return np.asarray(evaluate_nodes(way, feeds, [tensor], model.opsets, model.graph.initializers)[tensor], np.int64)


def _numbers(graph: Graph) -> _Numbers:
    numbering, start = _Numbers({}, {}), 1
    for node in graph.nodes:
        for number in range(0 if node.domain else RECURRENT.get(node.op_type, 0)):
            shape = _state_shape(graph, node)
            numbers = np.arange(start, start + int(np.prod(shape)))
            start += numbers.size
            numbering.states[id(node), number] = numbers
            real = numbers.reshape(shape).astype(np.float32)
            if len(node.outputs) > _LAST + number and node.outputs[_LAST + number]:
                numbering.tensors[node.outputs[_LAST + number]] = real
            if number == 0 and node.outputs[0]:
                numbering.tensors[node.outputs[0]] = _inside_of_y(graph, node, real)
    return numbering


def _state_shape(graph: Graph, node: Node) -> tuple[int, ...]:
    """[directions, batch, hidden]."""
    x, weights = shape_of(graph, node.inputs[0]), shape_of(graph, node.inputs[2])
    assert x is not None, "shapes are static"
    assert weights is not None, "shapes are static"
    return weights[0], x[1], weights[2]


def _inside_of_y(graph: Graph, node: Node, numbers: Array) -> Array:
    """Numbers of Y [steps, directions, batch, hidden], of those of Y_h."""
    x = shape_of(graph, node.inputs[0])
    assert x is not None, "shapes are static"
    y = np.zeros((x[0], *numbers.shape), numbers.dtype)
    for direction in range(len(numbers)):
        backward = direction == 1 or attribute(node, "direction", "forward") == "reverse"
        y[0 if backward else -1, direction] = numbers[direction]
    return y


def _output_of(
    model: Model, name: str, uses: list[_Fed], numbers: _Numbers, stated: str | None
) -> str:
    """The output that gives the next state for the input `name`.  HwflowError where there is none."""
    graph = model.graph
    shape = shape_of(graph, name)
    tried = []
    for value in graph.outputs:
        if shape_of(graph, value.name) != shape or stated not in (None, value.name):
            continue
        numbers_there = _numbers_of_output(model, value.name, numbers.tensors)
        if numbers_there is not None and all(_is_next(use, numbers_there, numbers) for use in uses):
            return value.name
        tried.append(value.name)
    ports, results = (" and ".join(texts) for texts in zip(*((u.port.title, u.port.result) for u in uses), strict=True))
    same = f" (of its shape {list(shape or ())} there is {', '.join(map(repr, tried))})" if tried else ""
    raise HwflowError(
        f"input '{name}' is a state, the {ports}, so an output of the model must give its next value, the {results} in "
        f"the same places, but none does{same}" if stated is None else
        f"--state {name}={stated} must name an output that gives the next value of '{name}', the {results} in the same "
        "places, and this one does not",
        "export the model with that output, or with a constant initial state",
    )


def _numbers_of_output(model: Model, output: str, numbers: Mapping[str, Array]) -> IntArray | None:
    """The numbers of the states in `output`, flat; None where it is computed."""
    makers, way, todo, feeds = producers(model.graph), list[Node](), [output], dict[str, Array]()
    while todo:
        name = todo.pop()
        if name in numbers:
            feeds[name] = numbers[name]
        elif name in makers:
            node = makers[name]
            if node.domain or node.op_type not in _MOVING:
                return None
            if node not in way:
                way.append(node)
                todo += dynamic_inputs(node, model.graph)
        else:
            return None
    order = [node for node in model.graph.nodes if any(node is step for step in way)]
    return _traced(model, order, feeds, output).ravel()


def _is_next(use: _Fed, numbers_there: IntArray, numbers: _Numbers) -> bool:
    """Whether an output with the numbers `numbers_there` has the next state where the input has the state before."""
    own = numbers.states[id(use.port.node), use.port.number]
    return bool(np.array_equal(numbers_there[use.index.ravel()], own))


def _require_alone(graph: Graph, name: str, uses: list[_Fed]) -> None:
    """HwflowError where something else than initial states reads the state `name`."""
    ports = {use.port.read for use in uses}
    todo, allowed = [name], {id(use.port.node) for use in uses}
    while todo:
        tensor = todo.pop()
        for node in graph.nodes:
            if tensor not in node.inputs:
                continue
            if id(node) in allowed and tensor in ports and tensor not in node.inputs[:_INITIAL]:
                continue
            if node.op_type in _MOVING and not node.domain:
                todo += node.outputs
                continue
            raise HwflowError(
                f"input '{name}' is the {uses[0].port.title}, which stays in the layer, so nothing else may read it, "
                f"and {node.label} does",
                "export the model with an input of its own for that",
            )


def _require_whole(graph: Graph, fed: Mapping[str, list[_Fed]]) -> None:
    """An LSTM keeps h and c, or neither."""
    ports = {(id(use.port.node), use.port.number): use.port for uses in fed.values() for use in uses}
    for (node, number), port in ports.items():
        if RECURRENT[port.node.op_type] == 2 and (node, 1 - number) not in ports:
            raise HwflowError(
                f"{port.title} is an input of the model, so {_Port(port.node, 1 - number).title} must be one, too",
                "export the model with both states as inputs and outputs",
            )


def _written(model: Model, fed: Mapping[str, list[_Fed]], pairs: dict[str, str], known: dict[str, str]) -> Model:
    """`model` with the inputs and outputs of `pairs` as those of the layers."""
    graph, names = model.graph, Names(model.graph)
    states, shown, types = dict(known), list[Value](), dict(graph.types)
    nodes = {id(node): node for node in graph.nodes}
    for uses in (fed[name] for name in pairs):
        for use in uses:
            port, node = use.port, nodes[id(use.port.node)]
            known_type = graph.tensor_type(port.read)
            kind = TensorType(known_type.dtype if known_type else np.dtype(np.float32), use.index.shape)
            direct = port.read in pairs
            wish = f"{label_of(port.node)}.{('initial_h', 'initial_c')[port.number]}"
            name = port.read if direct else names.new(wish)
            shown.append(Value(name, kind))
            inputs = [*node.inputs]
            inputs[_INITIAL + port.number] = name
            outputs = [*node.outputs, *[""] * (_LAST + port.number + 1 - len(node.outputs))]
            place = _LAST + port.number
            outputs[place] = outputs[place] or names.new(f"{label_of(port.node)}.{('Y_h', 'Y_c')[port.number]}")
            types[outputs[place]] = types[name] = kind
            states[name] = outputs[place]
            nodes[id(port.node)] = replace(node, inputs=tuple(inputs), outputs=tuple(outputs))
    kept_in = [value for value in graph.inputs if value.name not in pairs]
    kept_out = [value for value in graph.outputs if value.name not in pairs.values()]
    last = [Value(name, types[name]) for name in (states[value.name] for value in shown)]
    whole = replace(
        graph, nodes=tuple(nodes.values()), inputs=(*kept_in, *shown), outputs=(*kept_out, *last), types=types
    )
    notes = tuple(_notes(pairs))
    names_of_file = json.dumps({**state_names(model), **pairs})
    metadata = {**model.metadata, KEY: json.dumps(states), FILE_KEY: names_of_file}
    return simplify(replace(model, graph=whole, metadata=metadata, notes=(*model.notes, *notes)))
