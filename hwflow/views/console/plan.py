"""The tables of a plan: what arrives, its stages, layers and memories, and its simulation beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypedDict

from hwflow_base.printable import counted, decimal, number, percent, rate_text
from hwflow_rtl.core import port_names
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.memory import Holds, Place

from hwflow.hls.plan.memories import MemoryPlan
from hwflow.hls.plan.plan import Plan, StagePlan, stage_kind
from hwflow.hls.plan.plan_file import memory_facts, outside_facts
from hwflow.hls.schedule.links import LinkPlan
from hwflow.stages.stage import StepPlan

from ...facts.clock import CoreClock
from ...host.rate import Limit, Rate, rate_of
from ...layers.base import LayerGraph
from ...synth import Board, ends_of
from .terminal import Console

if TYPE_CHECKING:
    from hwflow_sim import RunResult

# Frames a second in words: first what arrives and what limits it, then what each part does alone.


def board_rate(plan: Plan, board: Board, clock: CoreClock, cycles: int | None = None) -> Rate:
    """The rate of `plan` on `board`; `cycles` is another interval than that of the plan, as a simulation has it."""
    return rate_of(plan, clock.mhz, board.transport.bytes_per_second, cycles)


def limit_words(rate: Rate, line: str) -> str:
    """The words for what sets the pace; `line` is the way to the host."""
    return {Limit.LINE: f"as many as {line} carries", Limit.CORE: "as many as the FPGA computes",
            Limit.MEMORY: "as many as the memory beside the FPGA gives weights for"}[rate.limit]


def rate_lines(rate: Rate, line: str, clock: str) -> Iterator[str]:
    """Frames a second that arrive at the host, then those of the design and of the line alone."""
    most = f"{rate_text(rate.frames_per_second)} frames/s: {limit_words(rate, line)}"
    pace = f"a frame every {counted(rate.interval, 'cycle')} at {clock}"
    if rate.limit is Limit.LINE:
        yield most
        yield f"the FPGA alone: {rate_text(rate.core)} frames/s, {pace}"
    else:
        yield f"{most}, {pace}"
        yield f"{line} would carry {rate_text(rate.line)} frames/s"


def show_rate(console: Console, plan: Plan, board: Board, clock: CoreClock, cycles: int | None = None) -> None:
    for text in rate_lines(board_rate(plan, board, clock, cycles), board.transport.title, str(clock)):
        console.say(f"  {text}")


# Which execution a board gives a network, why, and what each layer does of a frame; in a line, a table and as data.


@dataclass(frozen=True)
class LayerWork:
    """The work of `stage` for `layer` of a frame.  The layer has the name of a stage of the layer alone.

    `cycles` until the stage is done with it, with `waits`, those in which it waits for weights from a memory outside of
    the FPGA; `multiplier_use` is useful multiplications over multiplier cycles, None where nothing is multiplied: of
    the layer's own cycles in a shared stage, and of the whole interval in a stage of a layer, which has the multipliers
    all the time.
    """

    layer: str
    stage: str
    cycles: int
    waits: int
    multiplier_use: float | None


def layers_of(plan: Plan) -> Iterator[LayerWork]:
    """The layers of every stage, in order; a shared stage also loads its inputs and stores its output."""
    streamed = {each.stage for each in plan.streams}
    for stage in plan.stages:
        for step in stage.steps:
            made = stage.schedule.multipliers * step.cycles
            use = step.multiplications / made if step.multiplications else None
            yield LayerWork(step.name, stage.name, step.cycles, step.waits, use)
        if not stage.steps:
            schedule = stage.schedule
            waits = schedule.interval - schedule.work if stage.name in streamed else 0
            yield LayerWork(stage.name, stage.name, schedule.interval, waits, stage.multiplier_use(plan.interval))


def waiting(plan: Plan) -> float:
    """The share of a frame's interval in which a stage waits for weights; of several, of the one that waits longest."""
    waits = {stage.name: 0 for stage in plan.stages}
    for each in layers_of(plan):
        waits[each.stage] += each.waits
    return max(waits.values()) / plan.interval


