"""From Verilog with a board's pins to a program that simulates it, cached by content.

The program is one of its own and not driven by cocotb: the other end of the line lives in another process anyway (a
driver behind a pseudo-terminal), bytes are all that goes to and fro, and a second Python inside of the simulation would
only slow down the loop over clock cycles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_base.files.cache import digest
from hwflow_base.files.target import create_folder

from ..builder import archive
from ..cache import cached_folder
from ..rom import hex_text
from ..tools import Tools, find_tools, run_tool, run_tools
from .netlist import Netlist

__all__ = ["BoardDesign", "CompiledBoard", "compile_board", "netlist_design", "rtl_design"]

HERE = Path(__file__).parent
ENGINE = HERE / "engine.cpp"
ROM_MODULE = HERE.parent / "verilog" / "hwflow_rom.sv"
#: What has no value has a random one when the program starts, and so does what is written as undefined.
VERILATOR_FLAGS = ("--cc", "--no-timing", "--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style",
                   "-Wno-fatal", "--prefix", "Vboard", "--top-module", "hwflow_board", "--output-split", "20000")
CXX_FLAGS = ("-std=c++17", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0", "-DVM_TRACE=0",
             "-DVM_TRACE_FST=0", "-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0", "-faligned-new", "-w", "-I.")
RUNTIME = ("verilated.cpp", "verilated_threads.cpp", "verilated_dpi.cpp")
FAST, SLOW = "-O1", "-O0"
LEDS = 8


@dataclass(frozen=True)
class BoardDesign:
    """What stands on a board: Verilog with a module `top` of the pins clk, rx, tx, and where there are any rst and led.

    `ports` are its pins with their widths; `contents` the files that it reads when it starts, as texts.
    """

    verilog: str
    ports: Mapping[str, int]
    contents: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()
    reset_active_low: bool = False


@dataclass(frozen=True)
class CompiledBoard:
    """`executable` is in the cache, `folder` has the contents of the memories and the logs."""

    executable: Path
    folder: Path
    compiled: bool


def netlist_design(netlist: Netlist, *, reset_active_low: bool = False) -> BoardDesign:
    """A netlist with the models of its cells."""
    return BoardDesign(netlist.verilog, netlist.ports, netlist.contents, (netlist.models,), reset_active_low)


def rtl_design(top, roms: Mapping) -> BoardDesign:
    """A `BoardTop` before synthesis.  `roms` are the `Generic.roms` of the technology of its core: uint8[depth, bytes]
    by name; they may still fill while the top is elaborated."""
    from amaranth.back import rtlil
    from hwflow_rtl.emit import to_verilog, without_collector

    with without_collector():
        text = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    ports = {signal.name: len(signal) for signal in top.pins}
    contents = {f"{name}.hex": hex_text(rows) for name, rows in roms.items()}
    return BoardDesign(to_verilog(text), ports, contents, (ROM_MODULE,), top.clocking.reset_active_low)


def wrapper(design: BoardDesign) -> str:
    """The pins that the engine knows around those that the design has."""
    ports = design.ports
    needed = {"clk", "rx", "tx"}
    if not needed <= set(ports) or set(ports) - needed - {"rst", "led"}:
        raise HwflowError(f"a board's design must have the pins clk, rx and tx, perhaps rst and led, not "
                          f"{', '.join(ports)}")
    pins = [".clk(clk)", ".rx(rx)", ".tx(tx)"]
    if "rst" in ports:
        pins.append(f".rst({'~' if design.reset_active_low else ''}press)")
    leds = min(ports.get("led", 0), LEDS)
    if leds:
        pins.append(f".led(led[{leds - 1}:0])")
    unused = f"  assign led[{LEDS - 1}:{leds}] = 0;\n" if leds < LEDS else ""
    return (f"module hwflow_board(input clk, rx, press, output tx, output [{LEDS - 1}:0] led);\n"
            f"  top dut ({', '.join(pins)});\n{unused}endmodule\n")


def compile_board(design: BoardDesign, *, folder: Path, cache: Path, jobs: int | None = None,
                  say: Callable[[str], None] = print) -> CompiledBoard:
    """The program that simulates `design`, made or found in `cache`; `folder` receives the contents of its memories.

    Raises MissingTool, and ToolFailed with the path of the log.
    """
    folder, cache = folder.resolve(), cache.resolve()
    create_folder(folder)
    create_folder(cache)
    tools = find_tools()
    log = folder / "compile.log"
    flags = [*VERILATOR_FLAGS, *CXX_FLAGS, FAST, SLOW, tools.verilator_version, tools.compiler, tools.compiler_version]
    text = wrapper(design) + design.verilog

    def make_runtime(place: Path) -> None:
        sources = [tools.verilator_root / "include" / name for name in RUNTIME]
        compile_units(tools, [(path, FAST) for path in sources], place, log=log, jobs=jobs)
        archive(tools, place, log)

    def make(place: Path) -> None:
        log.unlink(missing_ok=True)
        (place / "board.v").write_text(text)
        runtime, _ = cached_folder(cache, digest("board runtime", str(RUNTIME), *flags), make_runtime, say)
        compile_design(tools, place, [place / "board.v", *design.sources], runtime / "runtime.a", log, jobs)

    made, compiled = cached_folder(cache, digest(text, ENGINE, *design.sources, *flags), make, say)
    for stale in folder.glob("*.hex"):
        stale.unlink()
    for name, words in design.contents.items():
        (folder / name).write_text(words)
    return CompiledBoard(made / "board", folder, compiled)


def compile_design(tools: Tools, place: Path, sources: Sequence[Path], runtime: Path, log: Path,
                   jobs: int | None) -> None:
    run_tool([tools.verilator, *VERILATOR_FLAGS, "--Mdir", ".", *sources], what="Verilator", cwd=place, log=log,
             env={**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)})
    generated = sorted(place.glob("Vboard*.cpp"))
    units = [(path, SLOW if path.stem.endswith("Slow") or "__Syms" in path.stem else FAST) for path in generated]
    compile_units(tools, [*units, (ENGINE, FAST)], place, log=log, jobs=jobs)
    objects = sorted(path.name for path in place.glob("*.o"))
    run_tool([tools.compiler, "-o", "board", *objects, runtime, "-lpthread"], what="the linker", cwd=place, log=log)
    for path in place.iterdir():
        if path.name not in ("board", "board.v"):
            path.unlink()
    if not os.access(place / "board", os.X_OK):
        raise ToolFailed("the linker left no executable", f"its output is in '{log}'")


def compile_units(tools: Tools, units: Sequence[tuple[Path, str]], folder: Path, *, log: Path,
                  jobs: int | None) -> None:
    """Compile each source with its optimization flag to an object in `folder`."""
    front = [tools.ccache] if tools.ccache else []
    include = tools.verilator_root / "include"
    flags = [*CXX_FLAGS, "-isystem", str(include), "-isystem", str(include / "vltstd")]
    env = {**os.environ, "CCACHE_BASEDIR": str(folder), "PWD": str(folder)}
    commands: list[list[str | Path]] = [
        [*front, tools.compiler, level, *flags, "-c", source, "-o", f"{source.stem}.o"] for source, level in units]
    run_tools(commands, what="the C++ compiler", cwd=folder, log=log, jobs=jobs or os.cpu_count() or 1, env=env)
