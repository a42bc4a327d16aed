"""The plan: which folding each stage has, and what that means in cycles and resources.  A plan is a YAML file too.

Only the foldings are read back from a file; cycles and resources in it are for the reader and are computed anew.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jsonschema
import yaml
from hwflow_rtl.streams import Gearbox
from hwflow_rtl.vendor import Resources, Technology, Timing

from ..errors import HwflowError
from ..layers.base import Folding, LayerGraph, Schedule
from .support import hardware_layers

#: The longest name of a stage, its position not counted: a table must hold it.
NAME_LENGTH = 28

__all__ = ["Plan", "StagePlan", "make_plan", "plan_from_yaml", "plan_to_yaml", "stage_names"]


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

    def multiplier_use(self, interval: int) -> float | None:
        """Useful multiplications over multiplier cycles of one frame interval; None for a stage without multipliers."""
        multipliers = self.schedule.multipliers
        return self.multiplications / (multipliers * interval) if multipliers else None


@dataclass(frozen=True)
class Plan:
    """The stages in order, for the technology named `technology`, whose multipliers and memories have `timing`.

    `input_elements` of one frame enter the first stage.  `resources` are those of all stages and of the changes of
    lanes between them, packed into the technology's cells.
    """

    model: str
    technology: str
    timing: Timing
    stages: tuple[StagePlan, ...]
    input_elements: int
    resources: Resources

    @property
    def interval(self) -> int:
        """Clock cycles from frame to frame: the slowest stage, or the slowest change of lanes between two stages."""
        return max(*(stage.schedule.interval for stage in self.stages), *self.link_cycles())

    def link_cycles(self) -> tuple[int, ...]:
        """Beats a frame needs at the input, between each two stages, and at the output."""
        inner = (a.output_elements // min(a.folding.lanes, b.schedule.lanes_in) for a, b in pairwise(self.stages))
        first, last = self.stages[0], self.stages[-1]
        return (self.input_elements // first.schedule.lanes_in, *inner, last.output_elements // last.folding.lanes)

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


def link_cost(bits: int, lanes_out: int, lanes_in: int) -> Resources:
    """What joins a stage that gives `lanes_out` elements of `bits` bits to one that takes `lanes_in`."""
    return Gearbox.cost(width=bits, lanes_in=lanes_out, lanes_out=lanes_in)


def links_cost(graph: LayerGraph, stages: Sequence[tuple[Folding, Schedule]]) -> Resources:
    """What joins all the stages of `graph`."""
    costs = (link_cost(graph.tensors[layer.output].format.bits, before.lanes, schedule.lanes_in)
             for layer, ((before, _), (_, schedule)) in zip(graph.layers, pairwise(stages), strict=False))
    return sum(costs, Resources())


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
    links = links_cost(graph, [(stage.folding, stage.schedule) for stage in stages])
    elements = graph.tensors[graph.inputs[0]].frame.elements
    resources = technology.placed(sum((stage.resources for stage in stages), links))
    return Plan(graph.name, technology.name, technology.timing, stages, elements, resources)


def plan_to_yaml(plan: Plan) -> str:
    """The plan as a file to read and to edit."""
    stages = [{
        "stage": stage.name, "layer": stage.layer, "kind": stage.kind,
        "rows": stage.folding.rows, "cols": stage.folding.cols, "lanes": stage.folding.lanes,
        "cycles": stage.schedule.interval, "multipliers": stage.schedule.multipliers,
        "resources": resources_dict(stage.resources),
    } for stage in plan.stages]
    header = (
        "# rows x cols multiplications are made in one cycle; lanes results leave a stage at once.\n"
        "# Edit rows, cols and lanes and pass the file back with --plan; the other values are computed anew.\n")
    body = {"model": plan.model, "technology": plan.technology, "interval": plan.interval,
            "resources": resources_dict(plan.resources), "stages": stages}
    return header + str(yaml.safe_dump(body, sort_keys=False))


def resources_dict(resources: Resources) -> dict[str, int]:
    return {"lut": resources.lut, "ff": resources.ff, "dsp": resources.dsp, "ram": resources.ram}


COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 1}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["stages"],
    "properties": {"stages": {"type": "array", "minItems": 1, "items": {
        "type": "object",
        "required": ["stage", "rows", "cols", "lanes"],
        "properties": {"stage": {"type": "string"}, "rows": COUNT, "cols": COUNT, "lanes": COUNT, "layer": {},
                       "kind": {}, "cycles": {}, "multipliers": {}, "resources": {}},
        "additionalProperties": False,
    }}, "model": {}, "technology": {}, "interval": {}, "resources": {}},
    "additionalProperties": False,
}


def plan_from_yaml(text: str, graph: LayerGraph, technology: Technology, *, source: str) -> Plan:
    """Read the foldings of `text` (from the file `source`, for messages) and compute the plan for `graph`."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise HwflowError(f"plan {source}{where}: not valid YAML: {problem}") from None
    errors = sorted(jsonschema.Draft202012Validator(SCHEMA).iter_errors(document), key=lambda e: list(map(str, e.path)))
    if errors:
        path = "/".join(map(str, errors[0].absolute_path)) or "the top level"
        raise HwflowError(f"plan {source}, {path}: {errors[0].message}; "
                          "start from the plan.yaml that `hwflow build` writes")
    given = {row["stage"]: row for row in document["stages"]}
    for name, count in Counter(row["stage"] for row in document["stages"]).items():
        if count > 1:
            raise HwflowError(f"plan {source}: stage '{name}' must be named once, not {count} times")
    names = stage_names(graph)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            guess = f"; did you mean '{near[0]}'?" if near else ""
            raise HwflowError(f"plan {source}: stage '{name}' is not in the model; its stages are "
                              f"{', '.join(names)}{guess}")
    missing = [name for name in names if name not in given]
    if missing:
        raise HwflowError(f"plan {source}: stage '{missing[0]}' is missing; the plan must name every stage: "
                          f"{', '.join(names)}")
    foldings = [Folding(given[n]["rows"], given[n]["cols"], given[n]["lanes"]) for n in names]
    for name, layer, folding in zip(names, hardware_layers(graph), foldings, strict=True):
        problem = layer.folding_problem(graph, folding)
        if problem:
            raise HwflowError(f"plan {source}, stage '{name}': {problem}")
    return make_plan(graph, foldings, technology)
