"""The plan: the folding of every stage, the links between stages, and the cycles and resources that follow."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import drawn_html, fields_repr, screen
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources, Technology, Timing

from hwflow.hls.plan.choices import Choice
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.memories import MemoryPlan, Places, memories_of_link, memories_of_stage, with_places
from hwflow.hls.plan.outside_memory import OutsideMemory, StreamPlan, outside_cost, paced, streams_of
from hwflow.hls.schedule.links import LinkPlan, links_cost, links_of
from hwflow.hls.schedule.timeline import deepening, latencies, pace_of, settled
from hwflow.layers.base import Layer, LayerGraph, kind_of
from hwflow.stages.folding import Folding, Schedule
from hwflow.stages.partition import DATAFLOW, Execution, Partition
from hwflow.stages.stage import Place, Stage, StepPlan

#: The execution of a plan with shared stages and stages of single layers.
MIXED = "mixed"


@dataclass(frozen=True)
class Alternative:
    """Another execution that was considered.  `interval`: its shortest interval in cycles; None if it has no plan.
    `why`: the reason why it was not chosen."""

    execution: str
    interval: int | None
    why: str


@dataclass(frozen=True, eq=False)
class StagePlan(ByValue):
    """A stage with its folding, from which schedule and resources follow.

    `name` is the name of its instance in the Verilog.  `layers` are the names of the layers that it computes, in order;
    a shared stage has several.  `boundaries` are the tensors that it makes and that a simulation compares, its output
    last.
    """

    name: str
    layers: tuple[str, ...]
    boundaries: tuple[str, ...]
    kind: str
    folding: Folding
    schedule: Schedule
    resources: Resources
    multiplications: int
    #: The memories that are not in the kind of memory that the family prefers; `resources` counts them in these places.
    places: Places = field(default_factory=dict)
    #: For a shared stage: its steps for one frame, in order, and the words of its frame memory that each tensor has.
    steps: tuple[StepPlan, ...] = ()
    frames: tuple[Place, ...] = ()

    __repr__ = fields_repr

    def multiplier_use(self, interval: int) -> float | None:
        """Useful multiplications over multiplier cycles of one frame interval; None for a stage without multipliers."""
        multipliers = self.schedule.multipliers
        return self.multiplications / (multipliers * interval) if multipliers else None


@dataclass(frozen=True, eq=False)
class Plan(ByValue):
    """The stages in order, for the technology named `technology`, whose multipliers and memories have `timing`.

    `links` connect them.  `resources` are those of all stages and links, packed into the technology's cells.
    `streams` are the weights that stages read from the external memory `outside`, which is None if the board has none.
    `latency` has for each output the cycles from the first input beat of a frame into the idle design to the first beat
    of the output.  `partition` says which layers share a stage.  The plan was made from `graph`, `device`, the
    partition and the foldings; everything else follows from these.  `why` is the reason for this partition, for people;
    `alternatives` are the executions that were considered besides.
    """

    model: str
    technology: str
    timing: Timing
    stages: tuple[StagePlan, ...]
    links: tuple[LinkPlan, ...]
    latency: tuple[int, ...]
    resources: Resources
    streams: tuple[StreamPlan, ...]
    outside: OutsideMemory | None
    graph: LayerGraph = field(compare=False, repr=False)
    device: Technology = field(compare=False, repr=False)
    partition: Partition = DATAFLOW
    why: str = field(default="", compare=False)
    #: The initiation interval if frames have to wait for a shared stage, or beside one for states; 0 if they do not.
    pace: int = 0
    #: The initiation interval if a frame has to wait for the states that the one before hands on; 0 if none has to.
    loop: int = 0
    alternatives: tuple[Alternative, ...] = field(default=(), compare=False)
    #: The name of the board whose resources it fits; empty for a plan of a technology alone.
    board: str = field(default="", compare=False)

    _repr_html_ = drawn_html

    def __repr__(self) -> str:
        need = ", ".join(f"{kind} {count}" for kind, count in self.resources.counts().items())
        rows = [(stage.name, stage_kind(self.graph, stage), f"{stage.folding.rows} x {stage.folding.cols}",
                 str(stage.folding.lanes), stage.folding.style.value if stage.schedule.multipliers else "",
                 str(stage.schedule.interval))
                for stage in self.stages]
        table = [("stage", "kind", "rows x cols", "lanes", "style", "cycles"), *rows]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in table]
        place = f"{self.board} ({self.technology})" if self.board else self.technology
        head = (f"Plan '{self.model}' on {place}: {self.interval} cycles a frame, {self.multipliers} "
                f"multipliers, latency {', '.join(map(str, self.latency))}")
        return screen(head, [f"resources: {need}", *lines])

    def with_folding(self, stage: str, *, rows: int | None = None, cols: int | None = None, lanes: int | None = None,
                     style: str | MultiplierStyle | None = None, weight_rows: int | None = None) -> Plan:
        """A new plan with another folding of the stage with that name; None keeps the value of this plan.  The
        memories of the stage are where the family prefers them.

        HwflowError if there is no such stage, or if its layer has no such folding on the device; the message lists the
        possible ones.  It is not checked that the new plan fits a board.
        """
        names = [planned.name for planned in self.stages]
        if stage not in names:
            raise HwflowError(f"plan of '{self.model}': {no_such_stage(stage, names)}")
        position = names.index(stage)
        foldings = [planned.folding for planned in self.stages]
        now = foldings[position]
        foldings[position] = Folding(
            now.rows if rows is None else whole("rows", rows), now.cols if cols is None else whole("cols", cols),
            now.lanes if lanes is None else whole("lanes", lanes), now.style if style is None else style_of(style),
            now.rescale, now.weight_rows if weight_rows is None else whole("weight_rows", weight_rows))
        require_possible(self.graph, self.model, foldings, self.device, self.partition)
        places = {planned.name: planned.places for planned in self.stages if planned.name != stage}
        plan = make_plan(self.graph, foldings, self.device, places, self.outside, self.partition)
        return replace(plan, why=self.why, board=self.board)

    @property
    def execution(self) -> str:
        """`dataflow`, `shared`, or `mixed`: whether all stages have a layer of their own, all layers share one, or
        neither."""
        if not self.partition.shared:
            return Execution.DATAFLOW.value
        return Execution.SHARED.value if len(self.stages) == 1 else MIXED

    @property
    def memories(self) -> tuple[MemoryPlan, ...]:
        """Every memory of the stages and links, in their order."""
        stages = [memory for stage in self.stages
                  for memory in memories_of_stage(stage.name, stage.resources, stage.places, self.device)]
        links = [memory for link in self.links for memory in memories_of_link(self.name_of(link), link, self.device)]
        return (*stages, *links)

    def name_of(self, link: LinkPlan) -> str:
        """`<source> to <sink>`."""
        source, sink = (self.stages[end.number].name if end.of_stage else
                        f"{'state' if end.of_state else what}{end.number}"
                        for end, what in ((link.source, "input"), (link.sink, "output")))
        return f"{source} to {sink}"

    @property
    def interval(self) -> int:
        """The initiation interval, in clock cycles from frame to frame: that of the slowest stage or link, or longer if
        frames have to wait for a shared stage or for states.  See `is_bound`."""
        return max(self.pace, self.loop, interval_of([stage.schedule for stage in self.stages], self.links))

    @property
    def is_bound(self) -> bool:
        """Whether `interval` is an upper bound and the hardware may be faster: if weights come from external memory, or
        if frames have to wait for a shared stage, because earlier stages meanwhile work ahead."""
        return bool(self.pace or self.streams)

    def interval_at(self, mhz: float) -> int:
        """The interval of a core at `mhz`: longer than `interval` if the external memory is too slow for this clock."""
        return max(self.interval, self.memory_cycles(mhz))

    def memory_cycles(self, mhz: float) -> int:
        """The most cycles of a core at `mhz` that the external memory takes for the weights of a frame, or 0."""
        if self.outside is None or not self.streams:
            return 0
        streams = [weights.stream for weights in self.streams]
        intervals = replace(self.outside, core_mhz=mhz).intervals(streams)
        return max(ceil(interval * stream.beats) for interval, stream in zip(intervals, streams, strict=True))

    @property
    def bandwidth_used(self) -> float:
        """The share of an interval that the external memory, at its slowest, takes for the weights of a frame."""
        return max((float(plan.interval * plan.stream.beats / self.interval) for plan in self.streams), default=0.0)

    @property
    def input_lanes(self) -> tuple[int, ...]:
        """For each input the number of elements in a beat."""
        lanes = {link.source.number: link.lanes_out for link in self.links if link.source.of_core}
        return tuple(lanes[k] for k in range(len(lanes)))

    @property
    def multipliers(self) -> int:
        return sum(stage.schedule.multipliers for stage in self.stages)

    @property
    def multiplications(self) -> int:
        return sum(stage.multiplications for stage in self.stages)

    @property
    def multiplier_use(self) -> float:
        """Useful multiplications over multiplier cycles, of the whole design; 1.0 for a design without multipliers."""
        return self.multiplications / (self.multipliers * self.interval) if self.multipliers else 1.0


def interval_of(schedules: Sequence[Schedule], links: Sequence[LinkPlan]) -> int:
    """Cycles from frame to frame: the interval of the slowest stage or link."""
    return max(*(schedule.interval for schedule in schedules), *(link.cycles for link in links))


class PlanMaker:
    """Makes the plans of `graph` on `technology`."""

    def __init__(self, graph: LayerGraph, technology: Technology):
        self.graph = graph
        self.technology = technology

    def stages(self, partition: Partition) -> tuple[Stage, ...]:
        """The stages of a partition, each after those that it reads."""
        return stages_of(self.graph, partition)

    def with_queues(self, partition: Partition, choices: Sequence[Choice]) -> tuple[tuple[LinkPlan, ...], int, int]:
        """The links with the FIFOs that they need, the pace of frames, and the interval of the slowest stage or link.
        """
        stages = self.stages(partition)
        links, pace, interval = bare_links(self.graph, stages, choices, self.technology)
        *_, links = deepening(stages, [choice.folding for choice in choices], links, self.technology, pace)
        return links, pace, interval

    def plan(self, foldings: Sequence[Folding], places: Mapping[str, Places], outside: OutsideMemory | None,
             partition: Partition) -> Plan:
        """The plan of these foldings, see `make_plan`."""
        technology, stages = self.technology, self.stages(partition)
        foldings = paced(stages, foldings, outside)
        planned = tuple(
            StagePlan(
                name=stage.name, layers=tuple(layer.name for layer in stage.layers), boundaries=stage.boundaries,
                kind=stage.kind, folding=folding, schedule=stage.schedule(folding, technology),
                resources=placed_cost(stage, folding, technology, places.get(stage.name, {})),
                multiplications=stage.multiplications, places=dict(places.get(stage.name, {})),
                steps=stage.steps(folding, technology), frames=stage.frames(folding))
            for stage, folding in zip(stages, foldings, strict=True))
        links, pace, interval = self.with_queues(
            partition, [Choice(stage.folding, stage.schedule) for stage in planned])
        streams = streams_of(stages, foldings)
        streamed, waits = partition.states_outside(self.graph), pace if pace > interval else 0
        resources = technology.placed(sum((stage.resources for stage in planned),
                                          links_cost(links, technology) + outside_cost(outside, streams, technology)))
        return Plan(
            model=self.graph.name, technology=technology.name, timing=technology.timing, stages=planned, links=links,
            latency=latencies(stages, foldings, links, technology), resources=resources, streams=streams,
            outside=outside, graph=self.graph, device=technology, partition=partition,
            pace=waits if partition.shared or not streamed else 0, loop=waits if streamed else 0)


def make_plan(graph: LayerGraph, foldings: Sequence[Folding], technology: Technology,
              places: Mapping[str, Places] = MappingProxyType({}), outside: OutsideMemory | None = None,
              partition: Partition = DATAFLOW) -> Plan:
    """The plan with these foldings, one per stage, and the memories of each stage in `places`, by its name.

    `partition` says which layers share a stage.  `outside` is the board's external memory for weights; the foldings'
    `weight_interval` follows from it.

    HwflowError if a stage cannot have its folding, or a memory its place.
    """
    return PlanMaker(graph, technology).plan(foldings, places, outside, partition)


def bare_links(graph: LayerGraph, stages: Sequence[Stage], choices: Sequence[Choice],
               technology: Technology) -> tuple[tuple[LinkPlan, ...], int, int]:
    """The links, the pace of frames, and the interval of the slowest stage or link.

    The links have no FIFOs but in a graph with states, whose pace depends on these.
    """
    foldings = [choice.folding for choice in choices]
    links = links_of(graph, stages, [(choice.folding, choice.schedule.lanes_in) for choice in choices])
    interval = interval_of([choice.schedule for choice in choices], links)
    if any(link.sink.of_state for link in links):
        return *settled(stages, foldings, links, technology, interval), interval
    return links, pace_of(stages, foldings, links, technology, interval), interval


def placed_cost(stage: Stage, folding: Folding, technology: Technology, places: Places) -> Resources:
    """The cost of a stage with its memories in `places`.  HwflowError if a memory cannot be in its place."""
    cost = stage.cost(folding, technology)
    memories = {memory.name: memory for memory in cost.memories}
    for name, place in places.items():
        if name not in memories:
            known = f"its memories are {', '.join(memories)}" if memories else "it has no memories"
            raise HwflowError(f"stage '{stage.name}' has no memory '{name}'; with its folding {known}")
        possible = technology.places(memories[name])
        if place not in possible:
            allowed = " or ".join(value.value for value in possible)
            raise HwflowError(
                f"memory '{name}' of stage '{stage.name}' must be in {allowed}, not in {place.value}: it has "
                f"{memories[name].depth} words of {memories[name].width} bits")
    return with_places(cost, places, technology)


def whole(what: str, size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        raise HwflowError(f"{what} must be a whole number, not {size!r:.60}")
    return size


def style_of(style: object) -> MultiplierStyle:
    try:
        return MultiplierStyle(style)
    except ValueError:
        named = ", ".join(member.value for member in MultiplierStyle)
        raise HwflowError(f"style must be one of {named}, not {style!r:.60}") from None


def no_such_stage(name: object, names: Sequence[str]) -> str:
    """The message for a name of a stage that is not one of `names`, with a guess."""
    near = difflib.get_close_matches(str(name), names, 1)
    guess = f"; did you mean '{near[0]}'?" if near else ""
    said = f"'{name}'" if isinstance(name, str) else f"{name!r:.60}"
    return f"stage {said} is not in the model; its stages are {', '.join(names)}{guess}"


def require_possible(graph: LayerGraph, model: str, foldings: Sequence[Folding], technology: Technology,
                     partition: Partition = DATAFLOW) -> None:
    """HwflowError for the first folding that its stage does not have on `technology`."""
    for stage, folding in zip(stages_of(graph, partition), foldings, strict=True):
        problem = stage.folding_problem(folding, technology)
        if problem:
            raise HwflowError(f"plan of '{model}', stage '{stage.name}': {problem}")


def stage_kind(graph: LayerGraph, stage: StagePlan) -> str:
    """Say what the user's model does in a stage of a plan for `graph`, in a word or two; "shared" where several layers
    do.

    `StagePlan.kind` is the kind of layer in hardware.
    """
    layer = own_layer(graph, stage)
    return stage.kind if layer is None else kind_of(graph, layer)


def own_layer(graph: LayerGraph, stage: StagePlan) -> Layer | None:
    """The layer that a stage of its own computes, the last of several that are one window; None for a shared stage."""
    if stage.steps:
        return None
    inside = [layer for layer in graph.layers if layer.name in stage.layers]
    return next((layer for layer in reversed(inside) if layer.kind == stage.kind), inside[-1])
