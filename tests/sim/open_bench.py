"""A simulation whose ports are open to cocotb, for benches with sources and sinks that others wrote."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from amaranth.lib import wiring
from hwflow_sim.builder import Build, Compilation, compile_runtime, run_arguments
from hwflow_sim.run import environment
from hwflow_sim.tools import find_tools, run_tool

ROOT = Path(__file__).parents[2]
CONTROL = '`verilator_config\npublic_flat_rw -module "bench" -var "*"\n'


@dataclass(frozen=True)
class OpenSimulation:
    """`executable` runs the tests of the Python module `bench` in `folder`; `variables` are in their environment."""

    executable: Path
    folder: Path
    bench: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, test: str) -> None:
        """One test of the bench; AssertionError with its message."""
        log, results = self.folder / f"{test}.log", self.folder / "results.xml"
        results.unlink(missing_ok=True)
        env = environment(self.folder, None)
        run_tool([self.executable, *run_arguments(1)], what="the simulation", cwd=self.folder, log=log, env={
            **env, "PYTHONPATH": os.pathsep.join([str(ROOT), env["PYTHONPATH"]]), **self.variables,
            "COCOTB_TEST_MODULES": self.bench, "COCOTB_TEST_FILTER": f"{test}(/|$)",
            "COCOTB_RESULTS_FILE": str(results)})
        cases = [case for case in ET.parse(results).iter("testcase") if case.find("skipped") is None]
        assert cases, log.read_text()
        failed = [(case.get("name"), case.find(kind).attrib) for case in cases for kind in ("failure", "error")
                  if case.find(kind) is not None]
        assert not failed, f"{failed}\n{log.read_text()[-3000:]}"


def compile_open(verilog: str, folder: Path, sources: Sequence[Path] = ()) -> Path:
    """The executable for a module `bench` (`wrapper`) and all below it."""
    made, runtime = folder / "made", folder / "runtime"
    made.mkdir()
    runtime.mkdir()
    (made / "bench.v").write_text(verilog)
    (made / "bench.vlt").write_text(CONTROL)
    how = Compilation(find_tools(), waves=False, log=folder / "compile.log", jobs=2)
    build = Build(how, made)
    compile_runtime(how, runtime)
    build.verilate([made / "bench.v", *sources, made / "bench.vlt"])
    build.compile()
    build.link(runtime / "runtime.a")
    return made / "bench"


def wrapper(top: wiring.Component, name: str) -> str:
    """The simulation's main program wants a module `bench` with three pins of its own around the module `name`."""
    members = top.signature.members.items()
    pins = {port: (member.flow.name, getattr(top, port).shape().width) for port, member in members}
    ports = ", ".join(f"{'input' if flow == 'In' else 'output'} [{width - 1}:0] {port}"
                      for port, (flow, width) in pins.items())
    joined = ", ".join(f".{port}({port})" for port in pins)
    return (f"module bench(input clk, input go, output done, {ports});\n  assign done = go;\n"
            f"  {name} top ({joined});\nendmodule\n")
