"""From a design to a bitstream: yosys, nextpnr and the family's packer, each step cached by what goes into it.

In: a core (or a whole top as RTLIL), a board and a folder.  Out: the bitstream in the folder, and a `SynthesisReport`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from hwflow_rtl.emit import without_collector
from hwflow_rtl.io import BoardTop, End, Ends
from hwflow_rtl.io.uart import divider_for

from ..build import cached_step, digest, write_atomically
from ..errors import HwflowError
from ..hls import Plan
from ..layers.base import LayerGraph
from .boards import Board
from .constraints import constraints
from .report import SynthesisReport, read_nextpnr_report
from .toolchain import Tool, run_tool, tools_of_family

__all__ = ["board_top", "design_text", "ends_before_plan", "ends_of", "synthesize"]

Progress = Callable[[str], None]

#: LEDs that `BoardTop` has a use for.
MOST_LEDS = 3
#: What place and route aims at, MHz.  It stops to improve a design that meets its goal, so this is above what any
#: design reaches; whether the board's own clock is met is judged afterwards.
GOALS = {"ecp5": 250.0, "ice40": 100.0, "gowin": 250.0}
BITSTREAM_SUFFIX = {"ecp5": "bit", "ice40": "bin", "gowin": "fs"}


def ends_of(plan: Plan) -> Ends:
    """The inputs and outputs of the core that `plan` becomes."""
    def end(number: int, *, source: bool) -> End:
        found = next(link for link in plan.links if (link.source if source else link.sink) == number)
        return End(found.lanes_out, found.bits, found.elements)

    inputs = {link.source for link in plan.links if link.source < 0}
    outputs = {link.sink for link in plan.links if link.sink < 0}
    return Ends(tuple(end(~k, source=True) for k in range(len(inputs))),
                tuple(end(~k, source=False) for k in range(len(outputs))))


def ends_before_plan(graph: LayerGraph) -> Ends:
    """As `ends_of`, one element a beat: what is known of a graph before its folding is."""
    def ends(names: tuple[str, ...]) -> tuple[End, ...]:
        found = [graph.tensors[name] for name in names]
        return tuple(End(1, tensor.format.bits, tensor.frame.elements) for tensor in found)

    return Ends(ends(graph.inputs), ends(graph.outputs))


def board_top(core: Any, board: Board, ends: Ends | None = None) -> BoardTop:
    """`core`, a component with streams `i` and `o`, on the pins of `board`; with several streams `ends` says how long
    their frames are."""
    try:
        divider = divider_for(board.clock_mhz * 1e6, board.baud)
    except ValueError as error:
        raise HwflowError(f"the board file '{board.path}': key 'uart.baud': {error}") from None
    return BoardTop(
        core=core, divider=divider, leds=leds_of(board), leds_active_low=board.leds_active_low,
        has_reset=board.reset is not None, reset_active_low=board.reset_active_low, ends=ends,
        technology=board.technology())


def leds_of(board: Board) -> int:
    return min(MOST_LEDS, len(board.leds))


def design_text(top: BoardTop) -> str:
    """RTLIL of a top: the same design gives the same bytes."""
    with without_collector():
        text: str = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    return text


@dataclass(frozen=True)
class Job:
    """One run: what every step needs to know."""

    board: Board
    folder: Path
    tools: dict[str, Tool]
    progress: Progress

    def log(self, step: str) -> Path:
        return self.folder / "logs" / f"{step.replace(' ', '_')}.log"

    def run(self, name: str, arguments: list[str], folder: Path, step: str, source: Path | None = None) -> None:
        """Run one tool in the folder of a step, which also gets a note of the time it took.

        `source`, a file of the step before, is put there for the time of the run: the tools in WebAssembly see only the
        folder that they are started in.
        """
        if source is not None:
            shutil.copyfile(source, folder / source.name)
        seconds = run_tool(self.tools[name], arguments, folder=folder, log=self.log(step), step=step,
                           progress=self.progress)
        if source is not None:
            (folder / source.name).unlink()
        (folder / "seconds.json").write_text(json.dumps(round(seconds, 2)))


def synthesize(top: BoardTop | str | Any, board: Board, folder: Path, *, seed: int = 1, goal_mhz: float | None = None,
               ends: Ends | None = None, progress: Progress = lambda text: None) -> SynthesisReport:
    """Make the bitstream of `top` for `board` in `folder`.

    `top` is a `BoardTop`, its RTLIL text (of all the LEDs that `board_top` uses), or a core, which is put into a
    `BoardTop`; `ends` as for that.  `seed` starts placement: the same seed and tools give the same result.  `goal_mhz`
    is the clock that place and route aims at, by default more than any design reaches.  Steps whose inputs did not
    change are not run again.  Raises MissingTool before anything starts, ToolFailed with the tool's message when one
    fails.
    """
    tools = tools_of_family(board.family)
    folder = folder.absolute()
    job = Job(board, folder, tools, progress)
    if not isinstance(top, str | BoardTop):
        top = board_top(top, board, ends)
    text = design_text(top) if isinstance(top, BoardTop) else top
    make_netlist(job, text)
    make_layout(job, seed, goal_mhz or GOALS[board.family])
    make_bitstream(job)
    report = collect(job, seed)
    write_atomically(folder / "report.json", json.dumps(report.to_dict(), indent=1))
    return report


def yosys_script(board: Board) -> str:
    """The commands for yosys.

    Multipliers and RAM blocks are taken where the design asks for them and nowhere else, so that their number is the
    planned one: yosys would put a wide queue into a RAM block without output register, which is slow.
    abc9 of yosys 0.70 can die of an assertion on names of wide wires (YosysHQ/yosys issue 4349); `splitnets` before
    it avoids that.
    """
    command = {
        "ecp5": "synth_ecp5 -nodsp -nobram", "ice40": "synth_ice40 -device u",
        "gowin": "synth_gowin -nodsp -nobram",
    }[board.family]
    return (f"read_rtlil top.il\n{command} -top top -run begin:map_luts\nsplitnets\n{command} -top top -run map_luts:\n"
            f"tee -q -o stat.json stat -json\nwrite_json netlist.json\n")


def make_netlist(job: Job, text: str) -> None:
    """netlist/: the design in the cells of the device, and how many there are of each."""
    script = yosys_script(job.board)

    def make(folder: Path) -> None:
        (folder / "top.il").write_text(text)
        (folder / "synth.ys").write_text(script)
        job.progress("synthesis with yosys")
        job.run("yosys", ["-q", "-s", "synth.ys"], folder, "synthesis")

    cached_step(job.folder / "netlist", digest(text, script, str(job.tools["yosys"])), make, with_code=False)


def nextpnr_of(job: Job) -> Tool:
    return next(tool for name, tool in job.tools.items() if name.startswith("nextpnr"))


def make_layout(job: Job, seed: int, goal_mhz: float) -> None:
    """layout/: every cell with its place and every net with its wires, and nextpnr's report."""
    suffix, pins = constraints(job.board, leds=leds_of(job.board))
    netlist = job.folder / "netlist" / "netlist.json"
    arguments = [*device_arguments(job.board, f"top.{suffix}"), "--json", netlist.name, "--report", "report.json",
                 "--freq", f"{goal_mhz:g}", "--seed", str(seed), "--timing-allow-fail"]

    def make(folder: Path) -> None:
        (folder / f"top.{suffix}").write_text(pins)
        job.progress("place and route with nextpnr: minutes for a large design")
        job.run(nextpnr_of(job).name, arguments, folder, "place and route", netlist)

    cached_step(job.folder / "layout", digest(netlist, pins, *arguments, str(nextpnr_of(job))), make, with_code=False)


