"""The steps of a shared stage's program: load a frame, compute sums over windows, store a frame; and, once after each
reset, fill the words that keep a state.

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
#: `Weighting.digits`: a sum is multiplied by two to this power before the next digit of the weights.
DIGIT_BITS = 8


class Operation(enum.Enum):
    """The way in which a step makes results of the words of a window: sums of products with weights, the maximum of
    each lane, or the product of two words with sums of products added."""

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


@dataclass(frozen=True)
class Fill:
    """Write the first value of a state to the `words` words from `base` on, before the first frame after a reset.

    All lanes are `value`; None: the next words of `Program.image`.
    """

    base: int
    words: int
    value: int | None

    def __post_init__(self) -> None:
        require_positive("words", self.words, "Fill")


def require_positive(name: str, number: int, step: str = "Compute") -> None:
    """ValueError where a size of a step is less than 1."""
    if number < 1:
        raise ValueError(f"{name} of a {step} must be at least 1, not {number}")


@dataclass(frozen=True, kw_only=True)
class Loops:
    """How often each loop of a `Compute` runs, the outermost first.

    For each tile of `columns` channels, each row and column of pixels, a *block* reads the words of a window in three
    loops (`outer`, `inner`, `words`), in each cycle one word.
    `lead` blocks at the beginning of each row of pixels only read what the windows after them share; they make no
    results.  They come before the `width` blocks that do.
    """

    tiles: int = 1
    height: int = 1
    width: int = 1
    outer: int = 1
    inner: int = 1
    words: int = 1
    lead: int = 0

    def __post_init__(self) -> None:
        for name in ("tiles", "height", "width", "outer", "inner", "words"):
            require_positive(name, getattr(self, name))

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
        """All blocks, also those that make no results."""
        return self.tiles * self.blocks_in_tile

    @property
    def beats(self) -> int:
        """Words that a block reads."""
        return self.outer * self.inner * self.words

    @property
    def counts(self) -> dict[str, int]:
        """Iterations of each loop of the reads."""
        return {"tiles": self.tiles, "height": self.height, "width": self.blocks_in_row, "outer": self.outer,
                "inner": self.inner, "words": self.words}


@dataclass(frozen=True, kw_only=True)
class ReadWalk:
    """The address of the word that is read: the first one, and how far it moves in an iteration of each loop.

    In the loop `words` it moves by 1.
    """

    base: int
    tile: int = 0
    row: int = 0
    column: int = 0
    outer: int = 0
    inner: int = 0


@dataclass(frozen=True, kw_only=True)
class WriteWalk:
    """The address of the word that is written, as `ReadWalk`."""

    base: int
    tile: int = 0
    row: int = 0
    column: int = 0


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Where a window is in its frame.

    A word is read in row `first_row + row * row_stride + outer * outer_rows + inner * inner_rows` and column
    `first_column + column * column_stride + outer * outer_columns + inner * inner_columns`.  If these are not inside
    `frame_height` and `frame_width`, all lanes are `pad`.
    """

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

    def __post_init__(self) -> None:
        for name in ("frame_height", "frame_width"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Weighting:
    """How the words of a block meet weights.

    slides
        The window slides along a row: weight[word, r, c] meets lane r of the word that was read `c * slide` words
        before, `SharedShape.slide`.  So a block reads only what is new in its window, column by column of the window.
    digits
        The loop `outer` counts digits of weights, highest first: the sum is multiplied by 2**DIGIT_BITS between them.
    repeated
        A tile has a single word of weights, which meets every word of its blocks.
    in_parts
        Weights are for one block alone (`height` = `width` = 1), and arrive in parts, one for each iteration of
        `outer`: a window may have more weights than their buffer has places.
    """

    slides: bool = False
    digits: bool = False
    repeated: bool = False
    in_parts: bool = False


@dataclass(frozen=True, kw_only=True)
class Output:
    """Says what becomes of a sum or maximum s: clamp(round(s) + `zero_point`, `low`, `high`), where the constants of
    its channel say what is rounded.

    table
        The number of a table of the program in which the results are looked up; None: they stay as they are.
    byte
        Results are not clamped: 0, their lowest byte is an element, 1, the next one.  None: they are.
    """

    zero_point: int = 0
    low: int = -128
    high: int = 127
    table: int | None = None
    byte: int | None = None

    def __post_init__(self) -> None:
        if not -128 <= self.low <= self.high <= 127:
            raise ValueError(f"low and high of a Compute must be in order and inside -128 to 127, not {self.low} and "
                             f"{self.high}")


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Nested loops over windows, each of which becomes a word of results.

    operation
        MULTIPLY: result r is the sum over all words and columns c of weight[word, r, c] * element[c].  Each tile has
        weights of its own, which its blocks read again and again.  MAXIMUM: result r is the maximum of lane r.
        PRODUCT: a block reads the words a, b, a, b.  The first three meet weights; the last one's are 0, and instead
        -1 - b meets -1 - a, lane by lane.  So with weights -1 - z for the zero points z of the operands, results are
        (a - z_a) * (b - z_b) + 1 - z_a * z_b, and all weights are elements.
    """

    operation: Operation = Operation.MULTIPLY
    loops: Loops = Loops()
    read: ReadWalk
    write: WriteWalk
    padding: Padding = Padding()
    weighting: Weighting = Weighting()
    output: Output = Output()

    def __post_init__(self) -> None:
        loops, way = self.loops, self.weighting
        if way.in_parts and way.repeated:
            raise ValueError("weights of a Compute must not be repeated where they come in parts")
        if way.in_parts and loops.pixels > 1:
            raise ValueError(f"height and width of a Compute must be 1 where weights come in parts, not {loops.height} "
                             f"and {loops.width}")
        if self.operation is Operation.PRODUCT and (
                (loops.outer, loops.inner, loops.words) != (2, 2, 1) or way.repeated or way.in_parts or way.digits):
            raise ValueError("a Compute that multiplies two words must have blocks of 2 x 2 words, each with a weight")
        if (loops.lead and not way.slides) or loops.lead < 0:
            raise ValueError(f"lead of a Compute must be 0 where its window does not slide, not {loops.lead}")
        if way.slides and (way.in_parts or way.repeated or way.digits or self.operation is not Operation.MULTIPLY):
            raise ValueError("a Compute must not slide with weights in parts, repeated or in digits, nor with maxima "
                             "or products of two words")

    @property
    def turns_of_tile(self) -> int:
        """How often the blocks of a tile are computed: once for each part of their weights."""
        return self.loops.outer if self.weighting.in_parts else 1

    @property
    def weight_words(self) -> int:
        """Words of weights of all tiles."""
        if self.operation is Operation.MAXIMUM:
            return 0
        return self.loops.tiles * (1 if self.weighting.repeated else self.loops.beats)

    @property
    def part(self) -> int:
        """Words of weights that must be there before a block, or a part of it, begins."""
        if self.operation is Operation.MAXIMUM:
            return 0
        return 1 if self.weighting.repeated else self.run

    @property
    def run(self) -> int:
        """Words that are read without a pause: those of a block, or of a part of it."""
        return self.loops.beats // self.turns_of_tile

    @cached_property
    def reads(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """The address of each word that is read, and whether it is inside the frame: [tiles, blocks, beats]."""
        loops, read, place = self.loops, self.read, self.padding
        tile, row, column, outer, inner, word = self.grid(*loops.counts.values())
        address = (read.base + tile * read.tile + row * read.row + column * read.column + outer * read.outer
                   + inner * read.inner + word)
        y = place.first_row + row * place.row_stride + outer * place.outer_rows + inner * place.inner_rows
        x = (place.first_column + column * place.column_stride + outer * place.outer_columns
             + inner * place.inner_columns)
        inside = (y >= 0) & (y < place.frame_height) & (x >= 0) & (x < place.frame_width)
        shape = loops.tiles, loops.blocks_in_tile, loops.beats
        inside = np.broadcast_to(inside, address.shape)
        return address.reshape(shape), inside.reshape(shape)

    @cached_property
    def writes(self) -> IntArray:
        """The address of each word that is written: [tiles, pixels]."""
        loops, write = self.loops, self.write
        tile, row, column = self.grid(loops.tiles, loops.height, loops.width)
        address = write.base + tile * write.tile + row * write.row + column * write.column
        return address.reshape(loops.tiles, loops.pixels)

    @property
    def readers(self) -> IntArray:
        """The number of each block: [tiles, blocks], of all tiles in order."""
        return np.arange(self.loops.blocks).reshape(self.loops.tiles, self.loops.blocks_in_tile)

    @property
    def writers(self) -> IntArray:
        """The number of the block that makes each pixel: [tiles, pixels]."""
        loops = self.loops
        numbers = self.readers.reshape(loops.tiles, loops.height, loops.blocks_in_row)
        return numbers[:, :, loops.lead:].reshape(loops.tiles, loops.pixels)

    @cached_property
    def read_span(self) -> tuple[int, int] | None:
        """The lowest and the highest address that is read inside the frame; None where all windows are padding.

        It is found without all addresses of `reads`: rows and columns of a word are inside or not by themselves.
        """
        loops, read, place = self.loops, self.read, self.padding
        outer, inner = np.indices((loops.outer, loops.inner))
        rows = inside_of(place.first_row + outer * place.outer_rows + inner * place.inner_rows,
                         loops.height, place.row_stride, place.frame_height)
        columns = inside_of(place.first_column + outer * place.outer_columns + inner * place.inner_columns,
                            loops.blocks_in_row, place.column_stride, place.frame_width)
        inside = rows.any(axis=0) & columns.any(axis=0)
        if not inside.any():
            return None
        ends = []
        for lowest in (True, False):
            address = outer * read.outer + inner * read.inner
            for places, step in ((rows, read.row), (columns, read.column)):
                first = places.argmax(axis=0)  # those inside follow each other
                last = first + places.sum(axis=0) - 1
                address = address + step * np.where((step > 0) == lowest, first, last)
            ends.append(int((address.min if lowest else address.max)(where=inside, initial=address[inside][0])))
        tiles = (loops.tiles - 1) * read.tile
        return (read.base + ends[0] + min(0, tiles), read.base + ends[1] + max(0, tiles) + loops.words - 1)

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
    def read_jumps(self) -> dict[str, int]:
        """The change, loop by loop, of the read address with which its next iteration begins: inner loops are at their
        end."""
        read = self.read
        strides = {"tiles": read.tile, "height": read.row, "width": read.column, "outer": read.outer,
                   "inner": read.inner, "words": 1}
        return jumps({name: (count, strides[name]) for name, count in self.loops.counts.items()})

    @property
    def write_jumps(self) -> dict[str, int]:
        """The same of the write address."""
        loops, write = self.loops, self.write
        return jumps({"tiles": (loops.tiles, write.tile), "height": (loops.height, write.row),
                      "width": (loops.width, write.column)})


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
    gone, jumped = 0, {}
    for name, (count, stride) in reversed(loops.items()):
        jumped[name] = stride - gone
        gone += (count - 1) * stride
    return jumped


Step = Fill | Load | Compute | Store
