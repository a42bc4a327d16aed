"""A top with a simulated memory chip in it, the C++ program that drives the top's ports, and a run of that program."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from hwflow_base.errors import ToolFailed
from hwflow_base.files.target import create_folder

from ..board import Netlist
from ..builder import run_arguments
from ..program import Program

#: What the programs include.
HEADER = Path(__file__).with_name("bench.h")


@dataclass(frozen=True)
class Printed:
    """The numbers that a run printed, by name; `kinds` names the counters of the chip."""

    numbers: Mapping[str, int]
    kinds: Sequence[str]

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]

    @property
    def violations(self) -> dict[str, int]:
        """The kinds that were counted, and how often."""
        counts = {kind: self[f"violation{n}"] for n, kind in enumerate(self.kinds)}
        return {kind: count for kind, count in counts.items() if count}

    @property
    def first_violation(self) -> str | None:
        return self.kinds[self["first_kind"]] if self.violations else None


@dataclass(frozen=True)
class MemoryProgram:
    """A compiled program; `folder` is where runs take place, `chip` what messages call it, `kinds` what it counts."""

    executable: Path
    folder: Path
    chip: str
    kinds: tuple[str, ...]

    def run(self, *arguments: object, seed: int = 1, numbers: Mapping[str, object] | None = None) -> Printed:
        """Run it with `arguments`; `numbers` are those of the model, by its plusargs, that differ from the part's.

        Raises ToolFailed where it breaks down, or nothing moves any more.
        """
        command = [self.executable, *arguments, *run_arguments(seed, numbers)]
        done = subprocess.run([str(word) for word in command], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        printed = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        if done.returncode or "stuck" in printed:
            raise ToolFailed(f"the simulated {self.chip} must answer, and did not: {done.stdout}{done.stderr}")
        return Printed(printed, self.kinds)


class ProgramTop:
    """The top that a program drives: `module`, in which the chip is, and its ports."""

    def __init__(self) -> None:
        self.module = Module()
        self.ports: list[Signal] = []

    def port(self, name: str, width: int) -> Signal:
        self.ports.append(Signal(width, name=name))
        return self.ports[-1]

    def drives(self, name: str, value: Value) -> None:
        """The program gives `value`."""
        self.module.d.comb += value.eq(self.port(name, len(value)))

    def shows(self, name: str, value: Value) -> None:
        """The program sees `value`."""
        self.module.d.comb += self.port(name, len(Value.cast(value))).eq(value)

    def compile(self, program: Path, model: Path, *, folder: Path, cache: Path, netlist: Netlist | None = None) -> Path:
        """The executable of `program`; made, or found in `cache`.

        `netlist` is one that the top has an instance of, `model` the simulated chip.  Raises MissingTool, and
        ToolFailed with the path of the log in `folder`.
        """
        from amaranth.back import rtlil
        from hwflow_rtl.emit import to_verilog, without_collector

        create_folder(folder)
        with without_collector():
            verilog = to_verilog(rtlil.convert(self.module, name="memory_top", ports=self.ports, emit_src=False))
        models = [] if netlist is None else [netlist.models]
        verilog += "" if netlist is None else netlist.verilog
        whole = Program("top", top="memory_top", driver=program, parts=(HEADER,))
        executable, _ = whole.compile(verilog, sources=[model, *models], cache=cache, log=folder / "compile.log")
        return executable


class NetlistUnit(wiring.Component):
    """Has the ports of `unit`, and is `netlist`, its module `top`; simulators need its Verilog and its models."""

    def __init__(self, *, unit: wiring.Component, netlist: Netlist):
        self.netlist = netlist
        super().__init__(unit.signature)

    def elaborate(self, platform):
        m = Module()
        ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.signature.flatten(self):
            ports[f"{'i' if member.flow is wiring.In else 'o'}_{'__'.join(path)}"] = Value.cast(value)
        there = {name: value for name, value in ports.items() if name[2:] in self.netlist.ports}
        m.submodules.netlist = Instance("top", **there)
        return m
