"""Proofs that yosys' netlist of a unit is the unit: the same outputs for all inputs, from the start on.

Both are brought side by side as one circuit, the cells of the family by the models of yosys' own library.  ABC merges
what is always equal in both (sequential sweeping) and looks for an invariant for what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from amaranth.hdl import signed, unsigned
from amaranth.lib import wiring
from hwflow_rtl.emit import INDEXED, emit_rtlil
from hwflow_rtl.io.link.receiver import PacketReceiver
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.join.feed import Feed, Hold
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Pair, Queue
from hwflow_rtl.stream.word_join import WordJoinShape
from hwflow_rtl.vendor import Generic

from .certificate import read_aiger
from .methods import Answer, Verdict, abc_files
from .programs import Clock, OutOfTime, Programs, run_yosys

#: As hwflow synthesizes for each family, and the models of its cells.
FAMILIES = {"ecp5": "synth_ecp5 -nodsp", "ice40": "synth_ice40 -device u", "gowin": "synth_gowin -nodsp"}
SIDE_BY_SIDE = """read_rtlil top.il
prep -flatten -top top
memory_map
opt -full
rename top gold
design -stash gold
read_rtlil top.il
{synth} -top top
{after}
techmap -wb -D EQUIV -autoproc -map +/{family}/cells_sim.v
proc
flatten
memory_map
opt -full
rename top gate
design -stash gate
design -copy-from gold -as gold gold
design -copy-from gate -as gate gate
miter -equiv -flatten -make_assert gold gate miter
hierarchy -top miter
proc
async2sync
chformal -lower
opt -full
techmap
opt -fast
dffunmap
setundef -undriven -anyseq
aigmap
opt_clean
write_aiger -zinit claims.aig
"""


@dataclass(frozen=True)
class NetlistProof:
    """`make()` and what the synthesis of `family` makes of it give the same.

    `after` is a command of yosys that changes the netlist: the proof must notice.
    """

    unit: str
    case: str
    family: str
    make: Callable[[], wiring.Component]
    after: str = ""

    claim = "the netlist gives the same outputs, for all inputs"

    @property
    def name(self) -> str:
        return f"{self.unit}: {self.case}, netlist of {self.family}"

    def decide(self, folder: Path, programs: Programs, clock: Clock) -> Answer:
        folder.mkdir(parents=True, exist_ok=True)
        text = emit_rtlil(self.make(), name="top")
        # As in `emit.for_any_tool`: abc9 dies where a wire is named like the bit of another one.
        text = INDEXED.sub(lambda match: match[0].replace("[", ".").replace("]", ""), text)
        (folder / "top.il").write_text(text, encoding="utf-8")
        script = SIDE_BY_SIDE.format(family=self.family, synth=FAMILIES[self.family],
                                     after=self.after)
        run_yosys(programs, folder, "model", script, clock.left)
        status = abc_files(folder, programs, clock, ["claims"], "scorr;write_aiger left.aig;pdr -T {seconds}")
        if read_aiger(folder / "left.aig").outputs == (0,):  # nothing is left that could differ
            return Answer(Verdict.PROVED, "for all cycles, by ABC: scorr")
        if status == "snl_UNK":
            raise OutOfTime
        if status != "snl_UNSAT":
            return Answer(Verdict.REFUTED, "the netlist differs")
        return Answer(Verdict.PROVED, "for all cycles, by ABC: scorr, pdr")


def requantizer() -> wiring.Component:
    constants = RequantizerConstants(bias=-7, multiplier=11, shift=5, zero_point=0, low=-8, high=7,
                                     style=RequantizerStyle.FABRIC)
    return constants.unit(accumulator=signed(8), output=signed(4), interval=1, technology=Generic(), name="constants")


#: Shapes of the units: what they are called, and what makes them.
SHAPES: dict[tuple[str, str], Callable[[], wiring.Component]] = {
    **{("Queue", f"{depth} words of 8 bits"): partial(Queue, shape=8, depth=depth) for depth in (2, 4, 16)},
    ("Pair", "8 bits"): partial(Pair, shape=8),
    ("Fork", "queues of 2, 3 words"): partial(Fork, shape=4, depths=(2, 3)),
    **{("Gearbox", f"{lanes_in} to {lanes_out} lanes"): partial(
        Gearbox, shape=unsigned(4), lanes_in=lanes_in, lanes_out=lanes_out)
       for lanes_in, lanes_out in ((1, 2), (4, 1), (2, 3))},
    ("CreditCounter", "12 words, blocks of 4"): partial(CreditCounter, words=12, take=4),
    ("WordJoin", "1 to 2 lanes, chunks of 3"): WordJoinShape(element=unsigned(4), lanes_in=1, lanes=2, chunk=3).build,
    ("Hold", "3 times"): partial(Hold, feed=Feed(1, 3, Generic()), shape=4),
    ("Requantizer", "8 bits * 11 / 32, fabric"): requantizer,
    ("PacketReceiver", "packets of up to 32 bytes"): partial(PacketReceiver, shape=LinkShape(payload=32, room=64)),
}


def proofs() -> Iterator[NetlistProof]:
    for (unit, case), make in SHAPES.items():
        for family in FAMILIES:
            yield NetlistProof(unit, case, family, make)


NETLIST_PROOFS = tuple(proofs())
