"""The tables of a plan: what arrives, its stages, layers and memories, and its simulation beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hwflow_base.printable import counted, decimal, number, percent, rate_text
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor.memory import Holds, Place

from hwflow.hls.plan.memories import MemoryPlan
from hwflow.hls.plan.plan import Plan, StagePlan, stage_kind
from hwflow.hls.schedule.links import LinkPlan

from ...facts.plan import (
    CoreClock,
    PortFacts,
    board_rate,
    bottleneck,
    busy,
    ends,
    execution_line,
    latencies,
    layers_of,
    padding_loss,
    queue_bytes,
    resource_rows,
    ring_bytes,
    simulated_work,
    use_of,
    waiting,
)
from ...host.rate import Limit, Rate
from ...synth import Board
from .terminal import Console

if TYPE_CHECKING:
    from hwflow_sim import RunResult

# Frames a second in words: first what arrives and what limits it, then what each part does alone.


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


def waiting_line(plan: Plan) -> str:
    """How much of a frame's interval is waiting for weights; "" where all weights are in the FPGA."""
    if plan.outside is None or not plan.streams:
        return ""
    return f"{percent(waiting(plan))} of a frame's cycles wait for weights from {plan.outside.part.name}"


def show_layers(console: Console, plan: Plan, board: Board, clock: CoreClock) -> None:
    """Say what arrives, which execution, and a row for each layer."""
    show_rate(console, plan, board, clock)
    console.say(f"  {execution_line(plan, board)}")
    rows = [(layer.layer, layer.stage, number(layer.cycles), percent(layer.cycles / plan.interval), number(layer.waits),
             percent(layer.multiplier_use)) for layer in layers_of(plan)]
    console.table("cycles of a frame", ("layer", "stage", "cycles", "share", "waits for weights", "useful"), rows)
    if line := waiting_line(plan):
        console.say(f"  {line}")
    console.say(f"  multipliers do useful work in {percent(plan.multiplier_use)} of the cycles")


# The memories of a plan: how much of each kind there is, where it is, and what wastes most of its blocks.


#: Memories that are named because they waste the most bits of their blocks.
WORST = 5


def show_memories(console: Console, plan: Plan) -> None:
    """A row for each thing that memories hold, and the worst of those in RAM blocks."""
    rows = [row_of(holds.value, holding) for holds in Holds
            if (holding := [memory for memory in plan.memories if memory.memory.holds is holds])]
    if len(rows) > 1:
        rows.append(row_of("all", plan.memories))
    if rows:
        console.table("memories", ("hold", "memories", "bits", "blocks", "filled", "in logic", "in SPRAM"), rows)
    wasting = [memory for memory in plan.memories if memory.wasted_bits]
    worst = sorted(wasting, key=lambda memory: -memory.wasted_bits)[:WORST]
    if worst:
        head = ("memory", "words x bits", "blocks", "wasted bits", "can be in logic")
        console.table("memory blocks that are nearly empty", head, [
            (memory.name, f"{number(memory.memory.depth)} x {memory.memory.width}", number(memory.resources.ram),
             number(memory.wasted_bits), "yes" if Place.TABLES in memory.places else "") for memory in worst])


def show_outside(console: Console, plan: Plan) -> None:
    """A row for each stage whose weights are outside of the FPGA, and what they take of the memory's bandwidth."""
    if plan.outside is None or not plan.streams:
        return
    part, rows = plan.outside.part, []
    for stream in plan.streams:
        rows.append((stream.stage, number(stream.bytes), f"{stream.stream.width}", number(stream.stream.beats),
                     decimal(float(stream.interval))))
    console.table("weights outside of the FPGA", ("stage", "bytes a frame", "bits a beat", "beats",
                                                  "cycles a beat, at most"), rows)
    size = number(sum(stream.bytes for stream in plan.streams))
    console.say(f"  {part.name} at {part.clock_mhz:g} MHz: {size} bytes for a frame take at most "
                f"{percent(plan.bandwidth_used)} of the interval of a core at {plan.outside.core_mhz:g} MHz")


def row_of(title: str, memories: Sequence[MemoryPlan]) -> tuple[str, ...]:
    """Bits are those that the memories hold; blocks are filled by those that are in blocks."""
    blocks = sum(planned.resources.ram for planned in memories)
    inside = sum(planned.memory.bits for planned in memories if planned.place is Place.BLOCKS)
    room = sum(planned.resources.ram * planned.block_bits for planned in memories)
    return (title, number(len(memories)), number(sum(planned.memory.bits for planned in memories)), number(blocks),
            percent(inside / room) if room else "", *(
                number(sum(planned.place is place for planned in memories)) for place in (Place.TABLES, Place.SPRAM)))


# What a shared stage does with a frame, layer by layer, and where tensors are in its frame memory.


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


def verdict(stage: StagePlan, runs: Mapping[str, RunResult]) -> str:
    """"equal", or the runs in which a result of the stage was different."""
    wrong = [name for name, run in runs.items() if not all(run.boundaries[tensor].equal for tensor in stage.boundaries)]
    return f"DIFFERENT at {' and '.join(wrong)}" if wrong else "equal"


def compared(predicted: int, simulated: int | None) -> str:
    """The simulated number, and how far it is from the predicted one."""
    if simulated is None:
        return f"predicted {number(predicted)}, not simulated"
    if simulated == predicted:
        return f"{number(simulated)}, as predicted"
    more = "more" if simulated > predicted else "fewer"
    return f"{number(simulated)}, {number(abs(simulated - predicted))} {more} than predicted"


def show_ports(console: Console, facts: Sequence[PortFacts]) -> None:
    heads = ("port", "tensor", "frame", "format", "scale", "zero point", "TDATA", "elements a beat", "beats a frame")
    console.table("AXI4-Stream ports", heads, [
        (port["port"], port["tensor"], port["frame"], port["format"], f"{port['scale']:.6g}", str(port["zero_point"]),
         f"{port['tdata_bits']} bits", str(port["elements_of_beat"]), str(port["beats_of_frame"])) for port in facts],
        second=6)
