"""Names in links inside of a page: a stage has the same one in all sections."""

from __future__ import annotations

import re

from markupsafe import Markup

from .svg import element

__all__ = ["href", "layer_anchor", "linked", "stage_anchor"]


def stage_anchor(name: str) -> str:
    """The anchor of the card with the numbers of the stage of this name."""
    return f"stage-{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}"


def layer_anchor(position: int) -> str:
    """The anchor of the card of the layer at this position of the graph, where it shares a stage with others."""
    return f"layer-card-{position}"


def href(stage: str) -> str:
    """The link to the card of a stage."""
    return f"#{stage_anchor(stage)}"


def linked(stage: str) -> Markup:
    """The name of a stage that leads to its card."""
    return element("a", stage, href=href(stage))
