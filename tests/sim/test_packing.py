"""Elements to bits and back, ROM files, settings and results as files."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_sim.packing import hex_text, pack, unpack, words_per_beat, write_roms
from hwflow_sim.results import ElementShape


def plain_pack(elements, lanes, width):
    """Bit by bit: lane 0 lowest."""
    beats = []
    for beat in np.asarray(elements).reshape(-1, lanes):
        value = sum((int(element) & ((1 << width) - 1)) << (width * lane) for lane, element in enumerate(beat))
        beats.append([(value >> (64 * n)) & ((1 << 64) - 1) for n in range(-(-lanes * width // 64))])
    return np.array(beats, dtype=np.uint64)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("lanes", [1, 3, 8, 20])
@pytest.mark.parametrize("width", [1, 4, 7, 8, 11, 16, 24, 33, 63, 64])
def test_pack_and_unpack(width, lanes, signed):
    shape = ElementShape(width, signed)
    low = -(1 << (width - 1)) if signed else 0
    high = min(low + (1 << width) - 1, (1 << 63) - 1)
    elements = np.random.default_rng(width).integers(low, high, 6 * lanes, endpoint=True)
    elements[:2] = low, high
    words = pack(elements, lanes=lanes, shape=shape)
    assert words.shape == (6, words_per_beat(lanes, shape))
    assert np.array_equal(words, plain_pack(elements, lanes, width))
    assert np.array_equal(unpack(words, lanes=lanes, shape=shape), elements)


def test_no_beats():
    shape = ElementShape(11, True)
    words = pack(np.zeros(0, dtype=np.int64), lanes=3, shape=shape)
    assert words.shape == (0, 1)
    assert unpack(words, lanes=3, shape=shape).shape == (0,)


def test_rom_words_are_little_endian():
    assert hex_text(np.array([[0x01, 0x02, 0xA3], [0xFF, 0, 0]], dtype=np.uint8)) == "a30201\n0000ff\n"


def test_rom_files_are_replaced_only_where_they_differ(tmp_path):
    contents = np.arange(8, dtype=np.uint8).reshape(4, 2)
    write_roms({"weights": contents}, tmp_path)
    path = tmp_path / "weights.hex"
    before = path.stat().st_mtime_ns
    write_roms({"weights": contents}, tmp_path)
    assert path.stat().st_mtime_ns == before
    write_roms({"weights": contents + 1}, tmp_path)
    assert path.read_text().splitlines()[0] == "0201"
    assert [p.name for p in tmp_path.iterdir()] == ["weights.hex"]
