"""`hwflow build`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from hwflow_base.later import later
from hwflow_base.options import OneOf, Option

from ..options import GoalOptions, HardwareOptions, Project, QuantizationOptions, Verbose

with later():
    from hwflow_base.printable import rate_text

    from ..export import export, require_room
    from ..facts.plan import plan_facts, port_facts
    from ..pipeline.pipeline import Pipeline
    from ..pipeline.verilog import network_of
    from ..synth.expected_clock import expected_mhz
    from ..views.console.plan import show_plan, show_ports
    from ..views.console.terminal import Console
    from .widths_search import for_goal

Result = Mapping[str, object]

#: The names of `hwflow.export.FORMATS`.
FORMATS = ("fusesoc", "litex", "verilog")
#: Frames that the test bench of an export plays.
FRAMES = 10
#: Where exports go by default, in the folder of the board.
EXPORTS = "export"


@dataclass(frozen=True)
class BuildRequest:
    """The request of `hwflow build`."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    goal: GoalOptions = field(default_factory=GoalOptions)
    axi_stream: Annotated[bool, Option(
        "Also write hwflow_axi_stream.v, the design with AXI4-Stream ports (docs/embedding.md).")] = False
    export: Annotated[tuple[str, ...], Option(
        "Also write it as a part of another design, with a test bench (repeatable): plain Verilog, a FuseSoC core, or "
        "a LiteX module with an example SoC (docs/embedding.md).", parse=OneOf(FORMATS))] = ()
    output: Annotated[Path | None, Option(
        "With --export: the folder that gets a folder for each format; default: export, beside the plan.",
        metavar="DIR", needs="export")] = None
    verbose: Verbose = False


def build(console: Console, request: BuildRequest) -> Result:
    """Plan the stages of MODEL for a board and generate the Verilog.

    Exit codes: 0 success; 1 if the model does not fit the board, or no widths reach the goal; 2 if the model, the data
    or the options are invalid, or a folder of --output holds something else.
    """
    pipeline = Pipeline(console, request.project, request.quantization, request.hardware)
    exports = _exports(pipeline, request)
    pipeline.prepare(*(partial(require_room, place) for place in exports.values()))
    pipeline = for_goal(console, pipeline, request.goal)
    with pipeline.locked():
        folder = pipeline.generate()
        axi_stream = pipeline.generate(axi_stream=True) if request.axi_stream or exports else None
        if axi_stream is not None and exports:
            network = network_of(pipeline.design, axi_stream.parent, pipeline.frames(FRAMES), pipeline.folder.name)
            for kind, place in exports.items():
                export(network, kind, place)
    clock = pipeline.clock()
    show_plan(console, pipeline.plan, pipeline.board, clock)
    rate = request.hardware.frames_per_second
    if rate is not None:
        console.say(f"  planned for {rate_text(rate)} frames/s at {expected_mhz(pipeline.board):g} MHz, the clock "
                    f"that routed designs of {pipeline.board.family} reach at least")
    console.say(f"plan: {pipeline.board_folder / 'plan.yaml'}; Verilog and ROM contents: {folder}")
    facts = {"plan": str(pipeline.board_folder / "plan.yaml"), "rtl": str(folder), "warnings": pipeline.warned.facts(),
             **plan_facts(pipeline.plan, pipeline.board, clock=clock)}
    if axi_stream is not None:
        ports = port_facts(pipeline.graph, pipeline.plan)
        facts |= {"axi_stream": str(axi_stream), "ports": ports}
        show_ports(console, ports)
        console.say(f"with AXI4-Stream ports: {axi_stream}")
        facts |= {"exports": {kind: str(place) for kind, place in exports.items()}}
        for kind, place in exports.items():
            console.say(f"as {kind}: {place}, which says in README.md how to use it")
    pipeline.next("sim")
    return facts


def _exports(pipeline: Pipeline, request: BuildRequest) -> dict[str, Path]:
    """The folder of each export."""
    output = request.output or pipeline.board_folder / EXPORTS
    return {kind: output / kind for kind in request.export}
