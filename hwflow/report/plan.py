"""The tables and facts of a plan, and of its simulation beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources

from ..hls.links import LinkPlan
from ..hls.plan import Plan, StagePlan
from ..hls.plan_file import memory_facts, outside_facts
from ..synth import Board
from .clock import CoreClock
from .console import Console
from .execution import execution_facts, execution_line, waiting_line
from .memories import ring_bytes, show_memories, show_outside
from .numbers import number, percent
from .shared import shared_facts, show_steps

if TYPE_CHECKING:
    from hwflow_sim import RunResult

__all__ = ["plan_facts", "show_plan", "show_simulation", "simulation_facts"]

#: Blocks are scarce where more than this share is taken, tables plenty where less than this one is.
SCARCE, PLENTY = 0.8, 0.4


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
    """The stages with their foldings, cycles and resources; the queues between them; the whole against the board."""
    rings, rows = ring_bytes(plan), []
    for stage, ring in zip(plan.stages, rings, strict=True):
        r = stage.resources
        rows.append((stage.name, stage.kind, folding_text(stage), number(stage.schedule.interval),
                     percent(busy(stage, plan)), percent(stage.multiplier_use(plan.interval)),
                     percent(padding_loss(stage)), "" if ring is None else number(ring), number(r.lut), number(r.ff),
                     number(r.dsp), number(r.ram)))
    console.table(f"plan for {board.name}", ("stage", "layer", "rows x cols", "cycles", "busy", "useful", "padding",
                                             "ring", "LUT", "FF", "DSP", "RAM"), rows, second=8)
    console.say(f"  {execution_line(plan, board)}")
    show_steps(console, plan)
    show_queues(console, plan, board)
    show_memories(console, plan)
    show_outside(console, plan)
    for name, need, have in resource_rows(plan, board):
        console.say(f"  {name}: {number(need)} of {number(have)} ({percent(need / have if have else 0.0)})")
    console.say(f"  interval {number(plan.interval)} cycles: {clock.rate(plan)}")
    if line := waiting_line(plan):
        console.say(f"  {line}")
    show_use(console, plan)
    show_remedy(console, plan, board)
    for name, cycles in latencies(plan).items():
        console.say(f"  latency of '{name}': {number(cycles)} cycles, {clock.time(cycles)}")
    console.say(f"  memory of the activations: {number(queue_bytes(plan))} bytes of queues, "
                f"{number(sum(filter(None, rings)))} bytes of line buffers")


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
        **execution_facts(plan, board), "clock": asdict(clock), "multipliers": plan.multipliers,
        "resources": plan.resources.counts(),
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


def show_simulation(console: Console, plan: Plan, runs: Mapping[str, RunResult], clock: CoreClock) -> None:
    """A row per stage: predicted and simulated cycles of the run at full speed, and equality in every run."""
    full = next(iter(runs.values()))
    frames = max(len(full.frame_done_cycles), 1)
    rows = []
    for stage in plan.stages:
        results = [[run.boundaries[name] for name in stage.boundaries] for run in runs.values()]
        rows.append((
            stage.name, stage.kind, folding_text(stage), number(stage.schedule.work),
            number(results[0][-1].busy_cycles // frames), percent(busy(stage, plan)),
            percent(stage.multiplier_use(plan.interval)),
            *("equal" if all(each.equal for each in result) else "DIFFERENT" for result in results)))
    console.table("simulation", ("stage", "layer", "rows x cols", "cycles predicted", "simulated", "busy", "useful",
                                 *runs), rows, second=7)
    interval = full.interval
    console.say(f"  interval between frames: {compared(plan.interval, interval)}")
    for (name, cycles), output in zip(latencies(plan).items(), full.outputs, strict=True):
        console.say(f"  latency of '{name}': {compared(cycles, output.first_cycle)}, "
                    f"{clock.time(cycles)} planned")
    show_use(console, plan)
    if interval:
        console.say(f"  {clock.rate(plan, interval)}")


def compared(predicted: int, simulated: int | None) -> str:
    """Both numbers, and how far they are apart if they are."""
    text = f"predicted {number(predicted)}, simulated {'no' if simulated is None else number(simulated)} cycles"
    if simulated is None or simulated == predicted:
        return text
    return f"{text}, {number(abs(simulated - predicted))} {'more' if simulated > predicted else 'fewer'} than predicted"


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
