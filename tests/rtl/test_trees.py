"""Ensembles of trees: both units against their models and plain loops, in every folding, with stalls, to the cycle."""

import re

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from hwflow_rtl.trees.forest import Aggregate, Forest
from hwflow_rtl.trees.parallel import ParallelPlan, ParallelTreesShape
from hwflow_rtl.trees.walk import SLOTS, WalkedTreesShape, WalkPlan
from hwflow_rtl.vendor import ECP5, Generic, Timing

from tests.rtl.units import ask

ELEMENT, OUTPUT, CHANNELS = unsigned(4), signed(12), 6
TIMING = Timing(multiply=4)


def forest(trees: int, depth: int, targets: int = 1, aggregate: Aggregate = Aggregate.SUM, seed: int = 0) -> Forest:
    """Trees of which some are lopsided: every other node has a leaf on one side."""
    rng = np.random.default_rng([seed, trees, depth])
    rows, children, roots, leaves = [], [], [], 0

    def node(left: int) -> int:
        nonlocal leaves
        if not left:
            leaves += 1
            return -leaves
        own = len(rows)
        rows.append((rng.integers(CHANNELS), rng.integers(-1, 18), rng.random() < 0.2))
        children.append([0, 0])
        children[own] = [node(left - 1), node(left - 1 if rng.random() < 0.6 else 0)]
        return own

    for _ in range(trees):
        roots.append(node(int(rng.integers(1, depth + 1))))
    features, thresholds, equal = np.array(rows).T
    votes = rng.integers(-50, 51, (leaves, targets))
    return Forest(features, thresholds, equal, np.array(children), np.array(roots), votes, aggregate)


def expected(trees: Forest, pixels: np.ndarray) -> np.ndarray:
    """In plain loops: [n, targets]."""
    found = []
    for pixel in pixels.tolist():
        votes = []
        for root in trees.roots.tolist():
            here = root
            while here >= 0:
                value, limit = pixel[trees.features[here]], trees.thresholds[here]
                here = int(trees.children[here][int(value == limit if trees.equal[here] else value >= limit)])
            votes.append(trees.leaves[-1 - here])
        found.append({"sum": np.sum, "min": np.min, "max": np.max}[trees.aggregate.value](votes, axis=0))
    return np.array(found)


def parallel_shape(trees: Forest, cols: int, lanes: int) -> ParallelTreesShape:
    return ParallelTreesShape(plan=ParallelPlan(trees, ELEMENT, OUTPUT), pixels=1, channels=CHANNELS, cols=cols,
                              lanes=lanes)


def walked_shape(trees: Forest, rows: int, cols: int, lanes: int) -> WalkedTreesShape:
    return WalkedTreesShape(plan=WalkPlan(trees, ELEMENT, OUTPUT, rows, lanes), pixels=1, channels=CHANNELS, cols=cols)


def prove(shape: ParallelTreesShape | WalkedTreesShape, trees: Forest, lanes: int, timing: Timing = TIMING) -> None:
    """All that a unit is asked, by plain loops, for pixels that are frames."""
    pixels = np.random.default_rng(1).integers(0, 16, (12, CHANNELS))
    pixels[0], pixels[1] = 0, 15
    ask(shape, Generic(timing=timing), [pixels], expected(trees, pixels).reshape(-1, lanes), seed=lanes)


ANY_AGGREGATE = pytest.mark.parametrize("aggregate", list(Aggregate), ids=lambda each: each.value)


@pytest.mark.quick(3)
@ANY_AGGREGATE
@pytest.mark.parametrize("cols, lanes", [(6, 4), (2, 1), (1, 2)])
def test_all_nodes_at_once(aggregate: Aggregate, cols: int, lanes: int) -> None:
    trees = forest(5, 5, 4, aggregate)
    prove(parallel_shape(trees, cols, lanes), trees, lanes)


@pytest.mark.quick(3)
@ANY_AGGREGATE
@pytest.mark.parametrize("rows, cols, lanes", [
    (1, 1, 4), (3, 2, 4), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((2, 6, 1), (1, 3, 2)))])
def test_a_walk(aggregate: Aggregate, rows: int, cols: int, lanes: int) -> None:
    """One round and several, trees that fill their slots and some that do not."""
    trees = forest(15, 3, 4, aggregate)
    prove(walked_shape(trees, rows, cols, lanes), trees, lanes)


@pytest.mark.parametrize("cols, lanes", [(6, 1), (3, 3), (1, 1), (6, 3)])
def test_cycles(cols: int, lanes: int) -> None:
    trees = forest(3, 3, 3)
    at_once, walk = parallel_shape(trees, cols, lanes), walked_shape(trees, 1, cols, lanes)
    for shape in (at_once, walk):
        prove(shape, trees, lanes)
    assert at_once.cycles == max(6 // cols, 3 // lanes)
    assert walk.plan.cycles == SLOTS * (trees.depth + 3 // lanes)


@pytest.mark.parametrize("rom, ram", [(1, 1), (3, 1), (1, 3)])
def test_other_latencies_of_memories(rom: int, ram: int) -> None:
    timing, trees = Timing(multiply=4, rom=rom, ram=ram), forest(4, 3)
    prove(walked_shape(trees, 1, 2, 1), trees, 1, timing)
    prove(parallel_shape(trees, 2, 1), trees, 1, timing)


def test_nodes_that_compare_the_same_cost_one_comparison() -> None:
    trees = forest(4, 4)
    twice = Forest(*(np.concatenate([a, a]) for a in (trees.features, trees.thresholds, trees.equal)),
                   np.concatenate([trees.children, np.where(trees.children < 0, trees.children - len(trees.leaves),
                                                            trees.children + len(trees.features))]),
                   np.concatenate([trees.roots, trees.roots + len(trees.features)]),
                   np.concatenate([trees.leaves, trees.leaves]))
    assert np.array_equal(*(ParallelPlan(each, ELEMENT, OUTPUT).comparisons for each in (twice, trees)))
    cost = parallel_shape(twice, 6, 1).cost(ECP5())
    assert len(cost.memories) == 8
    assert cost.dsp == 0


def test_codes_have_few_gaps() -> None:
    """A chain of 20 nodes has 21 leaves, whose codes have five bits; a full tree has none to spare."""
    count = 20
    children = np.array([[-1 - n, n + 1] for n in range(count - 1)] + [[-count, -1 - count]])
    zeros = np.zeros(count, np.int64)
    chain = Forest(zeros, np.arange(count), zeros, children, np.array([0]), np.arange(count + 1)[:, None])
    (side,) = ParallelPlan(chain, unsigned(5), OUTPUT).trees
    assert side.size == count + 1
    prove(parallel_shape(chain, 6, 1), chain, 1)


@pytest.mark.parametrize("make, message", [
    (lambda: parallel_shape(forest(2, 2), 4, 1), "cols and lanes of trees must divide their 6 channels and 1 targets"),
    (lambda: walked_shape(forest(2, 2), 1, 4, 1), "cols and lanes of trees must divide their 6 channels"),
    (lambda: walked_shape(forest(2, 2), 1, 2, 1).build(Generic(timing=Timing(multiply=4, rom=3, ram=3)), "trees"),
     "latencies of the memories of generic must leave two cycles of 6, not be 3 and 3"),
])
def test_refusals(make, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
