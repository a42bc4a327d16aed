"""Stages of the core but those of matrices, and their parts, by their sizes: what `unit_samples` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from amaranth.hdl import signed, unsigned
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.concat import ConcatShape
from hwflow_rtl.join.feed import Feed
from hwflow_rtl.join.join import JoinShape, JoinStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.pool.fold_pool import FoldAveragePoolShape
from hwflow_rtl.pool.pool import AveragePoolShape
from hwflow_rtl.rearrange.rearrange import RearrangeStageShape
from hwflow_rtl.rearrange.selection import SelectionShape
from hwflow_rtl.rearrange.shape import RearrangeShape
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.rescale.thresholder import ThresholderConstants, ThresholderStyle
from hwflow_rtl.rows.running_sum import RunningSumShape
from hwflow_rtl.rows.top_k import TopKShape
from hwflow_rtl.shared.results import SharedRequantizerShape
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.tables.embedding import EmbeddingShape
from hwflow_rtl.tables.lookup import LookupShape
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.shape import WindowShape

from tests.synth.sample import Sample, of_shape


def constants(channels: int, style: str, shifts: int = 2, order: PixelOrder | None = None,
              factor_bits: int = 17) -> RequantizerConstants:
    """Random ones; the shifts of the channels are `shifts` different ones."""
    rng = np.random.default_rng(channels)
    return RequantizerConstants(
        bias=rng.integers(-999, 999, channels),
        multiplier=rng.integers(1 << (factor_bits - 3), 1 << factor_bits, channels),
        shift=factor_bits + 3 + rng.integers(0, shifts, channels), zero_point=-3, low=-128, high=127,
        style=RequantizerStyle(style), order=order)


def rescaler(made: RescalerConstants, technology: Technology, bits: int, output: int, interval: int) -> Sample:
    arguments = {"accumulator": signed(bits), "output": signed(output), "interval": interval, "technology": technology}
    return Sample(lambda: made.unit(**arguments, name="rescaler"), lambda: made.cost(**arguments))


def requantizer(technology: Technology, channels: int, bits: int, style: str = "dsp", interval: int = 1,
                shifts: int = 2, rows: Sequence[int] = (), columns: Sequence[int] = (),
                factor_bits: int = 17) -> Sample:
    """With `rows` and `columns` their classes have constants of their own."""
    order = PixelOrder(tuple(rows), tuple(columns), channels) if rows else None
    made = constants(order.depth if order else channels, style, shifts, order, factor_bits)
    return rescaler(made, technology, bits, 8, interval)


def shared_requantizer(technology: Technology, bits: int, style: str, interval: int, bias_bits: int = 20,
                       factor_bits: int = 18, base: int = 17, extra: int = 9, fraction: int = 0) -> Sample:
    shape = SharedRequantizerShape(
        accumulator=signed(bits), room=RequantizerRoom(bias_bits, factor_bits, base, extra), fraction=fraction,
        rounding=RequantizerRounding.HALF_EVEN, interval=interval, style=RequantizerStyle(style))
    return Sample(lambda: shape.build(technology), lambda: shape.cost(technology))


def thresholder(technology: Technology, channels: int, levels: int, bits: int, style: str, interval: int = 1) -> Sample:
    values = np.random.default_rng(channels).integers(-1 << (bits - 2), 1 << (bits - 2), (channels, levels))
    made = ThresholderConstants(np.sort(values, axis=1), 0, ThresholderStyle(style))
    return rescaler(made, technology, bits, 8, interval)


def join(technology: Technology, beats: int, lanes: int, words: Sequence[int], factors: Sequence[int], shift: int,
         bits: int = 8, zero_point: int = 3) -> Sample:
    """The rounded sum of two operands; one of a single word counts for a whole frame."""
    element, most = signed(bits), (1 << (bits - 1)) - 1
    function = AddFunction.of(
        operands=(Operand(element), Operand(element)), zero_points=(2, -5), multipliers=(factors[0], factors[1]),
        shift=shift, zero_point=zero_point, low=-most - 1, high=most, output=element)
    streams = JoinShape(beats, lanes, (words[0], words[1]), (lanes, lanes))
    return of_shape(JoinStageShape(streams=streams, function=function), technology, "join")


def hold(technology: Technology, width: int, repeats: int) -> Sample:
    feed = Feed(1, repeats, technology)
    return Sample(lambda: feed.unit(unsigned(width)), lambda: feed.cost(width))


def replay(technology: Technology, width: int, words: int, repeats: int) -> Sample:
    feed = Feed(words, repeats, technology)
    return Sample(lambda: feed.unit(unsigned(width)), lambda: feed.cost(width))


def concat(technology: Technology, lanes: int, words: Sequence[int], bits: int = 8) -> Sample:
    shape = ConcatShape(element=signed(bits), lanes=lanes, words=tuple(words), pixels=1)
    return of_shape(shape, technology, "concat")


def average_pool(kind: Callable[..., UnitShape]) -> Callable[..., Sample]:
    def make(technology: Technology, size: int, words: int, kernel: int, lanes: int, out_lanes: int, bits: int = 8,
             style: str = "dsp") -> Sample:
        window = WindowShape(height=size, width=size, words=words, kernel=(kernel, kernel), stride=(kernel, kernel),
                             groups=words)
        return of_shape(kind(
            window=window, lanes=lanes, element=signed(bits), output=signed(8), out_lanes=out_lanes,
            accumulator=signed(bits + (kernel * kernel).bit_length()), rescaler=constants(words * lanes, style)),
            technology, "average")

    return make


def moved(operation: str, height: int, width: int, words: int) -> RearrangeShape:
    """Frames of height x width pixels of `words` words each."""
    rows, columns, groups = np.arange(height) * width * words, np.arange(width) * words, np.arange(words)
    tables = {
        "flip": (rows[::-1], columns, groups), "transpose": (columns, rows, groups),
        "upsample": (np.repeat(rows, 2), np.repeat(columns, 2), groups), "crop": (rows[1:-1], columns[1:-1], groups),
        "pad": (np.pad(rows, 1, constant_values=-1), np.pad(columns, 1, constant_values=-1), groups),
        "thin": (rows[::2], columns[::2], groups), "channels": (rows, columns, groups[::-1])}[operation]
    return RearrangeShape(input_words=height * width * words, rows=tables[0], columns=tables[1], groups=tables[2])


def rearrange(technology: Technology, operation: str, height: int, width: int, words: int, lanes: int = 1) -> Sample:
    shape = moved(operation, height, width, words)
    return of_shape(RearrangeStageShape(order=shape, element=signed(8), lanes=lanes, padding=-3), technology, "move")


def selection(technology: Technology, operation: str, height: int, width: int, words: int, lanes: int = 1) -> Sample:
    shape = moved(operation, height, width, words)
    return of_shape(SelectionShape(order=shape, element=signed(8), lanes=lanes), technology, "select")


def lookup(technology: Technology, bits_in: int, bits_out: int, lanes: int) -> Sample:
    table = np.random.default_rng(bits_in).integers(0, 1 << bits_out, 1 << bits_in)
    return of_shape(LookupShape(element=unsigned(bits_in), output=unsigned(bits_out), lanes=lanes, beats=1,
                                table=table), technology, "lookup")


def embedding(technology: Technology, rows: int, width: int, lanes: int, bits: int = 8) -> Sample:
    table = np.random.default_rng(rows).integers(0, 1 << bits, (rows, width))
    return of_shape(EmbeddingShape(numbers=1, element=unsigned((rows - 1).bit_length()), output=unsigned(bits),
                                   lanes=lanes, table=table), technology, "embedding")


def top_k(technology: Technology, channels: int, lanes: int, k: int, bits: int = 8) -> Sample:
    shape = TopKShape(pixels=1, channels=channels, lanes=lanes, element=signed(bits),
                      output=unsigned((channels - 1).bit_length()), k=k)
    return of_shape(shape, technology, "top_k")


def running_sum(technology: Technology, channels: int, lanes: int, bits: int = 8) -> Sample:
    width = bits + (channels - 1).bit_length()
    shape = RunningSumShape(pixels=1, channels=channels, lanes=lanes, operand=Operand(signed(bits)),
                            output=signed(width))
    return of_shape(shape, technology, "running_sum")


STAGES: Mapping[str, Callable[..., Sample]] = {
    "Requantizer": requantizer, "SharedRequantizer": shared_requantizer, "Thresholder": thresholder,
    "JoinStage": join, "Hold": hold, "Replay": replay,
    "ConcatStage": concat, "AveragePoolStage": average_pool(AveragePoolShape),
    "FoldAveragePoolStage": average_pool(FoldAveragePoolShape), "RearrangeStage": rearrange,
    "SelectionStage": selection, "LookupStage": lookup, "EmbeddingStage": embedding, "TopKStage": top_k,
    "RunningSumUnit": running_sum}
