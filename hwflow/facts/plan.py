"""Facts of a plan on a board, as data for JSON too: rate, work of layers and stages, memories, links, ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from hwflow_base.errors import HwflowError
from hwflow_base.printable import counted, decimal
from hwflow_rtl.core import port_names
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.memory import Holds

from ..hls.plan.plan import Plan, StagePlan
from ..hls.plan.plan_file import memory_facts, outside_facts
from ..hls.schedule.links import LinkPlan
from ..host.identity import DesignFacts, hardware_identity_of
from ..host.rate import Rate, rate_of
from ..layers.base import LayerGraph, state_name
from ..stages.stage import StepPlan
from ..synth import Board, ends_of
from ..synth.expected_clock import estimated_clock

if TYPE_CHECKING:
    from hwflow_sim import RunResult


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
    streamed = {stream.stage for stream in plan.streams}
    for stage in plan.stages:
        for step in stage.steps:
            room = stage.schedule.multipliers * step.cycles
            use = step.multiplications / room if step.multiplications else None
            yield LayerWork(step.name, stage.name, step.cycles, step.waits, use)
        if not stage.steps:
            schedule = stage.schedule
            waits = schedule.interval - schedule.work if stage.name in streamed else 0
            yield LayerWork(stage.name, stage.name, schedule.interval, waits, stage.multiplier_use(plan.interval))


def waiting(plan: Plan) -> float:
    """The share of a frame's interval in which a stage waits for weights; of several, of the one that waits longest."""
    waits = {stage.name: 0 for stage in plan.stages}
    for layer in layers_of(plan):
        waits[layer.stage] += layer.waits
    return max(waits.values()) / plan.interval


