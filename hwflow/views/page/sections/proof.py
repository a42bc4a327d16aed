"""The section on the proof: the rungs from the model of the file to the board, and which were shown."""

from __future__ import annotations

import contextlib
import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwflow_base.files.sources import open_plain
from hwflow_base.printable import counted, number
from markupsafe import Markup

from hwflow.facts.plan import routed_design
from hwflow.options import HardwareOptions
from hwflow.pipeline.records import ACCURACY, BITSTREAM, BOARD, NETLIST, SIMULATED_BOARD, SIMULATION, Record
from hwflow.quantize.checks.meaning import NOT_COMPARED
from hwflow.synth.bitstream import bitstream_of
from hwflow.synth.report import saved_report

from ..markup import command_block, element, verdict
from ..subject import Section, Subject, found, when

# The rungs of the proof: what each compares with the golden model, and what the record of its command says.


#: Bytes of a bitstream that are read, more than any has.
LONGEST = 1 << 26
#: Lines of what is not equal that a rung shows.
MOST_FAILURES = 10


class State(enum.Enum):
    """The states of a rung, in words, and their classes in the page's styles."""

    DONE = ("measured", "good")
    CHECKED = ("equal, within the rounding of floats", "good")
    UNCHECKED = ("not compared", "warn")
    MET = ("the clock is met", "good")
    SLOW = ("the clock is NOT met", "bad")
    EQUAL = ("equal, bit for bit", "good")
    UNEQUAL = ("NOT EQUAL", "bad")
    OPEN = ("not run", "warn")
    OTHER = ("not run with this design: the record in the build folder is of another one", "warn")


@dataclass(frozen=True)
class Rung:
    """`what` says what is compared; `facts` are the numbers of the record, `failures` what was not equal.

    `command` makes the record.
    """

    title: str
    what: str
    command: str
    state: State
    facts: Sequence[tuple[str, str]] = ()
    failures: Sequence[str] = ()

    @property
    def climbed(self) -> bool:
        """Whether nothing is left to run or to repair."""
        return self.state in (State.DONE, State.CHECKED, State.EQUAL, State.MET)

    @property
    def failed(self) -> bool:
        return self.state in (State.UNEQUAL, State.SLOW)


#: The facts of a record for people, what it failed with, and whether all was equal (None: nothing was compared).
Told = tuple[list[tuple[str, str]], Sequence[str], bool | None]


def rungs_of(subject: Subject) -> tuple[Rung, ...]:
    """All rungs in order.  HwflowError where a record is damaged."""
    commands = commands_of(subject)
    golden, *simulated, bits, whole, board = (rung(subject, title, what, kind, commands[kind], tell)
                                        for title, what, kind, tell in RUNGS)
    return golden, rewriting(subject), *simulated, timing(subject), bits, whole, board


def rewriting(subject: Subject) -> Rung:
    """The rung of quantization, which compares each time, and refuses where something differs."""
    undone = [note for note in subject.quantized.notes if note.startswith(NOT_COMPARED)]
    return Rung("Integers and the model of the file", "Every tensor of the rewritten model is compared with the same "
                "tensor of your file, and every layer with the formulas of ONNX, whenever the model is quantized.",
                subject.command("quantize"), State.UNCHECKED if undone else State.CHECKED, failures=undone)


def timing(subject: Subject) -> Rung:
    """The routed design against its clock."""
    title, command = "Timing", subject.command("synth")
    what = "The longest paths of the placed and routed design against the clock, and the limits of the device."
    report = saved_report(subject.synthesis)
    if report is None or routed_design(subject.plan, subject.graph, subject.board, subject.synthesis) is None:
        return Rung(title, what, command, State.OPEN if report is None else State.OTHER)
    usable = "no path" if report.usable_mhz is None else f"{report.usable_mhz:.1f} MHz usable"
    facts = [("clock", f"{report.clock_mhz:.6g} MHz, {usable}"),
             ("seed", f"{report.seed}, of {counted(len(report.seeds) or 1, 'run')}"),
             *bitstream(bitstream_of(subject.synthesis, subject.board)),
             ("tools", ", ".join(report.tools.values()))]
    return Rung(title, what, command, State.MET if report.meets_clock else State.SLOW, facts)


