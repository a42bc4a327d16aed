"""Normalization of rows: sums while a row comes, the reciprocal root of its power, then its elements times both.

    i ─▶ ring of elements ────────────────────────────────────▶ distance ─▶ shift ─▶ * root ─▶ * gamma + beta ─▶ o
         RowPower ─▶ Chain of Levelling ─▶ Chain of Root ─▶ Queue

One row is taken while the row before it is given.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..join.join import queue_depth
from ..join.tree import holding, signed_digits
from ..stream.credit import CreditCounter
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, with_room
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .chain import Chain
from .constants import RowConstants
from .normalize_shape import BETA_BITS, SHIFT_BITS, NormalizeShape
from .power import RowPower
from .product import ExactProduct
from .ring import RowRing
from .times import play_rows

IntArray = npt.NDArray[np.int64]


class NormalizeStage(wiring.Component):
    """The normalization of each row of `shape`.

    Parameters
    ----------
    shape
        Rows, formats and integers.
    gamma, beta
        int64[rows, period], as `shape.constants` and `shape.beta_ends` say.
    technology, name
        Makes memories and multipliers; the prefix of the ROM's name.

    A word is taken, and given when all of its row is known (`NormalizeShape.phase`); a word a cycle.  A row waits for
    nothing but its own words and the rows before it.  `busy` says that a word starts that is given.
    """

    def __init__(self, *, shape: NormalizeShape, gamma: IntArray, beta: IntArray, technology: Technology, name: str):
        self.shape = shape
        self.gamma = np.asarray(gamma, np.int64)
        self.beta = np.asarray(beta, np.int64)
        self.technology = technology
        self.name = name
        if self.gamma.shape != shape.constants or self.beta.shape != shape.constants:
            raise ValueError(f"gamma and beta of '{name}' must be {list(shape.constants)}, not "
                             f"{list(self.gamma.shape)} and {list(self.beta.shape)}")
        super().__init__({"i": In(stream_of(shape.element, shape.lanes)),
                          "o": Out(stream_of(shape.output, shape.lanes)), "busy": Out(1)})

    @staticmethod
    def times(arrivals: Times, *, shape: NormalizeShape, technology: Technology,
              left: Times | None = None) -> StageTimes:
        """When words are taken and given, for those that come as `arrivals` says; `left`: see `with_room`."""
        latency = shape.result_latency(technology)
        depth = queue_depth(latency)
        room = with_room(np.zeros_like(arrivals), left, depth, back=2)
        taken, given = play_rows(arrivals, room, shape.words, [shape.phase(technology)])
        return StageTimes((taken,), given + latency + Queue.latency_of(depth))

    @staticmethod
    def cost(*, shape: NormalizeShape, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        phase, lanes = shape.phase(technology), shape.lanes
        members = {name: shape.root.state.members[name].width for name in ("total", "place", "root")}
        latency = shape.result_latency(technology)
        depth = queue_depth(latency)
        total = RowRing.cost(width=lanes * shape.element.width, depth=phase.depth, technology=technology, name="row")
        total += shape.power.cost(technology)
        for iteration in (shape.levelling, shape.root):
            total += Chain.cost(iteration=iteration, interval=shape.words, technology=technology)
        total += Queue.cost(width=sum(members.values()), depth=phase.rows)
        total += RowConstants.cost(walk=shape.walk, shapes=shape.constant_shapes, technology=technology)
        lane = lane_cost(shape, technology)
        for _ in range(lanes):
            total += lane
        total += Queue.cost(width=shape.output.width * lanes, depth=depth, technology=technology)
        counters = 2 * Nest.bits((shape.words,))
        ram, moved = technology.timing.ram, technology.timing.ram + shape.distance_latency
        waits = members["total"] * ram + members["place"] * moved + members["root"] * (moved + shape.shifts)
        return total + CreditCounter.cost(words=depth) + fitted("NormalizeStage") + Resources(
            lut=counters, ff=counters + latency + waits)

    def model(self, beats: IntArray) -> IntArray:
        """Beats of whole frames, [beats, lanes], to as many; from the hardware's recurrences, a row after the other."""
        shape, rows = self.shape, np.asarray(beats).reshape(-1, self.shape.elements).tolist()
        found: list[int] = []
        for r, row in enumerate(rows):
            gamma, beta = (values[r % len(values)].tolist() for values in (self.gamma, self.beta))
            for j, n in enumerate(self.normalized(row)):
                total = n * gamma[j % len(gamma)] + (beta[j % len(beta)] << (shape.shift - BETA_BITS))
                found.append(shape.rounded.exactly(total))
        return np.array(found, np.int64).reshape(-1, shape.lanes)

    def normalized(self, row: list[int]) -> list[int]:
        """The elements of a row times its root."""
        shape, power = self.shape, self.shape.power
        u = [x - shape.center for x in row]
        total, value = sum(u), sum(x * x for x in u)
        if shape.centred:
            value = len(u) * value - total * total
            u = [len(u) * x - total for x in u]
        value = (value << 2 * power.guard) + shape.epsilon
        value, place = (value << shape.lift if shape.lift > 0 else value >> -shape.lift), shape.levelling.levels - 1
        for _ in range(shape.levelling.count):
            if value >> shape.levelling.width - 2 == 0:
                value, place = value << 2, place - 1
        mantissa = value >> shape.below
        rest, odd, root = 1 << shape.precision, mantissa, 0
        for _ in range(shape.precision):
            fits = 4 * rest >= odd
            rest, odd = 4 * rest - (odd if fits else 0), 2 * odd + (3 * mantissa if fits else -mantissa)
            root = 2 * root + fits
        moved = [(x << max(shape.scale_up, 0)) >> max(-shape.scale_up, 0) >> place for x in u]
        return [x * root >> shape.precision - 1 for x in moved]

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        phase, latency = shape.phase(technology), shape.result_latency(technology)
        m.submodules.row = row = RowRing(
            width=shape.lanes * shape.element.width, depth=phase.depth, technology=technology, name="row")
        m.submodules.known = known = Queue(shape=self.known_layout, depth=phase.rows)
        m.submodules.queue = queue = Queue(
            shape=data.ArrayLayout(shape.output, shape.lanes), depth=queue_depth(latency), technology=technology)
        m.submodules.credit = credit = CreditCounter(words=queue_depth(latency), take=1)
        taken, given = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(row.room), taken.eq(self.i.valid & row.room), row.reserve.eq(taken), row.write.eq(taken),
            row.written.eq(Value.cast(self.i.payload)), given.eq(known.o.valid & credit.credit), row.read.eq(given),
            credit.taken.eq(given), self.busy.eq(given), known.o.ready.eq(given & self.last_word(m, given, "given")),
            credit.given.eq(delay(m, queue.o.valid & queue.o.ready, 1, "left", reset_less=False)),
            queue.i.valid.eq(delay(m, given, latency, "result_valid", reset_less=False)),
        ]
        self.learn(m, taken, known.i)
        self.give(m, given, known.o.payload, row.word, queue.i.payload)
        link(m, queue.o, wiring.flipped(self.o))
        return m

    @property
    def known_layout(self) -> data.StructLayout:
        """What the second pass wants of a row."""
        state = self.shape.root.state.members
        return data.StructLayout({name: state[name] for name in ("root", "total", "place")})

    def last_word(self, m: Module, step: Value, name: str) -> Value:
        """Whether the word that comes next is the last of its row."""
        nest = Nest(m, (self.shape.words,), name=name)
        nest.advance(step)
        return nest.last[0]

    def learn(self, m: Module, taken: Value, known) -> None:
        """The level and the root of each row's power enter the queue."""
        shape = self.shape
        m.submodules.power = power = RowPower(shape=shape.power, element=shape.element, technology=self.technology)
        m.submodules.levelling = level = Chain(iteration=shape.levelling, interval=shape.words)
        m.submodules.root = root = Chain(iteration=shape.root, interval=shape.words)
        mantissa = level.o_state.value[shape.below:]
        lifted = power.power << shape.lift if shape.lift > 0 else power.power >> -shape.lift
        m.d.comb += [
            power.valid.eq(taken), power.last.eq(self.last_word(m, taken, "taken")),
            power.beat.eq(Value.cast(self.i.payload)),
            level.i_valid.eq(power.made), level.i_state.value.eq(lifted), level.i_state.total.eq(power.total),
            level.i_state.place.eq(shape.levelling.levels - 1),
            root.i_valid.eq(level.o_valid), root.i_state.mantissa.eq(mantissa), root.i_state.odd.eq(mantissa),
            root.i_state.rest.eq(1 << shape.precision), root.i_state.root.eq(0),
            root.i_state.total.eq(level.o_state.total), root.i_state.place.eq(level.o_state.place),
            known.valid.eq(root.o_valid), *(known.payload[name].eq(root.o_state[name])
                                            for name in self.known_layout.members),
        ]

    def give(self, m: Module, given: Value, known: data.View, word: Value, results: data.View) -> None:
        """The results of a word, `shape.result_latency` cycles after it starts."""
        shape, technology = self.shape, self.technology
        wait = shape.gamma_time(technology) - RowConstants.latency(technology)
        m.submodules.constants = constants = RowConstants(
            walk=shape.walk, values=(self.gamma, self.beta + shape.beta_offset), shapes=shape.constant_shapes,
            technology=technology, name=f"{self.name}_constants")
        m.d.comb += constants.step.eq(delay(m, given, wait, "constants_step", reset_less=False))
        ram, moved = technology.timing.ram, technology.timing.ram + shape.distance_latency
        total = delay(m, known.total, ram, "total")
        place = delay(m, known.place, moved, "place")
        root = delay(m, known.root, moved + shape.shifts, "root")
        gamma_bits, beta_bits = (each.width for each in shape.constant_shapes)
        for lane in range(shape.lanes):
            element = Signal(shape.element, name=f"element{lane}")
            m.d.comb += element.eq(word.word_select(lane, shape.element.width))
            distance = self.distance(m, element, total, lane)
            normal = self.product(m, shape.first_product, self.shifted(m, distance, place, lane), root, f"root{lane}")
            own = constants.word.word_select(lane if shape.walk.together > 1 else 0, gamma_bits + beta_bits)
            product = self.product(m, shape.second_product, normal >> (shape.precision - 1),
                                   own[:gamma_bits].as_signed(), f"gamma{lane}")
            beta = delay(m, own[gamma_bits:], shape.second_product.latency(technology), f"beta{lane}")
            low, high = shape.rounded.ends
            result = Signal(holding(min(low, -1), high), name=f"total{lane}", reset_less=True)
            m.d.sync += result.eq(product + Cat(Const(shape.below_beta, shape.shift - BETA_BITS), beta).as_signed())
            m.d.comb += Value.cast(results[lane]).eq(shape.rounded.finished(m, result, f"result{lane}"))

    def product(self, m: Module, product, a: Value, b: Value, name: str) -> Value:
        m.submodules[name] = unit = ExactProduct(product, self.technology)
        m.d.comb += [unit.a.eq(a), unit.b.eq(b)]
        return unit.p

    def distance(self, m: Module, element: Value, total: Value, lane: int) -> Value:
        """count * element - sum, or element - center."""
        shape, name = self.shape, f"distance{lane}"
        if shape.centred:
            values = [element] * len(signed_digits(shape.elements)) + [total]
            made = shape.distance.build(m, values, name)
            found = Signal(holding(*shape.distance_ends), name=f"{name}_made")
            m.d.comb += found.eq(made << shape.distance.result.place)
            return found
        found = Signal(holding(*shape.distance_ends), name=f"{name}_made", reset_less=True)
        domain = m.d.sync if shape.center else m.d.comb
        domain += found.eq(element - shape.center)
        return found

    def shifted(self, m: Module, distance: Value, place: Value, lane: int) -> Value:
        """distance * 2**scale_up / 2**place, rounded down; two bits of the place in a cycle, the highest first."""
        shape = self.shape
        value = distance << shape.scale_up if shape.scale_up > 0 else distance >> -shape.scale_up
        for k in reversed(range(shape.shifts)):
            step = 1 << (k * SHIFT_BITS)  # what is left to shift is less than that
            bits = place[k * SHIFT_BITS:(k + 1) * SHIFT_BITS]
            made = Signal(signed(min(len(value) + 1, shape.precision + step - 1)), name=f"shifted{lane}_{k}",
                          reset_less=True)
            with m.Switch(bits):
                for n in range(1 << len(bits)):
                    with m.Case(n):
                        m.d.sync += made.eq(value >> (n * step))
            value, place = made, delay(m, place, 1, f"place{lane}_{k}") if k else place
        return value


def lane_cost(shape: NormalizeShape, technology: Technology) -> Resources:
    """Of what a lane does with an element and what is known of its row."""
    bits, total = shape.precision, Resources()
    distance = holding(*shape.distance_ends).width
    if shape.centred:
        total += shape.distance.cost(technology)
    elif shape.center:
        total += Resources(lut=adder_luts(distance, technology), ff=distance)
    for k in range(shape.shifts):
        width = min(bits + (1 << k * SHIFT_BITS) - 1, distance + max(0, shape.scale_up) + 1)
        total += Resources(lut=2 * width, ff=width)
    beta = shape.constant_shapes[1].width
    wide = shape.rounded.operands[0].width
    return (total + shape.first_product.cost(technology) + shape.second_product.cost(technology)
            + Resources(lut=adder_luts(wide, technology), ff=wide + beta * shape.second_product.latency(technology))
            + shape.rounded.tail_cost(technology))
