"""Place and route from several seeds side by side: each result in a folder of its own, the fastest one taken.

Placement starts at random, and the clock that it ends with differs by a tenth and more from seed to seed.  The same
seed and tools give the same result, on any number of cores.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hwflow_base.errors import ToolFailed
from hwflow_base.files.cache import cached_step, digest
from hwflow_base.work import Work

from .families import FAMILIES
from .paths import core_clock
from .toolchain import PREPARING, Job, Progress, nextpnr_of

#: What one nextpnr takes for a design that fills a large device, bytes; 1 to 2 GB were seen for an LFE5U-85F.
NEXTPNR_MEMORY = 2 << 30
#: Seconds between two lines of progress of one seed.
PERIOD = 10.0
#: What nextpnr said, in the folder of a seed; and there the clock that it expects of a placement, and its goal.
PLACED = "nextpnr.log"
EXPECTED = re.compile(r"^Info: Max frequency for clock\s+'.*': ([\d.]+) MHz \(\w+ at ([\d.]+) MHz\)", re.MULTILINE)
#: What nextpnr does, one after the other, and the line with which it says so.
PHASES: tuple[str, ...] = ("packing", "placing", "improving", "routing", "writing")
PLACING: tuple[str, ...] = ("packing", "placing", "improving")
FIRST = r"Info: Packing "
BEGINS = {"placing": r"Info: Creating initial analytic placement", "improving": r"Info: Running simulated annealing",
          "routing": r"Info: (Routing\.\.|Running router2)", "writing": r"Info: Router\d time"}


@dataclass(frozen=True)
class Attempt:
    """The result of one seed: the clock of the core, MHz (None where nothing limits it), or why there is no result."""

    seed: int
    routed_mhz: float | None
    seconds: float
    failed: str = ""


def default_jobs(seeds: int, cores: int | None = None, memory: int | None = None) -> int:
    """How many nextpnr run at a time: one a core, and no more than the memory that is free now holds."""
    cores = len(os.sched_getaffinity(0)) if cores is None and hasattr(os, "sched_getaffinity") else cores
    memory = free_memory() if memory is None else memory
    return max(1, min(seeds, cores or os.cpu_count() or 1, memory // NEXTPNR_MEMORY))


def free_memory() -> int:
    """Bytes that programs can still have, as Linux estimates it; where it is not known, enough for one more run."""
    try:
        match = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        match = None
    return int(match[1]) << 10 if match else NEXTPNR_MEMORY


class Listener:
    """Makes a few lines of progress of the many that nextpnr says, and tells `work` how far it is."""

    def __init__(self, name: str, progress: Progress, period: float = PERIOD):
        self.name = name
        self.progress = progress
        self.period = period
        self.last = time.monotonic()
        self.arcs = 0
        self.work = Work(name, PHASES, {})

    def __call__(self, line: str) -> None:
        self.follow(line)
        text = self.told(line)
        now = time.monotonic()
        if text:
            self.work.say(text)
        if text and now - self.last >= self.period and not self.work.shown:
            self.last = now
            share, left = self.work.share, self.work.left
            about = "" if share is None else f"; {100 * share:.0f} % done"
            about += "" if left is None else f", about {left:.0f} s left"
            self.progress(f"{self.name}: {text}{about}")

    def follow(self, line: str) -> None:
        """The phase that a line begins.  A second run, with other options, begins with packing again."""
        if line.startswith(PREPARING):
            self.work.unlike_others()
        if re.match(FIRST, line) and self.work.phase != PHASES[0]:
            self.work.start_over()
        for phase, begins in BEGINS.items():
            if re.match(begins, line):
                self.work.enter(phase)

    def told(self, line: str) -> str:
        """The state of the work that a line tells; nothing for most.

        The analytical placer and the refinement behind it count their passes, and end when they get nowhere.  Of the
        routers, the first one counts the arcs that remain, the second one the wires that are still taken twice.
        """
        if match := re.match(r"Info:\s+at iteration #(\d+)(, type|: temp)", line):
            return f"placing, pass {match[1]}" if "type" in match[2] else f"improving the places, pass {match[1]}"
        if match := re.match(r"Info: Routing (\d+) arcs", line):
            self.arcs = int(match[1])
            return f"routing {self.arcs} arcs"
        if self.arcs and (match := re.match(r"Info:\s+\d+ \|[^|]*\|[^|]*\|\s*(\d+)\|", line)):
            done = max(0, self.arcs - int(match[1]))
            self.work.count(done, self.arcs)
            return f"routing, {done} of {self.arcs} arcs"
        if match := re.match(r"Info:\s+iter=(\d+) wires=(\d+) overused=(\d+)", line):
            return f"routing, pass {match[1]}, {match[3]} of {match[2]} wires taken twice"
        return ""


#: Fills a folder from a seed, and lets the listener hear what nextpnr says.
Make: TypeAlias = Callable[[Path, int, Listener], None]


def from_seeds(job: Job, folder: Path, seeds: Sequence[int], jobs: int, key: str, make: Make) -> tuple[Attempt, ...]:
    """Let `make` fill `folder`/seed<k> for each of `seeds`; what came of each, in their order.

    A seed that fails does not keep the others from their end; where all fail, the first one's ToolFailed is raised.
    """
    results = side_by_side(job, folder, "seed", seeds, jobs, key, make)
    found = []
    for seed, result in zip(seeds, results, strict=True):
        if isinstance(result, ToolFailed):
            found.append(Attempt(seed, None, 0.0, str(result)))
        else:
            seconds = json.loads((result / "seconds.json").read_text())
            found.append(Attempt(seed, core_clock(result / "report.json"), seconds))
    return tuple(found)


def promising(job: Job, folder: Path, seeds: Sequence[int], jobs: int, key: str, make: Make, count: int) -> list[int]:
    """The `count` seeds whose placements look fastest, in the order of `seeds`; `make` only places.

    What nextpnr expects of a placement is lower than what routing gives, and often, not always, in the same order: of
    five seeds of an autoencoder it was 117, 121, 137, 148 and 149 MHz, and routed 157, 162, 165, 188 and 188 MHz; of a
    later design of the same network 131, 132, 149, 150 and 156 MHz, and routed 189, 189, 181, 168 and 194 MHz.
    """
    results = side_by_side(job, folder, "placed", seeds, jobs, key, make)
    looks = {seed: 0.0 if isinstance(result, ToolFailed) else placement_mhz((result / PLACED).read_text())
             for seed, result in zip(seeds, results, strict=True)}
    best = sorted(seeds, key=lambda seed: -looks[seed])[:count]
    told = ", ".join(f"{seed}: {mhz:.0f} MHz" if mhz else f"{seed}: failed" for seed, mhz in looks.items())
    job.progress(f"what the placements promise: {told}; routed: {', '.join(map(str, sorted(best)))}")
    return [seed for seed in seeds if seed in best]


def placement_mhz(said: str) -> float:
    """The clock that nextpnr, in what it says, expects of a placement: of the clock that is farthest from its goal;
    infinity for a design without paths."""
    clocks = [(float(mhz), float(goal)) for mhz, goal in EXPECTED.findall(said)]
    return min(clocks, key=lambda clock: clock[0] / clock[1])[0] if clocks else math.inf


def side_by_side(job: Job, folder: Path, name: str, seeds: Sequence[int], jobs: int, key: str, make: Make
                 ) -> list[Path | ToolFailed]:
    """Let `make` fill `folder`/<name><k> for each of `seeds`, `jobs` at a time: these folders, or why there is none.

    What an earlier run has finished is taken as it is.  Where all fail, the first one's ToolFailed is raised.  An
    interrupt ends all of them.
    """
    lock = threading.Lock()

    def say(text: str) -> None:
        with lock:
            job.progress(text)

    def attempt(seed: int) -> Path | ToolFailed:
        place = folder / f"{name}{seed}"
        listener = Listener(f"seed {seed}", say)
        try:
            cached_step(place, digest(key, str(seed)), lambda working: make(working, seed, listener), with_code=False)
        except ToolFailed as error:
            if len(seeds) > 1 and not job.running.ended:
                say(f"seed {seed}: {str(error).splitlines()[0]}")
            return error
        return place

    with concurrent.futures.ThreadPoolExecutor(jobs, thread_name_prefix="seed") as pool:
        try:
            results = list(pool.map(attempt, seeds))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            job.running.end()  # leaving the pool waits for the threads, which clean up behind their tools
            raise
    errors = [result for result in results if isinstance(result, ToolFailed)]
    if len(errors) == len(results):
        raise errors[0]
    return results


# One run of nextpnr, and what is done where it refuses a place or its router gets nowhere.
#
# In: the netlist and nextpnr's arguments. Out: the files that the arguments name, in the folder of the step. Nothing
# here depends on how fast the machine is: the same netlist, seed and tools give the same result.


#: Of what is done here; part of the key of a step whose result it changes.
RULES = "2"
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
        if match := re.match(r"Info: Routing (\d+) arcs", line):
            self.arcs = int(match[1])
            return
        match = re.match(r"Info:\s+(\d+) \|[^|]*\|[^|]*\|\s*(\d+)\|", line)
        if match and self.arcs and int(match[2]) and int(match[1]) > self.most * self.arcs:
            raise GivenUp(f"{match[2]} of {self.arcs} arcs are left after {match[1]} were routed")


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
