"""Units by name and sizes, with what they say they cost: the fit of costs and its test make them of the same words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from amaranth.hdl import signed, unsigned
from hwflow_rtl.io.axi_stream import RegisterSlice
from hwflow_rtl.io.link.host_link import HostLink
from hwflow_rtl.io.link.image import Beside
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.matrix.row_patch import RowPatchShape
from hwflow_rtl.matrix.shape import MatrixShape
from hwflow_rtl.matrix.stage import MatrixStageShape
from hwflow_rtl.matrix.streamed_weights import StreamSource
from hwflow_rtl.matrix.tiled import TiledShape, TiledStageShape
from hwflow_rtl.memory import SdramController, SdramPart, SealCheck, SealedFlash, WeightMemory, WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.pool.fold_pool import FoldMaxPoolShape
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Pair, Queue
from hwflow_rtl.stream.queue_choice import PairedQueue
from hwflow_rtl.stream.word_join import WordJoinShape
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.line_buffer import LineBufferShape
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers import Conv, Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.rescale import Requantize
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.synth.board_samples import BOARDS
from tests.synth.sample import Sample, Sizes, of_shape
from tests.synth.stage_samples import MATMULS, RECURRENT, ROWS, STAGES, TREES, constants


def queue(technology: Technology, width: int, depth: int) -> Sample:
    return Sample(lambda: Queue(shape=unsigned(width), depth=depth, technology=technology),
                  lambda: Queue.cost(width=width, depth=depth, technology=technology))


def credit_counter(technology: Technology, words: int, take: int = 1, give: int = 1) -> Sample:
    return Sample(lambda: CreditCounter(words=words, take=take, give=give),
                  lambda: CreditCounter.cost(words=words, take=take, give=give))


def gearbox(technology: Technology, width: int, lanes_in: int, lanes_out: int) -> Sample:
    return Sample(lambda: Gearbox(shape=signed(width), lanes_in=lanes_in, lanes_out=lanes_out), lambda: Gearbox.cost(
        width=width, lanes_in=lanes_in, lanes_out=lanes_out, technology=technology))


def fork(technology: Technology, width: int, depths: Sequence[int]) -> Sample:
    return Sample(lambda: Fork(shape=unsigned(width), depths=depths, technology=technology),
                  lambda: Fork.cost(width=width, depths=depths, technology=technology))


def deep_queue(technology: Technology, width: int, depth: int) -> Sample:
    return Sample(lambda: DeepQueue(shape=unsigned(width), depth=depth, technology=technology),
                  lambda: DeepQueue.cost(width=width, depth=depth, technology=technology))


def paired_queue(technology: Technology, width: int, depth: int) -> Sample:
    return Sample(lambda: PairedQueue(shape=unsigned(width), depth=depth, technology=technology),
                  lambda: PairedQueue.cost(width=width, depth=depth, technology=technology))


def pair(technology: Technology, width: int) -> Sample:
    return Sample(lambda: Pair(shape=unsigned(width)), lambda: Pair.cost(width=width))


def word_join(technology: Technology, width: int, lanes_in: int, lanes: int, chunk: int) -> Sample:
    shape = WordJoinShape(element=signed(width), lanes_in=lanes_in, lanes=lanes, chunk=chunk)
    return Sample(shape.build, shape.cost)


def window(technology: Technology, height: int, width: int, words: int, kernel: Sequence[int],
           stride: Sequence[int] = (1, 1), dilation: Sequence[int] = (1, 1), pads: Sequence[int] = (0, 0, 0, 0),
           groups: int = 1, tiles_per_group: int = 1, kept: bool = False, bits: int = 8, lanes: int = 2) -> Sample:
    shape = WindowShape(height=height, width=width, words=words, kernel=tuple(kernel), stride=tuple(stride),
                        dilation=tuple(dilation), pads=tuple(pads), groups=groups, tiles_per_group=tiles_per_group,
                        kept=kept)
    buffer = LineBufferShape(window=shape, element=signed(bits), lanes=lanes, pad_value=-3)
    return Sample(lambda: buffer.build(technology), lambda: buffer.cost(technology))


def row_patch(technology: Technology, width: int, words: int, kernel: int, stride: int = 1, dilation: int = 1,
              pads: Sequence[int] = (0, 0), height: int = 4, bits: int = 8, lanes: int = 2) -> Sample:
    shape = WindowShape(height=height, width=width, words=words, kernel=(1, kernel), stride=(1, stride),
                        dilation=(1, dilation), pads=(0, pads[0], 0, pads[1]))
    patch = RowPatchShape(window=shape, element=signed(bits), lanes=lanes, pad_value=-7)
    return Sample(lambda: patch.build(technology), lambda: patch.cost(technology))


def fold_max_pool(technology: Technology, size: int, words: int, kernel: int, lanes: int, bits: int = 8) -> Sample:
    shape = WindowShape(height=size, width=size, words=words, kernel=(kernel, kernel), stride=(kernel, kernel),
                        groups=words)
    return of_shape(FoldMaxPoolShape(window=shape, lanes=lanes, element=signed(bits)), technology, "max")


def conv(technology: Technology, size: int, channels: int, outputs: int, kernel: int, rows: int, cols: int,
         bits: int = 8, style: str = "blocks", stride: int = 1) -> Sample:
    """A matrix stage of int8 elements and random weights of `bits` bits."""
    rng, pad, most = np.random.default_rng(1), kernel // 2, (1 << (bits - 1)) - 1
    int8, frame = IntFormat(8, True), Frame(size, size, channels)
    rescale = Requantize(
        bias=rng.integers(-999, 999, outputs), multiplier=rng.integers(1 << 14, 1 << 17, outputs),
        shift=rng.integers(24, 27, outputs), zero_point=-128, low=-128, high=127)
    layer = Conv("conv", ("x",), "y", rng.integers(-most, most + 1, (outputs, kernel, kernel, channels)),
                 IntFormat(bits, True), int8, rescale, strides=(stride, stride), pads=(pad, pad, pad, pad))
    frames = {"x": frame, "y": layer.output_frame(frame)}
    graph = LayerGraph("conv", {name: Tensor(name, each, int8, 0.5, -128) for name, each in frames.items()}, (layer,),
                       ("x",), ("y",))
    folding = Folding(rows, cols, 1, MultiplierStyle(style))
    return Sample(lambda: stage_of(graph, layer).unit(folding, technology),
                  lambda: stage_of(graph, layer).cost(folding, technology))


def sdram_controller(technology: Technology, banks: int, rows: int, columns: int, width: int, clock_mhz: float
                     ) -> Sample:
    timing = load_board("ulx3s_85f").memories[0].part.timing
    part = SdramPart(name="any", banks=banks, rows=rows, columns=columns, width=width, clock_mhz=clock_mhz,
                     timing=timing)
    return Sample(lambda: SdramController(part=part, technology=technology),
                  lambda: SdramController.cost(part=part, technology=technology))


def weight_memory(technology: Technology, width: int, lanes: int, beats: int, streams: int = 1, domain: str = "sync"
                  ) -> Sample:
    """Each stream has half of the beats of the one before."""
    arguments: Sizes = {
        "part": load_board("ulx3s_85f").memories[0].part, "technology": technology, "domain": domain,
        "streams": [WeightStream(signed(width), lanes, beats >> n) for n in range(streams)]}
    return Sample(lambda: WeightMemory(**arguments), lambda: WeightMemory.cost(**arguments))


def flash_weights(technology: Technology, board: str, beats: Sequence[int], lanes: int = 1) -> Sample:
    """A stream of bytes, or of `lanes` of them, for each of `beats` from the flash on `board`."""
    arguments: Sizes = {"part": load_board(board).memories[0].part, "technology": technology,
                        "streams": [WeightStream(signed(8), lanes, count) for count in beats]}
    return Sample(lambda: WeightMemory(**arguments), lambda: WeightMemory.cost(**arguments))


def host_link(technology: Technology, bytes_in: int, bytes_out: int, payload: int, room: int, *,
              settings: bool = False, fast: bool = False, image_bytes: int = 0, memory: str = "NOTHING") -> Sample:
    shape = LinkShape(payload, room, fast=fast, settings=settings)
    return Sample(lambda: HostLink(shape=shape, technology=technology, identity=bytes(range(8)), bytes_in=bytes_in,
                                   bytes_out=bytes_out, image_bytes=image_bytes, memory=Beside[memory]),
                  lambda: HostLink.cost(shape, technology) + HostLink.memory_cost(technology, Beside[memory]))


def seal_check(technology: Technology, words: int) -> Sample:
    return Sample(lambda: SealCheck(words=words, mark=b"anything"), lambda: SealCheck.cost(words=words))


def sealed_controller(technology: Technology, board: str, words: int) -> Sample:
    part = SealedFlash(load_board(board).memories[0].part, words, b"anything")
    return Sample(lambda: part.controller(technology), lambda: part.controller_cost(technology))


def register_slice(technology: Technology, width: int) -> Sample:
    return Sample(lambda: RegisterSlice(shape=unsigned(width)), lambda: RegisterSlice.cost(width=width))


def streamed_dense(technology: Technology, inputs: int, outputs: int, rows: int, cols: int, together: int) -> Sample:
    """A dense stage whose weights arrive, those of `together` rows in a beat."""
    shape = MatrixShape(
        frame=WindowShape(height=1, width=1, words=1, kernel=(1, 1)), depth=inputs, outputs=outputs, lanes=cols,
        rows=rows, out_lanes=1, element=signed(8), weight=signed(8), accumulator=signed(24), output=signed(8),
        source=StreamSource(together))
    rescaler = constants(outputs, "dsp")
    unit = MatrixStageShape(matrix=shape, weights=np.zeros((outputs, 1, 1, inputs), dtype=np.int64), rescaler=rescaler)
    return of_shape(unit, technology, "streamed")


def tiled_conv(technology: Technology, size: int, channels: int, outputs: int, kernel: int, rows: int, cols: int,
               groups: int, together: int) -> Sample:
    """A convolution with padding whose weights arrive, those of `together` rows in a beat."""
    layer = MatrixShape(
        frame=WindowShape(height=size, width=size, words=groups, groups=groups, kernel=(kernel, kernel),
                          pads=(kernel // 2,) * 4), depth=channels // groups, outputs=outputs // groups, lanes=cols,
        rows=rows, out_lanes=1, element=signed(8), weight=signed(8), accumulator=signed(24), output=signed(8))
    shape, rescaler = TiledShape(layer, StreamSource(together)), constants(outputs, "dsp")
    weights = np.zeros((outputs, kernel, kernel, channels // groups), dtype=np.int64)
    return of_shape(TiledStageShape(tiled=shape, weights=weights, rescaler=rescaler), technology, "tiled")


MAKERS: Mapping[str, Callable[..., Sample]] = {
    "Queue": queue, "CreditCounter": credit_counter, "Gearbox": gearbox, "Fork": fork, "DeepQueue": deep_queue,
    "PairedQueue": paired_queue, "Pair": pair, "WordJoin": word_join, "LineBuffer": window, "RowPatch": row_patch,
    "FoldMaxPoolStage": fold_max_pool, "Conv": conv, "SdramController": sdram_controller,
    "WeightMemory": weight_memory, "Flash weights": flash_weights, "SealCheck": seal_check,
    "SealedController": sealed_controller, "HostLink": host_link, "RegisterSlice": register_slice,
    "Streamed dense": streamed_dense, "Tiled conv": tiled_conv, **STAGES, **ROWS, **BOARDS, **MATMULS, **TREES,
    **RECURRENT}


def sample_of(shape: Sizes, technology: Technology) -> Sample:
    """The unit that `shape` names, of the sizes that it has besides."""
    sizes = {name: value for name, value in shape.items() if name != "unit"}
    return MAKERS[shape["unit"]](technology, **sizes)


def key_of(shape: Sizes) -> str:
    """Equal for shapes that mean the same unit of the same sizes."""
    sizes = {name: value for name, value in shape.items() if name != "unit"}
    bound = inspect.signature(MAKERS[shape["unit"]]).bind(None, **sizes)
    bound.apply_defaults()
    return json.dumps([shape["unit"], bound.arguments], sort_keys=True)
