"""Everything that keeps a model from becoming hardware, collected and reported in one message."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Graph, Node
from hwflow.onnx.rewrite.extract import Cuts

#: The remedy where neither side of a node is worth a model of its own.
NOTHING_LEFT = "a processor runs the model; without this node next to nothing of its layers is left for hardware"


class Cause(enum.Enum):
    """NODE: the node itself.  NEIGHBOUR: what is before or after it, and different in a part of the model.

    TENSOR: a constant, whoever reads it.
    """

    NODE = "node"
    NEIGHBOUR = "neighbour"
    TENSOR = "tensor"


@dataclass(frozen=True)
class Problem:
    """One node (or tensor) that cannot become hardware: which, why, and what the user can do.

    `cut` is None where it does not help to cut the model in front of the node; else what the advice to do so ends with,
    " and run the rest on the host" or nothing.  `remedy` is empty where nothing else helps.
    """

    where: str
    why: str
    remedy: str
    cause: Cause = Cause.NODE
    cut: str | None = None

    @staticmethod
    def of(node: Node, why: str, remedy: str, cause: Cause = Cause.NODE, cut: str | None = None) -> Problem:
        return Problem(node.label, why, remedy, cause, cut)

    @staticmethod
    def of_tensor(name: str, why: str, remedy: str) -> Problem:
        return Problem(f"tensor '{name}'", why, remedy, Cause.TENSOR)


    def advised(self, command: str = "") -> Problem:
        """The same with all of the advice in `remedy`; `command` cuts the model."""
        if self.cut is None:
            return self
        how = "cut the model in front of it" if "--to" in command or not command else "cut it off"
        done = f" with {command}" if command else ""
        first = f"{self.remedy}, or " if self.remedy else ""
        return replace(self, remedy=f"{first}{how}{done}{self.cut}", cut=None)


def with_cuts(problems: Iterable[Problem], graph: Graph) -> tuple[Problem, ...]:
    """The problems, where the advice to cut the model has the command with the tensors of `graph`, the file's graph."""
    nodes = {node.label: node for node in reversed(graph.nodes)}
    cuts = Cuts(graph)

    def advised(problem: Problem) -> Problem:
        node = nodes.get(problem.where)
        if problem.cut is None or node is None:
            return problem.advised()
        command = cuts.command(node)
        if command:
            return problem.advised(command)
        return replace(problem, remedy=problem.remedy or NOTHING_LEFT, cut=None)

    return tuple(map(advised, problems))


class NoHardware(HwflowError):
    """Parts of a model cannot become hardware; `problems` says which."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        count = "1 part" if len(problems) == 1 else f"{len(problems)} parts"
        lines = [f"  {p.where}: {p.why}\n    {p.remedy}" for p in (problem.advised() for problem in problems)]
        super().__init__("\n".join([f"{count} of the model cannot become hardware:", *lines]))
        self.problems = problems


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise one NoHardware that lists every problem once, in order; nothing where there is none."""
    unique = tuple(dict.fromkeys(problems))
    if unique:
        raise NoHardware(unique)
