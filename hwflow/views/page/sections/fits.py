"""The section on resources: what the design takes of its device, stage by stage and memory by memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwflow_base.printable import decimal, number, percent
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.memory import Holds, Place
from markupsafe import Markup

from hwflow.facts.plan import routed_design
from hwflow.hls.plan.memories import MemoryPlan
from hwflow.hls.plan.plan import Plan
from hwflow.synth import Board, SynthesisReport
from hwflow.synth.report import saved_report

from ....facts.design import planned_and_used, planned_in_all
from ..bars import Piece, Row, bars
from ..chart import Axis, Rule
from ..markup import Cell, Given, element, folded, href, linked, table, tiles
from ..subject import Section, Subject

# What a design takes of a device, planned and used, by part; and where every memory of it is.


#: What the kinds of resources are called in a sentence.
KINDS: Mapping[str, str] = {"lut": "lookup tables", "ff": "flip-flops", "dsp": "multiplier blocks", "ram": "RAM blocks",
                            "spram": "single-port RAMs"}
#: Groups of parts with their tones.
GROUPS = {"s1": "stages", "s2": "streams and queues between them", "s3": "reader of the weights outside",
          "s4": "host link, clocks and reset"}
#: What memories hold, in the field's terms.
HELD: Mapping[Holds, str] = {
    Holds.WEIGHTS: "weights", Holds.CONSTANTS: "constants of rescaling", Holds.RING: "line buffers",
    Holds.FRAMES: "frames", Holds.QUEUE: "queues (FIFOs)", Holds.PARTIAL: "partial results", Holds.TABLE: "tables"}
PLACES = {Place.BLOCKS: ("s1", "in RAM blocks"), Place.TABLES: ("s2", "in lookup tables"), Place.SPRAM: (
    "s3", "in single-port RAMs")}
OUTSIDE = ("s4", "outside of the FPGA")


@dataclass(frozen=True)
class Part:
    """A part of a design: `stage` is its name where it is one, `tone` that of its group; `used` is None where nothing
    was synthesized."""

    title: str
    stage: str | None
    tone: str
    planned: Resources
    used: Resources | None


def parts_of(plan: Plan, board: Board, report: SynthesisReport | None) -> tuple[Part, ...]:
    """All parts: the stages in order, the streams, the reader of weights outside, and what is around the core."""
    tones = {"between the stages": "s2", "weights outside": "s3", "around the core": "s4"}
    parts = []
    for k, (title, planned, used) in enumerate(planned_and_used(plan, board, report)):
        stage = plan.stages[k].name if k < len(plan.stages) else None
        parts.append(Part(stage or title, stage, "s1" if stage else tones[title], planned,
                          used if report is not None else None))
    return tuple(parts)


def count(resources: Resources, kind: str) -> int:
    return resources.counts()[kind]


def kinds_of(board: Board) -> list[str]:
    """The kinds of resources that the board has, the scarce ones too."""
    return [kind for kind, there in board.resources.counts().items() if there]


def overview(plan: Plan, board: Board, parts: Sequence[Part], report: SynthesisReport | None) -> Markup:
    """The share of the device that the design takes of each kind, by group of parts; planned, then used."""
    rows, said = [], []
    for kind in kinds_of(board):
        there = count(board.resources, kind)
        versions = [("planned", count(planned_in_all(plan, board), kind), [(part, part.planned) for part in parts])]
        if report is not None:
            routed = getattr(report, kind).used
            versions.append(("used", routed, [(part, part.used or Resources()) for part in parts]))
        for version, total, taken in versions:
            rows.append(Row(f"{kind.upper()} {version}", [groups(taken, kind, there)],
                            [f"{number(total)}, {percent(total / there, 0)}"]))
            said.append(f"{number(total)} of {number(there)} {KINDS[kind]} {version}")
    if plan.outside is not None and plan.streams:
        size, room = sum(stream.bytes for stream in plan.streams), plan.outside.bytes
        hint = f"weights: {number(size)} of {number(room)} bytes of {plan.outside.part.name}"
        rows.append(Row("memory outside", [[Piece(100 * size / room, "s1", hint)]], [f"{number(size)} bytes"]))
    share = max(sum(piece.value for piece in row.bars[0]) for row in rows)
    axis = Axis.of("% of what the device has", [0, max(100.0, share)])
    tones = {part.tone for part in parts}
    return bars(f"The whole design on {board.name}", f"What the design takes: {'; '.join(said)}.", rows, axis,
                names={tone: name for tone, name in GROUPS.items() if tone in tones},
                rules=[Rule("all there is", x=100.0)])


def groups(taken: Sequence[tuple[Part, Resources]], kind: str, there: int) -> list[Piece]:
    """A piece for each group of parts, in percent of what the device has."""
    pieces = []
    for tone, name in GROUPS.items():
        units = sum(count(resources, kind) for part, resources in taken if part.tone == tone)
        pieces.append(Piece(100 * units / there, tone, f"{name}: {number(units)} {KINDS[kind]}, "
                                                f"{percent(units / there)} of the device"))
    return pieces


def by_part(plan: Plan, board: Board, parts: Sequence[Part]) -> Markup:
    """For each kind the parts that take some of it; the scarcest is open, the others can be opened.

    Cells are packed part by part here, so their sum may differ from that of the whole design by a few.
    """
    kinds = kinds_of(board)
    totals = {kind: sum(max(count(part.planned, kind), count(part.used or Resources(), kind)) for part in parts)
              for kind in kinds}
    scarce = max(kinds, key=lambda kind: totals[kind] / count(board.resources, kind))
    pictures = []
    for kind in kinds:
        if totals[kind]:
            planned = count(planned_in_all(plan, board), kind)
            title = (f"{kind.upper()}: {number(planned)} of {number(count(board.resources, kind))} {KINDS[kind]} "
                     "planned, by part")
            pictures.append(folded(title, kind_picture(parts, kind), open=kind == scarce))
    return Markup("").join(pictures)


def kind_picture(parts: Sequence[Part], kind: str) -> Markup:
    """A bar for each part, or two where it was synthesized."""
    rows, values = [], []
    for part in parts:
        versions = [("planned", count(part.planned, kind))]
        if part.used is not None:
            versions.append(("used", count(part.used, kind)))
        if any(value for _, value in versions):
            pieces = [[Piece(value, version, f"{part.title}: {number(value)} {KINDS[kind]} {version}")]
                      for version, value in versions]
            rows.append(Row(part.title, pieces, [number(value) for _, value in versions],
                            href(part.stage) if part.stage else None, {"stage": part.stage} if part.stage else {}))
            values += [value for _, value in versions]
    names = {"planned": "planned", **({"used": "used, as the netlist has it"} if parts[0].used is not None else {})}
    return bars(f"{KINDS[kind].capitalize()} by part", f"{len(rows)} parts take {KINDS[kind]}. The table has the "
                "numbers.", rows, Axis.of(KINDS[kind], [0, *values]), names=names)


def parts_table(parts: Sequence[Part], board: Board) -> Markup:
    """A row for each part with all kinds."""
    kinds = kinds_of(board)
    synthesized = parts[0].used is not None
    head = ["part", *(f"{kind.upper()}{version}" for kind in kinds
                      for version in ((" planned", " used") if synthesized else ("",)))]
    rows: list[Sequence[Given]] = []
    for part in parts:
        numbers: list[Given] = []
        for kind in kinds:
            numbers.append(count(part.planned, kind))
            if part.used is not None:
                numbers.append(count(part.used, kind))
        rows.append((linked(part.stage) if part.stage else part.title, *numbers))
    return table(head, rows, caption="Resources by part", data=[
        {"stage": part.stage} if part.stage else {} for part in parts])


def memories_picture(plan: Plan) -> Markup:
    """How many bits each kind of content has, and where they are."""
    rows, totals = [], []
    for holds in Holds:
        holding = [planned for planned in plan.memories if planned.memory.holds is holds]
        pieces = [Piece(bits / 1024, tone, f"{HELD[holds]} {name}: {number(bits)} bits in {len(here)} memories")
                  for place, (tone, name) in PLACES.items()
                  if (here := [planned for planned in holding if planned.place is place])
                  and (bits := sum(planned.memory.bits for planned in here))]
        if holds is Holds.WEIGHTS and plan.streams:
            outside = 8 * sum(planned.bytes for planned in plan.streams)
            pieces.append(Piece(outside / 1024, OUTSIDE[0], f"weights {OUTSIDE[1]}: {number(outside)} bits"))
        if pieces:
            totals.append(sum(piece.value for piece in pieces))
            rows.append(Row(HELD[holds], [pieces], [f"{decimal(totals[-1])} kbit"]))
    if not rows:
        return Markup("")
    used = {piece.tone for row in rows for piece in row.bars[0]}
    return bars("What the memories hold, and where they are", f"{len(plan.memories)} memories inside of the FPGA with "
                f"{number(sum(planned.memory.bits for planned in plan.memories))} bits.", rows,
                Axis.of("kbit (1 024 bits)", [0, *totals]),
                names={tone: name for tone, name in (*PLACES.values(), OUTSIDE) if tone in used})


def memories_table(plan: Plan) -> Markup:
    """A row for each memory of the plan, and for the weights of each stage that are outside of the FPGA."""
    rows: list[Sequence[Given]] = [memory_row(planned) for planned in plan.memories]
    stages = {stage.name for stage in plan.stages}
    data = [{"stage": planned.part} if planned.part in stages else {} for planned in plan.memories]
    for stream in plan.streams:
        assert plan.outside is not None
        rows.append((f"{stream.stage}/weights", HELD[Holds.WEIGHTS],
                     f"{number(stream.stream.beats)} x {stream.stream.width}", 8 * stream.bytes,
                     f"{plan.outside.part.name}, outside of the FPGA", None, None))
        data.append({"stage": stream.stage})
    if not rows:
        return Markup("")
    body = table(("memory", "holds", "words x bits", "bits", "where it is", "RAM blocks", "filled"), rows, data=data,
                 caption="Every memory; queues of a few words are shift registers and not among them")
    return folded(f"Where all {len(rows)} memories are", body)


def memory_row(planned: MemoryPlan) -> Sequence[Given]:
    memory, blocks = planned.memory, planned.resources.ram
    filled = memory.bits / (blocks * planned.block_bits) if blocks else None
    return (planned.name, HELD[memory.holds], f"{number(memory.depth)} x {memory.width}", memory.bits,
            PLACES[planned.place][1], blocks or None, None if filled is None else Cell(percent(filled), filled))


def frames_table(plan: Plan) -> Markup:
    """Tables of where tensors are in the frame memory of each shared stage."""
    tables = []
    for stage in plan.stages:
        if stage.frames:
            makers = {step.tensor: step.name for step in reversed(stage.steps)}
            rows: list[Sequence[Given]] = [
                (makers.get(place.tensor, place.tensor), place.base, place.base + place.words - 1,
                 place.words * stage.folding.cols) for place in stage.frames]
            caption = f"The frame memory of {stage.name}, in words of {stage.folding.cols} bytes"
            tables.append(folded(f"Where tensors are in the frame memory of {stage.name}", table(
                ("made by", "first word", "last word", "bytes"), rows, caption=caption)))
    return Markup("").join(tables)


def section(subject: Subject) -> Section:
    """The section about what the design takes of the board."""
    plan, board = subject.plan, subject.board
    routed = routed_design(plan, subject.graph, board, subject.synthesis) is not None
    report = saved_report(subject.synthesis) if routed else None
    parts = parts_of(plan, board, report)
    need, have = planned_in_all(plan, board).counts(), board.resources.counts()
    logic = board.technology().usable_logic
    said = (f"The device of {board.name} is {board.device}. Place and route can use about {percent(logic, 0)} of its "
            "logic. " + ("Used resources are those of the routed design." if report is not None else
                         "These are the resources of the plan; those of the routed design will be beside them."))
    body = Markup("").join([
        tiles([(f"{kind.upper()} planned", number(need[kind]), f"of {number(have[kind])}")
               for kind in kinds_of(board)]),
        element("p", said), overview(plan, board, parts, report), element("h3", "By part of the design"),
        by_part(plan, board, parts), parts_table(parts, board), element("h3", "Memories"), memories_picture(plan),
        memories_table(plan), frames_table(plan)])
    return Section("fits", "What fits", body, None if report is not None else subject.command("synth"))
