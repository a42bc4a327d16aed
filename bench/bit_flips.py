"""What is found when a single bit of a bitstream is wrong: `python -m bench.bit_flips BOARD --build DIR`.

The small design of `tests/sim/small_board.py` is routed for the board.  Random bits, one at a time, are turned in its
bitstream, whose checksum is made right again: bits of tiles that the design uses and contents of its memories.  Each is

- reported: reading back says what is wrong, or the PLL makes another clock;
- without effect: the netlist is the same, or differs in an entry of a table that no values of its inputs reach;
- caught: the simulated netlist answers otherwise, or later, or not at all, on a good line or on one that loses bits;
- not seen: it does the same in all cycles of that.

What follows says which cell is other than before; of a RAM that the design writes, these are contents from before its
first word.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from hwflow_base.errors import HwflowError
from hwflow_sim.board import CompiledBoard, SimulatedBoard, UartLine, compile_board, netlist_design, read_netlist
from hwflow_sim.cells import MODELS

from hwflow.host import LinkFailed
from hwflow.synth import Board, load_board, synthesize
from hwflow.synth.bitstream import bitstream_of
from hwflow.synth.clock import LayoutClock, layout_clock
from hwflow.synth.families import FAMILIES
from hwflow.synth.readback.of_board import pads_of, require_clock, require_pulls
from hwflow.synth.top import CoreOnBoard
from hwflow.synth.yosys_json import Module
from tests.sim.small_board import IDENTITY, ROWS, answers, linked, noise, small_core
from tests.synth.bit_places import ICE40Bits
from tests.synth.ecp5_bits import ECP5Bits
from tests.synth.gowin_bits import GowinBits

from .merged_netlists import VERILOG, can_merge, meaning_of, merged, reached

#: All rows of the ROM but the first.
DATA = noise(ROWS - 2)
#: The share of bit times with the wrong level in the second part, and its seed.
BAD_LINE = 3e-4, 5
RESULTS = ("reported", "without effect", "caught", "not seen")


class Bits(Protocol):
    """Of a family: the bits of a bitstream that may be turned."""

    def places(self) -> Sequence[object]:
        """The bits of all tiles that the design uses, and of its memories."""
        ...

    def turned(self, place: object) -> bytes:
        """The bitstream with this bit the other way round and checksums that are right."""
        ...

    def name(self, place: object) -> str:
        """The bit for people."""
        ...


#: How the bits of each family are found in a bitstream.
FAMILY_BITS: dict[str, Callable[[Path, Board], Bits]] = {
    "ice40": lambda path, board: ICE40Bits(path, board.device),
    "ecp5": lambda path, board: ECP5Bits(path, board.device),
    "gowin": lambda path, board: GowinBits(path, str(board.chip))}


class Flips:
    """The bitstream of the small design for `board` in `path`, whose PLL makes `clock`; `folder` is for simulations."""

    def __init__(self, board: Board, folder: Path, path: Path, clock: LayoutClock | None):
        self.board, self.folder, self.path, self.clock = board, folder, path, clock
        self.base = self.read(self.path)
        self.meaning, self.reached = meaning_of(self.base), meaning_of(reached(self.base))
        self.bits: Bits = FAMILY_BITS[board.family](self.path, board)

    def read(self, path: Path) -> Module:
        fabric = FAMILIES[self.board.family].read_back(self.board, path)
        require_pulls(fabric, self.board, None)
        module = fabric.module(pads_of(self.board, None))
        if self.clock is not None:
            require_clock(module, self.board, self.clock, path)
        return module

    def netlist(self, place: object) -> Module | str:
        """The netlist with the bit turned, or what is wrong with it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "top.bin"
            path.write_bytes(self.bits.turned(place))
            try:
                return self.read(path)
            except HwflowError as error:
                return problem_of(error)

    def compiled(self, module: Module, folder: Path) -> CompiledBoard:
        """The netlist with choices, ready to run."""
        models = MODELS[self.board.family]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cells.v").write_text(models.verilog.read_text() + VERILOG)
        (folder / "netlist.json").write_text(json.dumps({"modules": {"top": module}}))
        MODELS["merged"] = replace(models, verilog=folder / "cells.v")
        design = netlist_design(read_netlist(folder / "netlist.json", "merged"),
                                reset_active_low=self.board.reset_active_low)
        return compile_board(design, folder=folder / "run", cache=self.folder / "cache", jobs=2)

    def answers(self, compiled: CompiledBoard, number: int) -> bool:
        """Whether netlist `number` answers as it should, and shows it."""
        return self.played(compiled, number)[0]

    def played(self, compiled: CompiledBoard, number: int) -> tuple[bool, object]:
        """(whether the answers are right, all that was to be seen) of netlist `number`, on a good line and a bad."""
        line, seen = UartLine(self.board.clock_mhz * 1e6 / self.board.transport.entry["baud"]), list[object]()
        try:
            with SimulatedBoard(compiled, line=line, numbers={"netlist": number}) as simulated:
                link = linked(simulated)
                for data, bad in ((DATA, (0.0, 0)), (DATA[:40], (0.0, 0)), (DATA, BAD_LINE)):
                    simulated.inject(*bad)
                    seen.append(link.reset().design == IDENTITY and link.exchange(data) == answers(data))
                    seen.append(simulated.facts)
        except (LinkFailed, HwflowError) as error:
            return False, str(error)
        return all(seen[::2]), tuple(seen)


