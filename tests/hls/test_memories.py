"""Memories of a plan: named, placed where blocks are short, and overruled in plan.yaml."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import yaml
from amaranth.hdl import Fragment
from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import ECP5, Resources
from hwflow_rtl.vendor.memory import Holds, Memory, MemoryKind, Place
from hwflow_rtl.vendor.tables import LutRom

from bench.synthetic import SYNTHETIC
from hwflow import hls
from hwflow.hls.foldings.solver import ROOMY
from hwflow.hls.plan.memories import gathered, moved, relieved, with_places
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.planning import budget_of, plan_for
from hwflow.quantize import quantize
from hwflow.synth import load_board
from tests.e2e.networks import rows_for
from tests.quantize.net import Net

ECP = ECP5()


def cost_of(*memories: Memory) -> Resources:
    return sum((ECP.preferred_cost(memory) for memory in memories), Resources())


def logic(resources: Resources) -> float:
    return resources.lut + resources.ff


def test_the_least_logic_gives_up_the_blocks() -> None:
    """Against every choice there is."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        sizes = zip(rng.integers(8, 80, 7).tolist(), rng.integers(65, 200, 7).tolist(), strict=True)
        memories = [Memory(f"m{k}", MemoryKind.ROM, Holds.CONSTANTS, *size) for k, size in enumerate(sizes)]
        costs = [cost_of(*memories[:3]), cost_of(*memories[3:])]
        movable = [memory for memory in memories if ECP.places(memory) == (Place.BLOCKS, Place.TABLES)]
        for blocks in (1, 2, 5):
            every = [some for n in range(len(movable) + 1) for some in itertools.combinations(movable, n)]
            extra = {some: sum((moved(each, Place.TABLES, ECP) for each in some), Resources()) for some in every}
            enough = [logic(each) for each in extra.values() if -each.ram >= blocks]
            places = relieved(costs, blocks, ECP, logic)
            found = sum((with_places(cost, each, ECP) for cost, each in zip(costs, places, strict=True)), Resources())
            before = sum(costs, Resources())
            if enough:
                assert before.ram - found.ram >= blocks
                assert logic(found) - logic(before) == pytest.approx(min(enough))


def test_nothing_moves_where_blocks_suffice() -> None:
    memory = Memory("m", MemoryKind.ROM, Holds.CONSTANTS, 40, 128)
    assert relieved([cost_of(memory)], 0, ECP, logic) == [{}]


#: An eighth of a block, and more than a quarter of two.
SMALL, LARGE = (Memory(name, MemoryKind.ROM, Holds.CONSTANTS, width, depth)
                for name, width, depth in (("s", 18, 128), ("l", 72, 160)))
#: A ninth of a block; too deep for tables.
DEEP = Memory("d", MemoryKind.RAM, Holds.RING, 8, 256)
WEIGHTS = Memory("w", MemoryKind.ROM, Holds.WEIGHTS, 18, 128)
PLENTY = Resources(lut=10**6, ff=10**6)


def test_blocks_that_hold_next_to_nothing_are_left_where_they_are_many() -> None:
    costs = [cost_of(SMALL, LARGE, WEIGHTS), cost_of(DEEP), cost_of(SMALL)]
    blocks = [ECP.memory_cost(each, Place.BLOCKS).ram for each in (SMALL, LARGE, WEIGHTS, DEEP)]
    assert blocks == [1, 2, 1, 1]
    nothing: list[dict[str, Place]] = [{}, {}, {}]
    everything = [{"s": Place.TABLES}, {}, {"s": Place.TABLES}]
    assert gathered(costs, nothing, 12, PLENTY, ECP) == everything  # three of twelve: the deep one counts, and stays
    assert gathered(costs, nothing, 13, PLENTY, ECP) == nothing
    assert gathered(costs, [{"l": Place.TABLES}, {}, {}], 12, PLENTY, ECP) == [
        {"l": Place.TABLES, "s": Place.TABLES}, *everything[1:]]
    assert gathered(costs, everything, 4, PLENTY, ECP) == everything  # those that have left take no blocks


def test_the_cheapest_leave_as_far_as_the_logic_goes() -> None:
    narrow = Memory("n", MemoryKind.ROM, Holds.TABLE, 8, 128)
    costs = [cost_of(SMALL), cost_of(narrow)]
    more = {each.name: moved(each, Place.TABLES, ECP) for each in (SMALL, narrow)}
    assert 0 < more["n"].lut < more["s"].lut
    for room, left in ((more["n"], [{}, {"n": Place.TABLES}]), (replace(more["n"], lut=more["n"].lut - 1), [{}, {}]),
                       (replace(more["n"], ff=more["n"].ff - 1), [{}, {}]),
                       (more["n"] + more["s"], [{"s": Place.TABLES}, {"n": Place.TABLES}])):
        assert gathered(costs, [{}, {}], 4, room, ECP) == left


