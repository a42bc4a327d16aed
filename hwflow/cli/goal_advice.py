"""What `hwflow quantize` says where the default widths leave much noise: the goal to ask for, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping

from hwflow_base.errors import HwflowError
from hwflow_base.options import command_line
from hwflow_base.printable import number

from ..accuracy import Accuracy
from ..hls import Plan
from ..layers.base import LayerGraph
from ..options import BOARD, GoalOptions
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning import executions_of
from ..quantize.quantization import of_prepared, prepared_for
from ..quantize.settings import MOST_ACTIVATION_BITS, settings_of_bits
from ..stages.kinds import hardware_problems
from ..stages.partition import Execution
from ..synth import Board
from ..views.console.terminal import Console

#: Decibels of an output below which a goal is advised, and the goal.
ENOUGH_DB, GOAL_DB = 20.0, 30.0
#: Layers of a network that is planned in some seconds.
PLANNED_LAYERS = 24


def advise_goal(console: Console, pipeline: Pipeline, accuracy: Accuracy | None) -> Mapping[str, object] | None:
    """Name the command of a goal where nobody has chosen widths and an output is below `ENOUGH_DB`; None elsewhere.

    The estimate is the fastest plan of 16 bits for all inputs and results beside that of the default, for networks that
    are planned quickly and that take 16 bits everywhere.
    """
    noisy = [noise for noise in (accuracy.outputs if accuracy else ())
             if noise.snr_db is not None and noise.snr_db < ENOUGH_DB and not noise.counts and not noise.state]
    asked = pipeline.quantization
    if not noisy or asked.bits is not None or asked.settings is not None or not pipeline.quantized.settings:
        return None
    worst = min(noisy, key=lambda noise: noise.snr_db or 0.0)
    board = pipeline.hardware.board
    command = command_line("quantize", pipeline.project, GoalOptions(noise=GOAL_DB),
                           options=() if board == BOARD else ("--board", board))
    console.say(f"  output '{worst.output}' has {worst.snr_db:.1f} dB; the cheapest widths with {GOAL_DB:g} dB at "
                f"every output: {command}")
    plans = _plans(pipeline, pipeline.board)
    if plans is None:
        return {"command": command, "estimate": None}
    default, wide = plans
    kinds = (("logic cells", "lut"), ("multipliers", "dsp"), ("RAM blocks", "ram"))
    changes = [f"{number(getattr(wide.resources, kind))} {name} instead of {number(getattr(default.resources, kind))}"
               for name, kind in kinds]
    console.say(f"  with {MOST_ACTIVATION_BITS} bits for all inputs and results, which it may need in part, "
                f"{pipeline.board.name} takes {', '.join(changes)}, and {number(wide.interval)} cycles a frame instead "
                f"of {number(default.interval)}")
    return {"command": command, "estimate": {
        name: {**plan.resources.counts(), "interval": plan.interval} for name, plan in
        (("default", default), ("wide", wide))}}


def _plans(pipeline: Pipeline, board: Board) -> tuple[Plan, Plan] | None:
    """The fastest plans of the default, and of as many bits as there are; None where that takes long or fails."""
    dataset, graph = pipeline.dataset, pipeline.graph
    if len(graph.layers) > PLANNED_LAYERS or dataset is None:
        return None
    try:
        widest = settings_of_bits(8, MOST_ACTIVATION_BITS)
        prepared, settings = prepared_for(pipeline.model, dataset.calibration, widest)
        wide = of_prepared(prepared, settings, tuned=False).graph
        return _plan(graph, board), _plan(wide, board)
    except HwflowError:  # a part that takes no such widths, or a board that has no room: the search finds what there is
        return None


def _plan(graph: LayerGraph, board: Board) -> Plan:
    problems = hardware_problems(graph)
    if problems:
        raise HwflowError(problems[0])
    return executions_of(graph, graph, board).plan(Execution.AUTO, None)
