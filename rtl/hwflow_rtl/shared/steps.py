"""The steps of a shared stage's program: load a frame, compute sums over windows, store a frame.

The frame memory has *words* of as many elements as the array has columns.  A tensor takes whole words for each pixel,
pixel after pixel in raster order; lanes without a channel hold anything.  Elements are stored as signed numbers of
`ELEMENT_BITS` bits: an unsigned tensor of that width is stored less half of its range (`Load.flip`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

#: Bits of an element in the frame memory, and of a weight.
ELEMENT_BITS = 8
#: `Compute.digits`: a sum is multiplied by two to this power before the next digit of the weights.
DIGIT_BITS = 8


class Operation(enum.Enum):
    """What a step makes of the words of a window: sums of products with weights, the maximum of each lane, or the
    product of two words with sums of products added."""

    MULTIPLY = "multiply"
    MAXIMUM = "maximum"
    PRODUCT = "product"


@dataclass(frozen=True)
class Load:
    """Write a frame from input `port` to the words from `base` on.

    `pixels` of `channels` elements arrive; each pixel takes whole words.  `flip` inverts the highest bit of each
    element, which turns unsigned numbers into signed ones.
    """

    port: int
    base: int
    pixels: int
    channels: int
    flip: bool


@dataclass(frozen=True)
class Store:
    """Give a frame that is in the words from `base` on to output `port`; the fields are as those of `Load`.

    `wide`: elements have two bytes, and each word is followed by one with the high bytes of the same channels.
    """

    port: int
    base: int
    pixels: int
    channels: int
    flip: bool
    wide: bool = False

    def words(self, columns: int) -> int:
        """Words that are read."""
        return self.pixels * -(-self.channels // columns) * (2 if self.wide else 1)


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Nested loops over windows: for each tile of `columns` channels, each row and column of pixels, one *block*.

    A block reads the words of a window in three loops (`outer`, `inner`, `words`), in each cycle one word, and makes a
    word of results of them.  The numbers of iterations are the fields without a prefix; `read_*` say how far the
    address of the word that is read moves in an iteration of a loop, `write_*` the same of the word that is written.
    In the loop `words` it moves by 1.

    A window's place in the frame decides about padding.  A word is read in row
    `first_row + row * row_stride + outer * outer_rows + inner * inner_rows` and column
    `first_column + column * column_stride + outer * outer_columns + inner * inner_columns`.  If these are not inside
    `frame_height` and `frame_width`, all lanes are `pad`.

    operation
        MULTIPLY: result r is the sum over all words and columns c of weight[word, r, c] * element[c].  Each tile has
        weights of its own, which its blocks read again and again.  MAXIMUM: result r is the maximum of lane r.
        PRODUCT: a block reads the words a, b, a, b.  The first three meet weights; the last one's are 0, and instead
        -1 - b meets -1 - a, lane by lane.  So with weights -1 - z for the zero points z of the operands, results are
        (a - z_a) * (b - z_b) + 1 - z_a * z_b, and all weights are elements.
    digits
        The loop `outer` counts digits of weights, highest first: the sum is multiplied by 2**DIGIT_BITS between them.
    slides
        The window slides along a row: weight[word, r, c] meets lane r of the word that was read `c * slide` words
        before, `SharedShape.slide`.  So a block reads only what is new in its window, column by column of the window.
    lead
        Blocks at the beginning of each row of pixels that only read what the windows after them share; they make no
        results.  They come before the `width` blocks that do.
    repeated
        A tile has a single word of weights, which meets every word of its blocks.
    in_parts
        Weights are for one block alone (`height` = `width` = 1), and arrive in parts, one for each iteration of
        `outer`: a window may have more weights than their buffer has places.
    zero_point, low, high
        The results are clamp(round(...) + zero_point, low, high), as the constants of their channel say.
    table
        The number of a table of the program in which the results are looked up; None: they stay as they are.
    byte
        Results are not clamped: 0, their lowest byte is an element, 1, the next one.  None: they are.
    """

    operation: Operation = Operation.MULTIPLY
    read_base: int
    write_base: int
    tiles: int = 1
    height: int = 1
    width: int = 1
    outer: int = 1
    inner: int = 1
    words: int = 1
    read_tile: int = 0
    read_row: int = 0
    read_column: int = 0
    read_outer: int = 0
    read_inner: int = 0
    write_tile: int = 0
    write_row: int = 0
    write_column: int = 0
    first_row: int = 0
    first_column: int = 0
    row_stride: int = 0
    column_stride: int = 0
    outer_rows: int = 0
    outer_columns: int = 0
    inner_rows: int = 0
    inner_columns: int = 0
    frame_height: int = 1
    frame_width: int = 1
    pad: int = 0
    slides: bool = False
    lead: int = 0
    digits: bool = False
    repeated: bool = False
    in_parts: bool = False
    zero_point: int = 0
    low: int = -128
    high: int = 127
    table: int | None = None
    byte: int | None = None

    def __post_init__(self) -> None:
        for name in ("tiles", "height", "width", "outer", "inner", "words", "frame_height", "frame_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of a Compute must be at least 1, not {getattr(self, name)}")
        if self.in_parts and self.repeated:
            raise ValueError("weights of a Compute must not be repeated where they come in parts")
        if self.in_parts and self.height * self.width > 1:
            raise ValueError(f"height and width of a Compute must be 1 where weights come in parts, not {self.height} "
                             f"and {self.width}")
        if self.operation is Operation.PRODUCT and (
                (self.outer, self.inner, self.words) != (2, 2, 1) or self.repeated or self.in_parts or self.digits):
            raise ValueError("a Compute that multiplies two words must have blocks of 2 x 2 words, each with a weight")
        if (self.lead and not self.slides) or self.lead < 0:
            raise ValueError(f"lead of a Compute must be 0 where its window does not slide, not {self.lead}")
        if self.slides and (self.in_parts or self.repeated or self.digits
                            or self.operation is not Operation.MULTIPLY):
            raise ValueError("a Compute must not slide with weights in parts, repeated or in digits, nor with maxima "
                             "or products of two words")
        if not -128 <= self.low <= self.high <= 127:
            raise ValueError(f"low and high of a Compute must be in order and inside -128 to 127, not {self.low} and "
                             f"{self.high}")

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def blocks_in_row(self) -> int:
        return self.lead + self.width

    @property
    def blocks_in_tile(self) -> int:
        return self.height * self.blocks_in_row

    @property
    def blocks(self) -> int:
        """Those that make no results included."""
        return self.tiles * self.blocks_in_tile

    @property
    def turns_of_tile(self) -> int:
        """How often the blocks of a tile are computed: once for each part of their weights."""
        return self.outer if self.in_parts else 1

    @property
    def beats(self) -> int:
        """Words that a block reads."""
        return self.outer * self.inner * self.words

    @property
    def weight_words(self) -> int:
        """Words of weights of all tiles."""
        if self.operation is Operation.MAXIMUM:
            return 0
        return self.tiles if self.repeated else self.tiles * self.beats

    @property
    def part(self) -> int:
        """Words of weights that must be there before a block, or a part of it, begins."""
        if self.operation is Operation.MAXIMUM:
            return 0
        if self.repeated:
            return 1
        return self.run

    @property
    def run(self) -> int:
        """Words that are read without a pause: those of a block, or of a part of it."""
        return self.inner * self.words if self.in_parts else self.beats

    @cached_property
    def reads(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """The address of each word that is read, and whether it is inside the frame: [tiles, blocks, beats]."""
        tile, row, column, outer, inner, word = self.grid(
            self.tiles, self.height, self.blocks_in_row, self.outer, self.inner, self.words)
        address = (self.read_base + tile * self.read_tile + row * self.read_row + column * self.read_column
                   + outer * self.read_outer + inner * self.read_inner + word)
        y = self.first_row + row * self.row_stride + outer * self.outer_rows + inner * self.inner_rows
        x = (self.first_column + column * self.column_stride + outer * self.outer_columns
             + inner * self.inner_columns)
        inside = (y >= 0) & (y < self.frame_height) & (x >= 0) & (x < self.frame_width)
        shape = self.tiles, self.blocks_in_tile, self.beats
        inside = np.broadcast_to(inside, address.shape)
        return address.reshape(shape), inside.reshape(shape)

    @cached_property
    def writes(self) -> IntArray:
        """The address of each word that is written: [tiles, pixels]."""
        tile, row, column = self.grid(self.tiles, self.height, self.width)
        address = self.write_base + tile * self.write_tile + row * self.write_row + column * self.write_column
        return address.reshape(self.tiles, self.pixels)

    @property
    def readers(self) -> IntArray:
        """The number of each block: [tiles, blocks], of all tiles in order."""
        return np.arange(self.blocks).reshape(self.tiles, self.blocks_in_tile)

    @property
    def writers(self) -> IntArray:
        """The number of the block that makes each pixel: [tiles, pixels]."""
        numbers = self.readers.reshape(self.tiles, self.height, self.blocks_in_row)
        return numbers[:, :, self.lead:].reshape(self.tiles, self.pixels)

    @cached_property
    def read_span(self) -> tuple[int, int] | None:
        """The lowest and the highest address that is read inside the frame; None where all windows are padding.

        As of `reads`, without all their addresses: rows and columns of a word are inside or not by themselves.
        """
        outer, inner = np.indices((self.outer, self.inner))
        rows = inside_of(self.first_row + outer * self.outer_rows + inner * self.inner_rows,
                         self.height, self.row_stride, self.frame_height)
        columns = inside_of(self.first_column + outer * self.outer_columns + inner * self.inner_columns,
                            self.blocks_in_row, self.column_stride, self.frame_width)
        inside = rows.any(axis=0) & columns.any(axis=0)
        if not inside.any():
            return None
        ends = []
        for lowest in (True, False):
            address = outer * self.read_outer + inner * self.read_inner
            for found, step in ((rows, self.read_row), (columns, self.read_column)):
                first = found.argmax(axis=0)  # those inside follow each other
                last = first + found.sum(axis=0) - 1
                address = address + step * np.where((step > 0) == lowest, first, last)
            ends.append(int((address.min if lowest else address.max)(where=inside, initial=address[inside][0])))
        tiles = (self.tiles - 1) * self.read_tile
        return (self.read_base + ends[0] + min(0, tiles), self.read_base + ends[1] + max(0, tiles) + self.words - 1)

    @cached_property
    def write_span(self) -> tuple[int, int]:
        """The lowest and the highest address that is written."""
        return int(self.writes.min()), int(self.writes.max())

    @cached_property
    def overtakes(self) -> bool:
        """Whether a block writes a word that a later one reads inside the frame."""
        if self.read_span is None or not meet(self.read_span, self.write_span):
            return False
        addresses, inside = self.reads
        first, last = self.read_span[0], np.full(self.read_span[1] - self.read_span[0] + 1, -1)
        readers = np.broadcast_to(self.readers[..., None], inside.shape)
        last[addresses[inside] - first] = readers[inside]  # of equal words the last one counts, and blocks are in order
        at = self.writes - first
        both = (at >= 0) & (at < len(last))
        return bool((last[at[both]] > self.writers[both]).any())

    @staticmethod
    def grid(*counts: int) -> tuple[IntArray, ...]:
        """The index of each loop, outermost first, in arrays of all iterations."""
        return tuple(np.broadcast_to(index, counts) for index in np.ogrid[tuple(slice(count) for count in counts)])

    @property
    def counts(self) -> dict[str, int]:
        """Iterations of each loop of the reads."""
        return {"tiles": self.tiles, "height": self.height, "width": self.blocks_in_row, "outer": self.outer,
                "inner": self.inner, "words": self.words}

    @property
    def read_jumps(self) -> dict[str, int]:
        """By loop, the change of the read address with which its next iteration begins: inner loops are at their end.
        """
        strides = {"tiles": self.read_tile, "height": self.read_row, "width": self.read_column,
                   "outer": self.read_outer, "inner": self.read_inner, "words": 1}
        return jumps({name: (count, strides[name]) for name, count in self.counts.items()})

    @property
    def write_jumps(self) -> dict[str, int]:
        """As `read_jumps`, of the write address."""
        return jumps({"tiles": (self.tiles, self.write_tile), "height": (self.height, self.write_row),
                      "width": (self.width, self.write_column)})


def inside_of(first: IntArray, count: int, stride: int, size: int) -> npt.NDArray[np.bool_]:
    """Whether first + k * stride is inside 0 to `size` - 1: [k, ...] for k below `count`."""
    places = first + stride * np.arange(count).reshape(-1, *[1] * first.ndim)
    return (places >= 0) & (places < size)


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges, with both ends, have a number in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def jumps(loops: dict[str, tuple[int, int]]) -> dict[str, int]:
    """For loops (count, stride), outermost first, the stride of each less the way that the loops inside it have gone.
    """
    gone, found = 0, {}
    for name, (count, stride) in reversed(loops.items()):
        found[name] = stride - gone
        gone += (count - 1) * stride
    return found


Step = Load | Compute | Store
