"""Simulation of a plan: RTL in Verilator, driven from cocotb, every stage compared with the golden model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_sim import Boundary, ElementShape, RunResult, Simulation, StallPattern
from hwflow_sim import compile as compile_simulation
from hwflow_sim import run as run_simulation

from . import golden, hls
from .generation import twin
from .layers.base import LayerGraph
from .layers.hardware import codes_of, shape_of

__all__ = ["boundaries", "compile_plan", "run_plan"]

Frames = npt.NDArray[np.int64]


def boundaries(graph: LayerGraph, plan: hls.Plan) -> tuple[Boundary, ...]:
    """The stream behind each stage, as the simulation watches it."""
    found = []
    for stage, layer in zip(plan.stages, graph.layers, strict=True):
        tensor = graph.tensors[layer.output]
        element = shape_of(tensor.format)
        shape = ElementShape(element.width, element.signed)
        found.append(Boundary(stage.name, stage.folding.lanes, shape, tensor.frame.elements))
    return tuple(found)


def compile_plan(graph: LayerGraph, plan: hls.Plan, folder: Path, cache: Path, *, waves: bool = False,
                 say: Callable[[str], None] = print) -> Simulation:
    """The executable simulation of `plan`, with the latencies of its technology; cached in `cache`."""
    technology = twin(plan)
    core = hls.lower(graph, plan, technology)
    return compile_simulation(core, boundaries=boundaries(graph, plan), roms=technology.roms, folder=folder,
                              cache=cache, inputs=graph.inputs, outputs=graph.outputs, waves=waves, say=say)


def run_plan(simulation: Simulation, graph: LayerGraph, frames: Frames | Mapping[str, Frames], *,
             stalls: StallPattern | None = None, waves: Path | None = None, stop_cycle: int | None = None) -> RunResult:
    """Play `frames` and compare every stage and every output with `golden`, as codes on the streams.

    `frames` are arrays [n, height, width, channels] by input name, or the array of the only input.
    """
    values = golden.run(graph, frames)

    def codes(tensor: str) -> Frames:
        return codes_of(values[tensor], graph.tensors[tensor].format).reshape(len(values[tensor]), -1)

    return run_simulation(
        simulation, frames=[codes(name) for name in graph.inputs],
        expected=[codes(layer.output) for layer in graph.layers], stalls=stalls, waves=waves, stop_cycle=stop_cycle)
