"""`hwflow reweight`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import locked
from hwflow_base.files.facts import plain
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section

from ..options import BOARD, BoardName, Project, Verbose

with later():
    from ..reweight.retrained import Retrained
    from ..synth.toolchain import tools_of_family
    from ..views.console.accuracy import say_accuracy
    from ..views.console.runs import say_weights
    from ..views.console.terminal import Console


@dataclass(frozen=True)
class ReweightRequest:
    """The request of `hwflow reweight`."""

    project: Project
    base: Annotated[Path, Option("The model that was synthesized, or its build folder.", Section.MODEL)]
    board: BoardName = BOARD
    netlist: Annotated[bool, Option(
        "Simulate the new netlist and compare it with the golden model.", Section.SIMULATION)] = False
    bitstream: Annotated[bool, Option(
        "Read the new bitstream back, simulate that and compare it.", Section.SIMULATION, excludes=["netlist"])] = False
    frames: Annotated[int, Option(
        "Frames to simulate with --netlist or --bitstream.", Section.SIMULATION, parse=Range(2))] = 3
    verbose: Verbose = False


def reweight(console: Console, request: ReweightRequest) -> Mapping[str, object]:
    """Put the weights of the retrained MODEL into the routed design of BASE, in seconds, without place and route.

    Exit codes: 0 done; 1 if the model does not fit the routed hardware, the simulation differs, or a tool fails; 2 if
    there is no routed design.
    """
    started = time.monotonic()
    base = base_folder(request)
    retrained = Retrained(console, request.project, request.board, base)
    pipeline = retrained.pipeline
    pipeline.prepare(lambda: tools_of_family(pipeline.board.family), lambda: retrained.routed)
    with locked(base, console.progress), pipeline.locked():
        report = retrained.reweight()
        seconds = time.monotonic() - started
        accuracy = pipeline.accuracy()
        proof = (pipeline.prove(request.frames, bitstream=request.bitstream)
                 if request.netlist or request.bitstream else None)
    say_accuracy(console, accuracy)
    console.say(f"bitstream: {report.bitstream}; {report.changed} of {report.parts} parts of ROMs are new, all else is "
                f"the routed design in {report.base}, its clock of {report.clock_mhz:g} MHz included; {seconds:.1f} s")
    say_weights(console, pipeline.synthesis)
    if proof is not None:
        (console.say if proof.equal else console.fail)(str(proof))
        if proof.difference is not None:
            console.fail(proof.difference)
    return {"exit_code": 0 if proof is None or proof.equal else 1, **plain(report), "seconds": round(seconds, 2),
            "accuracy": accuracy.facts() if accuracy else None, "warnings": pipeline.warned.facts(),
            "proof": proof.facts() if proof else None}


def base_folder(request: ReweightRequest) -> Path:
    """The build folder of the first model, which --base names, or which is that of a model file."""
    base = request.base
    if base.is_dir():
        return base
    folder = request.project.build / base.stem
    if not folder.is_dir():
        raise HwflowError(
            f"--base '{base}' must be a model that was synthesized, or its build folder: there is no '{folder}'",
            "run `hwflow synth` for it first",
        )
    return folder
