"""Which execution a board gives a network, why, and what each layer does of a frame; in a line, a table and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..hls.plan import Plan, StagePlan
from ..synth import Board
from .clock import CoreClock
from .console import Console
from .numbers import counted, number, percent
from .rates import show_rate

__all__ = ["LayerWork", "execution_facts", "execution_line", "layers_of", "show_layers", "waiting", "waiting_line"]


@dataclass(frozen=True)
class LayerWork:
    """What `stage` does for `layer` of a frame.  The layer has the name of a stage of the layer alone.

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
    """What arrives, which execution, and a row for each layer."""
    show_rate(console, plan, board, clock)
    console.say(f"  {execution_line(plan, board)}")
    rows = [(each.layer, each.stage, number(each.cycles), percent(each.cycles / plan.interval), number(each.waits),
             percent(each.multiplier_use)) for each in layers_of(plan)]
    console.table("cycles of a frame", ("layer", "stage", "cycles", "share", "waits for weights", "useful"), rows)
    if line := waiting_line(plan):
        console.say(f"  {line}")
    console.say(f"  multipliers do useful work in {percent(plan.multiplier_use)} of the cycles")


def execution_facts(plan: Plan, board: Board) -> dict[str, Any]:
    """The same as plain data."""
    return {"board": board.name, "execution": plan.execution, "why": plan.why,
            "alternatives": [asdict(each) for each in plan.alternatives], "line": execution_line(plan, board),
            "interval": plan.interval, "waiting": waiting(plan), "multiplier_use": plan.multiplier_use,
            "layers": [asdict(each) for each in layers_of(plan)]}
