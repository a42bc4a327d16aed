"""The boards that run a model: real ones with a design in its build folder, and simulated ones."""

from __future__ import annotations

from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from ..flow import Flow
from ..hls import Plan
from ..host.design import find_designs
from ..host.identity import DesignFacts
from ..host.session import Patience
from ..onnx.about import about
from ..quantize import Quantized, load_quantized
from ..steps.folders import other_model
from ..steps.planning import given_plan, plan_for
from ..steps.simulated import SimulatedDesign, compile_design
from ..synth import load_board
from ..synth.design import Design


def designs_of(flow: Flow, name: str | None) -> tuple[tuple[Path, DesignFacts], ...]:
    """The designs of the model, the newest first, or those for the board of that name.  HwflowError where there are
    none, or where they belong to another model of the same name."""
    build, model = flow.project.build, flow.folder.name
    board = None if name is None else load_board(name).name
    found = find_designs(build, model, board)
    if not found:
        what, which = (f" for {board}", board) if board else ("", "BOARD")
        raise HwflowError(
            f"there must be a design of '{flow.project.model}'{what} below '{build}', but there is none",
            f"make its bitstream with `hwflow synth {flow.project.model} --board {which}` first",
        )
    other = other_model(found[0][0].parent.parent, flow.project.model)
    if other is not None:
        raise HwflowError(
            f"'{found[0][0]}' must hold the design of '{flow.project.model}', but is the design of another model "
            f"of the same name, '{other}'",
            "run `hwflow synth` for this one first, or name the folder of its results with --build",
        )
    return found


def patience_of(silence: float) -> Patience:
    """Patience with boards that may be silent for so many seconds."""
    return Patience(silence=silence, stall=max(Patience().stall, 10 * silence))


def simulated_design(flow: Flow) -> tuple[Quantized, SimulatedDesign]:
    """The integer model and its simulated board, compiled.

    What an earlier command left in the build folder (the integer model, and the plan for this board) is taken as it
    is; what is not there is made with the defaults.  So the simulated board is the one that `hwflow synth` made a
    bitstream for.  HwflowError where both do not fit each other.
    """
    with flow.locked():
        quantized = kept_integers(flow) or flow.quantized
        plan = kept_plan(flow, quantized) or new_plan(flow, quantized)
        design = Design(quantized.graph, plan, flow.board)
        with flow.console.step("compile the simulated board"):
            made = compile_design(design, flow.board_folder / "simulated", flow.compiled, quantized="../../quantized",
                                  keep=lambda: None, say=flow.console.progress)
    return quantized, made


def kept_integers(flow: Flow) -> Quantized | None:
    """The integer model in the build folder, None where there is none of this model."""
    folder = flow.folder / "quantized"
    if other_model(flow.folder, flow.project.model) is not None or not folder.is_dir():
        return None
    flow.console.progress(f"the integer model is the one in '{folder}'")
    return load_quantized(folder)


def new_plan(flow: Flow, quantized: Quantized) -> Plan:
    """The fastest plan for the board."""
    source, board = flow.source, flow.board
    with about(source):
        return plan_for(quantized.graph, quantized.graph, board)


def kept_plan(flow: Flow, quantized: Quantized) -> Plan | None:
    """The plan in the build folder, None where there is none for the board."""
    path: Path = flow.board_folder / "plan.yaml"
    if not path.is_file():
        return None
    try:
        plan, warnings = given_plan(read_text(path), quantized.graph, flow.board, str(path),
                                    flow.console.progress)
    except HwflowError as error:
        raise HwflowError(error.why, f"run `hwflow build` or `hwflow synth` again, or remove '{path}'",
                          where=error.where) from None
    flow.warned.add(warnings)
    flow.console.progress(f"the plan is the one in '{path}'")
    return plan
