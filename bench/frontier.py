"""The frontier of the solver: which intervals fit a board, what they take, and what the next faster one lacks.

    python -m bench frontier blocks
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hwflow_rtl.vendor.memory import Holds

from bench.sections import Bench, table
from bench.synthetic import ROWS, SYNTHETIC
from hwflow import onnx
from hwflow.hls import Plan, make_plan
from hwflow.hls.budget import RESOURCE_NAMES
from hwflow.hls.solver import Solver, solve
from hwflow.layers.base import LayerGraph
from hwflow.quantize import quantize
from hwflow.quantize.settings import settings_of_bits
from hwflow.steps.planning import budget_of
from hwflow.synth import load_board
from tests.quantize.net import data

NETWORKS = ("mobilenet_v1_96", "resnet20", "squeeze_excite")
BOARD = "ulx3s_85f"
#: Slower intervals than this multiple of the fastest are left out.
SLOWEST = 1.6


def graph_of(name: str, bits: int = 8) -> LayerGraph:
    model = onnx.infer(SYNTHETIC[name]())
    return quantize(model, data(model, ROWS), settings=settings_of_bits(bits)).graph


def frontier(bench: Bench) -> str:
    """Intervals that the solver finds for a board, their resources, and what the next faster interval lacks."""
    board = load_board(BOARD)
    budget = budget_of(board)
    rows = []
    for name in NETWORKS:
        solver = Solver(graph_of(name), board.technology(), budget, logic=False)
        fastest = solve(solver.graph, solver.technology, budget).interval
        targets = np.unique(np.concatenate([stage.stage_intervals for stage in solver.choices]))
        wanted = targets[(targets >= fastest / 2) & (targets <= SLOWEST * fastest)].tolist()
        rows += rows_of(name, solver, wanted)
    return table(("network", "interval", "multipliers", "DSP", "RAM", "LUT", "FF", "the next faster one"), rows)


def rows_of(name: str, solver: Solver, targets: list[int]) -> list[tuple[str, ...]]:
    """One row for each interval that is found, from the fastest on."""
    rows: list[tuple[str, ...]] = []
    lack = "there is none: no layer has a folding for it"
    seen = set()
    for target in targets:
        picked = solver.fitting(target)
        if picked is None:
            cheapest = solver.pick(target)
            if cheapest is not None:
                total = solver.total(solver.styled(cheapest))
                lack = f"{target:,} cycles: " + ", ".join(
                    f"{getattr(total, kind):,} of {solver.budget.limit(kind):,} {RESOURCE_NAMES[kind]}"
                    for kind in solver.budget.exceeded(total))
            continue
        plan = make_plan(solver.graph, [choice.folding for choice in picked], solver.technology, solver.places(picked))
        if plan.interval not in seen:
            seen.add(plan.interval)
            use = plan.resources
            rows.append((name, f"{plan.interval:,}", str(plan.multipliers), str(use.dsp), str(use.ram), f"{use.lut:,}",
                         f"{use.ff:,}", lack))
        lack = ""
    return rows


def blocks(bench: Bench) -> str:
    """RAM blocks of whole plans against the bits that they hold, by what memories hold."""
    board, rows = load_board(BOARD), []
    for name, bits in [*((name, 8) for name in NETWORKS), ("mobilenet_v1_96", 4)]:
        graph = graph_of(name, bits)
        plan = solve(graph, board.technology(), budget_of(board, graph))
        rows.append((name, str(bits), f"{plan.interval:,}", str(plan.multipliers), f"{plan.resources.ram}",
                     *(taken(plan, holds) for holds in Holds), f"{filling(plan):.2f}"))
    return table(("network", "bits of weights", "interval", "multipliers", "blocks",
                  *(f"{holds.value}: blocks, ideal" for holds in Holds), "without weights, blocks over ideal"), rows)


def taken(plan: Plan, holds: Holds) -> str:
    found = [each for each in plan.memories if each.memory.holds is holds]
    bits = sum(each.memory.bits for each in found)
    return f"{sum(each.resources.ram for each in found)}, {bits / plan.device.ram_block_bits:.1f}" if found else ""


def filling(plan: Plan) -> float:
    """Blocks taken over those that the bits would fill, of all but weights."""
    found = [each for each in plan.memories if each.memory.holds is not Holds.WEIGHTS]
    bits = sum(each.memory.bits for each in found)
    return sum(each.resources.ram for each in found) * plan.device.ram_block_bits / bits


FRONTIER_SECTIONS: dict[str, Callable[[Bench], str]] = {"frontier": frontier, "blocks": blocks}
