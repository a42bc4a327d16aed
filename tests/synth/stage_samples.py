"""Stages of the core and their parts by their sizes: what `unit_samples` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.concat import ConcatShape
from hwflow_rtl.join.feed import Feed
from hwflow_rtl.join.join import JoinShape, JoinStageShape
from hwflow_rtl.join.write_row import WriteRowShape
from hwflow_rtl.matmul.operand import OperandFiller, freed_after
from hwflow_rtl.matmul.stage import Centred, MatMulShape, MatMulStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.multiply.style import MultiplierStyle
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
from hwflow_rtl.tables.segments import Octaves, SegmentsShape
from hwflow_rtl.trees.forest import Forest
from hwflow_rtl.trees.parallel import ParallelPlan, ParallelTreesShape
from hwflow_rtl.trees.walk import WalkedTreesShape, WalkPlan
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers import Frame, Interpolate, IntFormat, LayerGraph, Normalize, Recurrent, Requantize, Softmax, Tensor
from hwflow.layers.base import Layer
from hwflow.layers.recurrent import GATES
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from tests.synth.sample import Sample, of_shape


def constants(channels: int, style: str, shifts: int = 2, order: PixelOrder | None = None,
              factor_bits: int = 17, outward: int = 0) -> RequantizerConstants:
    """Random ones; the shifts of the channels are `shifts` different ones."""
    rng = np.random.default_rng(channels)
    return RequantizerConstants(
        bias=rng.integers(-999, 999, channels),
        multiplier=rng.integers(1 << (factor_bits - 3), 1 << factor_bits, channels),
        shift=factor_bits + 3 + rng.integers(0, shifts, channels), zero_point=-3, low=-128, high=127,
        style=RequantizerStyle(style), order=order, outward=outward)


def rescaler(made: RescalerConstants, technology: Technology, bits: int, output: int, interval: int) -> Sample:
    arguments = {"accumulator": signed(bits), "output": signed(output), "interval": interval, "technology": technology}
    return Sample(lambda: made.unit(**arguments, name="rescaler"), lambda: made.cost(**arguments))


def requantizer(technology: Technology, channels: int, bits: int, style: str = "dsp", interval: int = 1,
                shifts: int = 2, rows: Sequence[int] = (), columns: Sequence[int] = (),
                factor_bits: int = 17, outward: int = 0) -> Sample:
    """With `rows` and `columns` their classes have constants of their own."""
    order = PixelOrder(tuple(rows), tuple(columns), channels) if rows else None
    made = constants(order.depth if order else channels, style, shifts, order, factor_bits, outward)
    return rescaler(made, technology, bits, 8, interval)


def shared_requantizer(technology: Technology, bits: int, style: str, interval: int, bias_bits: int = 20,
                       factor_bits: int = 18, base: int = 17, extra: int = 9, fraction: int = 0,
                       outward: int = 0) -> Sample:
    shape = SharedRequantizerShape(
        accumulator=signed(bits), room=RequantizerRoom(bias_bits, factor_bits, base, extra, outward),
        fraction=fraction,
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


def write_row(technology: Technology, blocks: int, rows: int, words: int, lanes: int, bits: int = 8) -> Sample:
    shape = WriteRowShape(element=signed(bits), lanes=lanes, blocks=blocks, rows=rows, words=words,
                          position=unsigned((rows - 1).bit_length()))
    return of_shape(shape, technology, "write_row")


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


def interpolate(technology: Technology, height: int, width: int, factor: int, channels: int, lanes: int,
                out_lanes: int) -> Sample:
    """Frames `factor` times as large, with half pixels."""
    element, axes = IntFormat(8, signed=True), []
    for size in (height, width):
        parts = np.clip((2 * np.arange(size * factor) + 1) - factor, 0, 2 * factor * (size - 1))
        total = 2 * factor if size > 1 else 1
        places = np.minimum(parts // total, max(0, size - 2))
        axes.append((places, (parts - places * total) * (size > 1), total))
    rescale = Requantize(*(np.full(channels, value) for value in (0, 131071, 17 + (2 * factor).bit_length())), 3, -128,
                         127)
    layer = Interpolate("resize", ("x",), "y", element, rescale, *axes[0], *axes[1])
    frame = Frame(height, width, channels)
    tensors = {name: Tensor(name, of, element, 0.5, 0) for name, of in (("x", frame), ("y", layer.output_frame(frame)))}
    stage = stage_of(LayerGraph("resize", tensors, (layer,), ("x",), ("y",)), layer)
    shape = replace(stage.shape(Folding(1, lanes, out_lanes), technology), rescaler=constants(channels, "dsp"))
    return of_shape(shape, technology, "resize")


def lookup(technology: Technology, bits_in: int, bits_out: int, lanes: int) -> Sample:
    table = np.random.default_rng(bits_in).integers(0, 1 << bits_out, 1 << bits_in)
    return of_shape(LookupShape(element=unsigned(bits_in), output=unsigned(bits_out), lanes=lanes, beats=1,
                                table=table), technology, "lookup")


def segments(technology: Technology, bits_in: int, bits_out: int, lanes: int, form: str) -> Sample:
    """`form`: each block is a segment; blocks have up to 16 of them; or octaves of so many."""
    rng = np.random.default_rng(bits_in)
    octaves = Octaves((0, (1 << bits_in) - 1), 0) if form == "octaves" else None
    index, fraction = {"direct": (8, bits_in - 8), "zoomed": (5, bits_in - 5), "octaves": (2, 13)}[form]
    zooms = -np.sort(-rng.integers(0, 1 if form == "direct" else 5, 1 << index + (octaves.places if octaves else 0)))
    starts = np.append(0, np.cumsum(1 << zooms)[:-1])
    ends = rng.integers(0, 8 << bits_out, (int((1 << zooms).sum()), 2))
    return of_shape(SegmentsShape(
        element=unsigned(bits_in), output=unsigned(bits_out), octaves=octaves, index_bits=index,
        fraction_bits=fraction, blocks=np.stack([starts, zooms], axis=1), shift=3, lanes=lanes, beats=1,
        lines=np.stack([ends[:, 0], (ends[:, 1] - ends[:, 0]) // 8], axis=1)), technology, "segments")


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
    "ConcatStage": concat, "WriteRowStage": write_row, "AveragePoolStage": average_pool(AveragePoolShape),
    "FoldAveragePoolStage": average_pool(FoldAveragePoolShape), "RearrangeStage": rearrange,
    "InterpolateStage": interpolate, "SelectionStage": selection, "LookupStage": lookup, "EmbeddingStage": embedding,
    "SegmentsStage": segments,
    "TopKStage": top_k, "RunningSumUnit": running_sum}


# Stages of rows: softmax and normalization


def graph_of(layer: Layer, x: Tensor, y: Tensor) -> LayerGraph:
    return LayerGraph("rows", {"x": x, "y": y}, (layer,), ("x",), ("y",))


def softmax_graph(elements: int, bits: int = 8, rows: int = 4) -> LayerGraph:
    """Scores of scale 0.05, probabilities of 8 bits."""
    frame = Frame(1, rows, elements)
    x = Tensor("x", frame, IntFormat(bits, True), 0.05, 3)
    y = Tensor("y", frame, IntFormat(8, False), 1 / 256, 0)
    return graph_of(Softmax.of("softmax", x, y), x, y)


def normalize_graph(elements: int, bits: int = 8, rows: int = 4, centred: bool = True) -> LayerGraph:
    """A LayerNormalization, or an RMSNormalization, whose results are up to 5 deviations."""
    frame, rng = Frame(1, rows, elements), np.random.default_rng(elements)
    x = Tensor("x", frame, IntFormat(bits, True), 0.05, 3)
    y = Tensor("y", frame, IntFormat(8, True), 5 / 128, 0)
    layer = Normalize.of(
        "norm", x, y, centred=centred, mean=True, epsilon=1e-5, gamma=rng.normal(1, 0.3, (1, elements)),
        beta=rng.normal(0, 0.5, (1, elements)) * centred)
    return graph_of(layer, x, y)


def sample(graph: LayerGraph, lanes: int, technology: Technology) -> Sample:
    (layer,) = graph.layers
    folding = Folding(1, lanes, lanes)
    return Sample(lambda: stage_of(graph, layer).unit(folding, technology),
                  lambda: stage_of(graph, layer).cost(folding, technology))


def softmax(technology: Technology, elements: int, lanes: int, bits: int = 8) -> Sample:
    return sample(softmax_graph(elements, bits), lanes, technology)


def normalize(technology: Technology, elements: int, lanes: int, bits: int = 8, centred: bool = True) -> Sample:
    return sample(normalize_graph(elements, bits, centred=centred), lanes, technology)


ROWS: Mapping[str, Callable[..., Sample]] = {"SoftmaxStage": softmax, "NormalizeStage": normalize}


# Units of a product of two computed matrices


def shape_of(heads: int, rows: int, depth: int, columns: int, order: str, together: int, cols: int,
             zero_point: int = 0) -> MatMulShape:
    operand = Centred(Operand(signed(8)), zero_point)
    return MatMulShape(
        heads=heads, rows=rows, depth=depth, columns=columns, interleaved=order[0] != "h", order=order,
        together=together, cols=cols, lanes=1, a=operand, b=operand, accumulator=signed(24), output=signed(8))


def operand_filler(technology: Technology, heads: int, rows: int, depth: int, columns: int, order: str, together: int,
                   cols: int) -> Sample:
    matrix = shape_of(heads, rows, depth, columns, order, together, cols).matrix
    source, words = matrix.source, matrix.bank_words(matrix.bank_rows(technology))
    return Sample(
        lambda: OperandFiller(shape=data.ArrayLayout(unsigned(8), matrix.weight_lanes), loops=source.loops,
                              tile=source.tile(words), copies=source.copies(words), freed_after=freed_after(words)),
        lambda: source.filler_cost(words, technology))


def matmul(technology: Technology, heads: int, rows: int, depth: int, columns: int, order: str, together: int,
           cols: int, zero_point: int = 0) -> Sample:
    shape = shape_of(heads, rows, depth, columns, order, together, cols, zero_point)
    rescaler = RequantizerConstants(
        bias=np.zeros(1, np.int64), multiplier=np.array([200_001]), shift=np.array([26]), zero_point=0, low=-128,
        high=127, style=RequantizerStyle.DSP)
    return of_shape(MatMulStageShape(product=shape, rescaler=rescaler), technology, "product")


MATMULS: Mapping[str, Callable[..., Sample]] = {"OperandFiller": operand_filler, "MatMulStage": matmul}


# Stages of decision trees


def forest(trees: int, depth: int, channels: int, bits: int, targets: int) -> Forest:
    """Full trees with random thresholds, and votes of 12 bits."""
    rng = np.random.default_rng([trees, depth, channels])
    inner, leaves = (1 << depth) - 1, 1 << depth
    own = np.arange(inner)
    below = 2 * own[:, None] + [1, 2]
    children = np.concatenate([
        np.where(below < inner, below + tree * inner, inner - 1 - below - tree * leaves) for tree in range(trees)])
    count = trees * inner
    return Forest(
        rng.integers(channels, size=count), rng.integers(1, 1 << bits, count), np.zeros(count, np.int64), children,
        np.arange(trees) * inner, rng.integers(-2000, 2000, (trees * leaves, targets)))


def parallel(technology: Technology, trees: int, depth: int, channels: int, bits: int, targets: int, cols: int,
             lanes: int) -> Sample:
    plan = ParallelPlan(forest(trees, depth, channels, bits, targets), unsigned(bits), signed(18))
    shape = ParallelTreesShape(plan=plan, pixels=1, channels=channels, cols=cols, lanes=lanes)
    return of_shape(shape, technology, "trees")


def walked(technology: Technology, trees: int, depth: int, channels: int, bits: int, targets: int, cols: int,
           lanes: int, rows: int) -> Sample:
    plan = WalkPlan(forest(trees, depth, channels, bits, targets), unsigned(bits), signed(18), rows, lanes)
    return of_shape(WalkedTreesShape(plan=plan, pixels=1, channels=channels, cols=cols), technology, "trees")


TREES: Mapping[str, Callable[..., Sample]] = {"ParallelTrees": parallel, "WalkedTrees": walked}


# Stages of recurrent layers


INT8, INT16 = IntFormat(8, True), IntFormat(16, True)


def functions(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Sigmoid and tanh of -8 to 8 in steps of 2**-15."""
    x = np.arange(-(1 << bits - 1), 1 << bits - 1) / (1 << bits - 4)
    found = (32768 / (1 + np.exp(-x)), 32768 * np.tanh(x))
    return tuple(np.rint(values).clip(-32768, 32767).astype(np.int64) for values in found)  # type: ignore[return-value]


