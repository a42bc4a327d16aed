"""A check that a plan follows from its foldings.  A plan that was changed by hand does not, and is refused."""

from __future__ import annotations

from dataclasses import fields

from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import Technology

from hwflow.hls.plan.graph_stages import stage_names
from hwflow.hls.plan.plan import Plan, StagePlan, make_plan, require_possible
from hwflow.hls.schedule.links import LinkPlan
from hwflow.layers.base import LayerGraph

#: The remedy for a plan of another model or device.
ANEW = "make it with hwflow.make_plan(quantized, board)"


def require_current(plan: Plan, graph: LayerGraph, technology: Technology | None = None) -> None:
    """HwflowError unless `plan` is the plan that its foldings give for `graph`.

    The device is `technology`; with None it is the plan's own.  A plan whose foldings were changed by hand still has
    the schedule, the resources and the queues of the old foldings.
    """
    names, stages = stage_names(graph, plan.partition), [stage.name for stage in plan.stages]
    if list(names) != stages:
        raise HwflowError(
            f"the plan must be of the model '{graph.name}' with the stages {', '.join(names)}, not of '{plan.model}' "
            f"with {', '.join(stages)}",
            ANEW,
        )
    foldings, places = [stage.folding for stage in plan.stages], {stage.name: stage.places for stage in plan.stages}
    require_possible(plan.graph, plan.model, foldings, plan.device, plan.partition)
    stale = difference(plan, make_plan(plan.graph, foldings, plan.device, places, plan.outside, plan.partition))
    if stale:
        raise HwflowError(f"the plan of '{plan.model}' must be what its foldings give: {stale}. Change a plan with "
                          "plan.with_folding(stage, rows=..., cols=..., lanes=..., style=...), which makes a new plan")
    if technology is not None and plan.technology != technology.name:
        raise HwflowError(
            f"the plan must be made for the board's family, {technology.name}, not for {plan.technology}", ANEW
        )
    technology = technology or plan.device
    if graph is not plan.graph or technology is not plan.device:
        require_possible(graph, plan.model, foldings, technology, plan.partition)
        other = difference(plan, make_plan(graph, foldings, technology, places, plan.outside, plan.partition))
        if other:
            raise HwflowError(
                f"the plan of '{plan.model}' must be made of this integer model and for this device: {other}", ANEW
            )


def difference(plan: Plan, current: Plan) -> str:
    """The first difference of `plan` from `current`, which has the same stages; "" if they are equal."""
    for stage, anew in zip(plan.stages, current.stages, strict=True):
        if stage.schedule.interval != anew.schedule.interval:
            return (f"stage '{stage.name}' takes {anew.schedule.interval} cycles a frame with its folding, "
                    f"not {stage.schedule.interval} as the plan has it")
        for field in fields(StagePlan):
            if getattr(stage, field.name) != getattr(anew, field.name):
                return other_value(f"stage '{stage.name}'", stage, anew, field.name)
    names = [stage.name for stage in current.stages]
    if len(plan.links) != len(current.links):
        return f"the stages have {len(current.links)} links, not {len(plan.links)} as the plan has them"
    for link, new_link in zip(plan.links, current.links, strict=True):
        for field in fields(LinkPlan):
            if getattr(link, field.name) != getattr(new_link, field.name):
                source, sink = new_link.between(names)
                return other_value(f"the link from '{source}' to '{sink}'", link, new_link, field.name)
    for name in ("model", "technology", "timing", "latency", "resources", "streams"):
        if getattr(plan, name) != getattr(current, name):
            return other_value("the whole design", plan, current, name)
    return ""


def other_value(what: str, has: object, must_have: object, name: str) -> str:
    return f"{what} must have {name} {getattr(must_have, name)}, not {getattr(has, name)} as the plan has it"
