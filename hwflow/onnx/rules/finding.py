"""What a violated rule is reported as."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hwflow.onnx.model import Model

__all__ = ["Finding", "Rule", "Severity"]


class Severity(enum.Enum):
    """ERROR: the model has no meaning, or none that hwflow can give it.  WARNING: it works, but look at it."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One violation of one rule at one place.

    `rule` is a fixed identifier, `path` a place in the file as "graph/node[12] 'conv1' (Conv)", `message` reads
    "<thing> must be <rule>, not <value>", and `remedy` says what to do.
    """

    severity: Severity
    rule: str
    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}; {self.remedy} [{self.rule}]"


#: A rule gives its violations in a model.
Rule: TypeAlias = Callable[[Model], Iterator[Finding]]