def recurrent_graph(cell: str, hidden: int, steps: int = 8, after: bool = False, table_bits: int = 10,
                    cell_bits: int = 18) -> LayerGraph:
    """A loop with weights of all sizes, whose sums are about as wide as those of its gates."""
    rng, rows, lstm = np.random.default_rng(hidden), len(GATES[cell]) * hidden, cell == "lstm"
    gate, candidate = functions(table_bits)
    empty, fraction = np.zeros(0, np.int64), table_bits - 4
    sums = Requantize(
        rng.integers(-1 << 20, 1 << 20, rows), rng.integers(1 << 17, 1 << 18, rows), rng.integers(29, 31, rows), 0,
        INT16.low, INT16.high)
    out = Requantize(*(np.array([value]) for value in (0, 1, 8)), 0, INT8.low, INT8.high)
    layer = Recurrent(
        name="loop", inputs=("x",), output="y", cell=cell, input_format=INT16,
        hidden_weights=rng.integers(-127, 128, (rows, hidden)), weight_format=INT8, hidden_rescale=sums,
        gate_fraction=12, gate_table=empty if cell == "rnn" else gate, candidate_table=candidate,
        output_table=candidate if lstm else empty, table_fraction=fraction, hidden_bits=16, hidden_fraction=15,
        cell_bits=cell_bits if lstm else 0, cell_fraction=cell_bits - 4 if lstm else 0,
        candidate_fraction=15 if lstm else 0, initial=np.zeros((1 + lstm, hidden), np.int64), requantize=out,
        linear_before_reset=after, streaming=False)
    tensors = {"x": Tensor("x", Frame(1, steps, rows), INT16, 2.0**-12, 0),
               "y": Tensor("y", Frame(1, steps, hidden), INT8, 2.0**-7, 0)}
    return LayerGraph("loop", tensors, (layer,), ("x",), ("y",))


def stage(technology: Technology, cell: str, hidden: int, rows: int, cols: int, lanes: int, after: bool = False,
          cell_bits: int = 18) -> Sample:
    graph = recurrent_graph(cell, hidden, after=after, cell_bits=cell_bits)
    (layer,) = graph.layers
    assert isinstance(layer, Recurrent)
    (style,) = stage_of(graph, layer).styles(technology) or (MultiplierStyle.BLOCKS,)
    folding = Folding(rows, cols, lanes, style)
    return Sample(lambda: stage_of(graph, layer).unit(folding, technology),
                  lambda: stage_of(graph, layer).cost(folding, technology))


RECURRENT: Mapping[str, Callable[..., Sample]] = {"RecurrentStage": stage}
