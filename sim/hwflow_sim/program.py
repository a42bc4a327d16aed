"""From Verilog and a C++ program that drives it to an executable, cached by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import ToolFailed
from hwflow_base.files.cache import digest
from hwflow_base.files.target import create_folder

from .builder import FAST, SLOW, STRICT, archive, cached_folder, compile_units, design_units
from .tools import Tools, find_tools, run_tool

CXX_FLAGS = ("-std=c++17", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0", "-DVM_TRACE=0",
             "-DVM_TRACE_FST=0", "-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0", "-faligned-new", "-w", "-I.")
RUNTIME = (("verilated.cpp", FAST), ("verilated_threads.cpp", SLOW), ("verilated_dpi.cpp", SLOW))
HEADER = "line.h"


@dataclass(frozen=True)
class Program:
    """A C++ file with `main`, which drives the module `top` of a design as Verilator's class `V<name>`.

    `header` is what the driver includes as `line.h`, `parts` are files beside that, by their names.  A run takes the
    arguments `run_arguments`.
    """

    name: str
    top: str
    driver: Path
    header: Path | None = None
    parts: tuple[Path, ...] = ()

    @property
    def verilator_flags(self) -> tuple[str, ...]:
        return ("--cc", "--no-timing", *STRICT, "--prefix", f"V{self.name}", "--top-module", self.top,
                "--output-split", "20000")

    def compile(self, verilog: str, *, sources: Sequence[Path], cache: Path, log: Path, jobs: int | None = None,
                say: Callable[[str], None] = print) -> tuple[Path, bool]:
        """The executable for `verilog` and the files `sources`, and whether it was made and not found in `cache`.

        Raises MissingTool, and ToolFailed with the path of `log`.
        """
        create_folder(cache)
        tools = find_tools()
        log.unlink(missing_ok=True)
        flags = [*self.verilator_flags, *CXX_FLAGS, FAST, SLOW, tools.verilator_version, tools.compiler,
                 tools.compiler_version]

        def make_runtime(place: Path) -> None:
            units = [(tools.verilator_root / "include" / name, level) for name, level in RUNTIME]
            compile_units(tools, units, place, flags=compiler_flags(tools), log=log, jobs=jobs)
            archive(tools, place, log)

        def make(place: Path) -> None:
            runtime, _ = cached_folder(cache, digest("runtime of programs", str(RUNTIME), *CXX_FLAGS, FAST,
                                                     tools.verilator_version, tools.compiler, tools.compiler_version),
                                       make_runtime, say)
            (place / "design.v").write_text(verilog)
            self.compile_in(place, tools, sources, runtime / "runtime.a", log, jobs)

        files = [self.driver, *sources, *([self.header] if self.header else []), *self.parts]
        built, compiled = cached_folder(cache, digest(verilog, *files, *flags), make, say)
        return built / self.name, compiled

    def compile_in(self, place: Path, tools: Tools, sources: Sequence[Path], runtime: Path, log: Path,
                   jobs: int | None) -> None:
        run_tool([tools.verilator, *self.verilator_flags, "--Mdir", ".", "design.v", *sources], what="Verilator",
                 cwd=place, log=log, env={**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)})
        if self.header is not None:
            (place / HEADER).write_text(self.header.read_text())
        for part in self.parts:
            (place / part.name).write_text(part.read_text())
        compile_units(tools, design_units(place, self.name, self.driver), place, flags=compiler_flags(tools), log=log,
                      jobs=jobs)
        objects = sorted(path.name for path in place.glob("*.o"))
        run_tool([tools.compiler, "-o", self.name, *objects, runtime, "-lpthread"], what="the linker", cwd=place,
                 log=log)
        for path in place.iterdir():
            if path.name not in (self.name, "design.v"):
                path.unlink()
        if not os.access(place / self.name, os.X_OK):
            raise ToolFailed("the linker left no executable", f"its output is in '{log}'")


def compiler_flags(tools: Tools) -> list[str]:
    include = tools.verilator_root / "include"
    return [*CXX_FLAGS, "-isystem", str(include), "-isystem", str(include / "vltstd")]
