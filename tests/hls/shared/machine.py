"""Shared stages for tests: a program for a graph, and its model against what every tensor must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hwflow.hls.shared.compile import SharedProgram, compile_shared
from hwflow.hls.shared.framing import ProgramSizes
from hwflow.layers import LayerGraph
from hwflow.layers.formats import IntArray

#: Of a stage with 4 x 4 multipliers and a memory as large as the graph needs.
SIZES: dict[str, Any] = {
    "columns": 4, "lanes": 1, "interval": 4, "words": None, "single_port": True, "buffer": 1024, "stream_rows": 1}


def program_for(graph: LayerGraph, **sizes: Any) -> SharedProgram:
    """All layers of `graph` in one stage."""
    return compile_shared(graph, graph.layers, ProgramSizes(**{**SIZES, **sizes}))


def require_equal(made: SharedProgram, values: Mapping[str, IntArray]) -> None:
    """The program's model writes every tensor of `values`, [h, w, c] by name, and gives its outputs."""
    outputs, written = made.program.model([values[name].reshape(-1, values[name].shape[-1]) for name in made.inputs])
    found = {writing.step: writing for writing in written}
    seen = set()
    for making, expected in made.writings(values):
        np.testing.assert_array_equal(found[making.step].addresses, expected.addresses)
        np.testing.assert_array_equal(found[making.step].elements, expected.elements, err_msg=str(making))
        seen.add(making.tensor)
    assert seen | (set(made.views) & set(values)) == set(values) - set(made.inputs)
    for name, output in zip(made.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, values[name].reshape(output.shape))