def execution_line(plan: Plan, board: Board) -> str:
    """"icebreaker: one shared stage, 4 x 4, because ...": the stages in short, and why they are these."""
    shared = [stage for stage in plan.stages if stage.steps]
    alone = len(plan.stages) - len(shared)
    if not shared:
        what = "a stage for each layer" if alone > 1 else "a stage for its layer"
    elif alone:
        what = f"{', '.join(map(in_short, shared))}, and {counted(alone, 'layer')} in stages of their own"
    else:
        what = f"one shared stage, {array_of(shared[0])}"
    return f"{board.name}: {what}{f', because {plan.why}' if plan.why else ''}"


def in_short(stage: StagePlan) -> str:
    return f"shared stage {stage.name}, {array_of(stage)}, of {counted(len(stage.layers), 'layer')}"


def array_of(stage: StagePlan) -> str:
    return f"{stage.folding.rows} x {stage.folding.cols}"


def waiting_line(plan: Plan) -> str:
    """How much of a frame's interval is waiting for weights; "" where all weights are in the FPGA."""
    if plan.outside is None or not plan.streams:
        return ""
    return f"{percent(waiting(plan))} of a frame's cycles wait for weights from {plan.outside.part.name}"


def show_layers(console: Console, plan: Plan, board: Board, clock: CoreClock) -> None:
    """Say what arrives, which execution, and a row for each layer."""
    show_rate(console, plan, board, clock)
    console.say(f"  {execution_line(plan, board)}")
    rows = [(each.layer, each.stage, number(each.cycles), percent(each.cycles / plan.interval), number(each.waits),
             percent(each.multiplier_use)) for each in layers_of(plan)]
    console.table("cycles of a frame", ("layer", "stage", "cycles", "share", "waits for weights", "useful"), rows)
    if line := waiting_line(plan):
        console.say(f"  {line}")
    console.say(f"  multipliers do useful work in {percent(plan.multiplier_use)} of the cycles")


def execution_facts(plan: Plan, board: Board) -> dict[str, object]:
    """The same as plain data."""
    return {"board": board.name, "execution": plan.execution, "why": plan.why,
            "alternatives": [asdict(each) for each in plan.alternatives], "line": execution_line(plan, board),
            "interval": plan.interval, "waiting": waiting(plan), "multiplier_use": plan.multiplier_use,
            "layers": [asdict(each) for each in layers_of(plan)]}


# The memories of a plan: how much of each kind there is, where it is, and what wastes most of its blocks.


#: Memories that are named because they waste the most bits of their blocks.
WORST = 5


