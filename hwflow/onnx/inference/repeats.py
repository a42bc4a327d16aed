"""Large models repeat their layers: nodes that are alike, with operands that are alike, have the same outputs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from hwflow.onnx.inference.facts import Fact, TensorFact
from hwflow.onnx.inference.worlds import Worlds
from hwflow.onnx.model import Graph, Node

#: What decides the outputs of a node; None where that cannot be compared.
Key: TypeAlias = tuple[Hashable, ...] | None


class Repeats:
    """The outputs of earlier nodes.

    Outputs with a size that is related to no other are not to be kept: each node has its own.
    """

    def __init__(self) -> None:
        # The operands are kept because keys have the identity of their elements.
        self._found: dict[Key, tuple[Sequence[Fact], Sequence[Fact | None]]] = {}

    def key(self, node: Node, opset: int, operands: Sequence[Fact | None], worlds: Worlds) -> Key:
        """None for operands that are no tensors, and for attributes that are tensors or graphs."""
        parts: list[Hashable] = [node.op_type, node.domain, node.overload, opset, len(worlds.alive)]
        for operand in operands:
            if isinstance(operand, TensorFact):
                parts += (operand.dtype, operand.shape, id(operand.elements))
            elif operand is None:
                parts.append(None)
            else:
                return None
        if any(isinstance(each, Graph) for value in node.attributes.values()
               for each in (value if isinstance(value, tuple) else (value,))):
            return None  # a body reads tensors from around it, too
        parts.append(tuple(map(bool, node.outputs)))
        parts += ((name, type(value), value) for name, value in node.attributes.items())
        key = tuple(parts)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def find(self, key: Key) -> Sequence[Fact] | None:
        """The outputs of an earlier node with this key."""
        found = self._found.get(key)
        return None if found is None else found[0]

    def keep(self, key: Key, operands: Sequence[Fact | None], outputs: Sequence[Fact]) -> None:
        """Remember the outputs for nodes with the same key."""
        if key is not None:
            self._found[key] = outputs, operands
