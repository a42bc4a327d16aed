"""The frontier of the solver: which intervals fit a board, what they take, and what the next faster one lacks.

    python -m bench frontier blocks relief pairs planning
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind

from bench.sections import Bench, table
from bench.synthetic import ROWS, SYNTHETIC
from hwflow import onnx
from hwflow.hls import Plan, Target, make_plan
from hwflow.hls.foldings.budget import RESOURCE_NAMES
from hwflow.hls.foldings.solver import Solver, solve
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.planning import budget_of, plan_for
from hwflow.quantize import quantize
from hwflow.quantize.settings import settings_of_bits
from hwflow.synth import load_board
from tests.hls.test_long_chains import chain
from tests.quantize.net import data

NETWORKS = ("mobilenet_v1_96", "resnet20", "squeeze_excite")
BOARD = "ulx3s_85f"
#: The network with the emptiest RAM blocks.
RELIEVED = "squeeze_excite"
#: Channels of chains on 32 x 32 pixels, and the network that takes longest to plan.
CHAINS, LARGEST = (16, 32, 48, 64), "resnet8_wide"
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
        solver = Solver(graph_of(name), Target(board.technology(), budget))
        fastest = solve(solver.graph, Target(solver.technology, budget)).interval
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
        plan = solve(graph, Target(board.technology(), budget_of(board, graph)))
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


def relief(bench: Bench) -> str:
    """One design with ever fewer RAM blocks: what the memories that leave them take in logic, and what stays."""
    board, rows = load_board(BOARD), []
    solver = Solver(graph_of(RELIEVED), Target(board.technology(), budget_of(board)))
    picked = solver.fastest()
    assert picked is not None, "the network fits"
    links = solver.with_queues(picked)
    seen = set()
    for limit in range(board.resources.ram, 0, -8):
        total, places = solver.relieved(picked, links, limit)
        if total.ram not in seen:
            seen.add(total.ram)
            plan = make_plan(solver.graph, [choice.folding for choice in picked], solver.technology,
                             {stage.name: each for stage, each in zip(solver.stages, places, strict=True)})
            rows.append((str(total.ram), taken(plan, Holds.WEIGHTS), f"{total.lut:,}", f"{total.ff:,}",
                         str(sum(map(len, places))), f"{filling(plan):.2f}"))
    return table(("blocks", "weights: blocks, ideal", "LUT", "FF", "memories moved to tables",
                  "without weights, blocks over ideal"), rows)


def pairs(bench: Bench) -> str:
    """ROMs that would share a RAM block, each with a port of its own and half of the words."""
    board, rows = load_board(BOARD), []
    for name, bits in [*((name, 8) for name in NETWORKS), ("mobilenet_v1_96", 4)]:
        graph = graph_of(name, bits)
        plan = solve(graph, Target(board.technology(), budget_of(board, graph)))
        alone = [each for each in plan.memories if each.memory.kind is MemoryKind.ROM and each.resources.ram == 1]
        halves = Counter(each.part for each in alone if half_of_a_block(each.memory))
        rows.append((name, str(bits), str(plan.resources.ram), str(len(alone)), str(halves.total()),
                     str(sum(count // 2 for count in halves.values())), str(halves.total() // 2)))
    return table(("network", "bits of weights", "blocks", "ROMs in one block", "of them at most half of it",
                  "blocks saved in a stage", "blocks saved among stages"), rows)


def half_of_a_block(memory: Memory) -> bool:
    """Whether one port of a DP16KD reads it from half of the words: a port is 18 bits wide at most."""
    return any(memory.width <= width and memory.depth <= depth
               for width, depth in ((1, 8192), (2, 4096), (4, 2048), (9, 1024), (18, 512)))


def planning(bench: Bench) -> str:
    """Processor seconds in which designs are planned or refused: chains of 60 convolutions, and networks."""
    board, rows = load_board(BOARD), []
    graphs = {f"60 convolutions, {channels} channels": chain([channels] * 61, 32) for channels in CHAINS}
    graphs |= {name: graph_of(name) for name in (*NETWORKS, LARGEST)}
    for name, graph in graphs.items():
        start = time.process_time()
        try:
            answer = f"{plan_for(graph, graph, board).interval:,} cycles"
        except AnswerIsNo:
            answer = "does not fit"
        rows.append((name, answer, f"{time.process_time() - start:.1f} s"))
    return table(("network", "answer", "processor time"), rows)


FRONTIER_SECTIONS: dict[str, Callable[[Bench], str]] = {
    "frontier": frontier, "blocks": blocks, "relief": relief, "pairs": pairs,
    "planning": planning}
