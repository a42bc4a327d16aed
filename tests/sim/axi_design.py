"""The Verilog that `hwflow build --axi-stream` writes, as a simulation with its ports open to cocotb."""

from __future__ import annotations

import json
from pathlib import Path

from hwflow_rtl.io import AxiStreamTop
from hwflow_sim.packing import ROM_MODULE

from hwflow import golden, hls
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.pipeline.verilog import AXI_STREAM, simulation_technology
from hwflow.synth import ends_of
from tests.host.models import element_bytes
from tests.sim.open_bench import OpenSimulation, compile_open, wrapper


def compile_axi(graph: LayerGraph, plan: hls.Plan, frames: dict[str, IntArray], folder: Path) -> OpenSimulation:
    """`folder` holds what the command wrote, with the contents of the ROMs; `frames` go in."""
    folder = folder.resolve()
    top = AxiStreamTop(core=hls.lower(graph, plan, simulation_technology(plan)), ends=ends_of(plan))
    verilog = (folder / f"{AXI_STREAM}.v").read_text() + wrapper(top, AXI_STREAM)
    executable = compile_open(verilog, folder, [folder / ROM_MODULE.name])
    facts = folder / "facts.json"
    facts.write_text(json.dumps(facts_of(graph, plan, top, frames)))
    return OpenSimulation(executable, folder, "tests.sim.axi_bench", {"HWFLOW_AXI": str(facts)})


def facts_of(graph: LayerGraph, plan: hls.Plan, top: AxiStreamTop, frames: dict[str, IntArray]) -> dict:
    values = golden.run(graph, frames)

    def port(name: str, tensor: str) -> dict:
        data = [b"".join(element_bytes(int(value), graph.tensors[tensor].format) for value in frame.reshape(-1)).hex()
                for frame in values[tensor]]
        return {"name": name, "beat_bytes": getattr(top, f"{name}_tdata").shape().width // 8, "frames": data}

    return {"inputs": [port(*each) for each in zip(top.input_names, graph.inputs, strict=True)],
            "outputs": [port(*each) for each in zip(top.output_names, graph.outputs, strict=True)],
            "latency": plan.latency, "interval": plan.interval,
            "needs": [needs(graph, name) for name in graph.outputs]}


def needs(graph: LayerGraph, tensor: str) -> list[int]:
    """The inputs on which a tensor depends."""
    if tensor in graph.inputs:
        return [graph.inputs.index(tensor)]
    layer = next(layer for layer in graph.layers if layer.output == tensor)
    return sorted({k for name in layer.inputs for k in needs(graph, name)})
