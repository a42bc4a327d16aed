"""Stages of decision trees by their sizes: what `unit_samples` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from amaranth.hdl import signed, unsigned
from hwflow_rtl.trees.forest import Forest
from hwflow_rtl.trees.parallel import ParallelPlan, ParallelTreesShape
from hwflow_rtl.trees.walk import WalkedTreesShape, WalkPlan
from hwflow_rtl.vendor import Technology

from tests.synth.sample import Sample, of_shape


def forest(trees: int, depth: int, channels: int, bits: int, targets: int) -> Forest:
    """Full trees with random thresholds, and votes of 12 bits."""
    rng = np.random.default_rng([trees, depth, channels])
    inner, leaves = (1 << depth) - 1, 1 << depth
    own = np.arange(inner)
    below = 2 * own[:, None] + [1, 2]
    children = np.concatenate([
        np.where(below < inner, below + tree * inner, inner - 1 - below - tree * leaves) for tree in range(trees)])
    count = trees * inner
    return Forest(
        rng.integers(channels, size=count), rng.integers(1, 1 << bits, count), np.zeros(count, np.int64), children,
        np.arange(trees) * inner, rng.integers(-2000, 2000, (trees * leaves, targets)))


def parallel(technology: Technology, trees: int, depth: int, channels: int, bits: int, targets: int, cols: int,
             lanes: int) -> Sample:
    plan = ParallelPlan(forest(trees, depth, channels, bits, targets), unsigned(bits), signed(18))
    shape = ParallelTreesShape(plan=plan, pixels=1, channels=channels, cols=cols, lanes=lanes)
    return of_shape(shape, technology, "trees")


def walked(technology: Technology, trees: int, depth: int, channels: int, bits: int, targets: int, cols: int,
           lanes: int, rows: int) -> Sample:
    plan = WalkPlan(forest(trees, depth, channels, bits, targets), unsigned(bits), signed(18), rows, lanes)
    return of_shape(WalkedTreesShape(plan=plan, pixels=1, channels=channels, cols=cols), technology, "trees")


TREES: Mapping[str, Callable[..., Sample]] = {"ParallelTrees": parallel, "WalkedTrees": walked}