def ring_bytes(plan: Plan) -> tuple[int | None, ...]:
    """For each stage the bytes of the rows that it keeps for its windows; None of a stage that keeps none."""
    bits: dict[str, int] = {}
    for memory in plan.memories:
        if memory.memory.holds is Holds.RING:
            bits[memory.part] = bits.get(memory.part, 0) + memory.memory.bits
    return tuple(-(-bits[stage.name] // 8) if stage.name in bits else None for stage in plan.stages)


def use_of(stage: StagePlan, step: StepPlan) -> float | None:
    """Useful multiplications over multiplier cycles of the step; None where nothing is multiplied."""
    room = stage.schedule.multipliers * step.cycles
    return step.multiplications / room if step.multiplications else None


def busy(stage: StagePlan, plan: Plan) -> float:
    """The share of the interval in which the stage computes."""
    return stage.schedule.work / plan.interval


def padding_loss(stage: StagePlan) -> float | None:
    """The share of a stage's multiplications, while it computes, that are with what only fills a size up.

    None of a stage without multipliers.
    """
    room = stage.schedule.multipliers * stage.schedule.work
    return 1 - stage.multiplications / room if room else None


def bottleneck(plan: Plan) -> StagePlan:
    """The stage that sets the pace; of several, the one with the most multipliers."""
    return max(plan.stages, key=lambda stage: (stage.schedule.interval, stage.schedule.multipliers))


def latencies(plan: Plan) -> dict[str, int]:
    """The cycles for each output from the first beat into the idle design to the first beat out."""
    names = {link.sink.number: link.tensor for link in plan.links if link.sink.of_core}
    return {names[k]: cycles for k, cycles in enumerate(plan.latency)}


def ends(plan: Plan, link: LinkPlan) -> tuple[str, str]:
    """The ends that a link joins: names of stages, or of the graph's inputs, outputs and states."""
    states = plan.partition.states_outside(plan.graph)

    def named(end: Endpoint, what: str) -> str:
        if end.of_stage:
            return plan.stages[end.number].name
        return f"state '{state_name(plan.graph, states[end.number])}'" if end.of_state else f"{what} '{link.tensor}'"

    return named(link.source, "input"), named(link.sink, "output")


def queue_bytes(plan: Plan) -> int:
    """The bytes that all queues on links hold."""
    return sum(link.buffer_bytes for link in plan.links)


def counts(resources: Resources, board: Board) -> dict[str, int]:
    """Counts of each kind; SPRAM only where the board has some."""
    return {name: count for name, count in resources.counts().items() if board.resources.spram or name != "spram"}


def resource_rows(plan: Plan, board: Board) -> list[tuple[str, int, int]]:
    have = counts(board.resources, board)
    return [(name.upper(), need, have[name]) for name, need in counts(plan.resources, board).items()]


def board_rate(plan: Plan, board: Board, clock: CoreClock, cycles: int | None = None) -> Rate:
    """The rate of `plan` on `board`; `cycles` is another interval than that of the plan, as a simulation has it."""
    return rate_of(plan, clock.mhz, board.transport.bytes_per_second, cycles)


def simulated_work(stage: StagePlan, run: RunResult) -> int:
    """Cycles of a frame in which the simulated stage computes."""
    return run.boundaries[stage.boundaries[-1]].busy_cycles // max(len(run.frame_done_cycles), 1)


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


def execution_facts(plan: Plan, board: Board) -> dict[str, object]:
    """The execution, why it is this one, and the work of the layers."""
    return {"board": board.name, "execution": plan.execution, "why": plan.why,
            "alternatives": [asdict(fact) for fact in plan.alternatives], "line": execution_line(plan, board),
            "interval": plan.interval, "waiting": waiting(plan), "multiplier_use": plan.multiplier_use,
            "layers": [asdict(fact) for fact in layers_of(plan)]}


def shared_facts(stage: StagePlan) -> dict[str, object]:
    """The steps and the frame memory of a shared stage; nothing of another one."""
    if not stage.steps:
        return {}
    return {
        "steps": [{"step": step.name, "tensor": step.tensor, "cycles": step.cycles, "waits": step.waits,
                   "multiplications": step.multiplications, "multiplier_use": use_of(stage, step)}
                  for step in stage.steps],
        "frames": [{"tensor": place.tensor, "first": place.base, "last": place.base + place.words - 1,
                    "bytes": place.words * stage.folding.cols} for place in stage.frames]}


def plan_facts(plan: Plan, board: Board, *, clock: CoreClock) -> dict[str, object]:
    """All facts of the plan."""
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


# The clock at which seconds and frames a second of a plan are counted: the routed design's, else an estimate.


@dataclass(frozen=True)
class CoreClock:
    """`mhz` drives the stages; `what` says which clock that is.  `routed`: it is that of a routed design."""

    mhz: float
    what: str
    routed: bool

    def time(self, cycles: int) -> str:
        """The time of `cycles` cycles, as a text."""
        return f"{decimal(cycles / self.mhz, 2)} µs"

    def __str__(self) -> str:
        return f"{self.mhz:.1f} MHz ({self.what})"


def clock_of(plan: Plan, graph: LayerGraph, board: Board, folder: Path) -> CoreClock:
    """The clock of the routed design in `folder`, if it is that of this plan; else the one that place and route is
    expected to reach."""
    facts = routed_design(plan, graph, board, folder)
    if facts is not None:
        return CoreClock(facts.clock_mhz, f"the clock of the routed design in '{folder}'", True)
    estimate = estimated_clock(plan, board)
    return CoreClock(estimate.mhz, estimate.how, False)


def routed_design(plan: Plan, graph: LayerGraph, board: Board, folder: Path) -> DesignFacts | None:
    """The routed design in `folder`, if it is that of this plan with these weights; else None."""
    try:
        facts = DesignFacts.read(folder)
    except HwflowError:  # nothing is routed, or the file is damaged
        return None
    foldings = [stage.folding for stage in plan.stages]
    same = (facts.board == board.name
            and facts.identity == hardware_identity_of(graph, foldings, plan.partition, facts.sums))
    return facts if same else None
