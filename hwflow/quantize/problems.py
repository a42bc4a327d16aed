"""Everything that keeps a model from becoming hardware, collected and reported in one message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hwflow.errors import HwflowError
from hwflow.onnx.model import Node

__all__ = ["NoHardware", "Problem", "raise_all"]


@dataclass(frozen=True)
class Problem:
    """One node (or tensor) that cannot become hardware: which, why, and what the user can do."""

    where: str
    why: str
    remedy: str

    @staticmethod
    def of(node: Node, why: str, remedy: str) -> Problem:
        return Problem(node.label, why, remedy)


class NoHardware(HwflowError):
    """Parts of a model cannot become hardware; `problems` says which."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        count = "1 part" if len(problems) == 1 else f"{len(problems)} parts"
        lines = [f"  {p.where}: {p.why}\n    {p.remedy}" for p in problems]
        super().__init__("\n".join([f"{count} of the model cannot become hardware:", *lines]))
        self.problems = problems


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise one NoHardware that lists every problem once, in order; nothing where there is none."""
    unique = tuple(dict.fromkeys(problems))
    if unique:
        raise NoHardware(unique)
