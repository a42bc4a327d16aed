"""What became of a model's nodes when it was mapped to hardware: one fate for each, and why there is no hardware."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hwflow_base.errors import HwflowError, sentence

from ..layers.base import LayerGraph
from ..onnx.errors import LimitError
from ..quantize.problems import Problem

__all__ = ["Fate", "Mapped", "NodeMapping", "of_whole"]


class Fate(enum.Enum):
    """CONSTANT: done before anything runs.  NONE: there is no hardware for it, and the host cannot do it there.

    UNKNOWN: it could not be looked at.
    """

    HARDWARE = "hardware"
    HOST = "host"
    CONSTANT = "constant"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NodeMapping:
    """One node, and why and what to do where its fate is NONE."""

    index: int
    label: str
    name: str
    operator: str
    fate: Fate
    why: str = ""
    remedy: str = ""


def of_whole(error: HwflowError) -> Problem:
    """What `error` says of the model as a whole, in one line."""
    why, remedy = (" ".join(text.split()) for text in (sentence(error.why, where=error.where), error.remedy))
    return Problem("the model", why, remedy)


@dataclass(frozen=True)
class Mapped:
    """`nodes`: those of the main graph, functions inlined.  `problems` belong to no node.

    `graph` is the integer graph where the model has one (its ranges are assumed); `complete` is False where not
    everything could be looked at, and then `problems` says why.  `notes` say what was changed to map the model.
    `beyond` is the limit that kept the model from being looked at.
    """

    nodes: tuple[NodeMapping, ...]
    problems: tuple[Problem, ...]
    graph: LayerGraph | None
    complete: bool
    notes: tuple[str, ...] = ()
    beyond: LimitError | None = None

    @property
    def possible(self) -> bool:
        """Whether the model can become hardware without a change."""
        return not self.problems and all(node.fate is not Fate.NONE for node in self.nodes)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Those of the model as a whole, and one for each node that cannot be."""
        return (*self.problems, *(Problem(node.label, node.why, node.remedy) for node in self.of(Fate.NONE)))

    def is_all(self, error: HwflowError) -> bool:
        """Whether `error` is the only problem."""
        return [problem.why for problem in self.all_problems] == [of_whole(error).why]

    def of(self, fate: Fate) -> tuple[NodeMapping, ...]:
        return tuple(node for node in self.nodes if node.fate is fate)
