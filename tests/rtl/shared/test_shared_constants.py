"""Words of constants, and the smallest room for several layers, found again by trying every room."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hwflow_rtl.rescale.ranges import RequantizerRoom
from hwflow_rtl.shared.constants import (
    common_fraction,
    constants_bits,
    constants_layout,
    constants_word,
    constants_words,
    room_for,
)

from hwflow.layers.rescale import Requantize


@dataclass(frozen=True)
class Layer:
    bias: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray
    fraction: int = 0
    outward: int = 0


def layer(bias, multiplier, shift, fraction: int = 0) -> Layer:
    return Layer(np.array(bias), np.array(multiplier), np.array(shift), fraction)


def has_room(factor_bits: int, base: int, extra: int, ratio: Fraction) -> bool:
    """Whether a factor and a shift of such a room make exactly `ratio`."""
    for shift in range(base, base + extra + 1):
        factor = ratio * 2**shift
        if factor.denominator == 1 and (0 <= factor < 1 << factor_bits if factor_bits else factor == 1):
            return True
    return False


def smallest(ratios: set[Fraction], most: int) -> tuple[int, int, int]:
    """Fewest bits of factors, then fewest shifts, then the largest of them, of all rooms of shifts up to `most`."""
    sizes = itertools.product(range(12), range(most + 1), range(most, -1, -1))
    return next((bits, base, extra) for bits, extra, base in sizes if base + extra <= most
                and all(has_room(bits, base, extra, ratio) for ratio in ratios))


def layers_of(source: random.Random) -> list[Layer]:
    powers = source.random() < 0.3
    layers = []
    for _ in range(source.randint(1, 3)):
        channels = source.randint(1, 3)
        layers.append(layer(
            [source.randint(-40, 40) for _ in range(channels)],
            [1 << source.randint(0, 2) if powers else source.randint(0, 15) for _ in range(channels)],
            [source.randint(0, 7) for _ in range(channels)], source.choice([0, 0, 2, 3])))
    return layers


@pytest.mark.parametrize("seed", range(60))
def test_the_smallest_room_holds_all_layers(seed) -> None:
    layers = layers_of(random.Random(seed))
    room, fraction = room_for(layers), common_fraction(layers)
    ratios, biases = set(), []
    for each in layers:
        words = [constants_layout(room).from_bits(word) for word in constants_words(room, fraction, each)]
        for word, bias, multiplier, shift in zip(words, each.bias, each.multiplier, each.shift, strict=True):
            assert Fraction(word.bias, 2**fraction) == Fraction(int(bias), 2**each.fraction)
            ratio = Fraction(int(multiplier), 2**int(shift)) / 2**(fraction - each.fraction)
            assert Fraction(word.factor if room.factor_bits else 1, 2**(room.base + word.extra)) == ratio
            ratios.add(ratio)
            biases.append(word.bias)
    if any(ratios):  # zeros alone have any shift
        assert (room.factor_bits, room.base, room.extra) == smallest(ratios, 14)
    reach = 1 << (room.bias_bits - 1)
    assert all(-reach <= bias < reach for bias in biases)
    assert room.bias_bits == 1 or any(not -reach // 2 <= bias < reach // 2 for bias in biases)


def test_layers_that_move_outward_share_a_room_with_others() -> None:
    """Shifts tell by how many steps products move, so factors and shifts stay, or both grow."""
    one, two = layer([7, -7], [9, 15], [6, 7]), layer([1, 0], [5, 3], [5, 3], 1)
    moving, others = [replace(one, outward=8), replace(two, outward=4)], [layer([2], [1], [0]), layer([0], [0], [9])]
    room, fraction = room_for([*moving, *others]), 1
    assert room.outward == 16
    for each in [*moving, *others]:
        for word, m, k in zip(constants_words(room, fraction, each), each.multiplier, each.shift, strict=True):
            found, shift = constants_layout(room).from_bits(word), int(k) + fraction - each.fraction
            place = room.base + found.extra
            assert Fraction(found.factor, 2**place) == Fraction(int(m), 2**shift)
            moves = each.outward > 0 and Fraction(each.outward, 2**int(k)) < Fraction(1, 2)
            assert found.moves == moves
            if moves:
                assert Fraction(room.outward, 2**place) == Fraction(each.outward, 2**int(k))


def test_layers_of_a_graph_share_a_room() -> None:
    """One of ratios near 1, one of small ones, and the identity."""
    rescale = {"zero_point": 0, "low": -128, "high": 127}
    layers = [
        Requantize(np.array([-100, 4000]), np.array([0x1FFFF, 0x2AAAB]), np.array([17, 18]), **rescale),
        Requantize(np.array([77]), np.array([0x3FFFF]), np.array([31]), fraction=4, **rescale),
        Requantize(np.array([0]), np.array([1]), np.array([0]), **rescale)]
    room = room_for(layers)
    assert room == RequantizerRoom(bias_bits=17, factor_bits=18, base=21, extra=10)
    assert constants_words(room, 4, layers[2]) == [(1 << 17) << 17]


def test_words_have_their_constants_lowest_first() -> None:
    room = RequantizerRoom(bias_bits=6, factor_bits=5, base=3, extra=5)
    assert constants_bits(room) == 14
    assert constants_word(room, -1, 3, 5) == 0b101_00011_111111
    assert constants_word(room, 31, 0, 0) == 31
    assert constants_word(RequantizerRoom(6, 0, 3, 5), -32, 1, 1) == 0b001_100000


@pytest.mark.parametrize(("constants", "message"), [
    ((32, 1, 0), "bias of a channel must be from -32 to 31, not 32 to 32"),
    ((0, 32, 0), "factor of a channel must be from 0 to 31, not 32"),
    ((0, -1, 0), "factor of a channel must be from 0 to 31, not -1"),
    ((0, 1, 6), "extra of a channel must be from 0 to 5, not 6"),
])
def test_what_a_word_has_no_room_for_is_refused(constants, message) -> None:
    with pytest.raises(ValueError, match=message):
        constants_word(RequantizerRoom(bias_bits=6, factor_bits=5, base=3, extra=5), *constants)


def test_layers_without_a_room_are_refused() -> None:
    with pytest.raises(ValueError, match="layers that share a requantizer must be at least one, not none"):
        room_for([])
    with pytest.raises(ValueError, match="multipliers of up to 32 bits and, with a fraction of 3 bits, shifts of up "
                                         "to 62, not 2 bits and 65"):
        room_for([layer([0], [3], [62]), layer([0], [3], [0], 3)])
    with pytest.raises(ValueError, match="factor of a channel must be 1, not 2"):
        constants_word(RequantizerRoom(6, 0, 3, 5), 0, 2, 0)
    with pytest.raises(ValueError, match="fraction of a layer must be at most that of its unit, 0, not 2"):
        constants_words(RequantizerRoom(6, 2, 3, 5), 0, layer([0], [1], [3], 2))
