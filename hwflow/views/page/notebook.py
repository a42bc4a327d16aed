"""Results in notebooks: the pictures and tables of the report, each with the styles that it needs.

`DRAWINGS` has for each type the function that draws it.  The classes have `_repr_html_` from `hwflow_base.short_repr`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from hwflow_base.printable import number, percent
from hwflow_sim import RunResult
from markupsafe import Markup

from hwflow.hls.plan.frame_schedule import schedule_frames
from hwflow.hls.plan.plan import Plan, stage_kind
from hwflow.layers.base import kind_of

from ...accuracy import Accuracy
from ...facts.plan import busy, latencies
from ...layers.base import LayerGraph
from ...quantize import Quantized
from ...synth import SynthesisReport
from ..console.plan import folding_text
from .bars import Piece, Row, bars
from .chart import Axis, Rule
from .markup import Cell, Given, element, measure, table, tiles, verdict
from .schedule import is_drawn, limit_of, not_drawn, one_frame
from .sections.accuracy import accuracy_body, confusion

#: Rows of a table; --json and the object itself have all.
MOST = 100


def html_of(result: object) -> str:
    """The HTML of a result whose type is in `DRAWINGS`.  TypeError for others."""
    for kind, drawing in DRAWINGS:
        if isinstance(result, kind):
            return str(element("div", element("style", styles()), drawing(result), class_="hwflow"))
    raise TypeError(f"a result must be one of {', '.join(kind.__name__ for kind, _ in DRAWINGS)}, not "
                    f"{type(result).__name__}")


@cache
def styles() -> Markup:
    """The styles of a result alone: the colours of pages within it, where they must not change those of the
    notebook."""
    own = files("hwflow.views.page") / "files"
    colours = (own / "colours.css").read_text(encoding="utf-8")
    first = colours[colours.index(":root {"):]
    return Markup(f".hwflow {first[len(':root '):first.index('}') + 1]}\n" + "".join(
        (own / name).read_text(encoding="utf-8") for name in ("chart.css", "notebook.css")))


def plan_html(plan: Plan) -> Markup:
    """Headline numbers, the stages, and the schedule of one frame."""
    rows: list[list[Given]] = [[
        stage.name, stage_kind(plan.graph, stage), folding_text(stage), stage.schedule.interval,
        Cell(percent(busy(stage, plan)), busy(stage, plan)), *stage.resources.counts().values()]
        for stage in plan.stages]
    kinds = [kind.upper() for kind in plan.resources.counts()]
    return Markup("").join([
        title(f"Plan of {plan.model} on {plan.board or plan.technology}"),
        tiles([("cycles a frame", number(plan.interval)), ("multipliers", number(plan.multipliers)),
               ("execution", plan.execution), *((f"latency of {name}", f"{number(cycles)} cycles")
                                                for name, cycles in latencies(plan).items()),
               *((kind, number(count)) for kind, count in zip(kinds, plan.resources.counts().values(), strict=True))]),
        element("p", limit_of(plan)[0]),
        table(("stage", "layer", "rows x cols", "cycles", "busy", *kinds), rows, caption="Stages"),
        one_frame(plan, schedule_frames(plan, 1), links=False) if is_drawn(plan) else not_drawn(plan)])


def run_html(run: RunResult) -> Markup:
    """Whether everything was equal, what was not, and what each stage did."""
    frames = len(run.frame_done_cycles)
    rows: list[list[Given]] = [[
        stage.name, stage.tensor, "equal" if stage.equal else "NOT EQUAL", f"{stage.beats} of {stage.expected_beats}",
        stage.busy_cycles, stage.stall_cycles] for stage in run.boundaries.values()]
    return Markup("").join([
        title("Simulation"), verdict(*("everything is equal", "good") if run.equal else ("NOT EQUAL", "bad")),
        tiles([("frames", number(frames)), ("cycles", number(run.cycles)),
               ("interval", "one frame" if run.interval is None else f"{number(run.interval)} cycles"),
               ("first result", "none" if run.first_output_cycle is None else f"cycle {number(run.first_output_cycle)}")
               ]),
        *(element("p", line) for line in run.failures()[:MOST]),
        table(("stage", "tensor", "against the golden model", "beats", "busy cycles", "stalled cycles"), rows,
              caption="Stages")])


def synthesis_html(report: SynthesisReport) -> Markup:
    """The clock, what the design takes of the device, seeds, and the slowest parts."""
    names = [name for name in ("lut", "ff", "dsp", "ram", "spram") if getattr(report, name).available]
    usages = {name.upper(): getattr(report, name) for name in names}
    rows = [Row(name, [[Piece(100 * usage.used / usage.available, "used", f"{name}: {usage}")]],
                [f"{number(usage.used)}, {percent(usage.used / usage.available, 0)}"])
            for name, usage in usages.items()]
    seeds: list[list[Given]] = [[
        str(attempt.seed), measure(attempt.routed_mhz, ".1f"), measure(attempt.seconds, ".0f"),
        attempt.failed.splitlines()[0] if attempt.failed else "taken" if attempt.seed == report.seed else ""]
        for attempt in report.seeds]
    slow: list[list[Given]] = [[delay.part, measure(delay.ns, ".2f"), delay.end, delay.before]
                               for delay in report.part_delays[:MOST]]
    usable = "no paths" if report.usable_mhz is None else f"{report.usable_mhz:.1f} MHz"
    axis = Axis.of("% of what the device has", [0, 100, *(row.bars[0][0].value for row in rows)])
    said = "; ".join(f"{name} {usage}" for name, usage in usages.items())
    return Markup("").join([
        title(f"Synthesis for {report.board}"),
        verdict(*("meets its clocks", "good") if report.meets_clock else ("does NOT meet its clocks", "bad")),
        tiles([("clock", f"{report.clock_mhz:.6g} MHz"), ("usable clock", usable), ("seed", str(report.seed)),
               ("time", f"{sum(report.seconds.values()):.0f} s"), ("device", report.device)]),
        bars("Resources used", said, rows, axis, rules=[Rule("all there is", x=100.0)]),
        table(("seed", "MHz", "seconds", ""), seeds, caption="Seeds") if len(seeds) > 1 else Markup(""),
        table(("part", "ns", "into", "from"), slow, caption="Longest path into each part") if slow else Markup("")])


def accuracy_html(accuracy: Accuracy) -> Markup:
    """The text of the report about a measurement, without the layers."""
    return title("Accuracy of the integer model") + accuracy_body(accuracy) + confusion(accuracy)


def quantized_html(quantized: Quantized) -> Markup:
    """The part that the host computes, and the integer layers."""
    before, after = (", ".join(node.op_type for node in program.graph.nodes) or "nothing"
                     for program in (quantized.prologue, quantized.epilogue))
    return Markup("").join([
        title(f"Integer model {quantized.graph.name}"),
        tiles([("layers", number(len(quantized.graph.layers))), ("on the host before", before),
               ("on the host after", after)]),
        *(element("p", note) for note in (*quantized.notes, *map(str, quantized.warnings))),
        layers_table(quantized.graph)])


def graph_html(graph: LayerGraph) -> Markup:
    return title(f"Integer layers of {graph.name}") + layers_table(graph)


def layers_table(graph: LayerGraph) -> Markup:
    """A row for each layer: shapes are height x width x channels."""
    def described(name: str) -> str:
        tensor = graph.tensors[name]
        return f"{tensor.frame} {tensor.format}"

    rows: list[list[Given]] = [[
        layer.name, kind_of(graph, layer), ", ".join(map(described, layer.inputs)), described(layer.output),
        layer.multiplications(graph)] for layer in graph.layers]
    return table(("layer", "kind", "inputs", "output", "multiplications"), rows,
                 caption="Layers; shapes are height x width x channels")


def title(text: str) -> Markup:
    return element("p", element("strong", text))


#: How results are drawn, by type.
DRAWINGS: tuple[tuple[type, Callable[[Any], Markup]], ...] = (
    (Plan, plan_html), (RunResult, run_html), (SynthesisReport, synthesis_html), (Accuracy, accuracy_html),
    (Quantized, quantized_html), (LayerGraph, graph_html))
