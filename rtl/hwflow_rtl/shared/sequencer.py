"""The sequencer of a shared stage: reads the program and says in each cycle which word is read, and what for."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds
from .encoding import CHUNK, LOOPS, WRITE_LOOPS, Encoding, Kind

# Nested loops whose numbers of iterations change from step to step.


class Loops:
    """Counters of nested loops, innermost first.  Each counts from its reload value, iterations less two, down to -1.

    `last[name]`: the loop is in its last iteration.  `moves[name]`: with an advance, the loop begins its next iteration
    and those inside it begin anew; none moves at the end of all.  `ending[name]`: this loop and all loops inside it
    are in their last iterations.
    """

    def __init__(self, m: Module, reloads: Mapping[str, Value], name: str):
        self.m = m
        self.reloads = dict(reloads)
        self.left: dict[str, Value] = {}
        for loop, reload in reloads.items():
            width = reload.shape().width + (not reload.shape().signed)
            if isinstance(reload, Const) and reload.value == -1:
                self.left[loop] = Const(-1, Shape(1, signed=True))
            else:
                self.left[loop] = Signal(Shape(width, signed=True), name=f"{name}_{loop}")
        self.last: dict[str, Value] = {loop: left[-1] for loop, left in self.left.items()}
        self.moves: dict[str, Value] = {}
        self.ending: dict[str, Value] = {}
        inside: Value = Const(1, 1)
        for loop in reloads:
            self.moves[loop] = inside & ~self.last[loop]
            inside = inside & self.last[loop]
            self.ending[loop] = inside

    @property
    def done(self) -> Value:
        """All loops are in their last iterations."""
        return self.ending[next(reversed(self.ending))]

    def run(self, *, load: Value, advance: Value) -> None:
        """`load` begins all loops; `advance` takes a step of the innermost."""
        inside: Value = Const(1, 1)
        for loop, left in self.left.items():
            if isinstance(left, Signal):
                with self.m.If(load | (advance & inside)):
                    self.m.d.sync += left.eq(Mux(load | self.last[loop], self.reloads[loop], left - 1))
            inside = inside & self.last[loop]

    def jump(self, steps: Mapping[str, Value]) -> Value:
        """The one of `steps`, by loop, that belongs to the loop that moves; 0 where it is not there."""
        chosen: Value = Const(0, 1)
        for loop in reversed(list(self.left)):
            if isinstance(self.left[loop], Const):
                continue
            chosen = Mux(self.moves[loop], steps.get(loop, Const(0, 1)), chosen)
        return chosen


#: Cycles before each tile, or part of one, in which its weights are looked for; the first block begins after them.
GATE_CYCLES = 2


class Sequencer(wiring.Component):
    """Runs the steps of a program, one after another and again from the first that is no `Fill`.

    Ports
    -----
    read_en, read_addr, inside
        The word of the frame memory that is read in this cycle.  Where `inside` is 0, the window is outside of the
        frame there: its word is the padding.
    first, last, next_digit, ends_tile
        With `read_en`, of a `Compute`: the word is the first, the last of its block (but for one without results); the
        sum is multiplied by 2**DIGIT_BITS before it; the block is the last of its tile.
    weight_addr, turn
        The place of the word of weights for it, and which of its rows it meets in this cycle: each word that a block
        reads stays for `SharedShape.turns` cycles.  `last` is set in the last one alone.
    weights_there, constants_there
        Words of weights in their buffer, from the current tile or part on; the constants of a tile wait there.
    take_constants, freed
        A tile begins; so many words at the beginning of the buffer are not needed any more.
    write_addr, written, step
        The address of the next word that is written; it is written in this cycle; the number of the step.
    open, loaded
        A bit for each input: let its next frame in; its frame is complete.
    filling, image
        A word of a state is to be filled; it comes from the image.
    store
        A bit for each output: it is stored.  While one is set, the fields of that step apply.
    fetch
        Read the next word of a frame that is stored.
    maximum, slides, product, pad, zero_point, low, high, looks_up, table, byte
        Fields of the step.

    A step begins when all words of the one before it are written.  Cycles: `fetch_cycles` to read a step, then
    `GATE_CYCLES` for each tile (or part of one), `SharedShape.period` for each of its blocks, and at the end the way
    of the last word to the frame memory.
    """

    def __init__(self, *, encoding: Encoding, technology: Technology, name: str):
        self.encoding = encoding
        self.technology = technology
        self.name = name
        shape, steps = encoding.program.shape, len(encoding.program.steps)
        self.address_bits = (shape.words - 1).bit_length()
        self.fills = encoding.program.first > 0
        super().__init__({
            "read_en": Out(1), "read_addr": Out(range(shape.words)), "inside": Out(1),
            "first": Out(1), "last": Out(1), "next_digit": Out(1), "ends_tile": Out(1),
            "weight_addr": Out(range(shape.buffer)), "turn": Out(range(shape.turns)),
            "weights_there": In(range(shape.buffer + 1)), "constants_there": In(1),
            "take_constants": Out(1), "freed": Out(range(shape.buffer + 1)),
            "write_addr": Out(range(shape.words)), "written": In(1), "step": Out(range(steps)),
            "open": Out(encoding.program.inputs), "loaded": In(encoding.program.inputs),
            "store": Out(encoding.program.outputs), "fetch": In(1),
            "maximum": Out(1), "slides": Out(1), "pad": Out(shape.element), "zero_point": Out(signed(9)),
            "low": Out(signed(8)), "high": Out(signed(8)), "product": Out(1), "looks_up": Out(1),
            "table": Out(range(shape.tables)), "byte": Out(2), "computing": Out(1), "filling": Out(1),
            "image": Out(1)})

    @property
    def fetch_cycles(self) -> int:
        """From the last write of a step to the first cycle of the next."""
        return self.encoding.chunks + self.technology.timing.rom + 1

    @staticmethod
    def cost(encoding: Encoding, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        shape, bits = encoding.program.shape, encoding.chunks * CHUNK
        rom = technology.rom_cost(width=CHUNK, depth=encoding.chunks * len(encoding.program.steps), name="program",
                                  holds=Holds.TABLE)
        counters = sum(encoding.fields[f"count_{loop}"][0].width + 1 for loop in (*LOOPS, *WRITE_LOOPS))
        address, places = (shape.words - 1).bit_length(), (shape.buffer - 1).bit_length()
        return rom + Resources(lut=2 * counters + 6 * address + 6 * places + 120,
                               ff=bits + counters + 2 * address + 3 * places + 60)

    def elaborate(self, platform):
        m = Module()
        fields = self.fetched(m)
        begin, state = self.begin, self.state
        counts = {loop: fields[f"count_{loop}"] for loop in LOOPS}
        written = {loop: counts[loop] for loop in WRITE_LOOPS}
        written["width"] = fields.get("count_written", counts["width"])
        reads, writes = Loops(m, counts, "read"), Loops(m, written, "write")
        playing, is_store, self.moves = Signal(), Signal(), Signal(name="moves")
        # `playing` is high for words that have met all their weights, and `moves` leads to the next word.
        m.d.comb += [playing.eq(state["play"] & (self.turn == self.encoding.program.shape.turns - 1)),
                     is_store.eq(state["store"]), self.computing.eq(state["play"]),
                     self.read_en.eq(state["play"] | (is_store & self.fetch)),
                     self.moves.eq(playing | (is_store & self.fetch) | self.filling)]
        if self.fills:
            m.d.comb += self.filling.eq(state["fill"])
        with m.If(state["play"]):
            m.d.sync += self.turn.eq(self.turn + 1)
        reads.run(load=begin, advance=self.moves)
        writes.run(load=begin, advance=self.written)
        self.addresses(m, fields, reads, writes)
        self.places(m, fields, reads)
        self.flags(m, fields, reads, playing)
        self.weights(m, fields, reads, playing)
        self.control(m, fields, reads, writes, playing)
        for name in ("maximum", "slides", "product", "pad", "zero_point", "low", "high", "looks_up", "table",
                     "byte", "image"):
            m.d.comb += getattr(self, name).eq(field(fields, name))
        return m

    def fetched(self, m: Module) -> dict[str, Value]:
        """The fields of the step; also the states of the control and `begin`, the cycle before a step begins."""
        encoding, chunks, rom_cycles = self.encoding, self.encoding.chunks, self.technology.timing.rom
        self.state = {name: Signal(name=f"is_{name}", init=name == "fetch")
                      for name in ("fetch", "gate", "play", "pause", "drain", "load", "store",
                                   *(("fill",) if self.fills else ()))}
        self.begin = Signal(name="begin")
        steps, first = len(encoding.program.steps), encoding.program.first
        m.submodules.program = rom = self.technology.rom(
            width=CHUNK, contents=encoding.rom(), name=f"{self.name}_program")
        place = Signal(range(rom.depth), name="program_place")
        left = Signal(signed((chunks + 1).bit_length() + 1), name="chunks_left", init=chunks - 2)
        reading = Signal(name="reading", init=1)
        register = Signal(chunks * CHUNK, name="fields", reset_less=True)
        with m.If(reading):
            m.d.sync += [left.eq(left - 1), place.eq(Mux(place == rom.depth - 1, first * chunks, place + 1))]
            with m.If(left[-1]):
                m.d.sync += [reading.eq(0), left.eq(chunks - 2)]
        with m.If(delay(m, reading, rom_cycles, "chunk_there", reset_less=False)):
            m.d.sync += register.eq(Cat(register, rom.data)[CHUNK:])
        m.d.comb += rom.addr.eq(place)
        complete = delay(m, reading & left[-1], rom_cycles + 1, "complete", reset_less=False)
        m.d.comb += self.begin.eq(complete)
        self.start_fetch = Signal(name="start_fetch")
        with m.If(self.start_fetch):
            m.d.sync += [reading.eq(1), self.step.eq(Mux(self.step == steps - 1, first, self.step + 1))]
        return encoding.values(register)

    def addresses(self, m: Module, fields: Mapping[str, Value], reads: Loops, writes: Loops) -> None:
        ahead = {"words": Const(1, 2), **{loop: field(fields, f"read_{loop}") for loop in LOOPS[1:]}}
        jump = self.settled(m, reads.jump(ahead), "read_jump")
        if self.encoding.program.shape.turns > 1:  # words that are stored follow each other at once
            jump = Mux(self.state["store"], 1, jump)
        with m.If(self.moves):
            m.d.sync += self.read_addr.eq(self.read_addr + jump)
        with m.If(self.written):
            m.d.sync += self.write_addr.eq(
                self.write_addr + writes.jump({loop: field(fields, f"write_{loop}") for loop in WRITE_LOOPS}))
        with m.If(self.begin):
            m.d.sync += [self.read_addr.eq(field(fields, "read_base")),
                         self.write_addr.eq(field(fields, "write_base"))]

    def places(self, m: Module, fields: Mapping[str, Value], reads: Loops) -> None:
        """The row and the column of the word that is read, and whether they are inside of the frame."""
        rows = {loop: field(fields, f"row_{loop}") for loop in ("inner", "outer", "width", "height")}
        columns = {loop: field(fields, f"column_{loop}") for loop in ("inner", "outer", "width")}
        ends = []
        for name, jumps, size, anew in (
                ("row", rows, "frame_height", reads.moves["tiles"]),
                ("column", columns, "frame_width", reads.moves["tiles"] | reads.moves["height"])):
            limit, start = field(fields, size), field(fields, f"first_{name}")
            width = 1 + max(len(limit), len(start), *(len(value) for value in jumps.values()))
            at = Signal(signed(width), name=name)
            following = self.settled(m, Mux(anew, start, at + reads.jump(jumps))[:width].as_signed(), f"{name}_next")
            with m.If(self.begin):
                m.d.sync += at.eq(start)
            with m.Elif(self.moves):
                m.d.sync += at.eq(following)
            ends.append(~at[-1] & (at[:-1] < limit))
        m.d.comb += self.inside.eq(ends[0] & ends[1])

    def settled(self, m: Module, value: Value, name: str) -> Value:
        """`value` of the word that is read, out of a register where words stay for several cycles: it does not change
        meanwhile, so the way to it may take a whole cycle."""
        if self.encoding.program.shape.turns == 1:
            return value
        register = Signal(value.shape(), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register

    def flags(self, m: Module, fields: Mapping[str, Value], reads: Loops, playing: Value) -> None:
        fresh, digit = Signal(init=1), Signal()
        ends = reads.ending["outer"]
        with m.If(self.begin):
            m.d.sync += [fresh.eq(1), digit.eq(0)]
        with m.Elif(playing):
            m.d.sync += [fresh.eq(ends), digit.eq(reads.moves["outer"] & field(fields, "digits"))]
        leads: Value = Const(0, 1)  # more blocks of the row are left than words to write
        if "count_written" in fields:
            leads = reads.left["width"] > fields["count_written"]
        m.d.comb += [self.first.eq(fresh), self.last.eq(ends & playing & ~leads), self.next_digit.eq(digit),
                     self.ends_tile.eq(reads.ending["height"])]

    def weights(self, m: Module, fields: Mapping[str, Value], reads: Loops, playing: Value) -> None:
        """The place of the weights: each block of a tile reads the same ones."""
        in_parts, multiplies = field(fields, "in_parts"), ~field(fields, "maximum")
        start, following = Signal.like(self.weight_addr, name="tile_start"), Signal.like(self.weight_addr)
        ends_part = Signal(name="ends_part")
        m.d.comb += [
            following.eq(self.weight_addr + 1),
            ends_part.eq(playing & multiplies & Mux(in_parts, reads.ending["inner"], reads.ending["height"])),
            self.freed.eq(Mux(ends_part, field(fields, "part"), 0))]
        with m.If(ends_part):
            m.d.sync += [self.weight_addr.eq(following), start.eq(following)]
        with m.Elif(playing & multiplies & ~field(fields, "repeated")):
            m.d.sync += self.weight_addr.eq(Mux(reads.ending["outer"] & ~in_parts, start, following))

    def control(self, m: Module, fields: Mapping[str, Value], reads: Loops, writes: Loops, playing: Value) -> None:
        """One state after the other, from `fetch` to `drain`, and again."""
        state = self.state
        kind = field(fields, "kind")
        for value, name in ((Kind.COMPUTE, "gate"), (Kind.LOAD, "load"), (Kind.STORE, "store"), (Kind.FILL, "fill")):
            if name in state:
                with m.If(self.begin & (kind == value)):
                    self.go(m, name)
        with m.If(self.filling & reads.done):
            self.go(m, "drain")
        new_tile = Signal(init=1)
        self.gate(m, fields, new_tile)
        self.blocks(m, fields, reads, new_tile, playing)
        all_written, stored, loaded, port = Signal(), Signal(), Signal(), field(fields, "port")
        with m.If(self.begin):
            m.d.sync += all_written.eq(0)
        with m.Elif(self.written & writes.done):
            m.d.sync += all_written.eq(1)
        m.d.comb += [stored.eq(state["store"] & self.fetch & reads.done),
                     loaded.eq(state["load"] & self.loaded.bit_select(port, 1))]
        with m.If((state["drain"] & all_written) | loaded | stored):
            m.d.comb += self.start_fetch.eq(1)
            self.go(m, "fetch")
        for k, bit in enumerate(self.open):
            itself = field(fields, "opens") if "opens" in fields else (kind == Kind.LOAD) & (port == k)
            m.d.comb += bit.eq(self.begin & itself)
        m.d.comb += [self.store[k].eq(state["store"] & (port == k)) for k in range(len(self.store))]

    def go(self, m: Module, name: str) -> None:
        m.d.sync += [value.eq(each == name) for each, value in self.state.items()]

    def gate(self, m: Module, fields: Mapping[str, Value], new_tile: Signal) -> None:
        """Wait for the weights of a tile or part, and for the constants of a `new_tile`."""
        enough, waited = Signal(), Signal(range(GATE_CYCLES), init=GATE_CYCLES - 1)
        m.d.sync += enough.eq(self.weights_there >= Mux(field(fields, "maximum"), 0, field(fields, "part")))
        with m.If(self.state["gate"]):
            with m.If(waited != 0):
                m.d.sync += waited.eq(waited - 1)
            with m.Elif(enough & (self.constants_there | ~new_tile)):
                m.d.sync += waited.eq(GATE_CYCLES - 1)
                m.d.comb += self.take_constants.eq(new_tile)
                self.go(m, "play")

    def blocks(self, m: Module, fields: Mapping[str, Value], reads: Loops, new_tile: Signal,
               playing: Value) -> None:
        """Play block after block, with a pause where the period of blocks has more cycles than words."""
        state, in_parts, pause = self.state, field(fields, "in_parts"), field(fields, "pause")
        after, then, kept = ("play", "gate", "drain"), Signal(3), Signal(3, name="then_kept")
        paused = Signal.like(pause, name="paused")
        gate_next = reads.ending["height"] | in_parts
        m.d.comb += then.eq(Mux(reads.done, 0b100, Mux(gate_next, 0b010, 0b001)))
        with m.If(self.begin):
            m.d.sync += new_tile.eq(1)
        with m.If(playing & Mux(in_parts, reads.ending["inner"], reads.ending["outer"])):
            m.d.sync += [kept.eq(then), paused.eq(pause - 1), new_tile.eq(reads.ending["outer"])]
            with m.If(pause == 0):
                m.d.sync += [state[each].eq(then[k]) for k, each in enumerate(after)]
            with m.Else():
                self.go(m, "pause")
        with m.If(state["pause"]):
            m.d.sync += paused.eq(paused - 1)
            with m.If(paused == 0):
                m.d.sync += state["pause"].eq(0)
                m.d.sync += [state[each].eq(kept[k]) for k, each in enumerate(after)]


def field(fields: Mapping[str, Value], name: str) -> Value:
    """The field; 0 where no step has it."""
    return fields.get(name, Const(0, 1))
