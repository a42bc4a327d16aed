"""The plan that a user asks for: the fastest that fits a board, or the smallest for an interval or a frame rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.printable import number, rate_text
from hwflow_rtl.io.board_top import BoardTop

from hwflow.hls.foldings.budget import RESOURCE_NAMES, DoesNotFit
from hwflow.hls.foldings.effort import quietly

from .. import hls
from ..host.rate import cycles_for
from ..layers.base import LayerGraph
from ..options import HardwareOptions
from ..outcome import OutcomeCode, OutcomeWarning
from ..synth import Board, list_boards, load_board
from ..synth.expected_clock import expected_mhz, outside_of
from ..synth.top import ends_before_plan

#: The fastest plan that fits, with what is usual.
NOTHING_ASKED = HardwareOptions()


def budget_of(board: Board, graph: LayerGraph | None = None) -> hls.Budget:
    """The resources of `board` for the core of `graph`; without a graph, for a core with one input and one output."""
    technology = board.technology()
    around = BoardTop.cost(technology, None if graph is None else ends_before_plan(graph),
                           transport=board.transport.cost(technology), shape=board.transport.shape)
    return hls.Budget(board.name, board.resources, around, technology.usable_logic)


def interval_for(frames_per_second: float, board: Board, most_mhz: float = math.inf) -> int:
    """The most cycles of a frame for this rate at `expected_mhz`, or at `most_mhz` where that is slower.

    AnswerIsNo where not even one cycle is left.
    """
    if not math.isfinite(frames_per_second) or frames_per_second <= 0:
        raise HwflowError(f"frames per second must be a number above 0, not {frames_per_second}")
    mhz = min(expected_mhz(board), most_mhz)
    interval = cycles_for(frames_per_second, mhz)
    if interval < 1:
        raise AnswerIsNo(f"{rate_text(frames_per_second)} frames/s leave no cycle for a frame at {mhz:g} MHz, the "
                         f"clock that designs on {board.name} reach at least", "ask for fewer")
    return interval


def plan_for(graph: LayerGraph, structure: LayerGraph, board: Board, asked: HardwareOptions = NOTHING_ASKED, *,
             say: Callable[[str], None] = quietly, keep: Callable[[hls.Plan], str] | None = None) -> hls.Plan:
    """The fastest plan that fits `board`, or the smallest for the interval or the frames a second that are asked for.

    The execution AUTO is the fastest; with an interval or a rate dataflow where that fits, else a shared stage.

    `say` hears where a long search is; `keep` keeps its best plan when it is interrupted.  `structure` is `graph` with
    the constants that the hardware has room for.  For a frame rate stages may multiply in logic.
    """
    interval, frames_per_second, execution = asked.interval, asked.frames_per_second, asked.execution
    if frames_per_second is not None:
        interval, asked = interval_for(frames_per_second, board), replace(asked, logic_multipliers=True)
    executions = executions_of(graph, structure, board, asked, say=say, keep=keep)
    try:
        plan = executions.plan(execution, interval)
        if frames_per_second is not None and plan.outside is not None and plan.streams:  # it may slow the core down
            slower = interval_for(frames_per_second, board, plan.outside.core_mhz)
            plan = plan if slower == interval else executions.plan(execution, slower)
    except DoesNotFit as error:
        raise with_boards(error) from None
    return replace(plan, board=board.name)


def executions_of(graph: LayerGraph, structure: LayerGraph, board: Board,
                  asked: HardwareOptions = NOTHING_ASKED, *, say: Callable[[str], None] = quietly,
                  keep: Callable[[hls.Plan], str] | None = None) -> hls.Executions:
    """The maker of plans for `board`; the arguments are as of `plan_for`, and no pace is asked for."""
    budget = budget_of(board, graph).without(asked.reserve)
    target = hls.Target(board.technology(), budget, outside_of(board), logic=asked.logic_multipliers,
                        stream_weights=asked.stream_weights)
    return hls.Executions(structure, target, say=say, keep=keep)


def given_plan(text: str, graph: LayerGraph, board: Board, source: str, say: Callable[[str], None]
               ) -> tuple[hls.Plan, tuple[OutcomeWarning, ...]]:
    """The plan in the `text` of the file `source`, and a warning where it needs more than `board` has.

    Such a plan can be simulated: users may ask what a larger array would bring.  `say` hears of numbers that the file
    has and that are others now.
    """
    plan = replace(hls.plan_from_yaml(text, graph, board.technology(), source=source, outside=outside_of(board)),
                   board=board.name)
    if note := hls.computed_anew(text, plan, source):
        say(note)
    budget, used = budget_of(board, graph), plan.resources
    short = [f"{number(getattr(used, kind))} {RESOURCE_NAMES[kind]} of {number(budget.limit(kind))} usable"
             for kind in budget.exceeded(used)]
    if not short:
        return plan, ()
    return plan, (OutcomeWarning(OutcomeCode.BOARD_EXCEEDED, f"plan '{source}'",
                                 f"does not fit {board.name}: it needs {', '.join(short)}",
                                 "use a smaller array, or leave --plan out"),)


def with_boards(error: DoesNotFit) -> AnswerIsNo:
    """The same refusal, with the boards that have what it lacks."""
    if not error.outside_helps:
        return error
    others = [name for name in list_boards() if (memory := outside_of(load_board(name))) is not None
              and memory.bytes >= error.outside_helps]
    return AnswerIsNo(error.why, f"boards with such a memory are {', '.join(others)}")