def device_arguments(board: Board, pins: str) -> list[str]:
    if board.family == "ecp5":
        kind, size = board.device.removeprefix("LFE5U").lower().split("-")
        die = "-".join(part for part in (kind, size.rstrip("f") + "k") if part)
        return [f"--{die}", "--package", board.package, "--speed", str(board.speed), "--lpf", pins,
                "--textcfg", "layout.config", "--write", "routed.json"]
    if board.family == "ice40":
        return [f"--{board.device}", "--package", board.package, "--pcf", pins, "--asc", "layout.asc",
                "--write", "routed.json"]
    return ["--device", board.device, "--vopt", f"family={board.chip}", "--vopt", f"cst={pins}",
            "--write", "layout.json"]


def bitstream_path(job: Job) -> Path:
    return job.folder / "bitstream" / f"top.{BITSTREAM_SUFFIX[job.board.family]}"


def make_bitstream(job: Job) -> None:
    """bitstream/: the file that the board is programmed with."""
    suffix = {"ecp5": "config", "ice40": "asc", "gowin": "json"}[job.board.family]
    layout, name = job.folder / "layout" / f"layout.{suffix}", bitstream_path(job).name
    packer, arguments = {
        "ecp5": ("ecppack", ["--compress", layout.name, name]),
        "ice40": ("icepack", [layout.name, name]),
        "gowin": ("gowin_pack", ["-d", str(job.board.chip), "-o", name, layout.name]),
    }[job.board.family]

    def make(folder: Path) -> None:
        job.progress(f"bitstream with {packer}")
        job.run(packer, arguments, folder, "bitstream", layout)

    cached_step(job.folder / "bitstream", digest(layout, *arguments, str(job.tools[packer])), make, with_code=False)


def collect(job: Job, seed: int) -> SynthesisReport:
    steps = {"synthesis": "netlist", "place and route": "layout", "bitstream": "bitstream"}
    fields = read_nextpnr_report(job.folder / "layout" / "report.json", job.board,
                                 flip_flops=flip_flops(job.folder / "netlist" / "stat.json"))
    return SynthesisReport(
        **fields, board=job.board.name, device=job.board.device, clock_mhz=job.board.clock_mhz,
        bitstream=bitstream_path(job), seed=seed, tools={name: str(tool) for name, tool in job.tools.items()},
        logs={step: job.log(step) for step in steps},
        seconds={step: json.loads((job.folder / place / "seconds.json").read_text()) for step, place in steps.items()})


def flip_flops(stat: Path) -> int:
    """Flip-flops in yosys' statistics of a netlist."""
    cells: dict[str, int] = json.loads(stat.read_text())["design"]["num_cells_by_type"]
    return sum(count for kind, count in cells.items() if kind.startswith(("SB_DFF", "TRELLIS_FF", "DFF")))