def ring_bytes(plan: Plan) -> tuple[int | None, ...]:
    """For each stage the bytes of the rows that it keeps for its windows; None of a stage that keeps none."""
    bits: dict[str, int] = {}
    for each in plan.memories:
        if each.memory.holds is Holds.RING:
            bits[each.part] = bits.get(each.part, 0) + each.memory.bits
    return tuple(-(-bits[stage.name] // 8) if stage.name in bits else None for stage in plan.stages)


def show_memories(console: Console, plan: Plan) -> None:
    """A row for each thing that memories hold, and the worst of those in RAM blocks."""
    rows = [row_of(holds.value, found) for holds in Holds
            if (found := [each for each in plan.memories if each.memory.holds is holds])]
    if len(rows) > 1:
        rows.append(row_of("all", plan.memories))
    if rows:
        console.table("memories", ("hold", "memories", "bits", "blocks", "filled", "in logic", "in SPRAM"), rows)
    worst = sorted((each for each in plan.memories if each.wasted_bits), key=lambda each: -each.wasted_bits)[:WORST]
    if worst:
        head = ("memory", "words x bits", "blocks", "wasted bits", "can be in logic")
        console.table("memory blocks that are nearly empty", head, [
            (each.name, f"{number(each.memory.depth)} x {each.memory.width}", number(each.resources.ram),
             number(each.wasted_bits), "yes" if Place.TABLES in each.places else "") for each in worst])


def show_outside(console: Console, plan: Plan) -> None:
    """A row for each stage whose weights are outside of the FPGA, and what they take of the memory's bandwidth."""
    if plan.outside is None or not plan.streams:
        return
    part, rows = plan.outside.part, []
    for each in plan.streams:
        rows.append((each.stage, number(each.bytes), f"{each.stream.width}", number(each.stream.beats),
                     decimal(float(each.interval))))
    console.table("weights outside of the FPGA", ("stage", "bytes a frame", "bits a beat", "beats",
                                                  "cycles a beat, at most"), rows)
    size = number(sum(each.bytes for each in plan.streams))
    console.say(f"  {part.name} at {part.clock_mhz:g} MHz: {size} bytes for a frame take at most "
                f"{percent(plan.bandwidth_used)} of the interval of a core at {plan.outside.core_mhz:g} MHz")


def row_of(title: str, memories: Sequence[MemoryPlan]) -> tuple[str, ...]:
    """Bits are those that the memories hold; blocks are filled by those that are in blocks."""
    blocks = sum(each.resources.ram for each in memories)
    inside = sum(each.memory.bits for each in memories if each.place is Place.BLOCKS)
    room = sum(each.resources.ram * each.block_bits for each in memories)
    return (title, number(len(memories)), number(sum(each.memory.bits for each in memories)), number(blocks),
            percent(inside / room) if room else "", *(
                number(sum(each.place is place for each in memories)) for place in (Place.TABLES, Place.SPRAM)))


# What a shared stage does with a frame, layer by layer, and where tensors are in its frame memory.


def use_of(stage: StagePlan, step: StepPlan) -> float | None:
    """Useful multiplications over multiplier cycles of the step; None where nothing is multiplied."""
    made = stage.schedule.multipliers * step.cycles
    return step.multiplications / made if step.multiplications else None


def show_steps(console: Console, plan: Plan) -> None:
    """The layers of each shared stage; with --verbose also where tensors are in its memory."""
    for stage in plan.stages:
        if not stage.steps:
            continue
        interval = stage.schedule.interval
        rows = [(step.name, number(step.cycles), percent(step.cycles / interval), number(step.waits),
                 percent(use_of(stage, step))) for step in stage.steps]
        console.table(f"{stage.name}: a frame, layer by layer",
                      ("step", "cycles", "share", "waits for weights", "useful"), rows)
        if not console.verbose:
            continue
        columns, makers = stage.folding.cols, {step.tensor: step.name for step in reversed(stage.steps)}
        places = [(makers.get(place.tensor, place.tensor), number(place.base), number(place.base + place.words - 1),
                   number(place.words * columns)) for place in stage.frames]
        console.table(f"{stage.name}: the frame memory, in words of {columns} bytes",
                      ("made by", "first", "last", "bytes"), places)


def shared_facts(stage: StagePlan) -> dict[str, object]:
    """The same as plain data; nothing of a stage that is not shared."""
    if not stage.steps:
        return {}
    return {
        "steps": [{"step": step.name, "tensor": step.tensor, "cycles": step.cycles, "waits": step.waits,
                   "multiplications": step.multiplications, "multiplier_use": use_of(stage, step)}
                  for step in stage.steps],
        "frames": [{"tensor": place.tensor, "first": place.base, "last": place.base + place.words - 1,
                    "bytes": place.words * stage.folding.cols} for place in stage.frames]}


#: Blocks are scarce where more than this share is taken, tables plenty where less than this one is.
SCARCE, PLENTY = 0.8, 0.4
#: What the resources of a device are, for people who do not know their names.
WORDS = {"LUT": "logic", "FF": "flip-flops", "DSP": "multiplier blocks", "RAM": "memory blocks",
         "SPRAM": "large memory blocks"}


def folding_text(stage: StagePlan) -> str:
    if stage.schedule.multipliers:
        style = stage.folding.style
        how = "" if style is MultiplierStyle.BLOCKS else f" {style.value}"
        return f"{stage.folding.rows} x {stage.folding.cols}{how}"
    return f"{stage.folding.cols} lanes" if stage.folding.cols > 1 else "1 lane"


def busy(stage: StagePlan, plan: Plan) -> float:
    """The share of the interval in which the stage computes."""
    return stage.schedule.work / plan.interval


def padding_loss(stage: StagePlan) -> float | None:
    """The share of a stage's multiplications, while it computes, that are with what only fills a size up.

    None of a stage without multipliers.
    """
    made = stage.schedule.multipliers * stage.schedule.work
    return 1 - stage.multiplications / made if made else None


def bottleneck(plan: Plan) -> StagePlan:
    """The stage that sets the pace; of several, the one with the most multipliers."""
    return max(plan.stages, key=lambda stage: (stage.schedule.interval, stage.schedule.multipliers))


def latencies(plan: Plan) -> dict[str, int]:
    """The cycles for each output from the first beat into the idle design to the first beat out."""
    names = {link.sink.number: link.tensor for link in plan.links if not link.sink.of_stage}
    return {names[k]: cycles for k, cycles in enumerate(plan.latency)}


def ends(plan: Plan, link: LinkPlan) -> tuple[str, str]:
    """The ends that a link joins: names of stages, or of the graph's inputs and outputs."""
    source = plan.stages[link.source.number].name if link.source.of_stage else f"input '{link.tensor}'"
    sink = plan.stages[link.sink.number].name if link.sink.of_stage else f"output '{link.tensor}'"
    return source, sink


def show_plan(console: Console, plan: Plan, board: Board, clock: CoreClock) -> None:
    """Say what arrives, a row for each stage, and the whole against the board; with --verbose foldings, queues,
    memories.
    """
    show_rate(console, plan, board, clock)
    for name, cycles in latencies(plan).items():
        console.say(f"  first result of '{name}': {clock.time(cycles)} after a frame begins, "
                    f"{counted(cycles, 'cycle')}")
    if line := waiting_line(plan):
        console.say(f"  {line}")
    console.say(f"  {execution_line(plan, board)}")
    console.table(f"plan for {board.name}", ("stage", "layer", "multipliers", "cycles", "busy"), [
        (stage.name, stage_kind(plan.graph, stage),
         number(stage.schedule.multipliers) if stage.schedule.multipliers else "",
         number(stage.schedule.interval), percent(busy(stage, plan), 0)) for stage in plan.stages])
    show_steps(console, plan)
    if console.verbose:
        show_details(console, plan, board)
    console.say("  takes " + ", ".join(
        f"{percent(need / have if have else 0.0, 0)} of the {WORDS[name]} ({number(need)} of {number(have)} {name})"
        for name, need, have in resource_rows(plan, board)))
    if board_rate(plan, board, clock).limit is Limit.CORE:
        show_remedy(console, plan, board)


def show_details(console: Console, plan: Plan, board: Board) -> None:
    """Say what --verbose adds: foldings and resources of the stages, steps of shared ones, queues and memories."""
    rings, rows = ring_bytes(plan), []
    for stage, ring in zip(plan.stages, rings, strict=True):
        r = stage.resources
        rows.append((stage.name, folding_text(stage), percent(stage.multiplier_use(plan.interval)),
                     percent(padding_loss(stage)), "" if ring is None else number(ring), number(r.lut), number(r.ff),
                     number(r.dsp), number(r.ram)))
    console.table("stages in detail", ("stage", "rows x cols", "useful", "padding", "row buffer", "LUT", "FF", "DSP",
                                       "RAM"), rows, second=5)
    show_queues(console, plan, board)
    show_memories(console, plan)
    show_outside(console, plan)
    show_use(console, plan)
    console.say(f"  memory of the activations: {number(queue_bytes(plan))} bytes of queues, "
                f"{number(sum(filter(None, rings)))} bytes of row buffers")


def show_queues(console: Console, plan: Plan, board: Board) -> None:
    """The table of the links with a queue."""
    technology, choose = board.technology(), board.resources.spram > 0
    rows = [(*ends(plan, link), lanes_text(link), number(link.beats), number(link.buffer_bytes),
             *([link.memory(technology).value] if choose else []))
            for link in plan.links if link.beats]
    if rows:
        console.table("queues", ("from", "to", "lanes", "beats", "bytes", *(["in"] if choose else [])), rows)


def lanes_text(link: LinkPlan) -> str:
    return str(link.lanes_out) if link.lanes_out == link.lanes_in else f"{link.lanes_out} to {link.lanes_in}"


def show_use(console: Console, plan: Plan) -> None:
    """Show which part of the time the multipliers do useful work."""
    if plan.multipliers:
        slowest = bottleneck(plan)
        use = slowest.multiplier_use(plan.interval)
        own = "no multipliers" if use is None else f"its multipliers do useful work in {percent(use)} of the cycles"
        console.say(f"  the slowest stage is {slowest.name}, busy {percent(busy(slowest, plan))}: {own}; in the "
                    f"whole design {percent(plan.multiplier_use)}")


def show_remedy(console: Console, plan: Plan, board: Board) -> None:
    """Name --logic-multipliers if the multiplier blocks are nearly used up while most tables are free."""
    need, have = plan.resources, board.resources
    blocks_only = all(stage.folding.style is not MultiplierStyle.LOGIC for stage in plan.stages)
    if blocks_only and have.dsp and need.dsp > SCARCE * have.dsp and need.lut < PLENTY * have.lut:
        console.say("  the multiplier blocks limit the speed, and logic is free: `--logic-multipliers` also multiplies "
                    "in logic; with `--interval CYCLES` only as much as you need")


def queue_bytes(plan: Plan) -> int:
    """The bytes that all queues on links hold."""
    return sum(link.buffer_bytes for link in plan.links)


def counts(resources: Resources, board: Board) -> dict[str, int]:
    """Counts of each kind; SPRAM only where the board has some."""
    return {name: count for name, count in resources.counts().items() if board.resources.spram or name != "spram"}


def resource_rows(plan: Plan, board: Board) -> list[tuple[str, int, int]]:
    have = counts(board.resources, board)
    return [(name.upper(), need, have[name]) for name, need in counts(plan.resources, board).items()]


def plan_facts(plan: Plan, board: Board, *, clock: CoreClock) -> dict[str, object]:
    """The same as plain data."""
    slowest, technology, rings = bottleneck(plan), board.technology(), ring_bytes(plan)
    return {
        **execution_facts(plan, board), "clock": asdict(clock), "rate": board_rate(plan, board, clock).facts(),
        "multipliers": plan.multipliers, "resources": plan.resources.counts(),
        "bottleneck": {"stage": slowest.name, "busy": busy(slowest, plan),
                       "multiplier_use": slowest.multiplier_use(plan.interval)},
        "latency": [{"output": name, "cycles": cycles, "microseconds": cycles / clock.mhz}
                    for name, cycles in latencies(plan).items()],
        "queue_bytes": queue_bytes(plan),
        "stages": [{"stage": s.name, "layers": list(s.layers), "kind": s.kind, **asdict(s.folding),
                    "style": s.folding.style.value,
                    "rescale": s.folding.rescale.value if s.folding.rescale else None,
                    "weight_interval": float(s.folding.weight_interval),
                    "work": s.schedule.work, "interval": s.schedule.interval, "busy": busy(s, plan),
                    "multiplications": s.multiplications, "multipliers": s.schedule.multipliers,
                    "multiplier_use": s.multiplier_use(plan.interval), "padding_loss": padding_loss(s),
                    "resources": s.resources.counts(), "ring_bytes": ring, **shared_facts(s)}
                   for s, ring in zip(plan.stages, rings, strict=True)],
        "ring_bytes": sum(filter(None, rings)),
        "memories": [memory_facts(memory) for memory in plan.memories],
        "weights_outside": outside_facts(plan) if plan.streams else None,
        "links": [{"from": ends(plan, link)[0], "to": ends(plan, link)[1], "port": link.port, "tensor": link.tensor,
                   "lanes_out": link.lanes_out, "lanes_in": link.lanes_in, "bits": link.bits, "queue": link.beats,
                   "queue_bytes": link.buffer_bytes,
                   **({"memory": link.memory(technology).value if link.beats else None} if board.resources.spram
                      else {})}
                  for link in plan.links]}


def show_simulation(console: Console, plan: Plan, runs: Mapping[str, RunResult], board: Board, clock: CoreClock
                    ) -> None:
    """Say what arrives at the simulated interval, and a row per stage: cycles, and whether every run was equal."""
    full = next(iter(runs.values()))
    show_rate(console, plan, board, clock, full.interval)
    console.say(f"  cycles from frame to frame: {compared(plan.interval, full.interval)}")
    for (name, cycles), output in zip(latencies(plan).items(), full.outputs, strict=True):
        console.say(f"  cycles to the first result of '{name}': {compared(cycles, output.first_cycle)}")
    console.table("simulation: cycles of a frame", ("stage", "layer", "predicted", "simulated", "result"), [
        (stage.name, stage_kind(plan.graph, stage), number(stage.schedule.work), number(simulated_work(stage, full)),
         verdict(stage, runs))
        for stage in plan.stages])
    if console.verbose:
        console.table("stages in detail", ("stage", "rows x cols", "busy", "useful"), [
            (stage.name, folding_text(stage), percent(busy(stage, plan)),
             percent(stage.multiplier_use(plan.interval))) for stage in plan.stages])
        show_use(console, plan)


def simulated_work(stage: StagePlan, run: RunResult) -> int:
    """Cycles of a frame in which the simulated stage computes."""
    return run.boundaries[stage.boundaries[-1]].busy_cycles // max(len(run.frame_done_cycles), 1)


def verdict(stage: StagePlan, runs: Mapping[str, RunResult]) -> str:
    """"equal", or the runs in which a result of the stage was different."""
    wrong = [name for name, run in runs.items() if not all(run.boundaries[each].equal for each in stage.boundaries)]
    return f"DIFFERENT at {' and '.join(wrong)}" if wrong else "equal"


def compared(predicted: int, simulated: int | None) -> str:
    """The simulated number, and how far it is from the predicted one."""
    if simulated is None:
        return f"predicted {number(predicted)}, not simulated"
    if simulated == predicted:
        return f"{number(simulated)}, as predicted"
    more = "more" if simulated > predicted else "fewer"
    return f"{number(simulated)}, {number(abs(simulated - predicted))} {more} than predicted"


def simulation_facts(plan: Plan, board: Board, runs: Mapping[str, RunResult], clock: CoreClock) -> dict[str, object]:
    facts = plan_facts(plan, board, clock=clock)
    names = list(latencies(plan))
    for name, run in runs.items():
        frames = max(len(run.frame_done_cycles), 1)
        facts[name] = {
            "equal": run.equal, "interval": run.interval, "first_output_cycle": run.first_output_cycle,
            "latency": [{"output": names[k], "predicted": plan.latency[k], "simulated": output.first_cycle}
                        for k, output in enumerate(run.outputs)],
            "cycles": run.cycles, "failures": list(run.failures()),
            "stages": [{"stage": s.name, "equal": all(run.boundaries[name].equal for name in s.boundaries),
                        "busy_cycles_per_frame": run.boundaries[s.boundaries[-1]].busy_cycles / frames}
                       for s in plan.stages]}
    return facts


class PortFacts(TypedDict):
    """An AXI4-Stream port of an exported core, and the tensor on it."""

    port: str
    tensor: str
    frame: str
    format: str
    scale: float
    zero_point: int
    bytes_of_element: int
    elements_of_beat: int
    tdata_bits: int
    beats_of_frame: int


def port_facts(graph: LayerGraph, plan: Plan) -> list[PortFacts]:
    """The ports of a design with AXI4-Stream: which tensor passes each of them, and how."""
    ends = ends_of(plan)
    facts: list[PortFacts] = []
    for letter, names, group in (("s", graph.inputs, ends.inputs), ("m", graph.outputs, ends.outputs)):
        for port, name, end in zip(port_names(letter, len(names)), names, group, strict=True):
            tensor, size = graph.tensors[name], -(-end.width // 8)
            facts.append({
                "port": f"{port}_axis", "tensor": name, "frame": str(tensor.frame), "format": str(tensor.format),
                "scale": tensor.scale, "zero_point": tensor.zero_point, "bytes_of_element": size,
                "elements_of_beat": end.lanes, "tdata_bits": 8 * size * end.lanes,
                "beats_of_frame": end.elements // end.lanes})
    return facts


def show_ports(console: Console, facts: Sequence[PortFacts]) -> None:
    heads = ("port", "tensor", "frame", "format", "scale", "zero point", "TDATA", "elements a beat", "beats a frame")
    console.table("AXI4-Stream ports", heads, [
        (each["port"], each["tensor"], each["frame"], each["format"], f"{each['scale']:.6g}", str(each["zero_point"]),
         f"{each['tdata_bits']} bits", str(each["elements_of_beat"]), str(each["beats_of_frame"])) for each in facts],
        second=6)
