"""From a design to a bitstream: yosys, nextpnr and the family's packer, each step cached by what goes into it.

In: a core (or a whole top as RTLIL), a board and a folder.  Out: the bitstream in the folder, and a `SynthesisReport`.
"""

from __future__ import annotations

import inspect
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_base.files.cache import MANIFEST, cached_step, digest, locked, sweep
from hwflow_base.files.target import write_atomically
from hwflow_base.work import Audience
from hwflow_rtl.memory import FlashPart
from hwflow_rtl.vendor import Resources

from ..hls import Plan
from . import analysis, defects, delays, design_parts, paths
from .analysis import analysis_of
from .board_ports import constraints
from .boards import Board
from .clock import layout_clock, require_reachable, set_clock
from .defects import found_in, mend
from .delays import read_delays
from .design_parts import read_parts
from .families import FAMILIES, cell_times
from .families.base import ROUTED
from .families.cell_times import CellTimes
from .netlist import make_netlist, yosys_script
from .options import ON_BOARD, SynthesisOptions
from .paths import of_report, read_report, shortened
from .placement import save_placement, saved_rom_cells
from .report import REPORT, SynthesisReport, read_nextpnr_report
from .seeds import (
    PHASES,
    PLACED,
    PLACING,
    RULES,
    Attempt,
    Listener,
    default_jobs,
    from_seeds,
    place_and_route,
    promising,
)
from .structure import Structure, save_structure, structure_of
from .toolchain import Job, nextpnr_of, tools_of_family, versions
from .top import CoreOnBoard, TextOnBoard, leds_of, require_slow

#: The step of nextpnr, and the folder of what comes of each seed.
PLACE, SEEDS = "place and route", "seeds"
#: hwflow's own code that changes what nextpnr wrote, in the folder of a seed: the rest of it may change without placing
#: anew.
REPORT_CODE = tuple(Path(inspect.getfile(module)) for module in (
    paths, design_parts, analysis, delays, cell_times, defects))
#: nextpnr's file of all delays; it is long, and not kept.
DELAYS = "delays.sdf"
#: Resources in words.
NAMES = {"lut": "logic cells", "ff": "flip-flops", "dsp": "multiplier blocks", "ram": "block RAMs",
         "spram": "single-port RAMs"}


def synthesize(design: CoreOnBoard | TextOnBoard, folder: Path, options: SynthesisOptions = SynthesisOptions(), *,
               audience: Audience = Audience()) -> SynthesisReport:
    """Make the bitstream of `design` in `folder`.

    `options.seed` starts placement: the same seed and tools give the same result.  Of `seeds` of them, `seed`,
    `seed + 1` and so on, placed `jobs` at a time (by default as many as cores and free memory allow; one takes up to
    2 GB for a large device), the one with the fastest clock is taken.  With `route`, all are placed and only so many
    of them routed, those that look fastest.  `clock` is the core's clock in MHz, made by a PLL of a core; None takes
    the highest that the routed design bears, "board" the board's oscillator and no PLL.
    `placer` are knobs of nextpnr's placer.

    Steps, and seeds, whose inputs did not change are not run again, so that an interrupted run goes on where it was.
    Raises MissingTool before anything starts, ToolFailed with the tool's message when one fails, of the seeds only
    when all do.
    """
    if any(count is not None and count < 1 for count in (options.seeds, options.route, options.jobs)):
        raise HwflowError(f"seeds, route and jobs must be at least 1, not {options.seeds}, {options.route} and "
                          f"{options.jobs}")
    board, clock = design.board, options.clock
    job = Job(board, folder.absolute(), tools_of_family(board.family), audience.progress, design.weights,
              audience.watch)
    text = design.text(clock)
    require_clock(job, text, clock_mhz_of(options))
    with locked(job.folder, job.progress):
        attempts = make_routed(job, text, options)
        make_bitstream(job)
        report = collect(job, attempts, design.plan)
        save_placement(job.folder, board, job.progress)
        if isinstance(design, CoreOnBoard):
            keep_for_reweight(job, text, structure_of(design, clock))
        write_atomically(job.folder / REPORT, json.dumps(report.to_dict(), indent=1))
    return report


def clock_mhz_of(options: SynthesisOptions) -> float | None:
    """The core's clock that is asked for; None where it is the oscillator's, or what the routed design bears."""
    return None if options.clock is None or options.clock == ON_BOARD else float(options.clock)


def require_clock(job: Job, text: str, clock_mhz: float | None) -> None:
    """HwflowError where the design `text` cannot have a core of `clock_mhz`; None is what it bears."""
    if clock_mhz is not None:
        require_slow(clock_mhz, job.weights)
        require_reachable(job.board, text, clock_mhz)


def make_routed(job: Job, text: str, options: SynthesisOptions) -> tuple[Attempt, ...]:
    """netlist/ and layout/ of a design's text.  ToolFailed says what the device has too little of, where that is why.
    """
    sweep(job.folder / SEEDS)
    make_netlist(job, text)
    try:
        return make_layout(job, options)
    except ToolFailed as error:
        raise ToolFailed(f"{error}{remedies(job)}") from None


