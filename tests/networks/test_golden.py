"""The golden model of random networks against the meaning of every layer on that layer's own inputs: equality."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import KINDS, LayerGraph
from tests.networks.meaning import MEANINGS, meaning
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.drawing import search
from tests.strategies.layer_graphs import TINY, USUAL, any_network, frames_for, network, seed_of
from tests.strategies.layers import Taste

#: Networks of a test, so that a test reports more than one seed.
BLOCK = 100


def check(graph: LayerGraph) -> None:
    """Every tensor of one network."""
    graph.check()
    values = golden.run(graph, frames_for(graph, 4))
    for layer in graph.layers:
        expected = meaning(graph, layer, *(values[name] for name in layer.inputs))
        np.testing.assert_array_equal(values[layer.output], expected,
                                      err_msg=f"{layer.name} of\n{describe(graph)}")


def seeds_of(block: int) -> list[list[int]]:
    return [seed_of(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)]


def test_every_kind_has_a_meaning() -> None:
    assert set(MEANINGS) == set(KINDS)


@seeds(quick=range(3), name="block")
def test_tiny_networks(block: int) -> None:
    search(lambda rng: any_network(rng, TINY), check, seeds_of(block))


@seeds(quick=[0], slow=range(1, 10), name="block")
def test_networks(block: int) -> None:
    search(any_network, check, seeds_of(block))


@pytest.mark.parametrize(("taste", "count"), [(TINY, 3 * BLOCK), (USUAL, 2 * BLOCK)], ids=["tiny", "usual"])
def test_every_kind_occurs(taste: Taste, count: int) -> None:
    missing = {kind.kind for kind in KINDS}
    for seed in range(count):
        missing -= {layer.kind for layer in network(seed, taste).layers}
        if not missing:
            break
    assert not missing


def test_the_same_seed_gives_the_same_network() -> None:
    for seed in range(5):
        assert network(seed) == network(seed)
    assert len({describe(network(seed)) for seed in range(30)}) == 30


def test_networks_are_of_all_shapes() -> None:
    """Several inputs and outputs, tensors with several readers, the same tensor on both sides of a join."""
    graphs = [network(seed) for seed in range(100)]
    assert {1, 2, 3} <= {len(graph.inputs) for graph in graphs}
    assert {1, 2, 3} <= {len(graph.outputs) for graph in graphs}
    assert any(len(graph.consumers(name)) > 2 for graph in graphs for name in graph.computed)
    assert any(len(set(layer.inputs)) < len(layer.inputs) for graph in graphs for layer in graph.layers)


def test_tensors_are_seldom_all_the_same() -> None:
    """Else nothing would be proven."""
    found = []
    for seed in range(60):
        graph = network(seed)
        values = golden.run(graph, frames_for(graph, 4, seed))
        found += [values[layer.output].min() == values[layer.output].max() for layer in graph.layers]
    assert np.mean(found) < 0.12
