"""How a scene is decided: an inductive invariant, k-induction, or a bound on cycles.

"Proved" is said of a run of a solver that came to its end and found nothing; everything else is not a proof.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from hwflow_base.errors import ToolFailed

from .certificate import formulas, one_bad_state, read_aiger, read_invariant
from .model import Model
from .programs import Clock, OutOfTime, Programs, run, run_yosys

#: What yosys gives to ABC and takes back, while ABC does something else.
NOTHING = "module nothing(input a, b, output y); \\$_AND_ gate (.A(a), .B(b), .Y(y)); endmodule\n"


#: Cycles beyond those of an induction, and seconds, in which a counterexample is looked for, where a step fails.
LONGER, LONGER_SECONDS = 16, 20


class Verdict(Enum):
    PROVED = "proved"
    BOUNDED = "no counterexample within the bound"
    REFUTED = "NOT PROVED: a counterexample"
    UNKNOWN = "NOT PROVED: out of time"
    VACUOUS = "NOT PROVED: the environment is never there"
    FAILED = "NOT PROVED: a program failed"
    NOT_INDUCTIVE = "NOT PROVED: not inductive"

    @property
    def good(self) -> bool:
        return self in (Verdict.PROVED, Verdict.BOUNDED)


@dataclass(frozen=True)
class Answer:
    """`how` says what the verdict rests on.  A counterexample is in the file `trace`, and `broken` names the claims
    that it breaks."""

    verdict: Verdict
    how: str
    broken: tuple[str, ...] = ()
    trace: Path | None = None


@dataclass(frozen=True)
class Invariant:
    """All cycles: PDR of ABC finds an inductive invariant, z3 checks it.  A step from it never leads out of it."""

    def decide(self, model: Model, programs: Programs, clock: Clock) -> Answer:
        status = abc(model, programs, clock, ["claims"], "pdr -d -T {seconds} -I claims.pla", write="folded.aig")
        if status != "snl_UNSAT":
            return refuted_or_unknown(status, model, programs, clock)
        circuit, invariant = read_aiger(model.folder / "folded.aig"), read_invariant(model.folder / "claims.pla")
        (model.folder / "invariant.smt2").write_text(formulas(circuit, invariant), encoding="ascii")
        run((programs.z3, "-smt2", "invariant.smt2"), model.folder, "invariant.log", clock.left)
        answers = (model.folder / "invariant.log").read_text(encoding="utf-8").split()
        if answers != ["unsat", "unsat"]:
            raise ToolFailed(f"z3 must find the invariant of ABC inductive, not answer {' '.join(answers)}; "
                             f"both are in {model.folder}")
        return Answer(Verdict.PROVED, f"invariant of {len(invariant)} clauses, checked by z3")


@dataclass(frozen=True)
class Induction:
    """All cycles: z3 finds no counterexample in the first `k` cycles, nor a last step after `k` good ones."""

    k: int = 1

    def decide(self, model: Model, programs: Programs, clock: Clock) -> Answer:
        base = smtbmc(model, programs, clock, ["-t", str(self.k)], "base")
        if base != "PASSED":
            return self.refuted(model, "base") if base == "FAILED" else Answer(Verdict.UNKNOWN, base)
        step = smtbmc(model, programs, clock, ["-i", "-t", str(self.k)], "step")
        if step != "PASSED":
            with contextlib.suppress(OutOfTime):
                little = Clock(min(LONGER_SECONDS, clock.left))
                if smtbmc(model, programs, little, ["-t", str(self.k + LONGER)], "trace") == "FAILED":
                    return self.refuted(model, "trace")
            return Answer(Verdict.NOT_INDUCTIVE, f"k = {self.k}", tuple(broken(model, "step.vcd")),
                          model.folder / "step.vcd")
        return Answer(Verdict.PROVED, f"induction, k = {self.k}, z3")

    def refuted(self, model: Model, name: str) -> Answer:
        trace = model.folder / f"{name}.vcd"
        return Answer(Verdict.REFUTED, "found by z3", tuple(broken(model, trace.name)), trace)


@dataclass(frozen=True)
class Bound:
    """The first `cycles` cycles after a start in any reset: ABC finds no counterexample."""

    cycles: int

    def decide(self, model: Model, programs: Programs, clock: Clock) -> Answer:
        status = abc(model, programs, clock, ["claims"], f"bmc3 -F {self.cycles} -T {{seconds}}")
        if status != "snl_UNK" or frames_of(model, "claims") < self.cycles - 1:
            return refuted_or_unknown(status, model, programs, clock)
        return Answer(Verdict.BOUNDED, f"bound, {self.cycles} cycles")


Method = Invariant | Induction | Bound


def abc(model: Model, programs: Programs, clock: Clock, names: Sequence[str], command: str, write: str = "") -> str:
    """Run a command of ABC on circuits of a model."""
    return abc_files(model.folder, programs, clock, names, command, write)


def abc_files(folder: Path, programs: Programs, clock: Clock, names: Sequence[str], command: str,
              write: str = "") -> str:
    """Run a command of ABC, which is a part of yosys, on each `name`.aig; what it found out of the last one,
    "snl_UNSAT", "snl_SAT" or "snl_UNK", all of which are in `name`.status.

    Assumptions become a latch, and all bad states one; that circuit is in the file `write`.
    """
    (folder / "nothing.v").write_text(NOTHING, encoding="ascii")
    steps = ["backup"]
    for name in names:
        (folder / f"{name}.status").unlink(missing_ok=True)
        steps += [f"read_aiger {name}.aig", "fold", "orpos", *([f"write_aiger {write}"] if write else []),
                  command.format(seconds=max(1, int(clock.left))), f"write_status {name}.status",
                  f"write_cex -a {name}.aiw"]
    script = ";".join([*steps, "restore"]).replace(" ", ",")
    run_yosys(programs, folder, f"{names[-1]}.abc", f"read_verilog -icells nothing.v\nhierarchy -top nothing\n"
              f"abc -script +{script}\n", clock.left + 5)
    return status_of(folder, names[-1])


def status_of(folder: Path, name: str) -> str:
    return (folder / f"{name}.status").read_text(encoding="ascii").split()[0]


def frames_of(model: Model, name: str) -> int:
    """Cycles that ABC has looked at."""
    return int((model.folder / f"{name}.status").read_text(encoding="ascii").split()[1])


def refuted_or_unknown(status: str, model: Model, programs: Programs, clock: Clock) -> Answer:
    """ABC's counterexample once more, by z3, which writes its waves; or that time was out."""
    if status != "snl_SAT":
        raise OutOfTime
    folder = model.folder
    latches, *inputs = re.findall(r"^[01]+$", (folder / "claims.aiw").read_text(encoding="ascii"), re.MULTILINE)
    count = json.loads((folder / "claims.ywa").read_text(encoding="utf-8"))["latch_count"]
    lines = ["1", "b0", latches[:count], *inputs, ".", ""]
    (folder / "claims.aiw").write_text("\n".join(lines), encoding="ascii")
    if run((*programs.witness, "aiw2yw", "claims.aiw", "claims.ywa", "claims.yw"), folder, "witness.log", clock.left):
        raise ToolFailed(f"the counterexample of ABC must be one of the scene; see {folder}/witness.log")
    found = smtbmc(model, programs, clock, ["--yw", "claims.yw", "-t", str(len(inputs) + 1)], "trace")
    if found != "FAILED":
        raise ToolFailed(f"z3 must find the counterexample of ABC as well, not say {found}; see {folder}")
    return Answer(Verdict.REFUTED, f"{len(inputs)} cycles", tuple(broken(model, "trace.vcd")), folder / "trace.vcd")