def keep_for_reweight(job: Job, text: str, structure: Structure) -> None:
    """structure/ and spots/: what `reweight` would have to find out of long files."""
    save_structure(job.folder, text, structure)
    family = FAMILIES[job.board.family]
    layout = job.folder / "layout" / family.layout
    routed = layout.with_name(ROUTED)
    saved_rom_cells(job.folder, routed if routed.is_file() else layout, family)


class Runs:
    """nextpnr's runs of a design, each from a seed into a folder of its own."""

    def __init__(self, job: Job, options: SynthesisOptions):
        self.job, self.family = job, FAMILIES[job.board.family]
        self.arguments = [*layout_arguments(job), *options.placer.arguments()]
        self.netlist = job.folder / "netlist" / "netlist.json"
        self.pins = pins_of(job)
        self.several = options.seeds > 1
        own = repr(self.family.cell_times)
        self.key = digest(self.netlist, self.pins[1], *self.arguments, RULES, nextpnr_of(job).build, own, *REPORT_CODE)

    def place(self, folder: Path, seed: int, listener: Listener) -> None:
        """Only the placement, of which nothing but what nextpnr says is kept."""
        self.run(folder, seed, listener, placing=True)
        for path in folder.iterdir():
            if path.name != PLACED:
                path.unlink()

    def route(self, folder: Path, seed: int, listener: Listener) -> None:
        step = self.run(folder, seed, listener)
        shorten_report(folder / "report.json", step, self.family.cell_times)
        mend(folder / self.family.layout, self.family)

    def run(self, folder: Path, seed: int, listener: Listener, *, placing: bool = False) -> str:
        """nextpnr in `folder`; the name of the step."""
        suffix, pins = self.pins
        (folder / f"top.{suffix}").write_text(pins)
        what, kind, phases = PLACE, f"nextpnr {self.family.name}", PHASES
        if placing:
            what, kind, phases = "placement", f"{kind} placement", PLACING
        step = f"{what}, seed {seed}" if self.several else what
        self.job.progress(f"{step}, with nextpnr: minutes for a large design")
        arguments = [*self.arguments, *(["--no-route"] if placing else []), "--seed", str(seed)]
        with self.job.watch(listener.name, kind, self.netlist.stat().st_size, phases) as listener.work:
            place_and_route(self.job, arguments, folder, step, self.netlist, listener)
        shutil.copyfile(self.job.log(step), folder / PLACED)
        return step


def make_layout(job: Job, options: SynthesisOptions) -> tuple[Attempt, ...]:
    """seeds/seed<k>/ for each seed that is routed, and layout/, the best of them: every cell with its place and every
    net with its wires, and nextpnr's report; there the PLL makes the clock that the design is to run at."""
    runs, folder = Runs(job, options), job.folder / SEEDS
    seeds: Sequence[int] = range(options.seed, options.seed + options.seeds)
    jobs = default_jobs(len(seeds)) if options.jobs is None else options.jobs
    if len(seeds) > 1:
        job.progress(f"{len(seeds)} seeds, {min(jobs, len(seeds))} at a time; each takes 1 to 2 GB of memory for a "
                     "design that fills a large device: --jobs says how many at a time")
    if options.route is not None and options.route < len(seeds):
        seeds = promising(job, folder, seeds, jobs, runs.key, runs.place, options.route)
    attempts = from_seeds(job, folder, seeds, jobs, runs.key, runs.route)
    limit_mhz = job.weights.core_limit_mhz if job.weights else None
    best, clock_mhz = folder / f"seed{best_of(attempts).seed}", clock_mhz_of(options)

    def make_best(place: Path) -> None:
        copy_results(best, place)
        set_clock(place, job.board, runs.netlist, clock_mhz, limit_mhz)

    key = digest(runs.key, str(best_of(attempts).seed), best / MANIFEST, str(clock_mhz), str(limit_mhz),
                 repr(job.board.clock_mhz))
    cached_step(job.folder / "layout", key, make_best)
    return attempts


def shorten_report(path: Path, step: str, times: CellTimes) -> None:
    """Put what is needed of nextpnr's report in its place, with the paths that it leaves out, and drop its delays.

    ToolFailed where one of the files is another one than hwflow knows.
    """
    try:
        content = read_report(path)
        with of_report(path.with_name(DELAYS)):
            found = analysis_of(read_delays(path.with_name(DELAYS)), times)
        with of_report(path):
            path.write_text(json.dumps(shortened(content, found), indent=1), encoding="utf-8")
    except HwflowError as error:
        raise ToolFailed(f"{step} failed: {error}") from None
    path.with_name(DELAYS).unlink()


def best_of(attempts: Sequence[Attempt]) -> Attempt:
    """The fastest one; of equals the first."""
    done = [attempt for attempt in attempts if not attempt.failed]
    return max(done, key=lambda attempt: math.inf if attempt.routed_mhz is None else attempt.routed_mhz)


def copy_results(source: Path, folder: Path) -> None:
    for path in source.iterdir():
        if path.name != MANIFEST:
            shutil.copyfile(path, folder / path.name)


