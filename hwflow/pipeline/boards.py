"""The boards that run a model: real ones with a design in its build folder, and simulated ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from ..hls import Plan
from ..host.design import find_designs
from ..host.identity import DesignFacts
from ..host.session import Patience
from ..onnx.about import about
from ..quantize import Quantized, load_quantized
from ..synth import load_board
from ..synth.design import Design
from .build_folders import other_model
from .pipeline import Pipeline
from .planning import given_plan, plan_for
from .simulated_board import SimulatedDesign, compile_design


def designs_of(pipeline: Pipeline, name: str | None) -> tuple[tuple[Path, DesignFacts], ...]:
    """The designs of the model, the newest first, or those for the board of that name.  HwflowError where there are
    none, or where they belong to another model of the same name."""
    build, model = pipeline.project.build, pipeline.folder.name
    board = None if name is None else load_board(name).name
    designs = find_designs(build, model, board)
    if not designs:
        what, which = (f" for {board}", board) if board else ("", "BOARD")
        raise HwflowError(
            f"there must be a design of '{pipeline.project.model}'{what} below '{build}', but there is none",
            f"make its bitstream with `hwflow synth {pipeline.project.model} --board {which}` first",
        )
    other = other_model(designs[0][0].parent.parent, pipeline.project.model)
    if other is not None:
        raise HwflowError(
            f"'{designs[0][0]}' must hold the design of '{pipeline.project.model}', but is the design of another model "
            f"of the same name, '{other}'",
            "run `hwflow synth` for this one first, or name the folder of its results with --build",
        )
    return designs


def patience_of(silence: float) -> Patience:
    """Patience with boards that may be silent for so many seconds."""
    return Patience(silence=silence, stall=max(Patience().stall, 10 * silence))


def simulated_design(pipeline: Pipeline, require: Callable[[Quantized], None] = lambda quantized: None
                     ) -> tuple[Quantized, SimulatedDesign]:
    """The integer model and its simulated board, compiled.  `require` refuses a model before that takes its time.

    What an earlier command left in the build folder (the integer model, and the plan for this board) is taken as it
    is; what is not there is made with the defaults.  So the simulated board is the one that `hwflow synth` made a
    bitstream for.  HwflowError where both do not fit each other.
    """
    with pipeline.locked():
        quantized = kept_integers(pipeline) or pipeline.quantized
        require(quantized)
        plan = kept_plan(pipeline, quantized) or new_plan(pipeline, quantized)
        design = Design(quantized.graph, plan, pipeline.board)
        with pipeline.console.step("compile the simulated board"):
            simulated = compile_design(design, pipeline.board_folder / "simulated", pipeline.compiled,
                                       quantized="../../quantized", keep=lambda: None, say=pipeline.console.progress)
    return quantized, simulated


def kept_integers(pipeline: Pipeline) -> Quantized | None:
    """The integer model in the build folder, None where there is none of this model."""
    folder = pipeline.folder / "quantized"
    if other_model(pipeline.folder, pipeline.project.model) is not None or not folder.is_dir():
        return None
    pipeline.console.progress(f"the integer model is the one in '{folder}'")
    return load_quantized(folder)


def new_plan(pipeline: Pipeline, quantized: Quantized) -> Plan:
    """The fastest plan for the board."""
    source, board = pipeline.source, pipeline.board
    with about(source):
        return plan_for(quantized.graph, quantized.graph, board)


def kept_plan(pipeline: Pipeline, quantized: Quantized) -> Plan | None:
    """The plan in the build folder, None where there is none for the board."""
    path: Path = pipeline.board_folder / "plan.yaml"
    if not path.is_file():
        return None
    try:
        plan, warnings = given_plan(read_text(path), quantized.graph, pipeline.board, str(path),
                                    pipeline.console.progress)
    except HwflowError as error:
        raise HwflowError(error.why, f"run `hwflow build` or `hwflow synth` again, or remove '{path}'",
                          where=error.where) from None
    pipeline.warned.add(warnings)
    pipeline.console.progress(f"the plan is the one in '{path}'")
    return plan
