"""The objects that functions of `hwflow.api` take, checked at the door; `hwflow.data.arguments` has plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder
from hwflow_base.options import Declared, Range, Section, declared

from hwflow.stages.partition import Execution

from . import hls
from .data.arguments import boolean, instance, path_of, positive, whole_number
from .data.dataset import described
from .data.given import dataset_of
from .layers.formats import MOST_UNIFORM_BITS
from .onnx import Model
from .onnx.model import Array
from .onnx.run.missing import missing_taken
from .onnx.run.sequences import inputs_of_rows, outputs_of_rows
from .options import HardwareOptions, QuantizationOptions
from .quantize import Quantized
from .quantize.settings import Effort, QuantizationSettings
from .search.exploration.point import Objective
from .synth import Board, load_board


def states_of(states: object) -> dict[str, str]:
    """HwflowError unless `states` is a dictionary of names, or None."""
    if states is None:
        return {}
    if not isinstance(states, Mapping) or not all(isinstance(n, str) for pair in states.items() for n in pair):
        raise HwflowError(f"states must be a dictionary of outputs by input, not {described(states)}")
    return dict(states)


def constants_of(constants: object) -> dict[str, Array]:
    """Elements by the names of inputs; None is none."""
    if constants is None:
        return {}
    arrays: dict[str, Array] = {}
    for name, elements in constants.items() if isinstance(constants, Mapping) else (("", constants),):
        try:
            arrays[name] = np.asarray(elements)
        except ValueError:
            arrays[name] = np.array(None)
        if not isinstance(name, str) or not name or arrays[name].dtype.kind not in "biuf" or not arrays[name].size:
            raise HwflowError("constants must be a dictionary of numbers, or of True and False, by the names of "
                              f"inputs, as {{'sr': 16000}}, not {described(constants)}")
    return arrays


def objective_of(name: object) -> Objective:
    try:
        return Objective(name)
    except ValueError:
        named = ", ".join(each.value for each in Objective)
        raise HwflowError(f"objectives must be some of {named}, not {described(name)}") from None


def execution_of(execution: object) -> Execution:
    try:
        return Execution(execution)
    except ValueError:
        named = ", ".join(each.value for each in Execution)
        raise HwflowError(f"execution must be one of {named}, not {described(execution)}") from None


def plan_options(options: Mapping[str, object]) -> HardwareOptions:
    """The options of a plan, under the names that they have in `HardwareOptions`.

    TypeError for another name, HwflowError for a value that cannot be.
    """
    known = {each.name: each for each in declared(HardwareOptions)
             if each.option.section is Section.PLAN and each.name not in ("plan", "reweightable")}
    for name in options.keys() - known.keys():
        raise TypeError(f"{name!r} must be an option of a plan: {', '.join(known)}")
    asked = HardwareOptions(**{name: option_value(known[name], value) for name, value in options.items()})
    asked.require_one_of()
    return asked


def option_value(option: Declared, value: object) -> Any:
    """The value of an option that a caller of Python gives."""
    parse = option.option.parse
    if value is None and option.default is None:
        return None
    if option.kind is Execution:
        return execution_of(value)
    if option.kind is float:  # the plan says which numbers cannot be
        return value if isinstance(value, int | float) and not isinstance(value, bool) else positive(value, option.name)
    if isinstance(parse, Range) and parse.least is not None:
        return whole_number(value, option.name, parse.least, math.inf if parse.most is None else parse.most)
    return boolean(value, option.name)


def a_model(model: object) -> Model:
    return instance(model, Model, "model", "hwflow.load(path)")


def a_quantized(quantized: object) -> Quantized:
    return instance(quantized, Quantized, "quantized", "hwflow.quantize_model(model, data)")


def as_board(board: object) -> Board:
    return board if isinstance(board, Board) else load_board(path_of(board, "board, where it is no Board,"))


def folder_of(folder: object) -> Path:
    """The folder as a Path; it is created if needed."""
    place = path_of(folder, "folder")
    create_folder(place, "folder=")
    return place


def rows_of(quantized: object, data: object) -> Mapping[str, Array]:
    """The rows of the inputs, checked against the model."""
    found = a_quantized(quantized)
    return dataset_of(data, found.prologue.graph.inputs, found.epilogue.graph.outputs,
                      missing_taken(found.prologue.graph, host=True)).inputs


def widths_of(bits: object) -> tuple[int, ...]:
    """The widths of weights, or of weights and activations."""
    widths = tuple(bits) if isinstance(bits, tuple | list) and len(bits) == 2 else (bits,)
    if any(isinstance(width, bool) or not isinstance(width, int) for width in widths):
        most, activations = MOST_UNIFORM_BITS
        raise HwflowError(f"bits must be a whole number from 1 to {most}, or two of them (weights, and activations "
                          f"from 1 to {activations}), not {described(bits)}")
    return widths


def effort_of(effort: object) -> Effort:
    try:
        return Effort(str(effort))
    except ValueError:
        named = ", ".join(each.value for each in Effort)
        raise HwflowError(f"effort must be one of {named}, not {described(effort)}") from None


def settings_asked(
    bits: object, settings: object, rescale_bits: int | Literal["auto"] | None, effort: object = Effort.QUICK
) -> QuantizationOptions:
    """The options of a quantization without a file where `settings` are an object.  HwflowError where both are given.
    """
    said = QuantizationOptions(None if bits is None else (8, 8), None if settings is None else Path())
    said.require_one_of()
    is_file = settings is not None and not isinstance(settings, QuantizationSettings)
    place = path_of(settings, "settings, where they are no QuantizationSettings,") if is_file else None
    weights, activations, *_ = (8, 8) if bits is None else (*widths_of(bits), 8)
    return QuantizationOptions(None if bits is None else (weights, activations), place, rescale_bits,
                               effort=effort_of(effort))


def require_plan(quantized: object, plan: object, board: Board | None = None) -> None:
    """HwflowError unless `plan` belongs to the integer model and the board, and follows from its foldings."""
    graph = a_quantized(quantized).graph
    hls.require_current(instance(plan, hls.Plan, "plan", "hwflow.make_plan(quantized, board)"), graph,
                        None if board is None else board.technology())


def require_same(model: Model, quantized: Quantized) -> None:
    """HwflowError unless the integer model has the inputs and outputs of `model`."""
    for what, ours, theirs in (("inputs", inputs_of_rows(model), quantized.prologue.graph.inputs),
                               ("outputs", outputs_of_rows(model), quantized.epilogue.graph.outputs)):
        if [value.name for value in ours] != [value.name for value in theirs]:
            names = [", ".join(f"'{value.name}'" for value in values) for values in (ours, theirs)]
            raise HwflowError(f"quantized must be made of this model, with the {what} {names[0]}, not {names[1]}")
