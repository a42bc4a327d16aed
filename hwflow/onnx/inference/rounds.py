"""Loop and Scan with a constant number of rounds, written out: the nodes of the body once for each round.

A round is written when the one before it was visited, so what it computes of constants (counters, conditions) is known.
A loop that is an RNN, GRU or LSTM becomes that node (`recurrent_loops`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union

import numpy as np

from hwflow.onnx.inference.recurrent_loops import Walk, constant, recurrent_of
from hwflow.onnx.inference.unrolled import Round
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.ops.base import Call
from hwflow.onnx.rewrite.renaming import spliced

#: Rounds of one loop, and nodes that its rounds may leave: hardware has a stage for each.
MOST_ROUNDS, MOST_NODES = 4_096, 5_000
#: Nodes that rounds may have before the loop is known to be a recurrent layer.
_MOST_WRITTEN = 200_000

_KEEP = "export it as a recurrent layer (RNN, GRU, LSTM), or run it on the host"


#: What stands for a loop.
Written: TypeAlias = Sequence[Union[Node, "Rounds"]]


@dataclass
class Rounds:
    """A Loop or Scan that is being written out.

    `count` rounds at most, None: as long as `going`, the name of the condition, says; empty: it always goes on.
    `sliced` are the names, axes and directions of what a Scan takes a slice of in each round.
    """

    call: Call
    body: Graph
    count: int | None
    going: str
    asks: bool
    state: tuple[str, ...]
    sliced: tuple[tuple[str, int, bool], ...]
    axes: tuple[int, ...]
    backward: tuple[bool, ...]
    names: dict[str, str]
    start: int
    rounds: list[Round] = field(default_factory=list)

    def step(self, walk: Walk) -> Written:
        """The nodes of the next round, with this behind them; after the last one the loop's results."""
        if self._goes_on(walk):
            return [*self._round(walk), self]
        ends = [*self._states(walk), *self._collected(walk)]
        layer = recurrent_of(self.call.node, self.rounds, ends, walk)
        if layer is not None:
            del walk.nodes[self.start:]
            return layer
        if len(walk.nodes) - self.start > MOST_NODES:
            raise self.call.error(f"the {len(self.rounds)} rounds must become at most {MOST_NODES} nodes, not "
                                  f"{len(walk.nodes) - self.start}", _KEEP)
        return ends

    def _goes_on(self, walk: Walk) -> bool:
        done = len(self.rounds)
        if self.count is not None and done >= self.count:
            return False
        if self.going:
            value = walk.known[self.going].value
            if value is None:
                raise _of_data(self.call, "its condition", (self.going,), walk)
            if value.size != 1:
                raise self.call.error(f"its condition must be one boolean, not {value.size}", "export the model again")
            if not value.reshape(-1)[0]:
                return False
        if done >= MOST_ROUNDS or len(walk.nodes) - self.start > _MOST_WRITTEN:
            raise self.call.error(f"must end after at most {MOST_ROUNDS} rounds to be written out, and goes on after "
                                  f"{done}", _KEEP)
        return True

    def _round(self, walk: Walk) -> list[Node]:
        number, names, added = len(self.rounds), dict(self.names), list[Node]()
        prefix = f"{_label(self.call.node)}/{number}"
        inputs = [value.name for value in self.body.inputs]
        if not self.sliced:
            names[inputs[0]] = constant(walk, f"{prefix}/round", np.array(number, np.int64))
            names[inputs[1]] = constant(walk, f"{prefix}/goes_on", np.array(True))
            inputs = inputs[2:]
        names.update(zip(inputs, self.state, strict=False))
        for inner, (name, axis, back) in zip(inputs[len(self.state):], self.sliced, strict=False):
            assert self.count is not None
            place = constant(walk, f"{prefix}/place", np.array(self.count - 1 - number if back else number, np.int64))
            names[inner] = walk.fresh(f"{prefix}/{inner}")
            added.append(Node("Gather", (name, place), (names[inner],), {"axis": axis}, name=names[inner]))
        nodes, names = spliced(self.body.nodes, names, (), walk.fresh, prefix)
        ends = [_source(self.body, value.name) for value in self.body.outputs]
        results = [names.get(name, name) for name in ends]
        if not self.sliced:
            self.going, results = results[0] if self.asks else "", results[1:]
        before, self.state = self.state, tuple(results[: len(self.state)])
        self.rounds.append(Round(before, self.state, tuple(results[len(self.state):]), len(walk.nodes)))
        return [*added, *nodes]

    def _states(self, walk: Walk) -> list[Node]:
        """The last carried values."""
        ends = zip(self.state, self.call.node.outputs, strict=False)
        return [Node("Identity", (name,), (output,), name=output) for name, output in ends
                if output and output not in walk.unread]

    def _collected(self, walk: Walk) -> list[Node]:
        """The rows of all rounds along a new axis."""
        nodes = []
        for number, output in enumerate(self.call.node.outputs[len(self.state):]):
            if not output or output in walk.unread:
                continue
            if not self.rounds:
                raise self.call.error("a loop that collects rows must have a round, not none", "leave the node out")
            rows = [turn.rows[number] for turn in self.rounds]
            axis = self.axes[number] if number < len(self.axes) else 0
            back = number < len(self.backward) and self.backward[number]
            raised = [walk.fresh(f"{output}/{k}") for k in range(len(rows))]
            nodes += [unsqueezed(walk, row, name, axis) for row, name in zip(rows, raised, strict=True)]
            order = tuple(reversed(raised)) if back else tuple(raised)
            nodes.append(Node("Concat", order, (output,), {"axis": axis}, name=output))
        return nodes


