"""The constants of channels as words of a memory, and the room for those of several layers.

All layers of a shared stage have one fraction, the largest of all: (a * 2**f + bias) * m / 2**k is
(a * 2**F + bias * 2**(F - f)) * m / 2**(k + F - f).  Products of layers that move away from zero do so by one power of
two, the largest of all: those of others are larger by what it is more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from ..rescale.ranges import LARGEST_SHIFT, MULTIPLIER_BITS, RequantizerRoom, require_bits, signed_width

IntArray = npt.NDArray[np.int64]


class LayerConstants(Protocol):
    """The constants of the rescaling of a layer: y = round((a * 2**fraction + bias) * multiplier / 2**shift), arrays
    [channels]; products move `outward` before, see `RequantizerRanges`."""

    @property
    def bias(self) -> IntArray: ...

    @property
    def multiplier(self) -> IntArray: ...

    @property
    def shift(self) -> IntArray: ...

    @property
    def fraction(self) -> int: ...

    @property
    def outward(self) -> int: ...


@dataclass(frozen=True)
class ChannelConstants:
    """The constants of a channel in a unit for several layers; `moves`: factor and shift may not be other ones."""

    bias: int
    factor: int
    shift: int
    moves: bool


def check_room(room: RequantizerRoom) -> None:
    """ValueError for a room that no unit has."""
    if room.bias_bits < 1:
        raise ValueError(f"bias_bits of a room must be at least 1, not {room.bias_bits}")
    if not 0 <= room.factor_bits <= MULTIPLIER_BITS:
        raise ValueError(f"factor_bits of a room must be from 0 to {MULTIPLIER_BITS}, not {room.factor_bits}")
    if not 0 <= room.base <= room.base + room.extra <= LARGEST_SHIFT:
        raise ValueError(f"shifts of a room must be in order and from 0 to {LARGEST_SHIFT}, not from {room.base} to "
                         f"{room.base + room.extra}")


def constants_layout(room: RequantizerRoom) -> data.StructLayout:
    """The layout of the word with the constants of a channel: bias, factor, extra, moves, lowest bits first."""
    return data.StructLayout({"bias": signed(room.bias_bits), "factor": unsigned(room.factor_bits),
                              "extra": unsigned(room.extra.bit_length()), "moves": unsigned(int(room.outward > 0))})


def constants_bits(room: RequantizerRoom) -> int:
    """Bits of that word."""
    return constants_layout(room).size


def constants_word(room: RequantizerRoom, bias: int, factor: int, extra: int, moves: bool = False) -> int:
    """The word with these constants.  ValueError for what there is no room for.

    `factor` must be 1 in a room without bits for factors.
    """
    require_bits("bias of a channel", [bias], room.bias_bits)
    if not (0 <= factor < 1 << room.factor_bits if room.factor_bits else factor == 1):
        most = (1 << room.factor_bits) - 1
        raise ValueError(f"factor of a channel must be {f'from 0 to {most}' if most else '1'}, not {factor}")
    if not 0 <= extra <= room.extra:
        raise ValueError(f"extra of a channel must be from 0 to {room.extra}, not {extra}")
    stored = factor if room.factor_bits else 0
    above = extra | moves << room.extra.bit_length()
    return bias & ((1 << room.bias_bits) - 1) | (stored | above << room.factor_bits) << room.bias_bits


def constants_words(room: RequantizerRoom, fraction: int, layer: LayerConstants) -> list[int]:
    """The words of a layer's channels in a unit with that fraction.  ValueError for what there is no room for."""
    words = []
    for channel in channels_of(layer, fraction, room.outward):
        expressed, place = room.expressed(channel.factor, channel.shift, channel.moves)
        words.append(constants_word(room, channel.bias, expressed, place - room.base, channel.moves))
    return words


def common_fraction(layers: Sequence[LayerConstants]) -> int:
    """The fraction of a unit that computes all layers."""
    return max(layer.fraction for layer in layers)


def common_outward(layers: Sequence[LayerConstants], fraction: int) -> int:
    """By how much products move in a unit that computes all layers with that fraction; 0 where none do."""
    return max(layer.outward << (fraction - layer.fraction) for layer in layers)


def room_for(layers: Sequence[LayerConstants]) -> RequantizerRoom:
    """The smallest room for the constants of all layers in a unit with their `common_fraction`.

    Of those with the fewest bits of factors it has the fewest shifts, and of those the largest: more bits are dropped
    early.  ValueError where there are no layers, or where their shifts would be too large.
    """
    if not layers:
        raise ValueError("layers that share a requantizer must be at least one, not none")
    fraction = common_fraction(layers)
    outward = common_outward(layers, fraction)
    channels = [channel for layer in layers for channel in channels_of(layer, fraction, outward)]
    biases = [channel.bias for channel in channels]
    ratios = sorted({odd_ratio(each.factor, each.shift) for each in channels if each.factor and not each.moves})
    fixed = [(each.factor, each.shift) for each in channels if each.moves]
    is_zero = any(each.factor == 0 for each in channels)
    # A factor of one bit that is always 1 needs none.
    factor_bits = max([int(is_zero), *(factor.bit_length() + max(0, -shift) for factor, shift in [*ratios, *fixed])])
    if factor_bits == 1 and not is_zero and not fixed and all(shift >= 0 for _, shift in ratios):
        factor_bits = 0
    spare = max(1, factor_bits)
    places = [shift for _, shift in fixed]
    least = max([0, *places, *(shift for _, shift in ratios)])
    most = min([*places, *(shift + spare - factor.bit_length() for factor, shift in ratios)], default=0)
    base = min(most, LARGEST_SHIFT)
    room = RequantizerRoom(signed_width(min(biases), max(biases)), factor_bits, base, max(0, least - base), outward)
    if factor_bits > MULTIPLIER_BITS or base + room.extra > LARGEST_SHIFT:
        raise ValueError(f"layers that share a requantizer must have multipliers of up to {MULTIPLIER_BITS} bits and, "
                         f"with a fraction of {common_fraction(layers)} bits, shifts of up to {LARGEST_SHIFT}, not "
                         f"{factor_bits} bits and {base + room.extra}")
    return room


def channels_of(layer: LayerConstants, fraction: int, outward: int) -> list[ChannelConstants]:
    """The channels in a unit with that fraction, which is no smaller than the layer's, and that `outward`."""
    more = fraction - layer.fraction
    if more < 0:
        raise ValueError(f"fraction of a layer must be at most that of its unit, {fraction}, not {layer.fraction}")
    larger = outward.bit_length() - layer.outward.bit_length() - more if layer.outward else 0
    if larger < 0:
        raise ValueError(f"products of a layer must move by at most {outward}, not {layer.outward << more}")
    arrays = (np.atleast_1d(each).tolist() for each in (layer.bias, layer.multiplier, layer.shift))
    made = []
    for bias, factor, shift in zip(*arrays, strict=True):
        moves = layer.outward > 0 and shift > layer.outward.bit_length()
        scaled = (factor << larger, shift + more + larger) if moves else (factor, shift + more)
        made.append(ChannelConstants(bias << more, *scaled, moves))
    return made


def odd_ratio(factor: int, shift: int) -> tuple[int, int]:
    """The same ratio with an odd factor; its shift may be negative."""
    twos = (factor & -factor).bit_length() - 1
    return factor >> twos, shift - twos
