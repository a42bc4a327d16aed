"""The part of `hwflow run` that generates text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option, Range, Section
from hwflow_base.printable import rate_text

with later():
    from ..host.text import Choice, Generation, TextModel, Vocabulary
    from ..views.console.runs import differences
    from ..views.console.terminal import Console

if TYPE_CHECKING:
    from ..host.open_board import OpenBoard
    from ..quantize import Quantized


@dataclass(frozen=True)
class TextOptions:
    """The options of `hwflow run` for language models."""

    generate: Annotated[int | None, Option(
        "Generate N tokens, each from the scores of the one before, instead of running data (docs/language-model.md).",
        Section.TEXT, "N", parse=Range(1))] = None
    prompt: Annotated[str, Option(
        "The text that the tokens follow; numbers between commas without --vocabulary.  Default: token 0.",
        Section.TEXT, "TEXT", needs="generate")] = ""
    vocabulary: Annotated[Path | None, Option(
        "A JSON file with a list of the texts of all tokens, in order.", Section.TEXT, needs="generate")] = None
    temperature: Annotated[float, Option(
        "0 takes the best token; above, a random one in proportion to exp(score / temperature).",
        Section.TEXT, parse=Range(0, 100), needs="generate")] = 0.0
    text_seed: Annotated[int, Option(
        "The seed of the random tokens.", Section.TEXT, parse=Range(0), needs="generate")] = 0


@dataclass(frozen=True)
class Asked:
    """What is to be generated: read and checked before a board is opened or compiled."""

    options: TextOptions
    vocabulary: Vocabulary | None
    prompt: list[int]
    count: int

    @staticmethod
    def of(options: TextOptions) -> Asked | None:
        """None where no text is asked for.  HwflowError for a vocabulary that is none, or does not spell the prompt."""
        if options.generate is None:
            return None
        vocabulary = None if options.vocabulary is None else Vocabulary.read(options.vocabulary)
        return Asked(options, vocabulary, tokens_of(options.prompt, vocabulary), options.generate)

    def require(self, quantized: Quantized) -> None:
        """HwflowError unless the model can generate it."""
        TextModel.of(quantized).require(self.prompt, self.count)


def generated(console: Console, board: OpenBoard, asked: Asked, *, simulated: bool) -> Mapping[str, object]:
    """Generate text on `board`, show it, and compare every score with the golden model.  Exit code 1 if one differs."""
    options, vocabulary, prompt = asked.options, asked.vocabulary, asked.prompt
    work = Generation(board, prompt, asked.count, Choice(options.temperature, options.text_seed))
    tokens, start = list[int](), time.monotonic()
    with console.rows("generate on the simulated board" if simulated else "generate on the board") as progress:
        for token in work:
            tokens.append(token)
            progress(len(tokens), asked.count)
    seconds = time.monotonic() - start
    expected, made = work.of_golden()
    wrong = differences(work.quantized.graph, expected, made)
    shown = [str(token) if vocabulary is None else vocabulary.text(token) for token in (*prompt, *tokens)]
    console.say((", " if vocabulary is None else "").join(shown))
    frames = len(work.frames)
    equal = frames - max((each.frames for each in wrong), default=0)
    rate = "" if simulated else f", {rate_text(frames / seconds)} tokens/s"
    console.say(f"{equal} of {frames} tokens equal to the golden model{rate}")
    return {"exit_code": 0 if not wrong else 1, "tokens": tokens, "prompt": prompt, "frames": frames, "equal": equal,
            "text": None if vocabulary is None else "".join(shown), "seconds": seconds}


def tokens_of(prompt: str, vocabulary: Vocabulary | None) -> list[int]:
    """The numbers of the prompt; HwflowError for a text without a vocabulary."""
    if not prompt:
        return [0]
    if vocabulary is not None:
        return vocabulary.tokens(prompt)
    try:
        return [int(word) for word in prompt.split(",")]
    except ValueError:
        raise HwflowError(f"--prompt must be numbers of tokens without --vocabulary, not {prompt!r}",
                          "give the texts of the tokens with --vocabulary") from None
