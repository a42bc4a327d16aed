"""Text from a model on a board: which tokens go in and come out, and what is refused."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hwflow import HwflowError, golden
from hwflow.cli.generate import Asked, TextOptions
from hwflow.host.text import Choice, Generation, TextModel, Vocabulary
from hwflow.layers.formats import IntArray
from hwflow.pipeline import boards
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.passes.streaming import keep_states
from tests.quantize.cache_models import ROWS, TOKENS, decoder
from tests.quantize.state_models import running_sum
from tests.quantize.test_caches import tokens

MODEL = keep_states(decoder())


@dataclass
class Board:
    """The golden model, frame by frame, in place of a board; `wrong` is added to what it gives."""

    quantized: Quantized
    wrong: int = 0

    def __post_init__(self) -> None:
        self.design, self.seen = SimpleNamespace(quantized=self.quantized), list[dict[str, IntArray]]()
        self.host_states = dict[str, np.ndarray]()

    def reset_state(self) -> None:
        self.seen.clear()

    def run_integers(self, frames: dict[str, IntArray]) -> dict[str, IntArray]:
        self.seen.append(frames)
        rows = {name: np.concatenate([each[name] for each in self.seen]) for name in frames}
        made = golden.run(self.quantized, rows, keep=False)
        return {name: array[-1:] + self.wrong for name, array in made.items()}


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return quantize(MODEL, tokens())


def test_a_model_that_generates(quantized: Quantized) -> None:
    assert TextModel.of(quantized) == TextModel("token", "position", "y", TOKENS, ROWS)
    sums = quantize(keep_states(running_sum(), {"sum": "sum_out"}), {"x": np.ones((4, 1, 5), np.float32)})
    with pytest.raises(HwflowError, match=r"must read a token, .* not read x and give"):
        TextModel.of(sums)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_each_token_is_that_of_the_scores_before(quantized: Quantized, temperature: float) -> None:
    """Greedy is the best score of the integers; a temperature draws from all of them, equally for one seed."""
    work = Generation(Board(quantized), [3, 7], 5, Choice(temperature, 4))  # type: ignore[arg-type]
    made = list(work)
    assert [*work] == made  # a new sequence each time
    fed = [3, 7, *made[:-1]]
    assert [int(frame["token.row.frame"].item()) for frame in work.frames] == fed
    scores = golden.predict(quantized, {"token": np.array(fed)[:, None], "position": np.arange(6)[:, None]})["y"]
    best = scores[1:, 0].argmax(axis=1).tolist()
    assert (made == best) == (temperature == 0)
    expected, found = work.of_golden()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_choices_follow_the_shares() -> None:
    random, scores = np.random.default_rng(0), np.log([0.5, 0.3, 0.2])
    drawn = np.bincount([Choice(1.0).picker(scores, random) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(drawn, [0.5, 0.3, 0.2], atol=0.03)
    assert Choice(1e-3).picker(np.array([1e5, -1e5, 0]), random) == 0


@pytest.mark.parametrize(("prompt", "count", "message"), [
    ([1] * 7, 1, "the prompt and the text must have at most 7 tokens, one more than the cache has places, not 7 and 1"),
    ([1], 7, "the prompt and the text must have at most 7 tokens, one more than the cache has places, not 1 and 7"),
    ([], 1, "the prompt must have at least one token"), ([11], 1, "tokens must be from 0 to 10, not 11"),
    ([-1], 1, "tokens must be from 0 to 10, not -1")])  # fmt: skip
def test_what_is_refused(quantized: Quantized, prompt: list[int], count: int, message: str) -> None:
    with pytest.raises(HwflowError, match=re.escape(message)):
        Generation(Board(quantized), prompt, count)  # type: ignore[arg-type]
    assert len(list(Generation(Board(quantized), [1], ROWS))) == ROWS  # type: ignore[arg-type]


def test_what_cannot_be_generated_is_refused_before_a_board_is_compiled(quantized: Quantized, monkeypatch) -> None:
    monkeypatch.setattr(boards, "kept_integers", lambda pipeline: quantized)
    asked = Asked.of(TextOptions(generate=1, prompt="11"))
    assert asked is not None
    pipeline = SimpleNamespace(locked=contextlib.nullcontext)  # has nothing to compile with
    with pytest.raises(HwflowError, match="tokens must be from 0 to 10, not 11"):
        boards.simulated_design(pipeline, asked.require)  # type: ignore[arg-type]


def test_a_wrong_board_shows(quantized: Quantized) -> None:
    work = Generation(Board(quantized, wrong=1), [1], 3)  # type: ignore[arg-type]
    list(work)
    expected, made = work.of_golden()
    assert all((made[name] - expected[name] == 1).all() for name in made)


def test_vocabularies(tmp_path: Path) -> None:
    words = Vocabulary(["a", "b", "ab", "abc", "", "a"])
    assert words.tokens("abcabba") == [3, 2, 1, 0]
    assert "".join(map(words.text, [3, 0, 9])) == "abca<9>"
    with pytest.raises(HwflowError, match="spelled by the vocabulary, which has no 'x'"):
        words.tokens("abx")
    file = tmp_path / "words.json"
    for text, message in (("[", "must be a JSON file"), ("[" * 100_000, "must be a JSON file"),
                          ("[1]", "must be a list of"), ("{}", "must be a list of")):
        file.write_text(text)
        with pytest.raises(HwflowError, match=message):
            Vocabulary.read(file)
    with pytest.raises(HwflowError, match="must be a readable text file: No such file"):
        Vocabulary.read(tmp_path / "none.json")
    file.write_text('\ufeff["a", "b"]', "utf-8")  # a byte order mark, as editors on Windows write it
    assert Vocabulary.read(file).texts == ("a", "b")
    file.write_text(json.dumps("xyz"))
    assert Vocabulary.read(file).tokens("zx") == [2, 0]
