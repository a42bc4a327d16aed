"""`hwflow synth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwflow_base.later import later
from hwflow_base.options import command_line

from ..options import GoalOptions, HardwareOptions, Project, QuantizationOptions, Verbose
from ..synth.options import SynthesisOptions
from .program import ProgramRequest

with later():
    from ..facts.design import synthesis_facts
    from ..facts.plan import plan_facts
    from ..pipeline.pipeline import Pipeline
    from ..synth.toolchain import tools_of_family
    from ..views.console.design import show_synthesis, too_slow
    from ..views.console.runs import say_weights
    from ..views.console.terminal import Console
    from .widths_search import for_goal


@dataclass(frozen=True)
class SynthRequest:
    """The request of `hwflow synth`."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    goal: GoalOptions = field(default_factory=GoalOptions)
    synthesis: SynthesisOptions = field(default_factory=SynthesisOptions)
    verbose: Verbose = False


def synth(console: Console, request: SynthRequest) -> Mapping[str, object]:
    """Make the bitstream of MODEL for a board with yosys and nextpnr.

    After an interruption, the next call continues with the steps that are not done.  The same seed gives the same
    bitstream.  The exit code is 1 if the design does not fit or a tool fails.
    """
    pipeline = Pipeline(console, request.project, request.quantization, request.hardware)
    pipeline.prepare(lambda: tools_of_family(pipeline.board.family))
    pipeline = for_goal(console, pipeline, request.goal)
    with pipeline.locked():
        report = pipeline.synthesize(request.synthesis)
    show_synthesis(console, pipeline.plan, pipeline.board, report)
    say_weights(console, pipeline.synthesis)
    slow = too_slow(report, request.synthesis.clock)
    if slow:
        console.fail(slow)
    else:
        console.next(command_line("program", ProgramRequest(pipeline.project.model, pipeline.hardware.board,
                                                            build=pipeline.project.build)))
    return {"exit_code": 1 if slow else 0, "warnings": pipeline.warned.facts(),
            **synthesis_facts(pipeline.plan, pipeline.board, report),
            **plan_facts(pipeline.plan, pipeline.board, clock=pipeline.clock())}
