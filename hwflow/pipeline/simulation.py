"""Simulation of a plan: RTL in Verilator, driven from cocotb, every stage compared with the golden model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.work import Audience
from hwflow_rtl.shared.steps import ELEMENT_BITS
from hwflow_sim import Boundary, ElementShape, MemoryOrder, RunResult, Simulation, StallPattern
from hwflow_sim import compile as compile_simulation
from hwflow_sim import run as run_simulation
from hwflow_sim.compile import IDLE_LIMIT
from hwflow_sim.outside import IMAGE, CoreWithMemory, image_bytes
from hwflow_sim.results import Values

from hwflow.hls.plan.graph_stages import stages_of
from hwflow.stages.codes import codes_of, shape_of, values_of

from .. import golden, hls
from ..layers.base import LayerGraph
from ..layers.formats import IntFormat, Tensor
from .verilog import simulation_technology

Frames = npt.NDArray[np.int64]

#: Of an element in the memory of a shared stage.
WORD_ELEMENT = ElementShape(ELEMENT_BITS, True)


def boundaries(graph: LayerGraph, plan: hls.Plan) -> tuple[Boundary, ...]:
    """The stream of each tensor that leaves a stage, and what a stage writes into its memory, as the simulation watches
    it."""
    streams = []
    for stage, planned in zip(stages_of(graph, plan.partition), plan.stages, strict=True):
        for written in stage.written(planned.folding):
            tensor, order = graph.tensors[written.tensor], MemoryOrder(written.places, WORD_ELEMENT, written.less)
            streams.append(Boundary(written.tensor, f"{stage.name}: {written.tensor}", planned.folding.cols,
                                    element_of(tensor), tensor.frame.elements, order))
        for name, lanes in zip(stage.outputs, stage.lanes_out(planned.folding), strict=True):
            title = stage.name if len(stage.outputs) == 1 else f"{stage.name}: {name}"
            streams.append(Boundary(name, title, lanes, element_of(graph.tensors[name]),
                                    graph.tensors[name].frame.elements))
    return tuple(streams)


def element_of(tensor: Tensor) -> ElementShape:
    shape = shape_of(tensor.format)
    return ElementShape(shape.width, shape.signed)


def compile_plan(graph: LayerGraph, plan: hls.Plan, folder: Path, cache: Path, *, waves: bool = False,
                 audience: Audience = Audience(print)) -> Simulation:
    """The executable simulation of `plan`, with the latencies of its technology; cached in `cache`."""
    technology = simulation_technology(plan)
    core = hls.lower(graph, plan, technology)
    sources: tuple[Path, ...] = ()
    if plan.outside is not None and plan.streams:
        outside = plan.outside
        core = CoreWithMemory(core=core, part=outside.part, streams=[planned.stream for planned in plan.streams],
                              slowdown=outside.slowdown, technology=technology, domain=outside.domain)
        sources = core.sources
        technology.roms[IMAGE] = image_bytes(hls.weight_image(graph, plan), outside.part.width)
    return compile_simulation(core, boundaries=boundaries(graph, plan), roms=technology.roms, folder=folder,
                              cache=cache, inputs=graph.inputs, outputs=graph.outputs, waves=waves, sources=sources,
                              idle_limit=idle_limit(plan), audience=audience)


def idle_limit(plan: hls.Plan) -> int:
    """Cycles without a beat after which a run is dead.  A shared stage may compute for long before it writes a word: of
    a layer with one output for all its input, less than a frame; random stalls of its weights make it longer."""
    return max(IDLE_LIMIT, 4 * plan.interval) if plan.partition.shared else IDLE_LIMIT


def run_plan(simulation: Simulation, graph: LayerGraph, frames: Frames | Mapping[str, Frames], *,
             stalls: StallPattern | None = None, waves: Path | None = None) -> RunResult:
    """Play `frames` and compare every stage and every output with `golden`, as codes on the streams.

    `frames` are arrays [n, height, width, channels] by input name, or the array of the only input.  The result holds
    what every stage gave.
    """
    values = golden.run(graph, frames)

    def codes(tensor: str) -> Frames:
        return codes_of(values[tensor], graph.tensors[tensor].format).reshape(len(values[tensor]), -1)

    result = run_simulation(
        simulation, frames=[codes(name) for name in graph.inputs],
        expected=[codes(boundary.tensor) for boundary in simulation.boundaries], stalls=stalls, waves=waves)
    inputs = {name: narrow(values[name], graph.tensors[name].format) for name in graph.inputs}
    outputs = {name: frames_of(tensor.values, graph.tensors[name]) for name, tensor in result.boundaries.items()}
    return replace(result, values={**inputs, **outputs})


def frames_of(codes: Values, tensor: Tensor) -> Values:
    """Elements of a stream, [n, elements], as frames [n, height, width, channels] of integers."""
    frame = tensor.frame
    return values_of(codes, tensor.format).reshape(len(codes), frame.height, frame.width, frame.channels)


def narrow(frames: Frames, format: IntFormat) -> Values:
    """The same integers in the narrowest type that holds the format."""
    size = next(size for size in (1, 2, 4) if format.bits <= 8 * size)
    return frames.astype(f"{'i' if format.low < 0 else 'u'}{size}")
