"""Caches whose rows are written at a position: every form of them is the same layers, and means the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hwflow import HwflowError, golden, onnx
from hwflow.layers import Add, Embedding, WriteRow
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from hwflow.quantize.passes.caches import caches_to_rows
from hwflow.quantize.passes.streaming import keep_states
from tests.quantize.cache_models import HEAD, HEADS, MASKS, ROTATIONS, ROWS, TOKENS, WRITES, decoder
from tests.quantize.state_models import F

FORMS = [(write, MASKS[k % 2], ROTATIONS[k // 2 % 2]) for k, write in enumerate(WRITES)]


def tokens(count: int = 24, seed: int = 1) -> dict[str, Array]:
    """Texts that each begin at position 0 and are as long as the cache."""
    rng = np.random.default_rng(seed)
    return {"token": rng.integers(0, TOKENS, (count, 1)), "position": np.arange(count)[:, None] % ROWS}


def by_runtime(rows: dict[str, Array], tmp_path: Path, seed: int = 0) -> Array:
    """The output y of the decoder, run by onnxruntime, which is fed with its own caches."""
    runtime = pytest.importorskip("onnxruntime")
    onnx.save(decoder(seed=seed), tmp_path / "model.onnx")
    session, made = runtime.InferenceSession(tmp_path / "model.onnx"), []
    caches = {name: np.zeros((1, HEADS, ROWS, HEAD), F) for name in ("keys", "values")}
    for token, position in zip(rows["token"], rows["position"], strict=True):
        caches["keys"], caches["values"], y = session.run(
            ["keys_new", "values_new", "y"], {"token": token, "position": position, **caches})
        made.append(y)
    return np.stack(made)


@pytest.mark.parametrize(("write", "mask", "rotation"), FORMS)
def test_every_form(write: str, mask: str, rotation: str, tmp_path: Path) -> None:
    model, rows = keep_states(decoder(write, mask, rotation), {"keys": "keys_new", "values": "values_new"}), tokens()
    quantized = quantize(model, rows)
    kinds = [type(layer) for layer in quantized.graph.layers]
    assert kinds.count(WriteRow) == 2
    assert kinds.count(Embedding) == 4  # of tokens, cosines, sines, and what is hidden
    assert len(quantized.graph.states) == 2
    assert len(quantized.graph.inputs) == 2  # one number of the token, one of the position
    (mask_sum,) = (layer for layer in quantized.graph.layers if isinstance(layer, Add)
                   and quantized.graph.tensors[layer.inputs[1]].format.bits == 1)  # fmt: skip
    assert quantized.graph.tensors[mask_sum.output].scale < 1  # steps for scores, not for what hides them
    ours, expected = golden.predict(quantized, rows)["y"], by_runtime(rows, tmp_path)
    assert np.sqrt(np.mean((ours - expected) ** 2) / np.mean(expected**2)) < 0.05
    assert quantize(keep_states(quantized.qdq)).graph == quantized.graph


def test_negative_positions_count_from_the_end(tmp_path: Path) -> None:
    """As ONNX says of ScatterElements; the position that is one of a Where must be inside."""
    model, rows = keep_states(decoder("elements")), tokens(ROWS)
    quantized = quantize(model, rows)
    frames = golden.run_prologue(quantized, {**rows, "position": rows["position"] - ROWS})
    assert all(np.array_equal(frames[name], each) for name, each in golden.run_prologue(quantized, rows).items())
    where = quantize(keep_states(decoder("where"), {"keys": "keys_new", "values": "values_new"}), rows)
    for position in (-1, ROWS):
        with pytest.raises(HwflowError, match=f"{-ROWS} to {ROWS - 1}, not {ROWS}"):  # of any node
            golden.run_prologue(where, {**rows, "position": np.full((ROWS, 1), position)})


def test_a_text_longer_than_the_cache() -> None:
    quantized = quantize(keep_states(decoder()), tokens(ROWS))
    rows = {"token": np.zeros((ROWS + 1, 1), np.int64), "position": np.arange(ROWS + 1)[:, None]}
    message = ("input 'position' must be from 0 to 5, not 6 (row 6 of the data); it chooses a row of a table or of a "
               "cache; end a sequence that is longer than its cache, and begin a new one")
    with pytest.raises(HwflowError, match=re.escape(message)):
        golden.predict(quantized, rows)


def test_written_rows_stay() -> None:
    model: Model = caches_to_rows(onnx.infer(decoder("elements")))
    assert [str(node) for node in caches_to_rows(model).graph.nodes] == [str(node) for node in model.graph.nodes]
