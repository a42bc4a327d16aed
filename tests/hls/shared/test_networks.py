"""Random networks in a shared stage: every tensor of the program's model is that of the golden model."""

from __future__ import annotations

from collections import Counter

import pytest

from hwflow import golden
from hwflow.hls.shared.compile import shared_problems
from tests.hls.shared.machine import program_for, require_equal
from tests.hls.shared.networks import shared_network
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.layer_graphs import TINY, USUAL, frames_for
from tests.strategies.layers import Taste

#: Networks of a test.
BLOCK = 40
KINDS = {"conv", "dense", "max_pool", "average_pool", "add", "multiply", "lookup", "concat", "rearrange"}
#: Shares of networks that may be refused: elements move in too many ways, or a window has too many weights.
REFUSED = 0.1


def check(seed: int, taste: Taste) -> Counter[str]:
    graph = shared_network(seed, taste)
    if shared_problems(graph, graph.layers):
        return Counter({"refused": 1})
    frames = frames_for(graph, 3, seed)
    values = golden.run(graph, frames)
    made = program_for(graph, columns=(2, 4, 8)[seed % 3], sliding=seed % 4 > 0)
    if seed % 2:
        words = 1 << made.frames.words.bit_length()
        made = program_for(graph, columns=made.program.shape.columns, words=words, banks=2, sliding=seed % 4 > 0)
    for row in range(3):
        try:
            require_equal(made, {name: each[row] for name, each in values.items()})
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{describe(graph)}") from error
    return Counter(layer.kind for layer in graph.layers)


@seeds(quick=[0], slow=range(1, 5), name="block")
@pytest.mark.parametrize("taste", [TINY, USUAL], ids=["tiny", "usual"])
def test_networks(taste: Taste, block: int) -> None:
    found = sum((check(seed, taste) for seed in range(block * BLOCK, (block + 1) * BLOCK)), Counter())
    assert found.pop("refused", 0) <= BLOCK * REFUSED
    assert set(found) == KINDS
