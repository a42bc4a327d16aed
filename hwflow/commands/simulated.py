"""The simulated board of a model: with the design that the build folder has, or a new one."""

from __future__ import annotations

from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from ..flow import Flow
from ..hls import Plan
from ..onnx.about import about
from ..quantize import Quantized, load_quantized
from ..steps.folders import other_model
from ..steps.planning import given_plan, plan_for
from ..steps.simulated import SimulatedDesign, compile_design
from ..synth.design import Design

__all__ = ["simulated_design"]


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

