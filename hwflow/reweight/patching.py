"""Other contents for the ROMs of a design that is routed already, and the bitstream of it: seconds in place of minutes.

In: the folder that `synthesize` made, and a design of the same structure.  Out: a folder of the same form.  Nothing is
placed or routed, so the timing is that of the first design, too.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.files.cache import MANIFEST, cached_step, digest, is_whole
from hwflow_base.files.facts import plain
from hwflow_base.files.target import write_atomically

from ..synth.bitstream import bitstream_path, make_bitstream
from ..synth.clock import has_pll
from ..synth.design import Design, finish_design
from ..synth.families import FAMILIES
from ..synth.families.base import ROUTED
from ..synth.options import ON_BOARD
from ..synth.placement import saved_rom_cells
from ..synth.rom_contents import Contents, RomCell, RomPart, filled, replaced, separated
from ..synth.structure import saved_structure, structure_of
from ..synth.toolchain import Job, Progress, tools_of_family, versions

#: The text of a routed design, in its folder.
TEXT = "netlist/top.il"
#: Parts of a design that a message names.
MOST_NAMES = 8
REMEDY = "place and route it again with `hwflow synth`; with --reweightable its hardware has room for other weights"
ALSO = "an hwflow that changed since, or a board file, makes other hardware, too"


@dataclass(frozen=True)
class ReweightReport:
    """Report of a replacement: `changed` of `parts` cells with ROMs, in `bitstream`, at the first design's clock."""

    board: str
    bitstream: Path
    base: Path
    parts: int
    changed: int
    clock_mhz: float
    tools: dict[str, str]


def reweight(design: Design, base: Path, folder: Path, *, quantized: str, keep: Callable[[], object],
             progress: Progress = lambda text: None) -> ReweightReport:
    """Make the bitstream of `design` in `folder` out of the routed design in `base`; `quantized` and `keep` as of
    `finish_design`.

    AnswerIsNo where the designs differ in more than contents of ROMs; HwflowError where `base` holds no routed design,
    or not that of its netlist.
    """
    return finish_design(design, folder, lambda: patched(design, base, folder, progress), quantized=quantized,
                         keep=keep)


def patched(design: Design, base: Path, folder: Path, progress: Progress) -> ReweightReport:
    """The netlist, layout and bitstream of `base` with the contents of `design`, in `folder`."""
    family = FAMILIES[design.board.family]
    layout, netlist = base / "layout" / family.layout, base / "netlist" / "netlist.json"
    facts, clock_mhz = routed_facts(base, layout)
    job = Job(design.board, folder.absolute(), tools_of_family(design.board.family), progress, design.weights())
    text, old, new = with_new_contents(base, design, progress)
    routed = layout.with_name(ROUTED)
    rom_cells = saved_rom_cells(base, routed if routed.is_file() else layout, family)
    patch_layout(job, layout, rom_cells, old, new)
    with ThreadPoolExecutor(1) as beside:  # the packer is a program of its own
        packing = beside.submit(make_bitstream, job)
        patch_netlist(job, netlist, text, old, new)
        packing.result()
    changed = sum(old[place] != new[place] for place in new)
    report = ReweightReport(design.board.name, bitstream_path(job), base, len(new), changed, clock_mhz,
                            versions(job.tools))
    write_atomically(job.folder / "report.json", json.dumps(
        facts | {"reweighted": plain(report), "bitstream": str(report.bitstream)}, indent=1))
    return report


def routed_facts(base: Path, layout: Path) -> tuple[dict[str, object], float]:
    """The report of the routed design in `base`, and its clock, MHz.

    HwflowError where a part of the routed design is missing, or was changed since.
    """
    report = base / "report.json"
    for path in (base / TEXT, base / "netlist/netlist.json", report, layout):
        if not path.is_file():
            raise HwflowError(
                f"'{base}' must hold a routed design, and lacks {path.relative_to(base)}", "run `hwflow synth` first"
            )
    facts = facts_of(report)
    for step in (base / "netlist", layout.parent):
        if not is_whole(step):
            raise HwflowError(
                f"'{step}' must be as `hwflow synth` left it, but files in it were changed since",
                "run `hwflow synth` again",
            )
    return facts