def bitstream(path: Path) -> list[tuple[str, str]]:
    """Name and digest of the file, where it is still there."""
    with contextlib.suppress(OSError), open_plain(path) as file:
        return [("bitstream", f"{path.name}, SHA-256 {hashlib.sha256(file.read(LONGEST)).hexdigest()}")]
    return []


def commands_of(subject: Subject) -> dict[str, str]:
    """The command that makes each kind of record; FILE and PORT are the user's."""
    data = [] if subject.dataset else ["--data", "FILE"]
    board = [] if subject.hardware.board == HardwareOptions.board else ["--board", str(subject.hardware.board)]
    return {ACCURACY: subject.command("golden", *data), SIMULATION: subject.command("sim"),
            NETLIST: subject.command("sim", "--netlist"), BITSTREAM: subject.command("sim", "--bitstream"),
            SIMULATED_BOARD: subject.command("run", *data, *board, "--simulate"),
            BOARD: subject.command("run", *data, *board, "--port", "PORT")}


def rung(subject: Subject, title: str, what: str, kind: str, command: str, tell: Callable[[Record], Told]) -> Rung:
    """A rung with what `tell` makes of the record of this kind, where that is of this design."""
    there = (found(subject.folder, kind, subject.integers) if kind == ACCURACY else
             found(subject.board_folder, kind, subject.design))
    if there.usable is None:
        return Rung(title, what, command, State.OTHER if there.other else State.OPEN)
    with there.read():
        record = there.usable
        facts, failures, equal = tell(record)
        tools = ", ".join(f"{name} {version}" for name, version in record.tools.items())
        facts += [("when", when(record)), ("tools", tools)]
        state = State.DONE if equal is None else State.EQUAL if equal else State.UNEQUAL
        return Rung(title, what, command, state, facts, [str(line) for line in failures])


def golden_facts(record: Record) -> Told:
    data = record.facts["data"]
    return [("rows", f"{number(int(data['rows']))} of {data['file']}"), ("digest of the data", data["digest"]),
            ("digest of the outputs", record.facts["outputs"])], (), None


def simulation_facts(position: int) -> Callable[[Record], Told]:
    """The facts of the run at this position."""
    def tell(record: Record) -> Told:
        facts = record.facts
        run = facts["runs"][position]
        stalls = [("stalls", f"{float(run['stalls']):.0%} of the cycles at both ends, seed {int(facts['seed'])}")]
        return [("frames", frames_text(facts)), *(stalls if run["stalls"] else []),
                ("compared", f"{number(int(run['compared']))} elements of {counted(int(facts['stages']), 'stage')}"),
                ("clock cycles", cycles_text(run)), *digests(facts["played"], run["results"])], run["failures"], (
                    require_bool(run["equal"]))
    return tell


def cycles_text(run: Mapping[str, Any]) -> str:
    interval = "" if run["interval"] is None else f", a frame every {number(int(run['interval']))}"
    return f"{number(int(run['cycles']))}{interval}, simulated in {float(run['seconds']):.2f} s"


def netlist_facts(record: Record) -> Told:
    facts = record.facts
    cells = sum(int(count) for count in facts["cells"].values())
    return [("frames", frames_text(facts)), ("compared", f"{number(int(facts['bytes_compared']))} bytes"),
            ("clock cycles", f"{number(int(facts['cycles']))}, simulated in {float(facts['seconds']):.1f} s"),
            (record.kind, f"{number(cells)} cells, SHA-256 {facts['digest']}"),
            *digests(facts["played"], facts["results"])], [facts["difference"]] if facts["difference"] else (), (
                require_bool(facts["equal"]))


