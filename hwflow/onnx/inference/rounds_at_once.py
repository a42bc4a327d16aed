"""A Scan whose rounds know nothing of each other, written once: its nodes with a first axis for the rounds.

That is what compares each row with all rows of a training (nearest neighbours, Gaussian processes):

    state [n, f], a row [f] in each round -> Sub, ReduceSumSquare: [n]    becomes    [m, 1, f] -> [m, n, f] -> [m, n]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.onnx.inference.recurrent_loops import Walk, constant
from hwflow.onnx.inference.rounds import Rounds
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import ELEMENTWISE, REDUCTIONS

#: What computes element by element with operands that broadcast to each other, besides.
_ALIKE = (ELEMENTWISE - {"BatchNormalization", "PRelu"}) | {"Identity", "Cast"}


@dataclass(frozen=True)
class _Seen:
    """A tensor of the body: its name in the graph, its shape in one round, and whether it has the axis of the rounds.
    """

    name: str
    shape: tuple[int, ...]
    each: bool = False


class _Unlike(Exception):
    """The body has something that is not the same with one axis more."""


def rounds_at_once(rounds: Rounds, walk: Walk) -> list[Node] | None:
    """The nodes that stand for a Scan of several rounds; None where one round needs what another computes, where slices
    are not taken along the first axis, and where the body is not of operators element by element and reductions."""
    forward = not any(axis or back for _, axis, back in rounds.sliced) and not any((*rounds.axes, *rounds.backward))
    if not rounds.sliced or not forward or (rounds.count or 0) < 2 or not _keeps_states(rounds):
        return None
    writer = _Writer(rounds, walk)
    try:
        return writer.write()
    except _Unlike:
        return None


def _keeps_states(rounds: Rounds) -> bool:
    """Whether every round hands its states on as they are."""
    made = {node.outputs[0]: node for node in rounds.body.nodes}
    for before, after in zip(rounds.body.inputs, rounds.body.outputs[: len(rounds.state)], strict=False):
        name = after.name
        while name in made and made[name].op_type == "Identity":
            name = made[name].inputs[0]
        if name != before.name:
            return False
    return True


@dataclass
class _Writer:
    rounds: Rounds
    walk: Walk
    seen: dict[str, _Seen] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def write(self) -> list[Node]:
        rounds, known = self.rounds, self.walk.known
        inputs = [value.name for value in rounds.body.inputs]
        for inner, name in (*rounds.names.items(), *zip(inputs, rounds.state, strict=False)):
            self.seen[inner] = _Seen(name, known[name].shape)
        for inner, (name, _, _) in zip(inputs[len(rounds.state):], rounds.sliced, strict=True):
            self.seen[inner] = _Seen(name, known[name].shape[1:], each=True)
        for node in rounds.body.nodes:
            self._node(node)
        for value, output in zip(rounds.body.outputs, rounds.call.node.outputs, strict=False):
            if output:
                self._result(value.name, output, is_state=value in rounds.body.outputs[: len(rounds.state)])
        return self.nodes

    def _node(self, node: Node) -> None:
        if node.domain or len(node.outputs) != 1 or any(isinstance(v, Graph) for v in node.attributes.values()):
            raise _Unlike
        value = node.attributes.get("value")
        if node.op_type == "Constant" and isinstance(value, np.ndarray):
            name = constant(self.walk, node.outputs[0], value)
            self.seen[node.outputs[0]] = _Seen(name, value.shape)
        elif node.op_type in _ALIKE:
            self._alike(node)
        elif node.op_type in REDUCTIONS:
            self._reduced(node)
        else:
            raise _Unlike

    def _alike(self, node: Node) -> None:
        operands = [self._of(name) if name else None for name in node.inputs]
        there = [operand for operand in operands if operand is not None]
        try:
            shape = np.broadcast_shapes(*(operand.shape for operand in there))
        except ValueError:
            raise _Unlike from None
        names = [self._aligned(operand, len(shape)) if operand is not None else "" for operand in operands]
        self._made(node, names, shape, any(operand.each for operand in there))

    def _aligned(self, operand: _Seen, rank: int) -> str:
        """An operand with the axis of the rounds in front of as many axes as the result has."""
        if not operand.each or len(operand.shape) == rank:
            return operand.name
        assert self.rounds.count is not None
        shape = (self.rounds.count, *(1,) * (rank - len(operand.shape)), *operand.shape)
        name = self.walk.fresh(f"{operand.name}/rounds")
        to = constant(self.walk, f"{name}/shape", np.array(shape, np.int64))
        self.nodes.append(Node("Reshape", (operand.name, to), (name,), name=name))
        return name

    def _reduced(self, node: Node) -> None:
        x, as_input = self._of(node.inputs[0]), bool(node.input(1))
        axes = self._axes(node, len(x.shape))
        keeps = bool(node.attributes.get("keepdims", 1))
        shape = [1 if k in axes else size for k, size in enumerate(x.shape) if keeps or k not in axes]
        moved = [axis + x.each for axis in axes]
        names = [x.name]
        if as_input:
            names.append(constant(self.walk, f"{node.outputs[0]}/axes", np.array(moved, np.int64)))
        else:
            node = replace(node, attributes={**node.attributes, "axes": tuple(moved)})
        self._made(node, names, tuple(shape), x.each)

    def _axes(self, node: Node, rank: int) -> list[int]:
        """The axes of one round's tensor, not negative."""
        stated = node.attributes.get("axes")
        if node.input(1):
            stated = self.walk.known[self._of(node.inputs[1]).name].value
        axes = [int(axis) for axis in np.asarray(stated).ravel()] if stated is not None else []
        if not axes or any(not -rank <= axis < rank for axis in axes):
            raise _Unlike
        return [axis % rank for axis in axes]

    def _made(self, node: Node, names: Sequence[str], shape: tuple[int, ...], each: bool) -> None:
        inner = node.outputs[0]
        name = self.walk.fresh(f"{(self.rounds.call.node.name or self.rounds.call.node.op_type)[-60:]}/{inner}")
        self.nodes.append(replace(node, inputs=tuple(names), outputs=(name,), name=name))
        self.seen[inner] = _Seen(name, shape, each)

    def _result(self, inner: str, output: str, is_state: bool) -> None:
        result = self._of(inner)
        if not is_state and not result.each:
            raise _Unlike
        self.nodes.append(Node("Identity", (result.name,), (output,), name=output))

    def _of(self, name: str) -> _Seen:
        """A tensor that a node of the body reads, perhaps from outside."""
        if name in self.seen:
            return self.seen[name]
        if name not in self.walk.known:
            raise _Unlike
        return _Seen(name, self.walk.known[name].shape)
