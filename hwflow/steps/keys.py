"""What names the things that records are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.files.cache import content, digest

from ..host.identity import identity

if TYPE_CHECKING:
    from ..flow import Flow

__all__ = ["design_key", "rows_key"]


def design_key(flow: Flow) -> str:
    """The design as hexadecimal digits: all integers of the graph, and the foldings of the plan."""
    return identity(flow.graph, flow.plan).hex()


def rows_key(flow: Flow) -> str:
    """A digest of the rows of the data, their labels and their expected outputs; empty without data."""
    dataset = flow.dataset
    if dataset is None:
        return ""
    labels = [] if dataset.labels is None else [dataset.labels]
    named = [*sorted(dataset.inputs.items()), *sorted(dataset.outputs.items())]
    return digest(*(part for name, array in named for part in (name, content(array))), *map(content, labels))
