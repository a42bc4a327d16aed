"""The line buffers of the stages of a plan."""

from __future__ import annotations

from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.line_buffer import LineBuffer

from ..layers.base import LayerGraph
from .lower import lower
from .plan import Plan

__all__ = ["ring_bytes"]


def ring_bytes(graph: LayerGraph, plan: Plan, technology: Technology) -> tuple[int | None, ...]:
    """For each stage the bytes of its line buffer (the ring of its window); None for a stage without a window."""
    found: list[int | None] = []
    for _, stage in lower(graph, plan, technology).stages:
        window = getattr(stage, "window", None)
        bits = window.depth * window.lanes * window.element.width if isinstance(window, LineBuffer) else None
        found.append(None if bits is None else -(-bits // 8))
    return tuple(found)
