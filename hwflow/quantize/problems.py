"""Everything that keeps a model from becoming hardware, collected and reported in one message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hwflow.errors import HwflowError
from hwflow.onnx.model import Node

__all__ = ["Problem", "raise_all"]


@dataclass(frozen=True)
class Problem:
    """One node (or tensor) that cannot become hardware: which, why, and what the user can do."""

    where: str
    why: str
    remedy: str

    @staticmethod
    def of(node: Node, why: str, remedy: str) -> Problem:
        return Problem(node.label, why, remedy)


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise one HwflowError that lists every problem once, in order; nothing where there is none."""
    unique = tuple(dict.fromkeys(problems))
    if not unique:
        return
    count = "1 part" if len(unique) == 1 else f"{len(unique)} parts"
    lines = [f"  {p.where}: {p.why}\n    {p.remedy}" for p in unique]
    raise HwflowError("\n".join([f"{count} of the model cannot become hardware:", *lines]))
