"""The shared stage as a component: frames come in, a program runs over them, frames go out.

    i ─▶ Loader ─▶ ┌─────────────┐ ─▶ Storer ─▶ o
                   │ FrameMemory │ ─▶ SharedArray ─▶ Results ─┐
                   └─────────────┘ ◀───────────────────────────┘
    weights ─▶ Weights ─▶ array, results           Sequencer ─▶ addresses, flags, fields of the step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..core import port_names
from ..rescale.plan import RequantizerStyle
from ..stream.pipeline import delay
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from .array import SharedArray, array_cost
from .encoding import Encoding
from .ends import Filler, Loader, LoaderShape, Storer, StorerShape
from .frame_memory import FrameMemory, FrameMemoryShape
from .program import Program
from .results import Results, ResultsShape
from .sequencer import Sequencer
from .steps import ELEMENT_BITS, Load, Store
from .times import SharedTimes, play
from .weights import BeatsAhead, RomBeats, Weights


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedUnitShape:
    """A program, and the streams around it.

    program
        Steps, constants and weights.
    elements, outputs
        The shapes of an element of each input stream, and of each output stream.
    lanes_in, lanes_out
        Elements of a beat of each input, and of each output: a divisor of the channels and of the columns, or all
        channels of a pixel that is no wider than a word.
    streamed
        The weights arrive on the stream `weights`, `Program.beats` once for each frame.  Else they are in a ROM.
    style
        What multiplies where sums are rescaled.
    interval
        Cycles from beat to beat of weights that arrive, from cycle 0 on; None: they are in a ROM.
    """

    program: Program
    elements: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    lanes_in: tuple[int, ...]
    lanes_out: tuple[int, ...]
    streamed: bool
    style: RequantizerStyle
    interval: Fraction | None = None

    @cached_property
    def loaders(self) -> list[LoaderShape]:
        loads = {step.port: step for step in self.program.steps if isinstance(step, Load)}
        return [LoaderShape(load=loads[k], element=element, lanes=lanes, columns=self.program.shape.columns)
                for k, (element, lanes) in enumerate(zip(self.elements, self.lanes_in, strict=True))]

    @cached_property
    def storers(self) -> list[StorerShape]:
        stores = {step.port: step for step in self.program.steps if isinstance(step, Store)}
        return [StorerShape(store=stores[k], element=element, lanes=lanes, columns=self.program.shape.columns)
                for k, (element, lanes) in enumerate(zip(self.outputs, self.lanes_out, strict=True))]

    @property
    def frames(self) -> FrameMemoryShape:
        shape = self.program.shape
        return FrameMemoryShape(width=shape.columns * ELEMENT_BITS, words=shape.words, single_port=shape.single_port,
                                banks=shape.banks)

    @property
    def results(self) -> ResultsShape:
        return ResultsShape(shape=self.program.shape, style=self.style)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        program, shape = self.program, self.program.shape
        total = (
            Sequencer.cost(Encoding(program), technology) + Weights.cost(shape, technology)
            + self.frames.cost(technology) + array_cost(shape, technology) + self.results.cost(technology)
            + Resources(lut=shape.columns * ELEMENT_BITS, ff=shape.columns * ELEMENT_BITS + 2))
        for loader in self.loaders:
            total += loader.cost(shape.words)
        for storer in self.storers:
            total += storer.cost()
        if program.first:
            total += Filler.cost(columns=shape.columns, image=program.image, technology=technology)
        if shape.ahead:
            total += BeatsAhead.cost(lanes=shape.stream_lanes, depth=shape.ahead, technology=technology)
        if not self.streamed:
            total += RomBeats.cost(beats=program.beats_count, lanes=shape.stream_lanes, technology=technology)
        return total

    def play(self, technology: Technology, *arrivals: Times, left: Sequence[Times] | None = None) -> SharedTimes:
        """The cycles of whole frames whose beats arrive as `arrivals` says, and of each output leave as `left` does."""
        first = next(step for step in self.program.steps if isinstance(step, Load))
        frames = len(arrivals[first.port]) * self.lanes_in[first.port] // (first.pixels * first.channels)
        return play(self.program, arrivals=arrivals, lanes_in=self.lanes_in, lanes_out=self.lanes_out, frames=frames,
                    technology=technology, style=self.style, interval=self.interval, left=left)

    def times(self, technology: Technology, *arrivals: Times, left: Sequence[Times] | None = None) -> StageTimes:
        """When beats are taken and given; a bound where weights arrive."""
        times = self.play(technology, *arrivals, left=left)
        return StageTimes(times.taken, times.departures[0], times.departures[1:])

    def build(self, technology: Technology, name: str) -> SharedUnit:
        return SharedUnit(shape=self, technology=technology, name=name)


class SharedUnit(wiring.Component):
    """Runs the program of `shape` once for each frame.

    `name` begins the names of the ROMs and is unique in the design.

    Ports: `i`, or `i0`, `i1`, ... and `o`, or `o0`, `o1`, ...; `busy`, high while the multipliers compute; `weights`
    where they are streamed; `wrote`: the word that a `Compute` writes in this cycle, and the number of its step.
    """

    def __init__(self, *, shape: SharedUnitShape, technology: Technology, name: str):
        program = self.program = shape.program
        self.unit, self.shape = shape, program.shape
        self.technology = technology
        self.name = name
        opened = (program.opens or 0) > program.first
        self.loaders = [Loader(shape=loader, waits=program.opens is not None, opened=opened)
                        for loader in shape.loaders]
        self.storers = [Storer(shape=storer, latency=technology.timing.ram) for storer in shape.storers]
        self.inputs, self.outputs = port_names("i", len(shape.elements)), port_names("o", len(shape.outputs))
        beats = {"weights": In(stream_of(unsigned(ELEMENT_BITS), self.shape.stream_lanes))} if shape.streamed else {}
        super().__init__({
            **{name: In(stream_of(element, lanes))
               for name, element, lanes in zip(self.inputs, shape.elements, shape.lanes_in, strict=True)},
            **{name: Out(stream_of(element, lanes))
               for name, element, lanes in zip(self.outputs, shape.outputs, shape.lanes_out, strict=True)},
            "busy": Out(1), **beats,
            "wrote": Out(data.StructLayout({"valid": 1, "step": range(len(program.steps)),
                                            "word": self.shape.columns * ELEMENT_BITS}))})

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        m.submodules.sequencer = sequencer = Sequencer(
            encoding=Encoding(self.program), technology=technology, name=self.name)
        m.submodules.weights = weights = Weights(shape=shape, technology=technology)
        m.submodules.frames = frames = FrameMemory(shape=self.unit.frames, technology=technology)
        m.submodules.array = array = SharedArray(shape=shape, technology=technology)
        m.submodules.results = results = Results(
            shape=self.unit.results, tables=self.program.tables, technology=technology, name=self.name)
        if self.unit.streamed and shape.ahead:
            m.submodules.ahead = ahead = BeatsAhead(lanes=shape.stream_lanes, depth=shape.ahead, technology=technology)
            wiring.connect(m, wiring.flipped(self.weights), ahead.i)
            wiring.connect(m, ahead.o, weights.i)
        elif self.unit.streamed:
            wiring.connect(m, wiring.flipped(self.weights), weights.i)
        else:
            m.submodules.image = image = RomBeats(beats=self.program.beats(), technology=technology, name=self.name)
            wiring.connect(m, image.o, weights.i)
        m.d.comb += [
            frames.read_en.eq(sequencer.read_en), frames.read_addr.eq(sequencer.read_addr),
            weights.addr.eq(sequencer.weight_addr), weights.turn.eq(sequencer.turn), weights.freed.eq(sequencer.freed),
            weights.take_constants.eq(sequencer.take_constants), sequencer.weights_there.eq(weights.there),
            sequencer.constants_there.eq(weights.constants_there), self.busy.eq(sequencer.computing)]
        self.compute(m, sequencer, weights, frames, array, results)
        self.ends(m, sequencer, frames, results)
        return m

    def compute(self, m: Module, sequencer: Sequencer, weights: Weights, frames: FrameMemory, array: SharedArray,
                results: Results) -> None:
        """From the words that are read to the elements that they become."""
        wait = self.technology.timing.ram
        inside = delay(m, sequencer.inside, wait, "inside")
        for name in ("first", "last", "next_digit", "turn"):
            m.d.comb += getattr(array, name).eq(delay(m, getattr(sequencer, name), wait, name))
        valid = delay(m, sequencer.computing, wait, "valid", reset_less=False)
        ends_tile = delay(m, sequencer.ends_tile, array.latency, "ends_tile")  # `early` is `wait` after `wait` before
        m.d.comb += [
            array.valid.eq(valid), array.maximum.eq(sequencer.maximum), array.slides.eq(sequencer.slides),
            array.product.eq(sequencer.product), results.looks_up.eq(sequencer.looks_up),
            results.table.eq(sequencer.table), results.byte.eq(sequencer.byte),
            Value.cast(array.word).eq(Mux(inside, frames.read_data, sequencer.pad[:].replicate(self.shape.columns))),
            Value.cast(array.weights).eq(weights.word),
            results.early.eq(array.early), results.ends_tile.eq(ends_tile), array.move.eq(results.move),
            weights.group.eq(results.group), results.constants.eq(weights.constants),
            weights.tile_done.eq(results.tile_done), results.zero_point.eq(sequencer.zero_point),
            results.low.eq(sequencer.low), results.high.eq(sequencer.high)]
        m.d.comb += [results.sums[lane].eq(array.results[lane]) for lane in range(self.shape.lanes)]

    def ends(self, m: Module, sequencer: Sequencer, frames: FrameMemory, results: Results) -> None:
        """Connect what is written into the frame memory, and what leaves it."""
        waiting, computed = Signal(), Signal()
        word = Signal(frames.width, name="waiting_word", reset_less=True)
        loaded_addr = Signal.like(frames.write_addr, name="loaded_addr", reset_less=True)
        turn = Signal(len(self.loaders), init=1)  # bit k: of loader k
        m.d.sync += turn.eq(turn.rotate_left(1))
        with m.If(frames.write_ready):
            m.d.sync += waiting.eq(0)
        made: list[Any] = [results, *self.fillers(m, sequencer)]
        next_made = Cat(source.next_valid for source in made).any()
        sources = [*self.loaders, *made]
        for k, (source, name) in enumerate(zip(sources, [*self.inputs, *("" for _ in made)], strict=True)):
            if name:
                m.submodules[f"loader{k}"] = source
                wiring.connect(m, wiring.flipped(getattr(self, name)), source.i)
                m.d.comb += [source.open.eq(sequencer.open[k]), sequencer.loaded[k].eq(source.there),
                             source.allowed.eq(turn[k - 1] & ~next_made)]  # in the next cycle
            with m.If(source.valid):
                m.d.sync += [waiting.eq(1), word.eq(source.word), computed.eq(not name)]
                if name:
                    m.d.sync += loaded_addr.eq(source.address)
        m.d.comb += [
            frames.write_en.eq(waiting), frames.write_data.eq(word),
            frames.write_addr.eq(Mux(computed, sequencer.write_addr, loaded_addr)),
            sequencer.written.eq(waiting & frames.write_ready & computed),
            sequencer.fetch.eq(Cat(storer.fetch for storer in self.storers).any()),
            self.wrote.valid.eq(sequencer.written), self.wrote.step.eq(sequencer.step),
            self.wrote.word.eq(word)]
        for k, (name, storer) in enumerate(zip(self.outputs, self.storers, strict=True)):
            m.submodules[f"storer{k}"] = storer
            m.d.comb += [storer.store.eq(sequencer.store[k]), storer.word.eq(frames.read_data)]
            wiring.connect(m, storer.o, wiring.flipped(getattr(self, name)))

    def fillers(self, m: Module, sequencer: Sequencer) -> list[Filler]:
        """What gives the first values of states, if there are some."""
        if not self.program.first:
            return []
        m.submodules.filler = filler = Filler(
            columns=self.shape.columns, image=self.program.image, technology=self.technology, name=self.name)
        m.d.comb += [filler.filling.eq(sequencer.filling), filler.from_image.eq(sequencer.image),
                     filler.value.eq(sequencer.pad)]
        return [filler]
