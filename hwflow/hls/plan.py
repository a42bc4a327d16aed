"""The plan: which folding each stage has, what joins the stages, and what that means in cycles and resources."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import fields_repr, screen
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources, Technology, Timing

from ..layers.base import Folding, LayerGraph, Schedule
from .links import LinkPlan, links_cost, links_of
from .support import hardware_layers
from .timeline import latencies, with_queues

#: The longest name of a stage, its position not counted: a table must hold it.
NAME_LENGTH = 28

__all__ = ["Plan", "StagePlan", "interval_of", "make_plan", "no_such_stage", "require_possible", "stage_names"]


@dataclass(frozen=True)
class StagePlan:
    """One layer as a stage.  `name` is what the Verilog calls it; schedule and resources follow from the folding."""

    name: str
    layer: str
    kind: str
    folding: Folding
    schedule: Schedule
    resources: Resources
    multiplications: int
    output_elements: int

    __repr__ = fields_repr

    def multiplier_use(self, interval: int) -> float | None:
        """Useful multiplications over multiplier cycles of one frame interval; None for a stage without multipliers."""
        multipliers = self.schedule.multipliers
        return self.multiplications / (multipliers * interval) if multipliers else None


@dataclass(frozen=True)
class Plan:
    """The stages in order, for the technology named `technology`, whose multipliers and memories have `timing`.

    `links` join them.  `resources` are those of all stages and links, packed into the technology's cells.  `latency`
    is the cycles from the first beat of a frame into the idle design to the first beat of each output.  `graph` and
    `device` are what the plan was made of; the foldings and these two decide all the rest.
    """

    model: str
    technology: str
    timing: Timing
    stages: tuple[StagePlan, ...]
    links: tuple[LinkPlan, ...]
    latency: tuple[int, ...]
    resources: Resources
    graph: LayerGraph = field(compare=False, repr=False)
    device: Technology = field(compare=False, repr=False)

    def __repr__(self) -> str:
        need = ", ".join(f"{each.name} {getattr(self.resources, each.name)}" for each in fields(Resources))
        rows = [(stage.name, stage.kind, f"{stage.folding.rows} x {stage.folding.cols}", str(stage.folding.lanes),
                 stage.folding.style.value if stage.schedule.multipliers else "", str(stage.schedule.interval))
                for stage in self.stages]
        table = [("stage", "kind", "rows x cols", "lanes", "style", "cycles"), *rows]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in table]
        head = (f"Plan '{self.model}' on {self.technology}: {self.interval} cycles a frame, {self.multipliers} "
                f"multipliers, latency {', '.join(map(str, self.latency))}")
        return screen(head, [f"resources: {need}", *lines])

    def with_folding(self, stage: str, *, rows: int | None = None, cols: int | None = None, lanes: int | None = None,
                     style: str | MultiplierStyle | None = None) -> Plan:
        """The plan anew with another folding of the stage of that name; what is None stays as it is.

        HwflowError where there is no such stage, or its layer has no such folding on the device: it names what is
        possible.  Whether the plan still fits a board is not looked at.
        """
        names = [each.name for each in self.stages]
        if stage not in names:
            raise HwflowError(f"plan of '{self.model}': {no_such_stage(stage, names)}")
        position = names.index(stage)
        foldings = [each.folding for each in self.stages]
        now = foldings[position]
        foldings[position] = Folding(
            now.rows if rows is None else whole("rows", rows), now.cols if cols is None else whole("cols", cols),
            now.lanes if lanes is None else whole("lanes", lanes), now.style if style is None else style_of(style))
        require_possible(self.graph, self.model, foldings, self.device)
        return make_plan(self.graph, foldings, self.device)

    @property
    def interval(self) -> int:
        """Clock cycles from frame to frame: the slowest stage, or the slowest change of lanes between two stages."""
        return interval_of([stage.schedule for stage in self.stages], self.links)

    @property
    def input_lanes(self) -> tuple[int, ...]:
        """Elements of a beat at each input."""
        found = {link.source.number: link.lanes_out for link in self.links if not link.source.of_stage}
        return tuple(found[k] for k in range(len(found)))

    @property
    def multipliers(self) -> int:
        return sum(stage.schedule.multipliers for stage in self.stages)

    @property
    def multiplications(self) -> int:
        return sum(stage.multiplications for stage in self.stages)

    @property
    def multiplier_use(self) -> float:
        """Useful multiplications over multiplier cycles, of the whole design; 1.0 where there are no multipliers."""
        return self.multiplications / (self.multipliers * self.interval) if self.multipliers else 1.0


def interval_of(schedules: Sequence[Schedule], links: Sequence[LinkPlan]) -> int:
    """Cycles from frame to frame: those of the slowest stage or link."""
    return max(*(schedule.interval for schedule in schedules), *(link.cycles for link in links))


def stage_names(graph: LayerGraph) -> tuple[str, ...]:
    """Verilog-safe, unique, stable names: `<position>_<layer>`.

    Of a layer's name that is a path ("/net/net.1/Gemm") the last two parts are taken, as letters and digits.
    """
    names = []
    for position, layer in enumerate(graph.layers):
        parts = re.split(r"[/;:]", layer.name)
        words = re.findall(r"[A-Za-z0-9]+", "_".join(parts[-2:])) or [layer.kind]
        names.append(f"{position}_{'_'.join(words)[-NAME_LENGTH:].strip('_')}")
    return tuple(names)


def make_plan(graph: LayerGraph, foldings: Sequence[Folding], technology: Technology) -> Plan:
    """The plan with these foldings, one per layer; raises HwflowError where a folding is not one of the layer's."""
    stages = tuple(
        StagePlan(
            name=name, layer=layer.name, kind=layer.kind, folding=folding,
            schedule=layer.schedule(graph, folding), resources=layer.cost(graph, folding, technology),
            multiplications=layer.multiplications(graph),
            output_elements=graph.tensors[layer.output].frame.elements)
        for name, layer, folding in zip(stage_names(graph), hardware_layers(graph), foldings, strict=True))
    flows = [(stage.folding, stage.schedule) for stage in stages]
    links = links_of(graph, flows)
    interval = interval_of([stage.schedule for stage in stages], links)
    links = with_queues(graph, foldings, links, technology, interval)
    resources = technology.placed(sum((stage.resources for stage in stages), links_cost(links, technology)))
    latency = latencies(graph, foldings, links, technology)
    return Plan(graph.name, technology.name, technology.timing, stages, links, latency, resources, graph, technology)


def whole(what: str, size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        raise HwflowError(f"{what} must be a whole number, not {size!r:.60}")
    return size


def style_of(style: object) -> MultiplierStyle:
    try:
        return MultiplierStyle(style)
    except ValueError:
        named = ", ".join(each.value for each in MultiplierStyle)
        raise HwflowError(f"style must be one of {named}, not {style!r:.60}") from None


def no_such_stage(name: object, names: Sequence[str]) -> str:
    """What a message says of the name of a stage that is none of `names`."""
    near = difflib.get_close_matches(str(name), names, 1)
    guess = f"; did you mean '{near[0]}'?" if near else ""
    said = f"'{name}'" if isinstance(name, str) else f"{name!r:.60}"
    return f"stage {said} is not in the model; its stages are {', '.join(names)}{guess}"


def require_possible(graph: LayerGraph, model: str, foldings: Sequence[Folding], technology: Technology) -> None:
    """HwflowError for the first folding that its layer does not have on `technology`."""
    for name, layer, folding in zip(stage_names(graph), hardware_layers(graph), foldings, strict=True):
        problem = layer.folding_problem(graph, folding, technology)
        if problem:
            raise HwflowError(f"plan of '{model}', stage '{name}': {problem}")