def board_facts(record: Record) -> Told:
    facts = record.facts
    link = facts["link"]
    return [("frames", f"{number(int(facts['rows']))} rows of {facts['data']['file']}"),
            ("design", f"{facts['design']} at {facts['port']}"),
            ("rate", f"{number(round(facts['frames_per_second']))} frames/s, the line included"),
            ("link", f"{number(int(link['packets_sent']))} packets sent, {number(int(link['resent']))} of them again; "
             f"{number(int(link['packets_received']))} received"),
            *digests(facts["played"], facts["results"])], list(map(difference_text, facts["differences"])), (
                require_bool(facts["equal"]))


def difference_text(facts: Mapping[str, Any]) -> str:
    return (f"output '{facts['output']}' differs in {number(int(facts['elements']))} elements of "
            f"{number(int(facts['frames']))} frames, first in frame {facts['frame']}: golden {facts['golden']}, board "
            f"{facts['board']}")


def require_bool(value: object) -> bool:
    """ValueError for anything but True and False: what is no answer must not count as one."""
    if not isinstance(value, bool):
        raise ValueError(f"equal must be true or false, not {value!r:.60}")
    return value


def frames_text(facts: Mapping[str, Any]) -> str:
    """How many, and of what."""
    data, count = facts["data"], number(int(facts["frames"]))
    return f"{count} of random integers, seed {int(facts['seed'])}" if data is None else f"{count} of {data['file']}"


def digests(played: str, results: str) -> list[tuple[str, str]]:
    """SHA-256 of the integers that went in and came out; of results that are not equal there is none."""
    return [(name, digest) for name, digest in (("digest of the frames", played), ("digest of the results", results))
            if digest]


#: Title, what is compared, the kind of the record, and what tells of it.
RUNGS: tuple[tuple[str, str, str, Callable[[Record], Told]], ...] = (
    ("Golden model", "The integers in NumPy, exact, against the float model on your data: the reference of all "
     "hardware.", ACCURACY, golden_facts),
    ("RTL at full speed", "Verilator runs the Verilog. The tensors of every stage are compared.", SIMULATION,
     simulation_facts(0)),
    ("RTL with random stalls", "The same while input and output stall at random, so that backpressure reaches every "
     "stage.", SIMULATION, simulation_facts(1)),
    ("Netlist", "The cells that go to place and route, driven through the pins of the board. Every byte of the results "
     "is compared.", NETLIST, netlist_facts),
    ("Bitstream", "The bits that are loaded, read back with the database of the chip as cells and wires, and driven "
     "through the pins of the board. Every byte of the results is compared; delays are not simulated.", BITSTREAM,
     netlist_facts),
    ("Simulated board", "The whole design with its line to the host, driven by the driver of real boards.",
     SIMULATED_BOARD, board_facts),
    ("Board", "The bitstream on the board.", BOARD, board_facts),
)


def html_of(rung: Rung) -> Markup:
    """A rung as an item of a list."""
    word, tone = rung.state.value
    facts = [element("div", element("dt", name), element("dd", text)) for name, text in rung.facts]
    failures = [element("li", line) for line in rung.failures[:MOST_FAILURES]]
    return element(
        "li", element("h3", rung.title), verdict(word, tone), element("p", rung.what),
        element("ul", *failures) if failures else None, element("dl", *facts, class_="facts") if facts else None,
        None if rung.climbed else command_block(rung.command))


def section(subject: Subject) -> Section:
    """The section about what was compared with the golden model, and how."""
    rungs = rungs_of(subject)
    climbed = sum(rung.climbed for rung in rungs)
    failed = [rung.title for rung in rungs if rung.failed]
    said = f"{climbed} of {len(rungs)} checks of the hardware were made"
    words, tone = (f"{said}; not equal: {', '.join(failed)}.", "bad") if failed else (
        f"{said}; the golden model and the hardware were equal wherever they were compared.", "good") if (
            any(rung.state is State.EQUAL for rung in rungs)) else (
                f"{said}; no hardware was compared with the golden model yet.", "warn")
    body = verdict(words, tone) + element("ol", *map(html_of, rungs), class_="ladder")
    missing = None if any(rung.state is State.EQUAL for rung in rungs) else subject.command("sim")
    return Section("proof", "Proof", body, missing)
