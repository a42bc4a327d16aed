"""The names that plans, tables and the Verilog have for the layers of a graph."""

from __future__ import annotations

import re

from hwflow.layers.base import Layer, LayerGraph

#: The longest name of a stage, without its position; tables have columns of this width.
NAME_LENGTH = 28


def layer_names(graph: LayerGraph) -> tuple[str, ...]:
    """The name of each layer's stage, where it has a stage of its own; also if some layers have no hardware."""
    return tuple(name_of(position, layer) for position, layer in enumerate(graph.layers))


def name_of(position: int, layer: Layer) -> str:
    """The Verilog-safe, unique, stable name of the stage of a layer: `<position>_<layer>`.

    If a layer's name is a path ("/net/net.1/Gemm"), its last two parts are used.  Only letters and digits remain.
    """
    parts = re.split(r"[/;:]", layer.name)
    words = re.findall(r"[A-Za-z0-9]+", "_".join(parts[-2:])) or [layer.kind]
    return f"{position}_{'_'.join(words)[-NAME_LENGTH:].strip('_')}"
