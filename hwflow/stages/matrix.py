"""The stages of layers that multiply by constant weights: what convolution and dense share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property
from math import gcd
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from hwflow_rtl.matrix.shape import MatrixShape, banks_of, paces, pairs_rows
from hwflow_rtl.matrix.stage import MatrixStageShape
from hwflow_rtl.matrix.streamed_weights import StreamSource, weight_beats
from hwflow_rtl.matrix.tiled import TiledShape, TiledStageShape, pass_beats
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.memory.weight_sharing import WIDEST_GROUP
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import FAMILIES, Technology
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.matrix_layer import MatrixLayer
from hwflow.layers.window import Window
from hwflow.stages.codes import pad_value, shape_of
from hwflow.stages.folding import Folding, Schedule, divisors
from hwflow.stages.rescalers import rescale_problem, rescaler_constants
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import multiplication_problem, weight_problem

M_co = TypeVar("M_co", bound=MatrixLayer, covariant=True)

#: The most rows, and the most columns, that a layer's foldings have.
CHOICES = 20
#: Bits of a word of the RAM blocks that most devices have, and how much more than the least waste is still good.
BLOCK_WIDTH, FILLED_WELL = 36, 1.125
#: Bits of a word of the widest memory that weights come from.
MEMORY_WIDTH = 32


def fewest(count: int) -> list[int]:
    """For every number of passes over `count` things, the fewest at a time; ascending.  Holds all divisors."""
    return sorted({-(-count // passes) for passes in range(1, count + 1)})


@cache
def rows_of_a_beat(rows: int, lanes: int, sharing: int, width: int) -> tuple[int, ...]:
    """The rows that a beat of streamed weights can hold: first the fewest that fill the width of RAM blocks best.

    `sharing` rows have their multipliers in common, and the weights of a row have `width` bits.
    """
    possible = [bank for bank in banks_of(rows, lanes) if bank % sharing == 0]
    arriving = [n for n in divisors(rows) if any(n % bank == 0 for bank in possible)
                and math.lcm(n * width, MEMORY_WIDTH) <= WIDEST_GROUP]
    if not arriving:
        return ()
    waste = [-(-n * width // BLOCK_WIDTH) * BLOCK_WIDTH / (n * width) for n in arriving]
    best = next(k for k, each in enumerate(waste) if each <= FILLED_WELL * min(waste))
    return arriving[best], *arriving[:best], *arriving[best + 1:]


def thinned(sizes: list[int], exact: list[int]) -> list[int]:
    """At most about `CHOICES` of the ascending `sizes`: those that are `exact`, and others that are furthest apart."""
    kept = {size for size in sizes if size in exact} | {sizes[-1]}
    others = [size for size in sizes if size not in kept]
    while others and len(kept) < CHOICES:
        best = max(others, key=lambda size: min(max(size, other) / min(size, other) for other in kept))
        kept.add(best)
        others.remove(best)
    return sorted(kept)


class Shapes:
    """Keeps what layers of the same sizes and formats have in common, computed once while there is such a layer.

    of
        The shape of each folding.
    words
        For rows (1: of one group) and columns: beats, blocks, cycles of the feed, words, lanes of the input.
    """

    def __init__(self) -> None:
        self.of: dict[Folding, MatrixShape] = {}
        self.words: dict[tuple[int, int], tuple[int, int, int, int, tuple[int]]] = {}


#: By sizes and formats.
SHAPES: WeakValueDictionary[Hashable, Shapes] = WeakValueDictionary()


class MatrixStage(LayerStage[M_co]):
    """The stage of a layer with weights [cout, kh, kw, cin / groups] that a window carries over frames."""

    @property
    @abstractmethod
    def frame(self) -> Frame:
        """The frame that the window moves over."""

    @property
    @abstractmethod
    def window(self) -> Window:
        """The window."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """The groups of channels."""

    @property
    @abstractmethod
    def weights(self) -> IntArray:
        """[cout, kh, kw, cin / groups]."""

    @property
    def pad(self) -> int:
        """What pads the frame, as it is on a stream."""
        return pad_value(self.x)

    def hardware_problem(self) -> str | None:
        return rescale_problem(self.layer.requantize, self.y.format)

    def shared_problem(self) -> str | None:
        return multiplication_problem(self.layer.multiplied) or weight_problem(self.layer.weights)

    @cached_property
    def shapes(self) -> Shapes:
        return SHAPES.setdefault((self.likeness, *self.formats.values()), Shapes())

    @cached_property
    def _rescalers(self) -> dict[tuple[Technology, int, MultiplierStyle | None], RescalerConstants]:
        return {}

    @cached_property
    def likeness(self) -> Hashable:
        """The numbers that foldings, schedules and streams of weights follow from."""
        formats = {name: self.formats[name] for name in ("element", "weight", "bipolar_element", "bipolar_weight")}
        return self.pixels, self.depth, self.group_outputs, *formats.values()

    @property
    def group_outputs(self) -> int:
        """The outputs of a group."""
        return int(self.weights.shape[0]) // self.groups

    @property
    def depth(self) -> int:
        """Inputs of a group."""
        return int(self.weights.shape[3])

    def foldings(self) -> Iterator[Folding]:
        """Rows of one group or of several, by channels, or by channels of a row of taps.

        Sizes that do not divide are there where nothing smaller needs as few passes.  Foldings that differ in `style`
        alone follow each other; it is each that some family offers for the layer's numbers.
        """
        for folding in self.sizes():
            for style in self.all_styles:
                if self.takes(folding, style):
                    yield replace(folding, style=style)

    def takes(self, folding: Folding, style: MultiplierStyle) -> bool:
        """Whether rows and columns are as many as `style` needs."""
        if style is MultiplierStyle.PAIRS:
            return pairs_rows(folding.rows, folding.lanes, min(folding.rows, self.group_outputs))
        return style is not MultiplierStyle.MACS or folding.cols % 2 == 0

    def sizes(self) -> Iterator[Folding]:
        widths = self.widths()
        for rows in thinned(fewest(self.group_outputs), divisors(self.group_outputs)):
            for lanes in divisors(gcd(rows, self.group_outputs)):
                for cols in widths:
                    yield Folding(rows, cols, lanes)
        spans = [1, self.window.kernel[1]] if self.patches and self.window.kernel[1] > 1 else [1]
        for parallel in thinned(fewest(self.groups), divisors(self.groups)):
            if parallel == 1:
                continue
            for lanes in divisors(gcd(parallel, self.groups) * self.group_outputs):
                for taps in spans:
                    yield Folding(parallel * self.group_outputs, taps * self.depth, lanes)

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        return self.products.styles(technology)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        return (MultiplierStyle.LOGIC,)

    @cached_property
    def products(self) -> ProductShape:
        return ProductShape(Operand(self.formats["element"], self.formats["bipolar_element"]),
                            Operand(self.formats["weight"], self.formats["bipolar_weight"]))

    @cached_property
    def all_styles(self) -> tuple[MultiplierStyle, ...]:
        """The styles that some family offers for the layer's numbers."""
        offered = {style for family in FAMILIES.values() for style in self.products.styles(family())}
        return tuple(style for style in MultiplierStyle if style in offered)

    @property
    def patches(self) -> bool:
        """Whether `RowPatch` can gather the taps: where padding is no wider than the kernel reaches."""
        return self.window.pads[1] <= (self.window.kernel[1] - 1) * self.window.dilations[1]

    def widths(self) -> list[int]:
        """Numbers of products of a row that need fewer cycles than any smaller one, or divide the depth."""
        taps, lanes, exact = self.window.kernel[1], self.lanes_of_words(), divisors(self.depth)
        widths: list[int] = []
        least = 0
        for cols in sorted({*lanes, *(taps * n for n in lanes)}):
            words = [self.words(cols, patch) for patch in (False, True) if self.allows(cols, patch)]
            if words and (not widths or min(words) < least or cols in exact):
                least = min(words) if not widths else min(least, *words)
                widths.append(cols)
        return thinned(widths, [*exact, *(taps * n for n in exact)])

    def lanes_of_words(self) -> list[int]:
        return divisors(self.depth) if self.layer.weight_format.bipolar else fewest(self.depth)

    def allows(self, cols: int, patch: bool) -> bool:
        """Whether rows of `cols` products are possible, without a patch or with one."""
        taps = self.window.kernel[1] if patch else 1
        if patch and (taps == 1 or cols % taps or not self.patches):
            return False
        return cols // taps <= self.depth and not (self.layer.weight_format.bipolar and self.depth % (cols // taps))

    def words(self, cols: int, patch: bool) -> int:
        """Words that a row of `cols` products reads for one output."""
        height, width = self.window.kernel
        return height * -(-self.depth // (cols // width)) if patch else height * width * -(-self.depth // cols)

    def matrix_shape(self, folding: Folding) -> MatrixShape:
        """The shape of the unit; if rows of this many products can be built in two ways, the faster or the plain one.

        It is for weights in ROMs; `unit_shape` derives the shape for weights that arrive from it.
        """
        folding = replace(folding, rescale=None, weight_rows=0, weight_interval=Fraction(1))
        found = self.shapes.of.get(folding)
        if found is None:
            parallel = folding.rows // self.group_outputs if folding.rows > self.group_outputs else 1
            patch = folding.cols > self.depth if parallel > 1 else self.spans_taps(folding.cols)
            taps = self.window.kernel[1] if patch else 1
            found = self.shapes.of[folding] = MatrixShape(
                frame=self.pixels, depth=self.depth, outputs=self.group_outputs, lanes=folding.cols // taps * parallel,
                rows=folding.rows, out_lanes=folding.lanes, parallel=parallel, patch=patch, style=folding.style,
                **self.formats)
        return found

    def unit_shape(self, folding: Folding) -> MatrixShape | TiledShape:
        """The shape of the unit: a `TiledStage` where weights arrive and frames have several output pixels, else a
        `MatrixStage`.

        ValueError for `weight_rows` that the folding cannot have.
        """
        if not folding.weight_rows:
            return self.matrix_shape(folding)
        # Not kept: the tables of a `TiledShape` are as long as its frames.
        shape, source = self.matrix_shape(folding), StreamSource(folding.weight_rows, folding.weight_interval)
        return replace(shape, source=source) if shape.pixels == 1 else TiledShape(shape, source)

    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        """The `weight_rows` that `folding` can have: first the fewest whose weights fill the width of RAM blocks best.

        Words of several rows fill blocks better; a narrow stream is cheaper in everything else.
        """
        if folding.rows > self.group_outputs:
            return ()
        return rows_of_a_beat(folding.rows, folding.lanes, 2 if folding.style is MultiplierStyle.PAIRS else 1,
                              folding.cols * self.formats["weight"].width)

    def weight_stream(self, folding: Folding) -> WeightStream | None:
        """The words that the stage's stream of weights brings for a frame; None where weights are in ROMs.

        As `unit_shape(folding)` says, but quick, for the solver.
        """
        if not folding.weight_rows:
            return None
        beats, blocks, *_ = self.counted(folding)
        height, width = self.window.positions(self.frame)
        passes, parts = blocks // (height * width), beats * folding.rows // folding.weight_rows
        return WeightStream(self.formats["weight"], folding.weight_rows * folding.cols, passes * parts)

    def weight_beats(self, folding: Folding) -> IntArray:
        """The weights in the order of `weight_stream`: int64[beats, lanes]."""
        shape = self.unit_shape(folding)
        if isinstance(shape, TiledShape):
            return pass_beats(shape, self.weights)
        return weight_beats(shape, self.weights)

    def spans_taps(self, cols: int) -> bool:
        plain, patch = self.allows(cols, False), self.allows(cols, True)
        if not (plain and patch):
            return patch
        return self.words(cols, True) < self.words(cols, False)

    @cached_property
    def pixels(self) -> WindowShape:
        """The window over pixels; each group is a word."""
        return WindowShape(
            height=self.frame.height, width=self.frame.width, words=self.groups, groups=self.groups,
            kernel=self.window.kernel, stride=self.window.strides, dilation=self.window.dilations,
            pads=self.window.pads)

    @cached_property
    def formats(self) -> dict[str, Any]:
        return {
            "element": shape_of(self.x.format), "weight": shape_of(self.layer.weight_format),
            "accumulator": shape_of(self.layer.accumulator), "output": shape_of(self.y.format),
            "bipolar_element": self.x.format.bipolar, "bipolar_weight": self.layer.weight_format.bipolar}

    def counted(self, folding: Folding) -> tuple[int, int, int, int, tuple[int]]:
        """Count for a frame: beats of a block, blocks, the two least intervals of its words, and `Schedule.lanes_in`.

        Of foldings with the same word it makes one shape.
        """
        rows, cols = folding.rows, folding.cols
        one_group = rows <= self.group_outputs
        key = 1 if one_group else rows, cols
        like = self.shapes.words.get(key)
        if like is None:
            shape = self.matrix_shape(Folding(*key))
            like = self.shapes.words[key] = (
                shape.played.beats, shape.played.blocks, shape.feed, shape.played.input_words, (shape.lanes_in,))
        beats, blocks, feed, words, lanes_in = like
        if one_group:
            blocks = blocks // self.group_outputs * -(-self.group_outputs // rows)
        return beats, blocks, feed, words, lanes_in

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        """The schedule of `unit_shape(folding)`, but quick."""
        rows, cols = folding.rows, folding.cols
        beats, blocks, feed, words, lanes_in = self.counted(folding)
        if folding.weight_rows:
            interval = self.streamed_interval(folding, beats, blocks, feed, words)
        else:
            interval = max(blocks * paces(beats, rows // folding.lanes)[1], feed, words)
        return Schedule(work=blocks * beats, interval=interval, multipliers=rows * cols, lanes_in=lanes_in)

    def streamed_interval(self, folding: Folding, beats: int, blocks: int, feed: int, words: int) -> int:
        """The interval with streamed weights, for what `schedule` knows of a frame: each pass of a `TiledStage` plays
        the words of a group anew."""
        height, width = self.window.positions(self.frame)
        pixels = height * width
        passes, parts = blocks // pixels, beats * folding.rows // folding.weight_rows
        tile = math.ceil(parts * folding.weight_interval)
        block = paces(max(beats, tile // pixels), folding.rows // folding.lanes)[1]
        if pixels == 1:
            return max(passes * max(block, tile), feed, words)
        whole_feed, feed, words = feed, feed // self.groups, words // self.groups
        if self.window.kernel == (1, 1) and not any(self.window.pads):  # the replay leaves out what no window reads
            feed, words = (each * pixels // (self.frame.height * self.frame.width) for each in (feed, words))
        return max(passes * max(pixels * block, feed, words, tile), whole_feed)

    def shape(self, folding: Folding, technology: Technology) -> MatrixStageShape | TiledStageShape:
        unit, rescaler, pad = self.unit_shape(folding), self.rescaler(folding, technology), self.pad
        if isinstance(unit, TiledShape):
            return TiledStageShape(tiled=unit, weights=self.weights, rescaler=rescaler, pad_value=pad)
        return MatrixStageShape(matrix=unit, weights=self.weights, rescaler=rescaler, pad_value=pad)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Sequence[Times] | None = None) -> StageTimes:
        """Weights that are outside arrive as the folding's `weight_interval` promises."""
        made = super().times(folding, technology, arrivals[0], left=left)
        return StageTimes(made.taken[:1], made.departures)

    def rescaler(self, folding: Folding, technology: Technology) -> RescalerConstants:
        """The constants of all output channels."""
        key = technology, self.unit_shape(folding).drain_interval, folding.rescale
        found = self._rescalers.get(key)
        if found is None:
            found = self._rescalers[key] = rescaler_constants(
                self.layer.requantize, self.layer.accumulator, self.y.format, technology, key[1], folding.rescale)
        return found
