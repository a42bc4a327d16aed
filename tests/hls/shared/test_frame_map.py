"""Tensors in the frame memory: none of two that are needed in one step share a word, and little is left free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import permutations

import numpy as np
import pytest

from hwflow.hls.shared.compile import shared_problems
from hwflow.hls.shared.frame_map import FrameMap, FrameMemoryFull, busiest, placed
from hwflow.hls.shared.framing import placed_in_banks
from hwflow.stages.stage import Life
from tests.hls.shared.machine import program_for
from tests.hls.shared.networks import shared_network


def lives_of(seed: int, count: int) -> list[Life]:
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, 2 * count, (count, 2)), axis=1)
    return [Life(f"t{k}", int(rng.integers(1, 40)), int(first), int(last)) for k, (first, last) in enumerate(ends)]


def require_apart(found: FrameMap, words: Mapping[str, Iterable[int]] | None = None) -> int:
    """Word by word and step by step; `words` of a tensor, if they are not all from its first to its last.  Gives the
    most words that are used in a step."""
    used: set[tuple[int, int]] = set()
    for place in found.places:
        own = range(place.base, place.base + place.words) if words is None else words[place.tensor]
        mine = {(step, word) for step in range(place.first, place.last + 1) for word in own}
        assert not used & mine
        used |= mine
    return max(Counter(step for step, _ in used).values(), default=0)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 20])
def test_no_two_living_tensors_share_a_word(count: int) -> None:
    for seed in range(20):
        lives = lives_of(seed, count)
        found = placed(lives)
        require_apart(found)
        assert {(each.tensor, each.words, each.first, each.last) for each in found.places} == {
            (each.tensor, each.words, each.first, each.last) for each in lives}
        assert found.words == max((each.base + each.words for each in found.places), default=0)


def smallest(lives: list[Life]) -> int:
    """Every order, each tensor at the lowest word where it meets no earlier one, tried one by one."""
    best = sum(life.words for life in lives)
    for order in permutations(lives):
        taken: list[tuple[Life, int]] = []
        for life in order:
            base = 0
            while any(other.first <= life.last and life.first <= other.last
                      and base < first + other.words and first < base + life.words for other, first in taken):
                base += 1
            taken.append((life, base))
        best = min(best, max(base + life.words for life, base in taken))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_small_maps_are_as_small_as_can_be(seed: int) -> None:
    lives = [Life(each.tensor, each.words % 7 + 1, each.first, each.last) for each in lives_of(seed, 5)]
    assert placed(lives).words == smallest(lives)


def test_a_chain_and_a_residual_need_what_is_alive() -> None:
    """In a chain two tensors at a time; in a residual block three."""
    chain = [Life(f"t{k}", words, k - 1, k) for k, words in enumerate((64, 32, 48, 16, 80, 8, 64))]
    assert placed(chain).words == busiest(chain)[1] == 96
    residual = [Life("x", 10, 0, 3), Life("a", 20, 1, 2), Life("b", 10, 2, 3), Life("y", 10, 3, 4)]
    assert placed(residual).words == busiest(residual)[1] == 40


def test_maps_of_networks_have_few_gaps() -> None:
    """Of random networks, nine of ten need no word more than are alive in some step."""
    needs = []
    for seed in range(40):
        graph = shared_network(seed)
        if not shared_problems(graph, graph.layers):
            made = program_for(graph)
            words = {name: made.operands[name].words_of(made.tensors[name].frame).reshape(-1).tolist()
                     for name in made.tensors}
            needs.append(made.frames.words == require_apart(made.frames, words))
    assert len(needs) > 30
    assert np.mean(needs) >= 0.9


def test_a_chain_alternates_between_banks() -> None:
    """Whatever a layer reads is in the other bank than what it writes, if the banks are large enough."""
    chain = [Life(f"t{k}", words, k - 1, k) for k, words in enumerate((64, 32, 48, 16, 80, 8, 64))]
    apart = {(f"t{k}", f"t{k + 1}"): 1 for k in range(6)}
    found = placed_in_banks(chain, 256, apart, word_bytes=1)
    require_apart(found)
    assert [found[f"t{k}"].base // 128 for k in range(7)] == [0, 1] * 3 + [0]


@pytest.mark.parametrize("count", [3, 8, 15])
def test_tensors_in_banks_do_not_meet(count: int) -> None:
    """Also where tensors are larger than a bank; a memory as large as all of them has room for them."""
    rng = np.random.default_rng(count)
    for seed in range(20):
        lives = lives_of(seed, count)
        words = 1 << int(placed(lives).words - 1).bit_length()
        apart = {(a.tensor, b.tensor): int(rng.integers(1, 9)) for a in lives for b in lives if a.last == b.first}
        found = placed_in_banks(lives, words, apart, word_bytes=1)
        require_apart(found)
        assert found.words <= words
        assert len(found.places) == count


def test_a_memory_that_is_too_small() -> None:
    lives = [Life("x", 10, 0, 3, "input 'x'"), Life("a", 20, 1, 2, "layer 'conv1'"), Life("b", 10, 2, 3, "layer 'add'")]
    assert placed(lives, 40).words == 40
    with pytest.raises(FrameMemoryFull) as error:
        placed(lives, 39, word_bytes=4)
    assert str(error.value) == (
        "tensors that are needed at the same time must fit the 156 bytes of the frame memory, not take 160: layer "
        "'conv1' 80, input 'x' 40, layer 'add' 40; use a smaller input, fewer channels, or a board with more memory")
