"""Waves: the FST file of a run, and the small compressors that it is written with."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from hwflow_sim import builder, run, tools

from tests.sim.conftest import compile_toy
from tests.sim.toy import BIAS, golden, noise_frames, roms

HIERARCHY_LZ4 = 6  # block type of the FST format

PROGRAM = """
#include <cstdio>
#include <vector>
#include "lz4.h"
#include "zlib.h"
int main(int count, char** names) {
    std::vector<unsigned char> in;
    for (int c; (c = std::getchar()) != EOF;) in.push_back(c);
    std::vector<unsigned char> out(LZ4_compressBound(in.size()) + compressBound(in.size()));
    uLongf size = out.size();
    if (names[1][0] == 'z') compress2(out.data(), &size, in.data(), in.size(), 4);
    else size = LZ4_compress_default((char*)in.data(), (char*)out.data(), in.size(), out.size());
    std::fwrite(out.data(), 1, size, stdout);
}
"""


def lz4_decode(block: bytes) -> bytes:
    """The LZ4 block format, read as its specification says."""
    out, at = bytearray(), 0

    def length(start: int) -> int:
        nonlocal at
        total = start
        if start == 15:
            while True:
                total += block[at]
                at += 1
                if block[at - 1] != 255:
                    break
        return total

    while True:
        token = block[at]
        at += 1
        literals = length(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        offset = int.from_bytes(block[at : at + 2], "little")
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-offset])


@pytest.fixture(scope="module")
def compressor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compressor")
    (folder / "program.cpp").write_text(PROGRAM)
    command = [tools.find_compiler(), "-O1", f"-I{builder.FST}", "-o", "program", "program.cpp"]
    subprocess.run(command, cwd=folder, check=True)

    def compress(method: str, data: bytes) -> bytes:
        return subprocess.run([folder / "program", method], input=data, capture_output=True, check=True).stdout

    return compress


def samples():
    noise = np.random.default_rng(3)
    yield b""
    yield b"a"
    yield b"abcdabcdabcdabcd"
    yield bytes(100_000)
    yield noise.bytes(70_000)
    yield noise.integers(0, 3, 70_000, dtype=np.uint8).tobytes()
    yield b"".join(noise.bytes(20) + bytes(int(n)) for n in noise.integers(0, 600, 200))


def test_compressors(compressor):
    for data in samples():
        assert lz4_decode(compressor("lz4", data)) == data
        assert zlib.decompress(compressor("zlib", data)) == data
    assert len(compressor("lz4", bytes(100_000))) < 1000


def fst_blocks(data: bytes) -> dict[int, bytes]:
    """Type and content of every block: one byte, then the length of itself and the content, big endian."""
    blocks, at = {}, 0
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 9], "big")
        blocks[data[at]] = data[at + 9 : at + 1 + size]
        at += 1 + size
    assert at == len(data)
    return blocks


@pytest.mark.slow
def test_waves_of_all_signals(cache, tmp_path: Path):
    simulation = compile_toy(tmp_path, cache, waves=True, jobs=2)
    frames, file = noise_frames(2), tmp_path / "waves.fst"
    result = run(simulation, frames=frames, expected=golden(frames, roms()[BIAS]), waves=file)
    assert result.equal
    assert result.waves == file
    assert [path.name for path in tmp_path.iterdir() if "waves" in path.name] == ["waves.fst"]
    blocks = fst_blocks(file.read_bytes())
    hierarchy = blocks[HIERARCHY_LZ4]
    names = lz4_decode(hierarchy[8:])
    assert len(names) == int.from_bytes(hierarchy[:8], "big")
    for name in (b"bench", b"probe0_valid", b"cycle"):
        assert name in names
    assert not run(simulation, frames=frames, expected=golden(frames, roms()[BIAS])).waves