def with_new_contents(base: Path, design: Design, progress: Progress) -> tuple[str, Contents, Contents]:
    """The text of `design` on the hardware that is routed in `base`, and the contents of both: the old, the new.

    Where the same version of hwflow left the digest of the routed design's structure, and it is this one's, the text is
    the old one with other contents; else it is written and compared.  AnswerIsNo where more than contents differs.
    """
    old_text = (base / TEXT).read_text(encoding="utf-8")
    on_board, clock = design.on_board(), None if has_pll(old_text) else ON_BOARD
    old_structure, old = separated(old_text)
    saved = saved_structure(base, old_text)
    if saved:
        progress("the design's structure, without place and route")
        structure_now = structure_of(on_board, clock)
        if structure_now.digest == saved and shape_of(structure_now.contents) == shape_of(old):
            return filled(old_structure, structure_now.contents), old, structure_now.contents
    progress("the design's text, without place and route")
    text = on_board.text(clock)
    structure, new = separated(text)
    require_same(old_structure, structure, old, new)
    return text, old, new


def shape_of(contents: Contents) -> dict[RomPart, dict[str, int]]:
    """How many bits the contents of each place have."""
    return {place: {name: len(bits) for name, bits in parameters.items()} for place, parameters in contents.items()}


def facts_of(path: Path) -> tuple[dict[str, object], float]:
    """The first design's report, and the clock in it, MHz.  HwflowError where it is no report."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return facts, float(facts["clock_mhz"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HwflowError(f"'{path}' must be the report of a routed design", "run `hwflow synth` again") from None


def patch_netlist(job: Job, source: Path, text: str, old: Contents, new: Contents) -> None:
    """netlist/: the first design's with the new contents, as yosys would write it."""

    def make(folder: Path) -> None:
        document = json.loads(source.read_text(encoding="utf-8"))
        replaced(document, old, new, str(source))
        (folder / "netlist.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "top.il").write_text(text, encoding="utf-8")

    cached_step(job.folder / "netlist", digest(source, text), make)


def patch_layout(job: Job, layout: Path, rom_cells: Sequence[RomCell], old: Contents, new: Contents) -> None:
    """layout/: the routed design with the new contents, and everything beside it as it was."""

    def make(folder: Path) -> None:
        for path in layout.parent.iterdir():
            if path.name not in (MANIFEST, layout.name, ROUTED):
                shutil.copyfile(path, folder / path.name)
        job.progress("new contents into the routed design")
        before = layout.read_text(encoding="utf-8")
        patched_text = FAMILIES[job.board.family].patched(before, rom_cells, old, new, str(layout))
        (folder / layout.name).write_text(patched_text, encoding="utf-8")

    contents = json.dumps([[*place, parameters] for place, parameters in sorted(new.items())])
    cached_step(job.folder / "layout", digest(layout, repr(rom_cells), contents), make)


def require_same(old: str, new: str, old_contents: Contents, contents: Contents) -> None:
    """AnswerIsNo with the parts of the design that differ, where they do."""
    if old == new and shape_of(old_contents) == shape_of(contents):
        return
    names = list(dict.fromkeys(differing(old, new)))
    more = f" and {len(names) - MOST_NAMES} others" if len(names) > MOST_NAMES else ""
    raise AnswerIsNo(
        "the routed design must differ in nothing but the contents of its ROMs, and these parts of it differ: "
        f"{', '.join(names[:MOST_NAMES])}{more}",
        f"{REMEDY}; {ALSO}",
    )


def differing(old: str, new: str) -> Iterator[str]:
    """The modules of a design's structure that are not the same, by their place in the design."""
    ours, theirs = modules_of(old), modules_of(new)
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        if ours.get(name) != theirs.get(name):
            yield name.removeprefix("top.").removeprefix("core.")


def modules_of(text: str) -> dict[str, str]:
    """The text of each module by its name."""
    parts = re.split(r"^module \\?(\S+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