def routed(board: Board, folder: Path) -> Flips:
    """The small design made for `board` in `folder`."""
    synthesize(CoreOnBoard(small_core(board.technology()), board, identity=IDENTITY), folder / "synth")
    return Flips(board, folder, bitstream_of(folder / "synth", board), layout_clock(folder / "synth" / "layout"))


def problem_of(error: HwflowError) -> str:
    """What is wrong, the first of several things."""
    lines = error.why.splitlines()
    return lines[min(1, len(lines) - 1)].strip()


def judged(flips: Flips, places: Sequence[object]) -> dict[object, tuple[str, str]]:
    """For each bit the result, and why."""
    found: dict[object, tuple[str, str]] = {}
    differing: dict[int, tuple[object, Module]] = {}
    for number, place in enumerate(places, 1):
        module = flips.netlist(place)
        if isinstance(module, str):
            found[place] = "reported", module
        elif meaning_of(module) == flips.meaning:
            found[place] = "without effect", "the netlist is the same"
        elif meaning_of(reached(module)) == flips.reached:
            found[place] = "without effect", f"an entry that is never reached: {difference(flips, module)}"
        else:
            differing[number] = place, module
    together = {number: module for number, (_, module) in differing.items() if can_merge(flips.base, module)}
    compiled = flips.compiled(merged(flips.base, together), flips.folder / "merged")
    right, seen = flips.played(compiled, 0)
    if not right:
        raise RuntimeError("the bitstream must answer rightly before any bit of it is turned")
    for number, (place, module) in differing.items():
        try:
            design = compiled if number in together else flips.compiled(module, flips.folder / f"alone{number}")
            same = flips.played(design, number) == (right, seen)
        except HwflowError as error:
            found[place] = "reported", problem_of(error)
            continue
        found[place] = "not seen" if same else "caught", difference(flips, module)
    return found


def difference(flips: Flips, module: Module) -> str:
    """The first cells that are other than in the base."""
    cells, ports = meaning_of(module)
    names = [name for name in {**flips.meaning[0], **cells} if flips.meaning[0].get(name) != cells.get(name)]
    texts = []
    for name in names[:3]:
        old, new = flips.base["cells"].get(name), module["cells"].get(name)
        if old and new and old["type"] == new["type"]:
            texts.append(f"{name} ({new['type']}): " + ", ".join(
                f"{key} {old['parameters'][key]} -> {value}" if len(value) < 33 else key
                for key, value in new["parameters"].items() if old["parameters"].get(key) != value)
                or f"{name} is connected otherwise")
        else:
            texts.append(f"{name}: {old['type'] if old else 'none'} -> {new['type'] if new else 'none'}")
    return "; ".join([*texts, *(["ports"] if ports != flips.meaning[1] else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("board")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    flips = routed(load_board(options.board), options.build)
    places = random.Random(options.seed).sample(list(flips.bits.places()), options.count)
    found = judged(flips, places)
    for place, (result, why) in found.items():
        print(f"{result}: {flips.bits.name(place)}: {why}")
    counts = Counter(result for result, _ in found.values())
    print(f"{options.board}: {len(found)} bits: " + ", ".join(f"{counts[result]} {result}" for result in RESULTS))


if __name__ == "__main__":
    main()
