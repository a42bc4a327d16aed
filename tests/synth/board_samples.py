"""What is around a core, on a board or in another design, by its sizes: what `unit_samples` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amaranth.hdl import Module, ShapeLike, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.io.axi_stream import AxiStreamTop
from hwflow_rtl.io.crossings import CoreCrossing, FastCrossing, ImageCrossing, SealCrossing
from hwflow_rtl.io.frame_bytes import FrameBytes
from hwflow_rtl.io.transports import Spi, Uart
from hwflow_rtl.matrix.streamed_weights import StreamSource, TileFiller, freed_after
from hwflow_rtl.matrix.weights import BankWords
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import link, payload_of, stream_of
from hwflow_rtl.vendor import Resources, Technology

from tests.synth.sample import Sample

#: MHz of an oscillator, and what its PLL makes; every family's PLL can.
OSCILLATOR, CORE_CLOCK = 27.0, 54.0


class Through(wiring.Component):
    """A core that gives each stream `i` as the stream `o` of the same number, through a queue of two beats."""

    def __init__(self, streams: int, lanes: int, bits: ShapeLike = 8):
        self.streams = streams
        numbers = [""] if streams == 1 else range(streams)
        ends = {"i": In, "o": Out}
        super().__init__({f"{letter}{k}": flow(stream_of(bits, lanes)) for letter, flow in ends.items()
                          for k in numbers})

    @staticmethod
    def cost(streams: int, lanes: int, bits: int = 8) -> Resources:
        return Queue.cost(width=lanes * bits, depth=2).copies(streams)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k in [""] if self.streams == 1 else range(self.streams):
            source, sink = getattr(self, f"i{k}"), getattr(self, f"o{k}")
            m.submodules[f"queue{k}"] = queue = Queue(shape=payload_of(source), depth=2)
            link(m, wiring.flipped(source), queue.i)
            link(m, queue.o, wiring.flipped(sink))
        return m


class OnBytes(wiring.Component):
    """A core with its `FrameBytes`: the streams of bytes of this."""

    def __init__(self, core: Through, ends: Ends, technology: Technology):
        self.core = core
        self.frames = FrameBytes(core=core, ends=ends, technology=technology)
        super().__init__({"i": In(stream_of(unsigned(8), 1)), "o": Out(stream_of(unsigned(8), 1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core, m.submodules.frames = self.core, self.frames
        link(m, wiring.flipped(self.i), self.frames.i)
        link(m, self.frames.o, wiring.flipped(self.o))
        return m


def ends_of(streams: int, lanes: int, bits: int, elements: int) -> Ends:
    frames = (End(lanes, bits, elements),) * streams
    return Ends(frames, frames)


def clocking_of(technology: Technology, has_pll: bool, has_reset: bool = False) -> Clocking:
    pll = technology.pll_settings(OSCILLATOR, CORE_CLOCK) if has_pll else None
    return Clocking(technology=technology, board_mhz=OSCILLATOR, pll=pll, has_reset=has_reset)


def clocking(technology: Technology, has_pll: bool, has_reset: bool = False) -> Sample:
    return Sample(lambda: clocking_of(technology, has_pll, has_reset), Clocking.cost)


def core_crossing(technology: Technology) -> Sample:
    return Sample(CoreCrossing, CoreCrossing.cost)


def fast_crossing(technology: Technology, data_bytes: int, result_bytes: int) -> Sample:
    return Sample(lambda: FastCrossing(data_bytes=data_bytes, result_bytes=result_bytes),
                  lambda: FastCrossing.cost(technology, data_bytes=data_bytes, result_bytes=result_bytes))


def image_crossing(technology: Technology, width: int) -> Sample:
    return Sample(lambda: ImageCrossing(width=width), lambda: ImageCrossing.cost(width))


def seal_crossing(technology: Technology) -> Sample:
    return Sample(SealCrossing, SealCrossing.cost)


def frame_bytes(technology: Technology, streams: int, lanes: int, elements: int, bits: int = 8) -> Sample:
    """Of a core with as many inputs as outputs; its queues count as well."""
    ends = ends_of(streams, lanes, bits, elements)
    return Sample(lambda: OnBytes(Through(streams, lanes, bits), ends, technology),
                  lambda: FrameBytes.cost(ends, technology) + Through.cost(streams, lanes, bits))


def axi_stream_top(technology: Technology, streams: int, lanes: int, elements: int, bits: int = 8) -> Sample:
    ends = ends_of(streams, lanes, bits, elements)
    return Sample(lambda: AxiStreamTop(core=Through(streams, lanes, bits), ends=ends),
                  lambda: AxiStreamTop.cost(ends) + Through.cost(streams, lanes, bits))


def uart(technology: Technology, divider: int, settable: bool = False) -> Sample:
    return Sample(lambda: Uart(divider=divider, settable=settable), lambda: Uart.cost(divider, settable=settable))


def spi(technology: Technology) -> Sample:
    return Sample(Spi, Spi.cost)


def board_top(technology: Technology, divider: int, leds: int, lanes: int = 1, has_pll: bool = True) -> Sample:
    """The whole board around a core of one input and one output."""
    ends = ends_of(1, lanes, 8, 8 * lanes)
    return Sample(
        lambda: BoardTop(core=Through(1, lanes), ends=ends, clocking=clocking_of(technology, has_pll),
                         transport=Uart(divider=divider), identity=bytes(range(8)), leds=leds, technology=technology),
        lambda: BoardTop.cost(technology, ends, transport=Uart.cost(divider)) + Through.cost(1, lanes))


def tile_filler(technology: Technology, beats: int, banks: int, rows: int, together: int) -> Sample:
    """For `banks` banks of `rows` rows each; `together` rows arrive in a beat."""
    source = StreamSource(together)
    words = BankWords(width=8 * rows, beats=beats, blocks=2, pixels=1, banks=banks, rows=rows)
    return Sample(
        lambda: TileFiller(shape=data.ArrayLayout(unsigned(8), together), parts=banks * rows // together, beats=beats,
                           places=source.places(words), freed_after=freed_after(words)),
        lambda: source.control_cost(words, technology))


BOARDS: Mapping[str, Callable[..., Sample]] = {
    "Clocking": clocking, "CoreCrossing": core_crossing, "FastCrossing": fast_crossing, "ImageCrossing": image_crossing,
    "SealCrossing": seal_crossing,
    "FrameBytes": frame_bytes, "AxiStreamTop": axi_stream_top,
    "BoardTop": board_top, "Uart": uart, "Spi": spi, "TileFiller": tile_filler}