def smtbmc(model: Model, programs: Programs, clock: Clock, options: list[str], name: str) -> str:
    """Run yosys' model checker with z3: "PASSED", "FAILED", or another word that it ends with."""
    run((*programs.smtbmc, "-s", "z3", "--presat", *options, "--dump-vcd", f"{name}.vcd", "claims.smt2"),
        model.folder, f"{name}.log", clock.left, Path(programs.z3).parent)
    said = (model.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"Status: (\w+)", said)
    if not found:
        raise ToolFailed(f"smtbmc failed at {name} in {model.folder}:\n{said.strip()[-2000:]}")
    return found[-1].upper()


def broken(model: Model, trace: str) -> list[str]:
    """The claims that are 0 in the last cycle of a trace."""
    names, values = {}, {}
    for line in (model.folder / trace).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\$var \S+ 1 (\S+) claim_(\S+) \$end", line):
            names[match[1]] = match[2]
        elif match := re.match(r"b?([01x]+) ?(\S+)$", line):
            values[match[2]] = match[1]
    return [name for code, name in names.items() if values.get(code) == "0"]


def not_reached(model: Model, programs: Programs, clock: Clock, cycles: int) -> tuple[str, ...]:
    """The names of what must be possible and is not within so many cycles.  ABC looks for a run to each."""
    cells = dict(re.findall(r"cell \$check (\S+)\n(?:    .*\n)*?    connect \\A \\reach_(\S+)",
                            (model.folder / "top.il").read_text("utf-8")))
    found = json.loads((model.folder / "reach.ywa").read_text("utf-8"))["asserts"]
    names = [cells[path[-1].lstrip("\\")] for path in found]
    assert sorted(names) == sorted(model.scene.reached), names
    for number in range(len(names)):
        one_bad_state(model.folder / "reach.aig", number, model.folder / f"reach{number}.aig")
    places = [f"reach{number}" for number in range(len(names))]
    abc(model, programs, clock, places, f"bmc3 -F {cycles} -T {{seconds}}")
    return tuple(name for name, place in zip(names, places, strict=True) if status_of(model.folder, place) != "snl_SAT")
