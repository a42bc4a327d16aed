"""What is found when a single bit of a bitstream is wrong: `python -m bench.bit_flips BOARD --build DIR`.

The small design of `tests/sim/small_board.py` is routed for the board.  Random bits, one at a time, are turned in its
bitstream, whose checksum is made right again: bits of tiles that the design uses and contents of its memories.  Each is

- reported: reading back says what is wrong, or the PLL makes another clock;
- without effect: the netlist is the same, or differs in an entry of a table that no values of its inputs reach, or is
  proved to give the same outputs, for all inputs and all cycles (`flip_proofs`);
- caught: the simulated netlist does anything otherwise, or later, or nothing at all (`flip_play`);
- undecided: neither.

What follows says which cell is other than before.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from hwflow_base.errors import HwflowError
from hwflow_sim.board import CompiledBoard, SimulatedBoard, UartLine, compile_board, netlist_design, read_netlist
from hwflow_sim.cells import MODELS

from hwflow.host import LinkFailed
from hwflow.synth import Board, load_board, synthesize
from hwflow.synth.bitstream import bitstream_of
from hwflow.synth.clock import LayoutClock, layout_clock
from hwflow.synth.families import FAMILIES
from hwflow.synth.readback.of_board import pads_of, require_clock, require_pads
from hwflow.synth.top import CoreOnBoard
from hwflow.synth.yosys_json import Module
from tests.sim.small_board import IDENTITY, small_core
from tests.synth.bit_places import ICE40Bits
from tests.synth.ecp5_bits import ECP5Bits
from tests.synth.gowin_bits import GowinBits

from .flip_play import play
from .flip_proofs import proofs_of
from .merged_netlists import VERILOG, can_merge, meaning_of, merged, reached

RESULTS = ("reported", "caught", "without effect", "undecided")


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


class Other(NamedTuple):
    """A bit, and the netlist with it turned."""

    place: object
    module: Module


class Flips:
    """The bitstream of the small design for `board` in `path`, whose PLL makes `clock`; `folder` is for simulations."""

    def __init__(self, board: Board, folder: Path, path: Path, clock: LayoutClock | None):
        self.board, self.folder, self.path, self.clock = board, folder, path, clock
        self.base = self.read(self.path)
        self.meaning, self.reached = meaning_of(self.base), meaning_of(reached(self.base))
        self.bits: Bits = FAMILY_BITS[board.family](self.path, board)

    def read(self, path: Path) -> Module:
        fabric = FAMILIES[self.board.family].read_back(self.board, path)
        require_pads(fabric, self.board, None)
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

    def played(self, compiled: CompiledBoard, number: int, wanted: Sequence[object] = ()) -> list[object]:
        """All that is to be seen of netlist `number`, up to the first that is other than `wanted`, if it is that."""
        options, seen = self.board.transport.facts().options, list[object]()
        clock_hz = self.board.clock_mhz * 1e6
        try:
            with SimulatedBoard(compiled, line=UartLine(clock_hz / int(options["baud"])), numbers={"netlist": number}
                                ) as simulated:
                for thing in play(simulated, clock_hz, options):
                    seen.append(thing)
                    if wanted and seen != wanted[:len(seen)]:
                        break
        except (LinkFailed, HwflowError) as error:
            seen.append(str(error))
        return seen

    def wanted(self, compiled: CompiledBoard) -> list[object]:
        """All that is to be seen of the base, which must be right."""
        seen = self.played(compiled, 0)
        if any(thing is False for thing in seen) or isinstance(seen[-1], str):
            raise RuntimeError(f"the bitstream must answer rightly before any bit of it is turned, not {seen[-1]}")
        return seen


def routed(board: Board, folder: Path) -> Flips:
    """The small design made for `board` in `folder`."""
    synthesize(CoreOnBoard(small_core(board.technology()), board, identity=IDENTITY), folder / "synth")
    return Flips(board, folder, bitstream_of(folder / "synth", board), layout_clock(folder / "synth" / "layout"))


def problem_of(error: HwflowError) -> str:
    """What is wrong, the first of several things."""
    lines = error.why.splitlines()
    return lines[min(1, len(lines) - 1)].strip()


class Judgement(NamedTuple):
    """What is found of a bit, one of RESULTS, and why."""

    place: object
    result: str
    why: str


def judged(flips: Flips, places: Sequence[object], seconds: float) -> Iterator[Judgement]:
    """The result for each bit, as soon as it is known; a proof takes at most `seconds`."""
    differing: dict[int, Other] = {}
    for number, place in enumerate(places, 1):
        module = flips.netlist(place)
        if isinstance(module, str):
            yield Judgement(place, "reported", module)
        elif meaning_of(module) == flips.meaning:
            yield Judgement(place, "without effect", "the netlist is the same")
        elif meaning_of(reached(module)) == flips.reached:
            yield Judgement(place, "without effect", f"an entry that is never reached: {difference(flips, module)}")
        else:
            differing[number] = Other(place, module)
    proved = set[int]()
    others = {number: other.module for number, other in differing.items()}
    for number in proofs_of(flips.base, others, MODELS[flips.board.family], flips.folder / "proofs", seconds):
        place, module = differing[number]
        proved.add(number)
        yield Judgement(place, "without effect", f"proved: {difference(flips, module)}")
    yield from simulated(flips, {number: other for number, other in differing.items() if number not in proved})


def simulated(flips: Flips, others: Mapping[int, Other]) -> Iterator[Judgement]:
    """The results of netlists that are neither reported nor proved to be without effect."""
    together = {number: other.module for number, other in others.items() if can_merge(flips.base, other.module)}
    compiled = flips.compiled(merged(flips.base, together), flips.folder / "merged")
    wanted = flips.wanted(compiled)
    for number, (place, module) in others.items():
        try:
            design = compiled if number in together else flips.compiled(module, flips.folder / f"alone{number}")
            seen = flips.played(design, number, wanted)
        except HwflowError as error:
            yield Judgement(place, "reported", problem_of(error))
            continue
        yield Judgement(place, "undecided" if seen == wanted else "caught", difference(flips, module))


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
    parser.add_argument("--seconds", type=float, default=600, help="of each proof that bits are without effect")
    parser.add_argument("--again", type=Path, help="what an earlier run printed: only the bits that it left undecided")
    options = parser.parse_args()
    flips = routed(load_board(options.board), options.build)
    places = random.Random(options.seed).sample(list(flips.bits.places()), options.count)
    if options.again:
        left = undecided_in(options.again)
        places = [place for place in places if flips.bits.name(place) in left]
    counts = Counter[str]()
    for place, result, why in judged(flips, places, options.seconds):
        counts[result] += 1
        print(f"{result}: {flips.bits.name(place)}: {why}", flush=True)
    print(f"{options.board}: {len(places)} bits: " + ", ".join(f"{counts[result]} {result}" for result in RESULTS))


def undecided_in(log: Path) -> frozenset[str]:
    """The names of the bits that an earlier run left undecided, of what it printed."""
    return frozenset(re.findall(r"^undecided: (.*?): ", log.read_text(), re.MULTILINE))


if __name__ == "__main__":
    main()
