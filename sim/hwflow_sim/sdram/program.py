"""From a top with a simulated chip in it to a C++ program that drives the top's ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from amaranth.hdl import Module, Signal
from hwflow_base.files.target import create_folder

from ..board import Netlist
from ..program import Program
from .model import MODEL


def compile_program(top: Module, ports: Sequence[Signal], *, program: Path, folder: Path, cache: Path,
                    say: Callable[[str], None], netlist: Netlist | None = None, model: Path = MODEL) -> Path:
    """The executable of `program`, which drives `ports` of a Vtop; made, or found in `cache`.

    `netlist` is one that the top has an instance of, `model` the simulated chip.  Raises MissingTool, and ToolFailed
    with the path of the log in `folder`.
    """
    from amaranth.back import rtlil
    from hwflow_rtl.emit import to_verilog, without_collector

    create_folder(folder)
    with without_collector():
        verilog = to_verilog(rtlil.convert(top, name="memory_top", ports=ports, emit_src=False))
    models = [] if netlist is None else [netlist.models]
    verilog += "" if netlist is None else netlist.verilog
    whole = Program("top", top="memory_top", driver=program)
    made, _ = whole.compile(verilog, sources=[model, *models], cache=cache, log=folder / "compile.log", say=say)
    return made
