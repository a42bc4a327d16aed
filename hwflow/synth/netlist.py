"""The first step of synthesis: yosys makes the netlist that goes to place and route.

In: the design as RTLIL.  Out: netlist.json, and how many of which cells each part of it takes.
"""

from __future__ import annotations

from pathlib import Path

from hwflow_base.files.cache import cached_step, digest, locked
from hwflow_base.work import Audience

from .boards import Board
from .families import FAMILIES
from .options import ON_BOARD
from .toolchain import Job, find_tool, first_run
from .top import CoreOnBoard

#: The design as yosys reads it, beside the netlist.
TEXT = "top.il"


def make_netlist_of(design: CoreOnBoard, folder: Path, *, clock: float | str | None = None, apart: Path | None = None,
                    audience: Audience = Audience()) -> Path:
    """The JSON file of the cells of `design`, in `folder`/netlist: the one that `synthesize` with the same arguments
    makes there, or has made, with a PLL or on the oscillator.

    Where another design is routed in `folder`, that one stays as it is, and the netlist is made in `apart`/netlist.
    Raises MissingTool without yosys, ToolFailed with its message.
    """
    tools = {"yosys": find_tool("yosys")}
    text, there = design.text(clock), folder / "netlist" / TEXT
    if apart and (folder / "layout").is_dir() and there.is_file():
        routed = there.read_text(encoding="utf-8")
        if routed != text and routed == (slower := design.text(ON_BOARD)):
            text = slower
        elif routed != text:
            audience.progress(f"'{folder}' holds another design (of other options, or of a model that changed) and "
                              f"stays as it is; this one's netlist is made in '{apart}'")
            folder = apart
    job = Job(design.board, folder.absolute(), tools, audience.progress, watch=audience.watch)
    with locked(job.folder, job.progress):
        make_netlist(job, text)
    return job.folder / "netlist" / "netlist.json"


def yosys_script(board: Board) -> str:
    """The commands for yosys.

    Multipliers and RAM blocks are taken where the design asks for them and nowhere else, so that their number is the
    planned one: yosys would put a wide queue into a RAM block without output register, which is slow.
    abc9 of yosys 0.70 can die of an assertion on names of wide wires (YosysHQ/yosys issue 4349); `splitnets` before
    it avoids that.  A wire that is kept for abc9 has a table even where nothing takes it, which goes at the end.
    """
    command = FAMILIES[board.family].synth_command(board)
    return (f"read_rtlil top.il\n{command} -top top -run begin:map_luts\nsplitnets\n{command} -top top -run map_luts:\n"
            f"setattr -unset keep w:*\nopt_clean\ntee -q -o stat.json stat -json\nwrite_json netlist.json\n")


def make_netlist(job: Job, text: str) -> None:
    """netlist/: the design in the cells of the device, and how many of what each part of it takes."""
    script, family = yosys_script(job.board), FAMILIES[job.board.family]

    def make(folder: Path) -> None:
        (folder / TEXT).write_text(text)
        (folder / "synth.ys").write_text(script)
        job.progress("synthesis with yosys")
        with job.watch("synthesis with yosys", f"yosys {job.board.family}", len(text)) as work:
            job.run("yosys", ["-q", "-s", "synth.ys"], folder, "synthesis", listen=first_run(work))
        netlist = folder / "netlist.json"
        netlist.write_text(family.prepared(netlist.read_text(encoding="utf-8"), job.board), encoding="utf-8")

    key = digest(text, script, job.tools["yosys"].build, family.netlist_rules, job.board.device)
    cached_step(job.folder / "netlist", key, make, with_code=False)
