"""What a shared stage does with a frame, layer by layer, and where tensors are in its frame memory."""

from __future__ import annotations

from typing import Any

from ..hls.plan import Plan, StagePlan
from ..hls.stages import StepPlan
from .console import Console
from .numbers import number, percent

__all__ = ["shared_facts", "show_steps"]


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


def shared_facts(stage: StagePlan) -> dict[str, Any]:
    """The same as plain data; nothing of a stage that is not shared."""
    if not stage.steps:
        return {}
    return {
        "steps": [{"step": step.name, "tensor": step.tensor, "cycles": step.cycles, "waits": step.waits,
                   "multiplications": step.multiplications, "multiplier_use": use_of(stage, step)}
                  for step in stage.steps],
        "frames": [{"tensor": place.tensor, "first": place.base, "last": place.base + place.words - 1,
                    "bytes": place.words * stage.folding.cols} for place in stage.frames]}
