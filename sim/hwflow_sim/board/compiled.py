"""From Verilog with a board's pins to a program that simulates it, cached by content.

The program is one of its own and not driven by cocotb: the other end of the line lives in another process anyway (a
driver behind a pseudo-terminal), bytes are all that goes to and fro, and a second Python inside of the simulation would
only slow down the loop over clock cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder

from ..packing import hex_text
from ..program import Program
from .lines import Line, UartLine
from .netlist import Netlist

HERE = Path(__file__).parent
ROM_MODULE = HERE.parent / "verilog" / "hwflow_rom.sv"
ENGINE = Program("board", top="hwflow_board", driver=HERE / "engine.cpp", header=UartLine.header)
LEDS = 8
#: How the names of pins to a memory beside the FPGA begin.
MEMORY = "memory_"


@dataclass(frozen=True)
class BoardChip:
    """A chip beside the FPGA: Verilog statements between the wires of the pins that begin with `memory_`, and the file
    with their modules.  `fault`, set in `verilog`, ends the simulation.  `contents` are files that it reads when it
    starts, as texts."""

    verilog: str
    source: Path
    contents: Mapping[str, str] = field(default_factory=dict)


#: The file of that name in Verilog.
STANDARD_ERROR = "32'h8000_0002"


def chip_verilog(module: str, parameters: Mapping[str, object], pins: Mapping[str, str], *, title: str,
                 violations: Sequence[str]) -> str:
    """Verilog of a chip on a board, an instance of `module`: the first violation of the data sheet ends the simulation.

    The module counts `violations`.  `title` names the chip and says with `%0d` when it was; the pin that tells this is
    connected to `chip_moment`.
    """
    kinds = "".join(f'      {number}: $fdisplay({STANDARD_ERROR}, "the {title}: {text}", chip_moment);\n'
                    for number, text in enumerate(violations))
    counters = {"total": "chip_total", "first_kind": "chip_kind", "counts": "chip_counts"}
    settings, joined = (", ".join(f".{name}({value})" for name, value in values.items())
                        for values in (parameters, {**pins, **counters}))
    return (f"  wire [{len(violations)}*32-1:0] chip_counts;\n  {module} #({settings}) chip ({joined});\n"
            "  wire [31:0] chip_total, chip_kind;\n  wire [63:0] chip_moment;\n  assign fault = chip_total != 0;\n"
            f"  always @(posedge fault)\n    case (chip_kind)\n{kinds}    endcase\n")


@dataclass(frozen=True)
class BoardDesign:
    """The design on a board: Verilog with a module `top` of the pins clk, those of `line`, and where there are any rst
    and led.

    `ports` are its pins with their widths; `contents` the files that it reads when it starts, as texts.  Those that
    begin with `memory_` are for `chip`.
    """

    verilog: str
    ports: Mapping[str, int]
    contents: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()
    reset_active_low: bool = False
    chip: BoardChip | None = None
    line: type[Line] = UartLine


@dataclass(frozen=True)
class CompiledBoard:
    """`executable` is in the cache, `folder` has the contents of the memories and the logs."""

    executable: Path
    folder: Path
    compiled: bool


def netlist_design(netlist: Netlist, *, reset_active_low: bool = False, chip: BoardChip | None = None,
                   line: type[Line] = UartLine) -> BoardDesign:
    """A netlist with the models of its cells."""
    return BoardDesign(netlist.verilog, netlist.ports, netlist.contents, (netlist.models,), reset_active_low, chip,
                       line)


def rtl_design(top, roms: Mapping, chip: BoardChip | None = None, line: type[Line] = UartLine) -> BoardDesign:
    """A `BoardTop` without pads before synthesis.

    `roms` are the `Generic.roms` of the technology of its core: uint8[depth, bytes]
    by name; they may still fill while the top is elaborated."""
    from amaranth.back import rtlil
    from hwflow_rtl.emit import to_verilog, without_collector

    with without_collector():
        text = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    ports = {signal.name: len(signal) for signal in top.pins}
    contents = {f"{name}.hex": hex_text(rows) for name, rows in roms.items()}
    return BoardDesign(to_verilog(text), ports, contents, (ROM_MODULE,), top.clocking.reset_active_low, chip, line)


def wrapper(design: BoardDesign) -> str:
    """The pins that the engine knows around those that the design has."""
    ports, line = design.ports, {**design.line.inputs, **design.line.outputs}
    memory = [name for name in ports if name.startswith(MEMORY)] if design.chip is not None else []
    if not {"clk", *line} <= set(ports) or set(ports) - {"clk", *line, *design.line.tied, "rst", "led", *memory}:
        raise HwflowError(f"a board's design must have the pins clk, {', '.join(line)}, perhaps rst and led, not "
                          f"{', '.join(ports)}")
    pins = [f".{name}({name})" for name in ("clk", *line)]
    if "rst" in ports:
        pins.append(f".rst({'~' if design.reset_active_low else ''}press)")
    leds = min(ports.get("led", 0), LEDS)
    if leds:
        pins.append(f".led(led[{leds - 1}:0])")
    wires = "".join(f"  wire [{ports[name] - 1}:0] {name};\n" for name in memory)
    chip = "  assign fault = 0;\n" if design.chip is None else wires + design.chip.verilog
    pins += [f".{name}({name})" for name in memory]
    tied = {name: level for name, level in design.line.tied.items() if name in ports}
    pins += [f".{name}({level or f'{name}_open'})" for name, level in tied.items()]
    chip = "".join(f"  wire {name}_open;\n" for name, level in tied.items() if not level) + chip
    unused = f"  assign led[{LEDS - 1}:{leds}] = 0;\n" if leds < LEDS else ""
    moved = [f"{direction} [{width - 1}:0] {name}" for direction, moving in (
        ("input", design.line.inputs), ("output", design.line.outputs)) for name, width in moving.items()]
    return (f"module hwflow_board(input clk, press, output fault, output [{LEDS - 1}:0] led, {', '.join(moved)});\n"
            f"{chip}  top dut ({', '.join(pins)});\n{unused}endmodule\n")


def compile_board(design: BoardDesign, *, folder: Path, cache: Path, jobs: int | None = None,
                  say: Callable[[str], None] = print) -> CompiledBoard:
    """The program that simulates `design`, made or found in `cache`; `folder` receives the contents of its memories.

    Raises MissingTool, and ToolFailed with the path of the log.
    """
    folder = folder.resolve()
    create_folder(folder)
    chips = () if design.chip is None else (design.chip.source,)
    engine = replace(ENGINE, header=design.line.header, parts=design.line.parts)
    built, compiled = engine.compile(wrapper(design) + design.verilog, sources=(*design.sources, *chips),
                                     cache=cache.resolve(), log=folder / "compile.log", jobs=jobs, say=say)
    for stale in folder.glob("*.hex"):
        stale.unlink()
    held = {} if design.chip is None else design.chip.contents
    for name, words in {**design.contents, **held}.items():
        (folder / name).write_text(words)
    return CompiledBoard(built, folder, compiled)
