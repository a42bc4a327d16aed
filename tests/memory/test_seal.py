"""The seal behind an image in a flash: only what is whole, and of this design, can be read."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hwflow_rtl.memory import FlashError, MemoryPart, SealCheck, SealedFlash
from hwflow_sim.memory_bench import FlashReads, compile_reads

from hwflow.synth import load_board
from tests.memory.flash_parts import QUAD
from tests.rtl.harness import run

MARK = b"designed"
PART = SealedFlash(QUAD, words=300, mark=MARK)
USER_FLASH = load_board("tangnano9k").memories[0].part
IMAGE = np.random.default_rng(3).integers(0, 1 << 32, 300)
OCTETS = b"".join(int(word).to_bytes(4, "little") for word in IMAGE)
DIGEST = hashlib.sha256(OCTETS).digest()[:16]


def sealed(octets: bytes, mark: bytes = MARK) -> bytes:
    whole = mark + octets + hashlib.sha256(octets).digest()[:16]
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def flipped(octets: bytes, place: int) -> bytes:
    return octets[:place] + bytes([octets[place] ^ 4]) + octets[place + 1:]


def contents(octets: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(octets, dtype=np.uint8)


@pytest.fixture(scope="module", params=[
    pytest.param(PART, id="flash"), pytest.param(SealedFlash(USER_FLASH, words=300, mark=MARK), id="user flash",
                                                 marks=pytest.mark.slow)])
def part(request: pytest.FixtureRequest) -> SealedFlash:
    return request.param


@pytest.fixture(scope="module")
def reads(part: SealedFlash, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> FlashReads:
    return compile_reads(part, folder=tmp_path_factory.mktemp("seal"), cache=cache)


def test_what_is_written_into_the_flash() -> None:
    part: MemoryPart = PART
    assert (part.words, part.writable, part.name) == (300, False, "quad")
    assert PART.sealed(IMAGE, DIGEST) == sealed(OCTETS)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_an_image_with_its_seal(part: SealedFlash, reads: FlashReads, stall: float) -> None:
    """It is read once for the check, at ten cycles a byte, and then as often as one likes, restarted in between."""
    requests = [[0, 299, 0, 0], [299, 299, 0, 0], [17, 203, 3, 5], [0, 40, 0, 0]]
    result = reads.run(requests, contents(sealed(OCTETS)), stall=stall)
    assert (result.violations, result.error) == ({}, FlashError.NONE)
    assert result.words.tolist() == [*IMAGE, IMAGE[299], *IMAGE[17:22], *IMAGE[:41]]
    assert 40 * 307 < result.initialized < 42 * 307 + 500 or part is not PART


WHOLE = sealed(OCTETS)
EMPTY, OTHER_DESIGN, DAMAGED = FlashError.EMPTY, FlashError.OTHER_DESIGN, FlashError.DAMAGED
WRONG = {
    "nothing": (b"", EMPTY), "nothing but the first byte": (MARK[:1], OTHER_DESIGN),
    "nothing but the last byte of the mark": (b"\xff" * 7 + MARK[7:], OTHER_DESIGN),
    "zeros": (bytes(307 * 4), OTHER_DESIGN), "ones": (b"\xff" * 307 * 4, EMPTY), "no seal": (OCTETS, OTHER_DESIGN),
    "another design's": (sealed(OCTETS, b"otherone"), OTHER_DESIGN),
    "another design's, by one bit": (sealed(OCTETS, flipped(MARK, 7)), OTHER_DESIGN),
    "cut": (WHOLE[:-1], DAMAGED), "cut behind the mark": (MARK, DAMAGED),
    "shorter": (sealed(OCTETS[:-4]), DAMAGED), "longer": (sealed(OCTETS + bytes(4)), DAMAGED),
    "damaged": (flipped(WHOLE, 708), DAMAGED), "damaged in its first byte": (flipped(WHOLE, 8), DAMAGED),
    "another name": (flipped(WHOLE, 1211), DAMAGED), "another CRC": (flipped(WHOLE, 1227), DAMAGED)}


@pytest.mark.parametrize("name", WRONG)
def test_an_image_that_is_not_right(part: SealedFlash, reads: FlashReads, name: str) -> None:
    octets, error = WRONG[name]
    if name == "zeros" and part is not PART:
        error = EMPTY  # as a user flash is that was erased
    result = reads.run([[0, 9, 0, 0]], contents(octets))
    assert result.violations == {}
    assert (result.error, result.initialized, len(result.words)) == (error, 0, 0)


@pytest.mark.parametrize("part", [PART], indirect=True, ids=["flash"])
def test_errors_of_the_chip_come_first(reads: FlashReads) -> None:
    result = reads.run([[0, 9, 0, 0]], contents(WHOLE), numbers={"mute": 1})
    assert (result.error, len(result.words)) == (FlashError.NO_ANSWER, 0)


def test_the_digest_is_shown() -> None:
    octets = sealed(OCTETS[:12])
    check, shown = SealCheck(words=3, mark=MARK), bytearray()

    async def send(ctx):
        source = np.random.default_rng(1)
        for octet in octets:
            await ctx.tick().repeat(int(source.integers(1, 19)))
            ctx.set(check.i.payload, octet)
            ctx.set(check.i.valid, 1)
            await ctx.tick().until(check.i.ready)
            ctx.set(check.i.valid, 0)

    async def watch(ctx):
        """Slowly: the check waits."""
        source = np.random.default_rng(2)
        while not ctx.get(check.done):
            ctx.set(check.digest.ready, ready := int(source.integers(0, 2)))
            if ready and ctx.get(check.digest.valid):
                shown.append(ctx.get(check.digest.payload[0]))
            await ctx.tick().repeat(1 if ready else 30)
        assert ctx.get(check.error) == FlashError.NONE

    run(check, send, watch)
    assert bytes(shown) == hashlib.sha256(OCTETS[:12]).digest()[:16]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: SealedFlash(QUAD, words=300, mark=b"short"), "mark must have 8 bytes, not 5"),
    (lambda: SealedFlash(QUAD, words=QUAD.words - 4, mark=MARK),
     "words must be from 1 to 49145, so that they and a seal stand in the 49152 of quad, not 49148"),
    (lambda: PART.sealed(IMAGE[:299], DIGEST),
     "an image must have 300 words and a digest of 16 bytes, not shape (299,) and 16 bytes")])
def test_what_cannot_be_sealed(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
