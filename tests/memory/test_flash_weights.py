"""Several streams of weights from one flash: every beat, restarted at any time, at the promised pace."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from amaranth.hdl import signed
from hwflow_rtl.memory import FlashError, SealedFlash, WeightMemory, WeightSharing, WeightStream
from hwflow_sim.flash import compile_beats

from hwflow.synth import load_board
from hwflow.synth.board_weights import BoardWeights
from tests.memory.flash_parts import QUAD

STREAMS = (WeightStream(signed(4), 2, 1200), WeightStream(signed(8), 3, 1200))


def test_a_design_on_a_board_wants_a_seal() -> None:
    board = load_board("icebreaker")
    weights = BoardWeights(board.memories[0], STREAMS)
    part = weights.gateware(board).part
    assert isinstance(part, SealedFlash)
    assert (part.words, part.mark) == (WeightSharing(QUAD, STREAMS).words, weights.mark)
    assert BoardWeights(board.memories[0], STREAMS[:1]).mark != weights.mark


def test_two_streams_share_a_flash(tmp_path: Path, cache: Path) -> None:
    part = SealedFlash(QUAD, words=WeightSharing(QUAD, STREAMS).words, mark=b"2streams")
    memory = WeightMemory(part=part, streams=STREAMS)
    source = np.random.default_rng(11)
    weights = [source.integers(-8, 8, (1200, 2)), source.integers(-128, 128, (1200, 3))]
    image = memory.image(weights)
    digest = hashlib.sha256(image.astype("<u4").tobytes()).digest()[:16]
    octets = np.frombuffer(part.sealed(image, digest), dtype=np.uint8)
    frame = sum((beats & mask) << place for beats, mask, place in (
        (weights[0][:, 0], 15, 0), (weights[0][:, 1], 15, 4), *((weights[1][:, n], 255, 8 + 8 * n) for n in range(3))))
    program = compile_beats(memory, folder=tmp_path, cache=cache)

    result = program.run([[0, 6000, 0, 0]], octets)
    assert (result.violations, result.error) == ({}, FlashError.NONE)
    assert np.array_equal(result.words, np.tile(frame, 6)[:6001])
    assert result.busy <= 6000 * max(memory.guaranteed())
    # Each beat has 32 bits, eight clocks of the lines: the rest of the pace is lost to requests.
    assert 8 * 6000 / result.busy > 0.9

    restarted = program.run([[0, 1999, 0, 700], [0, 1999, 5, 3], [0, 1499, 0, 0]], octets, seed=1, stall=0.3)
    assert (restarted.violations, restarted.error) == ({}, FlashError.NONE)
    assert np.array_equal(restarted.words, np.concatenate([frame[:700], frame[:3], np.tile(frame, 2)[:1500]]))

    damaged = octets.copy()
    damaged[1000] ^= 1
    nothing = program.run([[0, 9, 0, 0]], damaged)
    assert (nothing.error, len(nothing.words)) == (FlashError.DAMAGED, 0)
