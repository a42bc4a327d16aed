"""The Verilog that `hwflow build --axi-stream` writes, as a simulation with its ports open to cocotb."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from hwflow_rtl.io import AxiStreamTop
from hwflow_sim.builder import Build, compile_runtime
from hwflow_sim.rom import ROM_MODULE
from hwflow_sim.run import environment
from hwflow_sim.tools import find_tools, run_tool

from hwflow import golden, hls
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.steps.generation import AXI_STREAM, simulation_technology
from hwflow.synth import ends_of
from tests.host.models import element_bytes

ROOT = Path(__file__).parents[2]
CONTROL = '`verilator_config\npublic_flat_rw -module "bench" -var "*"\n'


@dataclass(frozen=True)
class AxiSimulation:
    """`executable` runs in `folder`, which has the contents of the ROMs."""

    executable: Path
    folder: Path
    facts: Path

    def run(self, test: str) -> None:
        """One test of `tests.sim.axi_bench`; AssertionError with its message."""
        log, results = self.folder / f"{test}.log", self.folder / "results.xml"
        results.unlink(missing_ok=True)
        env = environment(self.folder, None)
        run_tool([self.executable], what="the simulation", cwd=self.folder, log=log, env={
            **env, "PYTHONPATH": os.pathsep.join([str(ROOT), env["PYTHONPATH"]]), "HWFLOW_AXI": str(self.facts),
            "COCOTB_TEST_MODULES": "tests.sim.axi_bench", "COCOTB_TEST_FILTER": f"{test}(/|$)",
            "COCOTB_RESULTS_FILE": str(results)})
        cases = [case for case in ET.parse(results).iter("testcase") if case.find("skipped") is None]
        assert cases, log.read_text()
        failed = [(case.get("name"), case.find(kind).attrib) for case in cases for kind in ("failure", "error")
                  if case.find(kind) is not None]
        assert not failed, f"{failed}\n{log.read_text()[-3000:]}"


def compile_axi(graph: LayerGraph, plan: hls.Plan, frames: dict[str, IntArray], folder: Path) -> AxiSimulation:
    """`folder` holds what the command wrote; `frames` go in."""
    folder = folder.resolve()
    made = folder / "made"
    made.mkdir()
    top = AxiStreamTop(core=hls.lower(graph, plan, simulation_technology(plan)), ends=ends_of(plan))
    (made / "wrapper.v").write_text(wrapper(top))
    (made / "bench.vlt").write_text(CONTROL)
    tools, log = find_tools(), folder / "compile.log"
    build = Build(tools=tools, folder=made, waves=False, log=log, jobs=2)
    runtime = folder / "runtime"
    runtime.mkdir()
    compile_runtime(tools, runtime, waves=False, log=log, jobs=2)
    (made / "bench.v").write_text((folder / f"{AXI_STREAM}.v").read_text() + (made / "wrapper.v").read_text())
    build.verilate([made / "bench.v", folder / ROM_MODULE.name, made / "bench.vlt"])
    build.compile()
    build.link(runtime / "runtime.a")
    facts = folder / "facts.json"
    facts.write_text(json.dumps(facts_of(graph, plan, top, frames)))
    return AxiSimulation(made / "bench", folder, facts)


def wrapper(top: AxiStreamTop) -> str:
    """The simulation's main program wants a module `bench` with three pins of its own."""
    members = top.signature.members.items()
    pins = {name: (member.flow.name, getattr(top, name).shape().width) for name, member in members}
    ports = ", ".join(f"{'input' if flow == 'In' else 'output'} [{width - 1}:0] {name}"
                      for name, (flow, width) in pins.items())
    joined = ", ".join(f".{name}({name})" for name in pins)
    return (f"module bench(input clk, input go, output done, {ports});\n  assign done = go;\n"
            f"  {AXI_STREAM} top ({joined});\nendmodule\n")


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
