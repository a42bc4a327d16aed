"""From a top with the simulated chip in it to a C++ program that drives the top's ports, cached by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from amaranth.hdl import Module, Signal
from hwflow_base.files.cache import digest
from hwflow_base.files.target import create_folder

from ..board import Netlist
from ..board.compiled import CXX_FLAGS, FAST, RUNTIME, SLOW, compile_units
from ..builder import archive
from ..cache import cached_folder
from ..tools import Tools, find_tools, run_tool
from .model import MODEL

__all__ = ["compile_program"]

VERILATOR_FLAGS = ("--cc", "--no-timing", "--x-assign", "fast", "--x-initial", "fast", "-Wno-lint", "-Wno-style",
                   "-Wno-fatal", "-Wno-MULTIDRIVEN", "--prefix", "Vtop", "--top-module", "memory_top")


def compile_program(top: Module, ports: Sequence[Signal], *, program: Path, folder: Path, cache: Path,
                    say: Callable[[str], None], netlist: Netlist | None = None, model: Path = MODEL) -> Path:
    """The executable of `program`, which drives `ports` of a Vtop; made, or found in `cache`.

    `model` is the simulated chip.  `netlist` is one that the top has an instance of.  Raises MissingTool, and
    ToolFailed with the path of the log in `folder`.
    """
    from amaranth.back import rtlil
    from hwflow_rtl.emit import to_verilog, without_collector

    create_folder(folder)
    create_folder(cache)
    tools, log = find_tools(), folder / "compile.log"
    with without_collector():
        verilog = to_verilog(rtlil.convert(top, name="memory_top", ports=ports, emit_src=False))
    models = [] if netlist is None else [netlist.models]
    verilog += "" if netlist is None else netlist.verilog
    flags = [*VERILATOR_FLAGS, *CXX_FLAGS, FAST, SLOW, tools.verilator_version, tools.compiler, tools.compiler_version]

    def make_runtime(place: Path) -> None:
        sources = [tools.verilator_root / "include" / name for name in RUNTIME]
        compile_units(tools, [(path, FAST) for path in sources], place, log=log, jobs=None)
        archive(tools, place, log)

    def make(place: Path) -> None:
        (place / "top.v").write_text(verilog)
        runtime, _ = cached_folder(cache, digest("memory runtime", str(RUNTIME), *flags), make_runtime, say)
        compile_in(tools, place, [place / "top.v", model, *models], program, runtime / "runtime.a", log)

    made, _ = cached_folder(cache, digest(verilog, model, *models, program, *flags), make, say)
    return made / "program"


def compile_in(tools: Tools, place: Path, sources: Sequence[Path], program: Path, runtime: Path, log: Path) -> None:
    run_tool([tools.verilator, *VERILATOR_FLAGS, "--Mdir", ".", *sources], what="Verilator", cwd=place, log=log,
             env={**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)})
    generated = sorted(place.glob("Vtop*.cpp"))
    units = [(path, SLOW if path.stem.endswith("Slow") or "__Syms" in path.stem else FAST) for path in generated]
    compile_units(tools, [*units, (program, FAST)], place, log=log, jobs=None)
    objects = sorted(path.name for path in place.glob("*.o"))
    run_tool([tools.compiler, "-o", "program", *objects, runtime, "-lpthread"], what="the linker", cwd=place, log=log)
    for path in place.iterdir():
        if path.name not in ("program", "top.v"):
            path.unlink()
