"""The tables and facts of a plan, and of its simulation beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources

from ..hls.links import LinkPlan
from ..hls.names import stage_kind
from ..hls.plan import Plan, StagePlan
from ..hls.plan_file import memory_facts, outside_facts
from ..host.rate import Limit
from ..synth import Board
from .clock import CoreClock
from .console import Console
from .execution import execution_facts, execution_line, waiting_line
from .memories import ring_bytes, show_memories, show_outside
from .numbers import counted, number, percent
from .rates import board_rate, show_rate
from .shared import shared_facts, show_steps

if TYPE_CHECKING:
    from hwflow_sim import RunResult

__all__ = ["WORDS", "plan_facts", "show_plan", "show_simulation", "simulation_facts"]

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
    """By output, the cycles from the first beat into the idle design to the first beat out."""
    names = {link.sink.number: link.tensor for link in plan.links if not link.sink.of_stage}
    return {names[k]: cycles for k, cycles in enumerate(plan.latency)}


def ends(plan: Plan, link: LinkPlan) -> tuple[str, str]:
    """What a link joins: names of stages, or of the graph's inputs and outputs."""
    source = plan.stages[link.source.number].name if link.source.of_stage else f"input '{link.tensor}'"
    sink = plan.stages[link.sink.number].name if link.sink.of_stage else f"output '{link.tensor}'"
    return source, sink


def show_plan(console: Console, plan: Plan, board: Board, clock: CoreClock) -> None:
    """What arrives, a row for each stage, and the whole against the board; with --verbose foldings, queues, memories.
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
    """What --verbose adds: foldings and resources of the stages, steps of shared ones, queues and memories."""
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
    """What all queues on links hold."""
    return sum(link.buffer_bytes for link in plan.links)


def counts(resources: Resources, board: Board) -> dict[str, int]:
    """By kind; SPRAM only where the board has some."""
    return {name: count for name, count in resources.counts().items() if board.resources.spram or name != "spram"}


def resource_rows(plan: Plan, board: Board) -> list[tuple[str, int, int]]:
    have = counts(board.resources, board)
    return [(name.upper(), need, have[name]) for name, need in counts(plan.resources, board).items()]


def plan_facts(plan: Plan, board: Board, *, clock: CoreClock) -> dict[str, Any]:
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
    """What arrives at the simulated interval, and a row per stage: cycles, and whether every run was equal."""
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


def simulation_facts(plan: Plan, board: Board, runs: Mapping[str, RunResult], clock: CoreClock) -> dict[str, Any]:
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
