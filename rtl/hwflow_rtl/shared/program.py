"""A program of a shared stage: its steps, the constants and weights of each, and what the stage makes of them.

The weights of a frame are one stream, tile after tile in the order of the steps.  For each tile it has

- a *header*: how many words of weights follow,
- the constants of the tile's channels (`Constants`), each in whole beats,
- the words of weights, row after row, in the order in which a block reads them.

So whoever fills the buffers of the stage needs no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .constants import constants_word
from .shape import SharedShape
from .steps import DIGIT_BITS, ELEMENT_BITS, Compute, Fill, IntArray, Load, Operation, Step, Store


@dataclass(frozen=True, eq=False)
class Constants:
    """The numbers that a `Compute` multiplies by: int64 arrays.

    `bias`, `factor`, `extra` are [tiles, columns], in the `SharedShape.room`; `moves`, too, 1 where products move away
    from zero; None where none do.  `weights` are
    [tiles, beats, columns (rows of the array), columns]; [tiles, 1, ...] where they are repeated, [tiles, 0, ...] for a
    maximum.
    """

    bias: IntArray
    factor: IntArray
    extra: IntArray
    weights: IntArray
    moves: IntArray | None = None

    @property
    def of_channels(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """bias, factor, extra and moves."""
        return self.bias, self.factor, self.extra, np.zeros_like(self.bias) if self.moves is None else self.moves

    def check(self, step: Compute, columns: int) -> None:
        """ValueError where an array has another shape than `step` needs."""
        tiles = step.loops.tiles
        words = step.weight_words // tiles
        shapes = {"bias": (tiles, columns), "factor": (tiles, columns), "extra": (tiles, columns),
                  "weights": (tiles, words, columns, columns)}
        if self.moves is not None:
            shapes["moves"] = tiles, columns
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.int64:
                raise ValueError(f"{name} of a Compute must be int64 {shape}, not {array.dtype} {array.shape}")


@dataclass(frozen=True)
class Written:
    """The words that a step writes for one frame: addresses [words], elements [words, columns], in order."""

    step: int
    addresses: IntArray
    elements: IntArray


@dataclass(frozen=True, eq=False)
class Program:
    """`constants[k]` are those of `steps[k]`, None for what is no `Compute`.

    Each `Fill` is before all other steps, and taken once after a reset; the other steps are taken for each frame.

    A `Load` lets a frame in and waits until it is complete.  With `opens`, frames come in while others are computed:
    the step of this number lets in those of all inputs, for this run of the program if it is the `first` step, else for
    the next run; and a `Load` only waits.  Their words are not used meanwhile.
    `tables` are int64[2**ELEMENT_BITS] each: what a result becomes, by its bits as an unsigned number.
    `image`, int64[words, columns], has the words of those `Fill`s that have no value, in order.
    """

    shape: SharedShape
    steps: tuple[Step, ...]
    constants: tuple[Constants | None, ...]
    tables: tuple[IntArray, ...] = ()
    opens: int | None = None
    image: IntArray | None = None

    def __post_init__(self) -> None:
        self.check_fills()
        for step, constants in zip(self.steps, self.constants, strict=True):
            if isinstance(step, Compute) is (constants is None):
                raise ValueError(f"constants must be there for every Compute, and for nothing else, not for {step}")
            if isinstance(step, Compute) and constants is not None:
                constants.check(step, self.shape.columns)
                if step.operation is Operation.PRODUCT and constants.weights[:, -1].any():
                    raise ValueError("weights of the last word must be 0 where it meets another word")
                if step.output.table is not None and step.output.table >= len(self.tables):
                    raise ValueError(f"tables of a Program must be there for every step, not {len(self.tables)}")
                if step.weighting.slides:
                    self.check_slide(step, constants.weights)
                self.shape.check(step)
        if len(self.tables) != self.shape.tables:
            raise ValueError(f"tables of a Program must be {self.shape.tables} as in its shape, not {len(self.tables)}")
        ports = [step.port for step in self.steps if isinstance(step, Load)]
        if sorted(ports) != list(range(len(ports))) or not ports:
            raise ValueError(f"each input of a Program must be loaded once, not {ports}")
        ports = [step.port for step in self.steps if isinstance(step, Store)]
        if sorted(ports) != list(range(len(ports))) or not ports:
            raise ValueError(f"each output of a Program must be stored once, not {ports}")
        if self.opens is not None:
            self.check_opens(self.opens)

    def check_fills(self) -> None:
        """ValueError where a `Fill` is behind other steps, or `image` has not its words."""
        if any(isinstance(step, Fill) for step in self.steps[self.first:]):
            raise ValueError("each Fill of a Program must be before all other steps")
        fills = [step for step in self.steps if isinstance(step, Fill)]
        for step in fills:
            span = self.shape.words_of(step)
            self.shape.require_words("fills", (span.start, span.stop - 1))
        words = sum(step.words for step in fills if step.value is None)
        shape = None if self.image is None else self.image.shape
        if shape != ((words, self.shape.columns) if words else None):
            raise ValueError(f"image of a Program must have the {words} words of its Fills, not {shape}")

    @cached_property
    def first(self) -> int:
        """The number of the first step that is taken for each frame."""
        return next((k for k, step in enumerate(self.steps) if not isinstance(step, Fill)), len(self.steps))

    def check_slide(self, step: Compute, weights: IntArray) -> None:
        """ValueError where a weight meets a word that the array does not keep, or that no block before has read."""
        taps = int(weights.any(axis=(0, 1, 2)).nonzero()[0].max(initial=-1)) + 1
        windows = self.shape.windows
        if taps > windows.taps:
            raise ValueError(f"weights of a window that slides must be 0 from column {windows.taps} on")
        read = (step.loops.lead + 1) * step.loops.beats
        if read < taps * windows.slide:
            raise ValueError(f"a window that slides must have read {taps * windows.slide} words before its first "
                             f"result, not {read}")

    def check_opens(self, opens: int) -> None:
        """ValueError where a step uses words of a frame that may come in meanwhile."""
        first = self.first
        if not first <= opens < len(self.steps):
            raise ValueError(f"opens of a Program must be a step, {first} to {len(self.steps) - 1}, not {opens}")
        loads = [k for k, step in enumerate(self.steps) if isinstance(step, Load)]
        if self.shape.single_port and (opens > first or loads[-1] >= first + len(loads)):
            raise ValueError(f"opens of a Program must be {first}, and all Loads before each Compute, for a frame "
                             "memory with a single port")
        for number, load in enumerate(self.steps):
            if not isinstance(load, Load):
                continue
            if first < opens <= number:
                raise ValueError(f"opens of a Program must be {first} or after the Load {number}, not {opens}")
            meanwhile = range(first, number) if opens == first else (*range(number), *range(opens, len(self.steps)))
            for k in meanwhile:
                if self.shape.uses(self.steps[k], self.shape.words_of(load)):
                    raise ValueError(f"step {k} of a Program must not use words of input {load.port}, whose frame "
                                     "comes in meanwhile")

    @property
    def inputs(self) -> int:
        """Ports that frames are loaded from."""
        return sum(isinstance(step, Load) for step in self.steps)

    @property
    def outputs(self) -> int:
        """Ports that frames are stored to."""
        return sum(isinstance(step, Store) for step in self.steps)

    def beats(self) -> IntArray:
        """The stream of weights of a frame: int64[beats, lanes], elements of `ELEMENT_BITS` bits, unsigned."""
        return np.concatenate([self.tile_beats(step, constants) for step, constants in self.computed()]
                              or [np.zeros((0, self.shape.stream_lanes), np.int64)])

    @property
    def beats_count(self) -> int:
        """Beats of the stream of weights of a frame."""
        return sum(self.shape.beats_of(step) for step, _ in self.computed())

    def computed(self) -> Iterator[tuple[Compute, Constants]]:
        for step, constants in zip(self.steps, self.constants, strict=True):
            if isinstance(step, Compute) and constants is not None:
                yield step, constants

    def tile_beats(self, step: Compute, constants: Constants) -> IntArray:
        """The beats of all tiles of a step."""
        shape, tiles = self.shape, step.loops.tiles
        header = np.zeros((tiles, 1, shape.stream_lanes), np.int64)
        words = step.weight_words // tiles
        header[:, 0, 0], header[:, 0, 1] = words & 0xFF, words >> 8
        packed = np.array([[constants_word(shape.sums.room, *map(int, one)) for one in zip(*channels, strict=True)]
                           for channels in zip(*constants.of_channels, strict=True)],
                          dtype=object)
        lanes = shape.constants_beats * shape.stream_lanes
        bytes_of = [(packed >> (ELEMENT_BITS * k) & 0xFF).astype(np.int64) for k in range(lanes)]
        words_of_constants = np.stack(bytes_of, axis=-1).reshape(tiles, -1, shape.stream_lanes)
        weights = (constants.weights & 0xFF).reshape(tiles, -1, shape.stream_lanes)
        return np.concatenate([header, words_of_constants, weights], axis=1).reshape(-1, shape.stream_lanes)

    def filled(self) -> tuple[IntArray, list[Written]]:
        """The frame memory before the first frame after a reset, [words, columns], and what is written into it."""
        memory = np.zeros((self.shape.words, self.shape.columns), np.int64)
        written, place = list[Written](), 0
        for number, step in enumerate(self.steps[:self.first]):
            assert isinstance(step, Fill)
            addresses = np.arange(step.base, step.base + step.words)
            if step.value is None:
                assert self.image is not None, "`check_fills` has looked"
                memory[addresses] = self.image[place:place + step.words]
                place += step.words
            else:
                memory[addresses] = step.value
            written.append(Written(number, addresses, memory[addresses]))
        return memory, written

    def model(self, frames: Sequence[IntArray], memory: IntArray | None = None
              ) -> tuple[list[IntArray], list[Written]]:
        """Compute what the stage makes of one frame at each input, [pixels, channels] as on the streams: the frame at
        each output, as on the stream, and what each `Compute` writes.

        `memory` is the frame memory, which changes; None: that of the first frame after a reset.
        """
        memory = self.filled()[0] if memory is None else memory
        written: list[Written] = []
        outputs: dict[int, IntArray] = {}
        for number, (step, constants) in enumerate(zip(self.steps, self.constants, strict=True)):
            if isinstance(step, Load):
                self.load(memory, step, frames[step.port])
            elif isinstance(step, Store):
                outputs[step.port] = self.store(memory, step)
            elif constants is not None:
                elements = self.results(memory, step, constants)
                addresses = step.writes.reshape(-1)
                memory[addresses] = elements
                written.append(Written(number, addresses, elements))
        return [outputs[port] for port in range(len(outputs))], written

    def looked_up(self, step: Compute, elements: IntArray) -> IntArray:
        """Look up what results become in the table of their step."""
        if step.output.table is None:
            return elements
        looked: IntArray = self.tables[step.output.table][elements & ((1 << ELEMENT_BITS) - 1)]
        return looked

    def load(self, memory: IntArray, step: Load, frame: IntArray) -> None:
        columns = self.shape.columns
        words = -(-step.channels // columns)
        padded = np.zeros((step.pixels, words * columns), np.int64)
        padded[:, :step.channels] = frame.reshape(step.pixels, step.channels) - (128 if step.flip else 0)
        memory[step.base:step.base + step.pixels * words] = padded.reshape(-1, columns)

    def store(self, memory: IntArray, step: Store) -> IntArray:
        words = memory[step.base:step.base + step.words(self.shape.columns)]
        if step.wide:
            words = (words[::2] & 0xFF) + (words[1::2] << ELEMENT_BITS)
        frame = words.reshape(step.pixels, -1)[:, :step.channels]
        return frame + 128 if step.flip else frame.copy()

    def results(self, memory: IntArray, step: Compute, constants: Constants) -> IntArray:
        """The words of a step in the order in which they are written: int64[blocks, columns]."""
        addresses, inside = step.reads
        loops, output = step.loops, step.output
        there = memory[np.where(inside, addresses, 0)]  # [tiles, blocks, beats, columns]
        words = np.where(inside[..., None], there, step.padding.pad)
        if step.weighting.slides:
            sums = self.sliding_sums(step, words, constants.weights)
        elif step.operation is Operation.MAXIMUM:
            sums = words.max(axis=2)
        else:
            products = np.einsum("tpbc,tbrc->tpbr", words, np.broadcast_to(
                constants.weights, (loops.tiles, loops.beats, *constants.weights.shape[2:])))
            if step.weighting.digits:
                digits = products.reshape(loops.tiles, loops.pixels, loops.outer, -1, self.shape.columns).sum(axis=3)
                scale = np.int64(1) << (DIGIT_BITS * np.arange(loops.outer - 1, -1, -1, dtype=np.int64))
                sums = np.einsum("tpor,o->tpr", digits, scale)
            else:
                sums = products.sum(axis=2)
            if step.operation is Operation.PRODUCT:
                sums = sums + (-1 - words[:, :, -2]) * (-1 - words[:, :, -1])
        bits = self.shape.sums.accumulator
        reach = 1 << (bits - 1)
        if sums.min() < -reach or sums.max() >= reach:
            raise ValueError(f"sums of a step must fit {bits} bits, not {sums.min()} to {sums.max()}")
        bias, factor, extra, moves = (each[:, None, :] for each in constants.of_channels)
        of_channels = bias, factor, extra, moves
        if output.byte is None:
            elements = self.shape.rescaled(sums, of_channels, output.zero_point, output.low, output.high)
        else:
            elements = byte_of(self.shape.quotients(sums, of_channels) + output.zero_point, output.byte)
        return self.looked_up(step, elements.reshape(-1, self.shape.columns))

    def sliding_sums(self, step: Compute, words: IntArray, weights: IntArray) -> IntArray:
        """[tiles, pixels, columns] of words [tiles, blocks, beats, columns]; 0 before the first word of a row."""
        loops = step.loops
        shape = loops.tiles, loops.height, loops.blocks_in_row, loops.beats, self.shape.columns
        row = words.reshape(loops.tiles, loops.height, -1, self.shape.columns)
        sums = np.zeros((*shape[:3], self.shape.columns), np.int64)
        for tap in range(self.shape.windows.taps):
            gone = tap * self.shape.windows.slide
            before = np.pad(row, ((0, 0), (0, 0), (gone, 0), (0, 0)))[:, :, :row.shape[2]]
            sums += np.einsum("thkbr,tbr->thkr", before.reshape(shape), weights[..., tap])
        return sums[:, :, loops.lead:].reshape(loops.tiles, loops.pixels, -1)


def byte_of(numbers: IntArray, byte: int) -> IntArray:
    """Take that byte of each number, as an element: signed."""
    half = 1 << (ELEMENT_BITS - 1)
    return ((numbers >> (ELEMENT_BITS * byte)) + half & (2 * half - 1)) - half