def pins_of(job: Job) -> tuple[str, str]:
    """The suffix and the text of the file that places the design's ports."""
    memory = job.weights.memory if job.weights else None
    return constraints(job.board, leds=leds_of(job.board), memory=memory)


def layout_arguments(job: Job) -> list[str]:
    """The options of nextpnr but for the seed, in the folder where it runs."""
    family, (suffix, _) = FAMILIES[job.board.family], pins_of(job)
    return [*family.nextpnr_arguments(job.board, f"top.{suffix}"), "--json", "netlist.json", "--report", "report.json",
            "--detailed-timing-report", "--sdf", DELAYS, "--freq", f"{family.goal_mhz:g}", "--timing-allow-fail"]


def bitstream_of(folder: Path, board: Board) -> Path:
    """The file that the board is programmed with, of the design in `folder`."""
    return folder / "bitstream" / f"top.{FAMILIES[board.family].bitstream_suffix}"


def bitstream_path(job: Job) -> Path:
    return bitstream_of(job.folder, job.board)


def make_bitstream(job: Job) -> None:
    """bitstream/: the file that the board is programmed with."""
    family = FAMILIES[job.board.family]
    layout, packer = job.folder / "layout" / family.layout, family.packer
    arguments = family.packer_arguments(job.board, layout.name, bitstream_path(job).name)

    def make(folder: Path) -> None:
        job.progress(f"bitstream with {packer}")
        job.run(packer, arguments, folder, "bitstream", layout)

    cached_step(job.folder / "bitstream", digest(layout, *arguments, job.tools[packer].build), make, with_code=False)
    require_room(job)


def require_room(job: Job) -> None:
    """HwflowError where the bitstream would reach into the weights behind it in the same flash."""
    part = job.weights.memory.part if job.weights else None
    size = bitstream_path(job).stat().st_size
    if isinstance(part, FlashPart) and size > part.offset:
        raise HwflowError(f"the board file '{job.board.path}': key 'memories.offset' must be at least {size}, so that "
                          f"weights stand behind the bitstream, not {part.offset}")


def parts_of(job: Job) -> dict[str, Resources]:
    """The resources of each part of the netlist; counted once, because the netlist of a large design is long."""
    netlist, folder = job.folder / "netlist" / "netlist.json", job.folder / "parts"

    def make(place: Path) -> None:
        counts = {part: used.counts() for part, used in read_parts(netlist, job.board.family).items()}
        (place / "parts.json").write_text(json.dumps(counts, indent=1))

    cached_step(folder, digest(netlist), make)
    return {part: Resources.of_counts(used) for part, used in json.loads((folder / "parts.json").read_text()).items()}


def remedies(job: Job) -> str:
    """The resources that the netlist takes more of than the device has, with what to do; nothing where it fits."""
    used = sum(parts_of(job).values(), Resources())
    lines = [
        f"{NAMES[name]}: {getattr(used, name)} where {job.board.device} has {getattr(job.board.resources, name)}, "
        f"{getattr(used, name) - getattr(job.board.resources, name)} too many"
        for name in NAMES if getattr(used, name) > getattr(job.board.resources, name)]
    if not lines:
        return ""
    return "\n".join(["\nthe design does not fit:", *(f"  {line}" for line in lines),
                      "edit a copy of plan.yaml (fewer rows and cols for the largest stages) and pass it with --plan, "
                      "take fewer bits with --bits, or choose a larger board"])


def collect(job: Job, attempts: Sequence[Attempt], plan: Plan | None) -> SynthesisReport:
    steps = {"synthesis": "netlist", PLACE: "layout", "bitstream": "bitstream"}
    parts, clock = parts_of(job), layout_clock(job.folder / "layout")
    routed = read_nextpnr_report(job.folder / "layout" / "report.json", job.board,
                                 flip_flops=sum(part.ff for part in parts.values()), plan=plan)
    return SynthesisReport(
        **vars(routed), board=job.board.name, device=job.board.device, board_mhz=job.board.clock_mhz,
        clock_mhz=clock.mhz, pll=clock.pll,
        memory_mhz=job.weights.own_mhz(job.board) if job.weights else None,
        line_clock=job.board.transport.clock,
        defects=found_in(job.folder / "layout", job.tools),
        data_margins=job.weights.data_margins(clock.mhz) if job.weights else None,
        bitstream=bitstream_path(job), seed=best_of(attempts).seed, seeds=tuple(attempts),
        tools=versions(job.tools), options=options_of(job), parts=parts,
        logs={"synthesis": job.log("synthesis"), PLACE: job.folder / "layout" / "nextpnr.log",
              "bitstream": job.log("bitstream")},
        seconds={step: json.loads((job.folder / place / "seconds.json").read_text()) for step, place in steps.items()})


def options_of(job: Job) -> dict[str, str]:
    """The words that each tool was run with."""
    first = job.folder / "layout" / "nextpnr.log"
    return {"yosys": "; ".join(yosys_script(job.board).splitlines()),
            nextpnr_of(job).name: first.read_text(encoding="utf-8", errors="replace").partition("\n")[0].removeprefix(
                f"$ {nextpnr_of(job).name} ")}
