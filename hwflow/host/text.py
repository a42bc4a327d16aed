"""Text from a language model on a board: a token a frame, each chosen by the scores that the frame before gave.

The model takes a token and its position, and keeps its caches of keys and values on the chip (docs/language-model.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from hwflow import golden
from hwflow.host.open_board import OpenBoard
from hwflow.layers import Embedding, WriteRow
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, TensorType
from hwflow.quantize import Quantized

#: A file of more texts is no vocabulary of a model that fits a board.
MOST_TEXTS = 1 << 16


@dataclass(frozen=True)
class TextModel:
    """A model that generates: its inputs `token` and `position`, its output `scores`, and their sizes.

    `tokens` are as many as there are rows of the first table, `places` rows of the cache.
    """

    token: str
    position: str
    scores: str
    tokens: int
    places: int

    @staticmethod
    def of(quantized: Quantized) -> TextModel:
        """HwflowError for a model that has not these inputs and that output."""
        graph, sources = quantized.graph, _sources(quantized)
        written = {sources.get(layer.inputs[2]): layer.rows for layer in graph.layers if isinstance(layer, WriteRow)}
        chosen = {sources.get(layer.inputs[0]): len(layer.table) for layer in graph.layers
                  if isinstance(layer, Embedding) and sources.get(layer.inputs[0]) not in written}
        outputs = [value.name for value in quantized.epilogue.graph.outputs]
        inputs = {value.name for value in quantized.prologue.graph.inputs}
        ends = [*written, *chosen]
        if None in ends or len(written) != 1 or len(chosen) != 1 or len(outputs) != 1 or inputs != set(ends):
            raise HwflowError(
                "a model that generates text must read a token, which chooses a row of a table, and a position, at "
                f"which it writes its caches, and give scores alone, not read {', '.join(sorted(inputs))} and give "
                f"{', '.join(outputs)}", "export one step of it as docs/language-model.md shows")
        ((position, places),), ((token, tokens),) = written.items(), chosen.items()
        assert token is not None
        assert position is not None
        return TextModel(token, position, outputs[0], tokens, places)

    def require(self, prompt: Sequence[int], count: int) -> None:
        """HwflowError unless the prompt has tokens of the model, and `count` more fit the cache."""
        length = len(prompt) + count - 1
        if not prompt:
            raise HwflowError("the prompt must have at least one token, not none")
        if len(prompt) > self.places or length > self.places:
            raise HwflowError(
                f"the prompt and the text must have at most {self.places + 1} tokens, one more than the cache has "
                f"places, not {len(prompt)} and {count}", "shorten the prompt, or generate fewer tokens")
        wrong = [token for token in prompt if not 0 <= token < self.tokens]
        if wrong:
            raise HwflowError(f"tokens must be from 0 to {self.tokens - 1}, not {wrong[0]}")


def _sources(quantized: Quantized) -> dict[str, str]:
    """The input of the model that alone decides an input of the layer graph, by the name of that."""
    graph = quantized.prologue.graph
    made, inputs = {node.outputs[0]: node for node in graph.nodes}, {value.name for value in graph.inputs}
    found = {}
    for value in graph.outputs:
        todo, seen = [value.name], set[str]()
        while todo:
            name = todo.pop()
            if name in inputs:
                seen.add(name)
            todo += made[name].inputs if name in made else ()
        if len(seen) == 1:
            found[value.name] = seen.pop()
    return found


@dataclass(frozen=True)
class Choice:
    """How the next token is chosen of scores: the best one at temperature 0, else at random in proportion to
    exp(score / temperature), with numbers of the seed."""

    temperature: float = 0.0
    seed: int = 0

    def picker(self, scores: Array, random: np.random.Generator) -> int:
        """The token that the scores, of any shape, choose."""
        flat = np.asarray(scores, np.float64).ravel()
        if not self.temperature:
            return int(flat.argmax())
        shares = np.exp((flat - flat.max()) / self.temperature)
        return int(random.choice(len(flat), p=shares / shares.sum()))


@dataclass
class Generation:
    """Tokens of a board, one by one: iterate over it.  `frames` are those that went in, `made` what came out."""

    board: OpenBoard
    prompt: Sequence[int]
    count: int
    choice: Choice = Choice()
    frames: list[dict[str, IntArray]] = field(default_factory=list)
    made: list[dict[str, IntArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.quantized = self.board.design.quantized
        self.model = TextModel.of(self.quantized)
        self.model.require(self.prompt, self.count)

    def __iter__(self) -> Iterator[int]:
        """Begin a new sequence, feed the prompt, then each token that was chosen; gives the chosen ones."""
        random = np.random.default_rng(self.choice.seed)
        self.board.reset_state()
        self.frames.clear()
        self.made.clear()
        tokens = list(self.prompt)
        for position in range(len(self.prompt) + self.count - 1):
            scores = self._step(tokens[position], position)
            if position + 1 >= len(self.prompt):
                tokens.append(self.choice.picker(scores, random))
                yield tokens[-1]

    def _step(self, token: int, position: int) -> Array:
        """The scores behind one token."""
        rows = {self.model.token: token, self.model.position: position}
        graph, feeds = self.quantized.prologue.graph, {}
        for name, number in rows.items():
            kind = graph.tensor_type(name)
            assert kind is not None
            feeds[name] = np.full((1, *shape_of(kind)), number, kind.dtype)
        self.frames.append(golden.run_prologue(self.quantized, feeds))
        self.made.append(self.board.run_integers(self.frames[-1]))
        return golden.run_epilogue(self.quantized, self.made[-1], feeds, self.board.host_states)[self.model.scores]

    def of_golden(self) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
        """What the golden model gives for the same frames, and what the board gave."""
        frames = {name: np.concatenate([each[name] for each in self.frames]) for name in self.frames[0]}
        made = {name: np.concatenate([each[name] for each in self.made]) for name in self.made[0]}
        return golden.run(self.quantized, frames, keep=False), made


def shape_of(kind: TensorType) -> tuple[int, ...]:
    """Of an input of the host, whose sizes are known."""
    return tuple(size for size in kind.shape or () if isinstance(size, int))


class Vocabulary:
    """The text of each token, of a JSON file: a list of texts, or one text whose characters are the tokens."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._numbers: Mapping[str, int] = {text: k for k, text in reversed(list(enumerate(self.texts))) if text}
        self._longest = max(map(len, self._numbers), default=0)

    @staticmethod
    def read(path: Path) -> Vocabulary:
        """HwflowError for a file that is none."""
        try:
            texts = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise HwflowError(f"the vocabulary '{path}' must be a JSON file, which it is not: {error}") from None
        known = isinstance(texts, str) or (isinstance(texts, list) and all(isinstance(text, str) for text in texts))
        if not known or not 0 < len(texts) <= MOST_TEXTS:
            raise HwflowError(f"the vocabulary '{path}' must be a list of 1 to {MOST_TEXTS} texts, one for each token")
        return Vocabulary(texts)

    def tokens(self, text: str) -> list[int]:
        """The numbers of `text`, each as long as it can be.  HwflowError: a text that the tokens do not spell."""
        found, at = list[int](), 0
        while at < len(text):
            piece = next((text[at : at + n] for n in range(self._longest, 0, -1) if text[at : at + n] in self._numbers),
                         "")
            if not piece:
                raise HwflowError(f"the prompt must be spelled by the vocabulary, which has no {text[at]!r}")
            found.append(self._numbers[piece])
            at += len(piece)
        return found

    def text(self, token: int) -> str:
        """The text of a token; its number in brackets where the vocabulary ends before it."""
        return self.texts[token] if token < len(self.texts) else f"<{token}>"
