"""Steps from one version of an operator to a neighbouring one.  Each is called with the `NodeConversion` of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.model import Attribute

#: Writes what takes the place of a node, with the methods of its site.
Step: TypeAlias = Callable[[NodeConversion], None]

#: Operator to its versions, and the step that leads to each of them (upward from the version before it, downward from
#: it to the version before it).
Steps: TypeAlias = Mapping[str, Mapping[int, Step]]


@dataclass(frozen=True)
class Same:
    """The node is written the same way and means the same; element types or the wording may differ."""

    def __call__(self, site: NodeConversion) -> None:
        site.keep()


SAME = Same()


@dataclass(frozen=True)
class Without:
    """Attributes go that say nothing about what the node computes."""

    names: tuple[str, ...]

    def __call__(self, site: NodeConversion) -> None:
        site.keep(attributes={key: value for key, value in site.node.attributes.items() if key not in self.names})


@dataclass(frozen=True)
class Stated:
    """Attributes whose default is another one are stated with the default that they had."""

    defaults: Mapping[str, Attribute]

    def __call__(self, site: NodeConversion) -> None:
        site.keep(attributes={**self.defaults, **site.node.attributes})


@dataclass(frozen=True)
class Refused:
    """No form of the neighbouring version, with whatever other operators, has the meaning of the node."""

    why: str
    remedy: str

    def __call__(self, site: NodeConversion) -> None:
        raise site.refuse(self.why, self.remedy)