@pytest.mark.slow
def test_few_blocks_of_many_small_memories_are_empty() -> None:
    """Inverted residuals have functions of 256 words and constants of few channels, in a block each if nobody cares."""
    model = SYNTHETIC["squeeze_excite"]()
    graph, board = quantize(model, rows_for(model, 4)).graph, load_board("ulx3s_85f")
    plan = plan_for(graph, graph, board)
    others = [each for each in plan.memories if each.memory.holds is not Holds.WEIGHTS]
    bits = sum(each.memory.bits for each in others)
    assert sum(each.resources.ram for each in others) * plan.device.ram_block_bits <= 1.6 * bits
    assert plan.resources.lut <= ROOMY * budget_of(board, graph).limit("lut")


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    """A 1 x 1 convolution with the constants of 96 channels: more words than tables are preferred for."""
    n = Net((8, 6, 6))
    model = n.model(n.unit(n.x, 96, 1))
    return quantize(model, rows_for(model, 4)).graph


def plan_of(graph: LayerGraph, blocks: int) -> hls.Plan:
    have = Resources(lut=20000, ff=20000, dsp=8, ram=blocks)
    return hls.solve(graph, hls.Target(ECP, hls.Budget("test", have, Resources(), usable_logic=1.0)))


def test_memories_leave_the_blocks_where_these_are_short(graph: LayerGraph) -> None:
    many = plan_of(graph, 100)
    assert all(not stage.places for stage in many.stages)
    assert many.resources.ram == sum(memory.resources.ram for memory in many.memories)
    few = plan_of(graph, many.resources.ram - 1)
    assert few.interval == many.interval
    assert few.resources.ram == sum(memory.resources.ram for memory in few.memories) < many.resources.ram
    assert few.resources.lut > many.resources.lut
    left = {(memory.part, memory.memory.name) for memory in few.memories if memory.place is not memory.places[0]}
    assert left == {(stage.name, name) for stage in few.stages for name in stage.places} != set()


def test_some_blocks_stay_free_where_logic_is(graph: LayerGraph) -> None:
    """They would all fit; but a chip whose blocks are all taken is hard to route."""
    many = plan_of(graph, 100)
    all_taken = plan_of(graph, many.resources.ram)
    assert all_taken.interval == many.interval
    assert all_taken.resources.ram < many.resources.ram
    assert all_taken.resources.lut > many.resources.lut


def test_hardware_has_them_where_the_plan_does(graph: LayerGraph) -> None:
    plan = plan_of(graph, 1)
    core = hls.lower(graph, plan, ECP)

    def roms(fragment: Fragment) -> set[str]:
        """The names of the ROMs in tables; the last bits of one in blocks may be in tables, too (`_high`)."""
        own = {each.name for each in fragment.origins or () if isinstance(each, LutRom)}
        inner = (roms(sub) for sub, *_ in fragment.subfragments if isinstance(sub, Fragment))
        return {name for name in own if not name.endswith("_high")}.union(*inner)

    in_tables = {f"stage{each.part}_{each.memory.name}" for each in plan.memories
                 if each.memory.kind is MemoryKind.ROM and each.place is Place.TABLES}
    assert roms(Fragment.get(core, None)) == in_tables != set()


def test_a_plan_with_places_comes_back_from_its_file(graph: LayerGraph) -> None:
    plan = plan_of(graph, plan_of(graph, 100).resources.ram - 1)
    text = hls.plan_to_yaml(plan)
    assert hls.plan_from_yaml(text, graph, ECP, source="plan.yaml") == plan
    assert len(yaml.safe_load(text)["memories"]) == len(plan.memories)


def overruled(graph: LayerGraph, places: dict[str, str]) -> hls.Plan:
    document = yaml.safe_load(hls.plan_to_yaml(plan_of(graph, 100)))
    document["stages"][0]["places"] = places
    return hls.plan_from_yaml(yaml.safe_dump(document), graph, ECP, source="plan.yaml")


def test_a_user_overrules_a_place(graph: LayerGraph) -> None:
    memory = next(each for each in plan_of(graph, 100).memories if len(each.places) > 1)
    other = overruled(graph, {memory.memory.name: memory.places[1].value})
    assert next(each for each in other.memories if each.name == memory.name).place is memory.places[1]


@pytest.mark.parametrize("places, message", [
    ({"ring9": "tables"}, r"plan plan.yaml: stage '0_\w+' has no memory 'ring9'; with its folding its memories are "),
    ({"weights0": "spram"}, r"plan plan.yaml: memory 'weights0' of stage '0_\w+' must be in .*, not in spram: it has "),
    ({"weights0": "cloud"}, r"plan plan.yaml, stages/0/places/weights0: 'cloud' is not one of "),
])
def test_bad_places(graph: LayerGraph, places: dict[str, str], message: str) -> None:
    with pytest.raises(HwflowError, match=message):
        overruled(graph, places)
