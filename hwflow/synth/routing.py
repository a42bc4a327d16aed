"""One run of nextpnr, and what is done where it refuses a place or its router gets nowhere.

In: the netlist and nextpnr's arguments.  Out: the files that the arguments name, in the folder of the step.  Nothing
here depends on how fast the machine is: the same netlist, seed and tools give the same result.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from hwflow_base.errors import ToolFailed

from .families import FAMILIES
from .job import Job, nextpnr_of

__all__ = ["RULES", "GivenUp", "Patience", "place_and_route"]

#: Of what is done here; part of the key of a step whose result it changes.
RULES = "1"
#: nextpnr's words of a cell that cannot be where it is told to, but not those of a device that is too small.
REFUSED = re.compile(r"(?:ERROR|error): (?!.*remaining)(.*(?:\bbels?\b|legal placement).*)", re.IGNORECASE)


class GivenUp(Exception):
    """The router takes up as many arcs as it finishes."""


class Patience:
    """Hears what nextpnr says, and raises GivenUp where its first router has routed more than `most` arcs for each arc
    of the design."""

    def __init__(self, most: float) -> None:
        self.most = most
        self.arcs = 0

    def __call__(self, line: str) -> None:
        if found := re.match(r"Info: Routing (\d+) arcs", line):
            self.arcs = int(found[1])
            return
        found = re.match(r"Info:\s+(\d+) \|[^|]*\|[^|]*\|\s*(\d+)\|", line)
        if found and self.arcs and int(found[2]) and int(found[1]) > self.most * self.arcs:
            raise GivenUp(f"{found[2]} of {self.arcs} arcs are left after {found[1]} were routed")


def place_and_route(job: Job, arguments: list[str], folder: Path, step: str, netlist: Path,
                    listen: Callable[[str], None]) -> None:
    """Run nextpnr on `netlist` in `folder`, `listen` hears all that it says.  Raises ToolFailed with its words.

    Where it refuses the place that a cell was given, it chooses all places itself in another run; the user
    is told.
    """
    try:
        routed(job, arguments, folder, step, netlist, listen)
    except ToolFailed as error:
        refused = REFUSED.search(str(error))
        if job.running.ended or not refused:
            raise
        text = netlist.read_text(encoding="utf-8")
        if text == (free := FAMILIES[job.board.family].without_places(text)):
            raise
        job.progress(f"{step}: nextpnr refuses a place ({refused[1].strip()}) and now chooses all places itself")
        alone = folder / "free"
        alone.mkdir()
        (alone / netlist.name).write_text(free, encoding="utf-8")
        routed(job, arguments, folder, step, alone / netlist.name, listen)
        shutil.rmtree(alone)


def routed(job: Job, arguments: list[str], folder: Path, step: str, netlist: Path,
           listen: Callable[[str], None]) -> None:
    """nextpnr's first router follows the longest paths and makes faster designs; the second always comes to an end."""
    most = FAMILIES[job.board.family].most_routed
    patience = Patience(most) if most else None

    def hear(line: str) -> None:
        listen(line)
        if patience:
            patience(line)

    name = nextpnr_of(job).name
    try:
        job.run(name, arguments, folder, step, netlist, hear)
    except GivenUp as error:
        job.progress(f"{step}: nextpnr's router1 gets nowhere ({error}); now with router2")
        job.run(name, [*arguments, "--router", "router2"], folder, step, netlist, listen)
