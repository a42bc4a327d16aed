"""Weights of a shared stage: the buffer of weights, the constants of some tiles, and what fills both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds
from .constants import constants_bits
from .shape import SharedShape
from .steps import ELEMENT_BITS

#: Tiles whose constants are there, a power of two: as many may arrive ahead while others are computed.
SLOTS = 64


class Weights(wiring.Component):
    """Takes the stream of weights apart and keeps what comes until it is used.

    Ports
    -----
    i
        The stream, as `Program.beats`.
    there
        Complete words of weights in the buffer; `freed` says how many of the oldest go in this cycle.
    addr, turn, word
        The rows of a turn of the word of weights at a place of the buffer, `timing.ram` cycles later: row after row,
        column after column.
    constants_there, take_constants
        The constants of a tile are there that was not taken yet; it is taken.
    group, constants
        The constants of the channels `group * lanes` to `group * lanes + lanes - 1` of the oldest tile, `timing.ram`
        cycles later.
    tile_done
        The oldest tile's constants are not needed any more.
    """

    def __init__(self, *, shape: SharedShape, technology: Technology):
        if shape.buffer & (shape.buffer - 1):
            raise ValueError(f"buffer of a shared stage must be a power of two, not {shape.buffer}")
        self.shape = shape
        self.technology = technology
        self.groups = shape.columns // shape.lanes
        super().__init__({
            "i": In(stream_of(unsigned(ELEMENT_BITS), shape.stream_lanes)),
            "there": Out(range(shape.buffer + 1)), "freed": In(range(shape.buffer + 1)),
            "addr": In(range(shape.buffer)), "turn": In(range(shape.turns)),
            "word": Out(shape.rows * shape.columns * ELEMENT_BITS),
            "constants_there": Out(1), "take_constants": In(1),
            "group": In(range(self.groups)), "constants": Out(shape.lanes * constants_bits(shape.sums.room)),
            "tile_done": In(1)})

    @staticmethod
    def cost(shape: SharedShape, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width = shape.stream_lanes * ELEMENT_BITS
        banks = technology.ram_cost(width=width, depth=shape.buffer * shape.turns, name="weights",
                                    holds=Holds.WEIGHTS).copies(shape.rows // shape.stream_rows)
        constants = technology.ram_cost(
            width=constants_bits(shape.sums.room), depth=SLOTS * shape.columns // shape.lanes, name="constants",
            holds=Holds.CONSTANTS).copies(shape.lanes)
        counters = 3 * ceil_log2(shape.buffer + 1) + 16
        return banks + constants + Resources(
            lut=2 * counters + 20, ff=counters + (shape.constants_beats - 1) * width + 20)

    def elaborate(self, platform):
        m = Module()
        taken, header, constants, words = (Signal(name=name) for name in ("taken", "takes_header", "takes_constants",
                                                                         "takes_words"))
        state = {name: Signal(name=f"in_{name}", init=name == "header") for name in ("header", "constants", "words")}
        slot_free, room = Signal(name="slot_free"), Signal(name="room")
        m.d.comb += [
            self.i.ready.eq((state["header"] & slot_free) | state["constants"] | (state["words"] & room)),
            taken.eq(self.i.valid & self.i.ready), header.eq(taken & state["header"]),
            constants.eq(taken & state["constants"]), words.eq(taken & state["words"])]
        bytes_ = [Value.cast(each) for each in (self.i.payload[0], self.i.payload[1])]
        left = Signal(2 * ELEMENT_BITS, name="words_left")
        tile_there = self.keep_constants(m, constants)
        word_there = self.keep_words(m, words)
        none_left = Signal(name="none_left")
        m.d.comb += none_left.eq(left == 0)
        with m.If(header):
            m.d.sync += [left.eq(Cat(*bytes_)), state["header"].eq(0), state["constants"].eq(1)]
        with m.If(tile_there):
            m.d.sync += [state["constants"].eq(0), state["words"].eq(~none_left), state["header"].eq(none_left)]
        with m.If(word_there):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += [state["words"].eq(0), state["header"].eq(1)]
        free, waiting = Signal(range(SLOTS + 1), init=SLOTS), Signal(range(SLOTS + 1))
        m.d.sync += [free.eq(free + self.tile_done - header), waiting.eq(waiting + tile_there - self.take_constants)]
        m.d.comb += [slot_free.eq(free != 0), self.constants_there.eq(waiting != 0)]
        # A word is complete late in the cycle: it chooses between sums that do not wait for it.
        m.d.sync += [
            self.there.eq(Mux(word_there, self.there + 1 - self.freed, self.there - self.freed)),
            room.eq(Mux(word_there, self.there < self.shape.buffer - 1, self.there < self.shape.buffer))]
        return m

    def keep_constants(self, m: Module, taken: Value) -> Signal:
        """Write the constants of a channel when its last beat comes; a signal: those of a tile are complete."""
        shape, beats, groups = self.shape, self.shape.constants_beats, self.groups
        width = shape.stream_lanes * ELEMENT_BITS
        beat = Value.cast(self.i.payload)
        last_beat: Value
        if beats > 1:
            part, earlier = Signal(range(beats)), Signal((beats - 1) * width, name="earlier", reset_less=True)
            last_beat = taken & (part == beats - 1)
            with m.If(taken):
                m.d.sync += [part.eq(Mux(part == beats - 1, 0, part + 1)), earlier.eq(Cat(earlier, beat)[width:])]
            word = Cat(earlier, beat)[:constants_bits(shape.sums.room)]
        else:
            last_beat, word = taken, beat[:constants_bits(shape.sums.room)]
        channel, write_slot, read_slot = Signal(range(shape.columns)), Signal(range(SLOTS)), Signal(range(SLOTS))
        complete = Signal(name="tile_there")
        m.d.comb += complete.eq(last_beat & (channel == shape.columns - 1))
        with m.If(last_beat):
            m.d.sync += channel.eq(Mux(channel == shape.columns - 1, 0, channel + 1))
        with m.If(complete):
            m.d.sync += write_slot.eq(write_slot + 1)
        with m.If(self.tile_done):
            m.d.sync += read_slot.eq(read_slot + 1)
        lane_bits, group_bits = ceil_log2(shape.lanes), ceil_log2(groups)
        constants = []
        for lane in range(shape.lanes):
            m.submodules[f"constants{lane}"] = ram = self.technology.ram(
                width=constants_bits(shape.sums.room), depth=SLOTS * groups, name=f"constants{lane}")
            m.d.comb += [
                ram.write_en.eq(last_beat & (channel[:lane_bits] == lane)), ram.write_data.eq(word),
                ram.write_addr.eq(Cat(channel[lane_bits:lane_bits + group_bits], write_slot)),
                ram.read_addr.eq(Cat(self.group[:group_bits], read_slot))]
            constants.append(ram.read_data)
        m.d.comb += self.constants.eq(Cat(*constants))
        return complete

    def keep_words(self, m: Module, taken: Value) -> Signal:
        """Write the beats of a word into their banks; a signal: a word is complete."""
        shape = self.shape
        parts = shape.rows // shape.stream_rows
        part, place, complete = Signal(parts, init=1), Signal(range(shape.buffer)), Signal(name="word_there")
        turn = Signal(range(shape.turns), name="written_turn")
        m.d.comb += complete.eq(taken & part[-1] & (turn == shape.turns - 1))
        with m.If(taken):
            m.d.sync += part.eq(part.rotate_left(1))
        with m.If(taken & part[-1]):
            m.d.sync += turn.eq(turn + 1)
        with m.If(complete):
            m.d.sync += place.eq(place + 1)
        banks = []
        for k in range(parts):
            m.submodules[f"weights{k}"] = ram = self.technology.ram(
                width=shape.stream_lanes * ELEMENT_BITS, depth=shape.buffer * shape.turns, name=f"weights{k}")
            m.d.comb += [ram.write_en.eq(taken & part[k]), ram.write_addr.eq(Cat(turn, place)),
                         ram.write_data.eq(Value.cast(self.i.payload)), ram.read_addr.eq(Cat(self.turn, self.addr))]
            banks.append(ram.read_data)
        m.d.comb += self.word.eq(Cat(*banks))
        return complete


class RomBeats(wiring.Component):
    """The stream of weights from a ROM, again and again; a beat in every cycle in which one is taken."""

    def __init__(self, *, beats: npt.NDArray[np.int64], technology: Technology, name: str):
        self.beats = beats
        self.technology = technology
        self.name = name
        super().__init__({"o": Out(stream_of(unsigned(ELEMENT_BITS), beats.shape[1]))})

    @staticmethod
    def cost(*, beats: int, lanes: int, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        rom = technology.rom_cost(width=lanes * ELEMENT_BITS, depth=beats, name="image", holds=Holds.WEIGHTS)
        queue = Queue.cost(width=lanes * ELEMENT_BITS, depth=technology.timing.rom + 2, technology=technology)
        address = ceil_log2(beats)
        return rom + queue + Resources(lut=2 * address + 8, ff=address + 8)

    def elaborate(self, platform):
        m = Module()
        count, ahead = len(self.beats), self.technology.timing.rom + 2
        m.submodules.rom = rom = self.technology.rom(
            width=self.beats.shape[1] * ELEMENT_BITS, contents=self.beats.astype(np.uint8), name=f"{self.name}_image")
        m.submodules.queue = queue = Queue(shape=self.o.payload.shape(), depth=ahead, technology=self.technology)
        used, place, issue = Signal(range(ahead + 1)), Signal(range(count)), Signal()
        left = Signal()
        m.d.comb += [issue.eq((used != ahead) | left), left.eq(queue.o.valid & queue.o.ready)]
        m.d.sync += used.eq(used + issue - left)
        with m.If(issue):
            m.d.sync += place.eq(Mux(place == count - 1, 0, place + 1))
        there = delay(m, issue, self.technology.timing.rom, "there", reset_less=False)
        m.d.comb += [rom.addr.eq(place), queue.i.valid.eq(there), Value.cast(queue.i.payload).eq(rom.data)]
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m


# A queue for the stream of weights: what a slow memory gives early waits here until it is needed quickly.


#: Cycles from beat to beat at the output.
PERIOD = 2
#: Most cycles from the one in which a beat could enter to the one in which it can leave.
LATENCY = 5


class BeatsAhead(wiring.Component):
    """Holds up to `depth` beats, a power of two, in a memory with a single port.

    Even cycles read the memory and odd ones write it, so a beat enters, and one leaves, in every second cycle.
    """

    def __init__(self, *, lanes: int, depth: int, technology: Technology):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth of a BeatsAhead must be a power of two, not {depth}")
        self.lanes = lanes
        self.depth = depth
        self.technology = technology
        beats = stream_of(unsigned(ELEMENT_BITS), lanes)
        super().__init__({"i": In(beats), "o": Out(beats)})

    @staticmethod
    def cost(*, lanes: int, depth: int, technology: Technology) -> Resources:
        """SPRAM exact, LUT and FF estimated."""
        width, address = lanes * ELEMENT_BITS, (depth - 1).bit_length()
        return technology.single_port_ram_cost(width=width // 2, depth=depth) + Resources(
            lut=5 * address + 8, ff=width + 2 * address + 6)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.single_port_ram(
            width=self.lanes * ELEMENT_BITS // 2, depth=self.depth)
        # With a bit more than an address has: places that differ in this bit alone are those of a full queue.
        write_place, read_place = Signal(range(2 * self.depth)), Signal(range(2 * self.depth))
        same, full = Signal(), Signal()
        writes, room, reads, reading, free = Signal(), Signal(init=1), Signal(), Signal(), Signal()
        m.d.comb += [
            same.eq(write_place[:-1] == read_place[:-1]), full.eq(write_place[-1] ^ read_place[-1]),
            self.i.ready.eq(writes & room), free.eq(~self.o.valid | self.o.ready),
            reads.eq(~writes & ~(same & ~full) & free),
            ram.addr.eq(Mux(writes, write_place[:-1], read_place[:-1])), ram.data_in.eq(Value.cast(self.i.payload)),
            ram.write_en.eq((self.i.valid & self.i.ready).replicate(2))]
        m.d.sync += [writes.eq(~writes), room.eq(~(same & full)), reading.eq(reads)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += write_place.eq(write_place + 1)
        with m.If(reads):
            m.d.sync += read_place.eq(read_place + 1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(reading):
            m.d.sync += [self.o.valid.eq(1), Value.cast(self.o.payload).eq(ram.data_out)]
        return m
