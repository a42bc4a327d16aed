"""`WeightImage`: weights as words of memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np
import numpy.typing as npt

from .weight_stream import WeightStream

__all__ = ["WeightImage"]

#: Bits of the registers that a change of width goes through.
WIDEST_GROUP = 2048


@dataclass(frozen=True)
class WeightImage:
    """The weights of `stream` in words of `word` bits.

    The elements follow each other without gaps, the first in the low bits of the first word.  The image ends where a
    beat and a word end together: what that adds is read and dropped, so that every frame begins with a word of memory.
    """

    stream: WeightStream
    word: int

    def __post_init__(self):
        if self.group > WIDEST_GROUP:
            raise ValueError(f"beats of {self.stream.width} bits must end with a word of {self.word} bits after at "
                             f"most {WIDEST_GROUP} bits, not {self.group}; choose another number of lanes")

    @staticmethod
    def possible(stream: WeightStream, word: int) -> bool:
        """Beats and words end together soon enough."""
        return lcm(stream.width, word) <= WIDEST_GROUP

    @property
    def group(self) -> int:
        """Bits after which a beat and a word end together."""
        return lcm(self.stream.width, self.word)

    @property
    def padded_beats(self) -> int:
        """Beats of a frame and those that are dropped."""
        together = self.group // self.stream.width
        return -(-self.stream.beats // together) * together

    @property
    def words(self) -> int:
        """Words of memory that the image takes."""
        return self.padded_beats * self.stream.width // self.word

    def of(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The words of memory, int64[words], for elements int64[beats, lanes]."""
        stream = self.stream
        elements = np.zeros(self.padded_beats * stream.lanes, dtype=np.int64)
        elements[:stream.beats * stream.lanes] = np.asarray(beats).reshape(-1)
        bits = elements[:, None] >> np.arange(stream.shape.width) & 1
        return bits.reshape(self.words, self.word) @ (1 << np.arange(self.word, dtype=np.int64))

    def model(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The beats of a frame, int64[beats, lanes], for the words of the image."""
        shape = self.stream.shape
        bits = np.asarray(words, dtype=np.int64)[:, None] >> np.arange(self.word) & 1
        weights = 1 << np.arange(shape.width, dtype=np.int64)
        if shape.signed:
            weights[-1] = -weights[-1]
        elements = bits.reshape(-1, shape.width) @ weights
        return elements.reshape(self.padded_beats, self.stream.lanes)[:self.stream.beats]