def _source(body: Graph, name: str) -> str:
    """What a result of a body is a copy of: a value that is handed on unchanged has one name in all rounds."""
    makers = {output: node for node in body.nodes for output in node.outputs}
    while name in makers and makers[name].op_type == "Identity" and not makers[name].domain:
        name = makers[name].inputs[0]
    return name


def unsqueezed(walk: Walk, name: str, output: str, axis: int) -> Node:
    """A node that gives a tensor one more axis."""
    if walk.opsets.get("", 0) < 13:
        return Node("Unsqueeze", (name,), (output,), {"axes": (axis,)}, name=output)
    return Node("Unsqueeze", (name, constant(walk, f"{output}/axis", np.array([axis], np.int64))), (output,),
                name=output)


def _label(node: Node) -> str:
    return (node.name or next(filter(None, node.outputs), node.op_type))[-60:]


def _of_data(call: Call, what: str, names: Iterable[str], walk: Walk) -> Exception:
    """The message about a loop whose number of rounds the data decide."""
    option = walk.suggest(names)
    return call.error(f"{what} must be constant, not computed from the inputs",
                      f"if the input never changes, give {option}" if option else
                      "hardware needs a constant number of rounds: export the model with fixed sizes")


def rounds_of(call: Call, walk: Walk) -> Rounds | None:
    """The rounds of a Loop or Scan; None for another node.

    HwflowError where their number is not constant, and for a Loop that has no end.
    """
    node = call.node
    body = node.attributes.get("body")
    if node.domain or node.op_type not in ("Loop", "Scan") or not isinstance(body, Graph):
        return None
    own = [*body.initializers, *body.sparse_initializers]
    names = {name: walk.fresh(f"{_label(node)}/{name}") for name in own}
    walk.constants(body, names)
    return _of_loop(call, body, names, walk) if node.op_type == "Loop" else _of_scan(call, body, names, walk)


def _of_loop(call: Call, body: Graph, names: dict[str, str], walk: Walk) -> Rounds:
    node = call.node
    limit, condition = node.input(0), node.input(1)
    for name, what in ((limit, "its number of rounds"), (condition, "its condition")):
        if name and walk.known[name].value is None:
            raise _of_data(call, what, (name,), walk)
    states = tuple(node.inputs[2:])
    if len(body.inputs) != 2 + len(states) or len(body.outputs) < 1 + len(states):
        raise call.error(f"the body must have {2 + len(states)} inputs and at least {1 + len(states)} outputs, not "
                         f"{len(body.inputs)} and {len(body.outputs)}", "export the model again")
    most = walk.known[limit].value if limit else None
    count = None if most is None or most.size != 1 else int(most.reshape(-1)[0])
    if (count is None or count > MOST_ROUNDS) and (not condition or _never_changes(body)):
        raise call.error(
            f"must have an end within {MOST_ROUNDS} rounds to be written out, and "
            + ("its condition never changes" if count is None else f"has {count}"),
            "give it a number of rounds, or a condition that becomes false" if count is None else _KEEP)
    return Rounds(call, body, count, condition, bool(condition), states, (), (), (), names, len(walk.nodes))


def _never_changes(body: Graph) -> bool:
    """Whether the condition that the body gives is its own condition, or a constant."""
    makers = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0].name
    while name in makers and makers[name].op_type in ("Identity", "Cast"):
        name = makers[name].inputs[0]
    if name in makers and makers[name].op_type == "Constant":
        value = makers[name].attributes.get("value")
        return not isinstance(value, np.ndarray) or bool(value.any())
    own = body.initializers.get(name)
    return name == body.inputs[1].name or (own is not None and bool(own.any()))


def _of_scan(call: Call, body: Graph, names: dict[str, str], walk: Walk) -> Rounds:
    node = call.node
    if call.opset < 9:
        raise call.error("must be a Scan of operator set 9 or later, not of 8, to be written out",
                         "export the model with operator set 9 or later")
    number = call.integer("num_scan_inputs")
    states, scanned = node.inputs[: len(node.inputs) - number], node.inputs[len(node.inputs) - number:]
    collected = len(body.outputs) - len(states)
    if not 0 < number <= len(node.inputs) or collected < 0 or len(body.inputs) != len(node.inputs):
        raise call.error("num_scan_inputs must suit the inputs and outputs of the body", "export the model again")
    axes = _list(call, "scan_input_axes", number)
    backward = _list(call, "scan_input_directions", number)
    ranks = [walk.known[name].ndim for name in scanned]
    if any(not -rank <= axis < rank for axis, rank in zip(axes, ranks, strict=True)):
        raise call.error("scan_input_axes must be axes of the inputs", "export the model again")
    sizes = {walk.known[name].shape[axis] for name, axis in zip(scanned, axes, strict=True)}
    if len(sizes) != 1:
        raise call.error(f"the scanned inputs must be of one length, not {sorted(sizes)}", "export the model again")
    sliced = tuple((name, axis, bool(back)) for name, axis, back in zip(scanned, axes, backward, strict=True))
    if max(sizes) > MOST_ROUNDS:
        raise call.error(f"must have at most {MOST_ROUNDS} rounds to be written out, not {max(sizes)}", _KEEP)
    return Rounds(call, body, sizes.pop(), "", False, tuple(states), sliced,
                  _list(call, "scan_output_axes", collected),
                  tuple(map(bool, _list(call, "scan_output_directions", collected))), names, len(walk.nodes))


def _list(call: Call, name: str, count: int) -> tuple[int, ...]:
    """A list attribute with one number for each; all 0 where it is left out."""
    values = call.integers(name, ()) if call.has(name) else (0,) * count
    if len(values) != count:
        raise call.error(f"attribute '{name}' must have {count} numbers, not {list(values)}", "export the model again")
    return values
