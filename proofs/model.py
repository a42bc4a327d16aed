"""A scene as the files that solvers read: a circuit of AND gates and latches (AIGER), and formulas (SMT-LIB)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .programs import Programs, run_yosys
from .scene import Scene

#: From the text of a scene to one module with registers, all of which a single step moves.
#: Several clocks become inputs that tick as they like, and their edges are looked for.
#: A memory that is written has any first contents: so a claim also says that no word is read before it is written.
READ = """read_rtlil top.il
prep -flatten -top top
setparam -set INIT 1'x t:$mem_v2 r:WR_PORTS>0 %i
{clocks}
chformal -lower
memory_map -formal
opt -full
dffunmap
setundef -undriven -anyseq
opt_clean
design -save lowered
"""
ONE_CLOCK, MANY_CLOCKS = "async2sync", "clk2fflogic"
#: Claims as bad states.
GATES = """chformal -cover -remove
opt_clean
techmap
opt -fast
dffunmap
aigmap
opt_clean
write_aiger -zinit -ywmap claims.ywa claims.aig
"""
#: What must be possible as bad states, one for each cover statement.
COVERS = """design -load lowered
chformal -assert -remove
techmap -map cover.v
opt_clean
techmap
opt -fast
dffunmap
aigmap
opt_clean
write_aiger -zinit -ywmap reach.ywa reach.aig
"""
COVER_MAP = """(* techmap_celltype = "$cover" *)
module cover_map(input A, EN);
\\$assert _TECHMAP_REPLACE_ (.A(~A), .EN(EN));
endmodule
"""
FORMULAS = """design -load lowered
write_smt2 -wires claims.smt2
"""


@dataclass(frozen=True)
class Model:
    """The files of a scene in `folder`: `claims.aig`, `reach.aig`, `claims.smt2`."""

    scene: Scene
    folder: Path


def make_model(scene: Scene, folder: Path, programs: Programs) -> Model:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cover.v").write_text(COVER_MAP, encoding="ascii")
    (folder / "top.il").write_text(scene.rtlil(), encoding="utf-8")
    clocks = ONE_CLOCK if len(scene.clocks) == 1 else MANY_CLOCKS
    run_yosys(programs, folder, "model", READ.format(clocks=clocks) + GATES + COVERS + FORMULAS)
    return Model(scene, folder)
