"""Normalization of rows: sums while a row comes, the reciprocal root of its power, then its elements times both.

    i ─▶ ring of elements ────────────────────────────────────▶ distance ─▶ shift ─▶ * root ─▶ * gamma + beta ─▶ o
         RowPower ─▶ Chain of Levelling ─▶ Chain of Root ─▶ Queue

One row is taken while the row before it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, signed
from amaranth.lib import data, wiring

from ..join.add import TAIL, RoundedSum
from ..join.multiply import BlockProduct
from ..join.tree import SumPlan, Term, holding, signed_digits
from ..multiply.products import Operand
from ..rescale.ranges import shape_range
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .chain import ChainShape
from .constants import RowConstants, RowConstantsShape, WalkShape
from .power import PowerShape, RowPower
from .product import ExactProduct
from .reciprocal import Levelling, Root
from .ring import RowRingShape
from .shape import Phase, RowsShape, RowsStage, results_cost

IntArray = npt.NDArray[np.int64]


#: Bits of a shift that one cycle does.
SHIFT_BITS = 2
#: Fractional bits of beta, which counts steps of the output.
BETA_BITS = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalizeShape(RowsShape):
    """The constants and the other integers of the function.

    `gamma`, signed numbers of `precision` bits, and `beta` are int64[rows, period].  The other integers are those of
    `PowerShape` and `RoundedSum`.
    """

    gamma: IntArray
    beta: IntArray
    centred: bool
    center: int
    guard: int
    epsilon: int
    precision: int
    shift: int
    zero_point: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.gamma.shape != self.beta.shape:
            raise ValueError(f"gamma and beta of a normalization must be of one shape, not {list(self.gamma.shape)} "
                             f"and {list(self.beta.shape)}")

    @property
    def multipliers(self) -> int:
        return 3 * self.lanes

    @cached_property
    def power(self) -> PowerShape:
        return PowerShape(self.elements, self.lanes, shape_range(self.element), self.center, self.centred, self.guard,
                          self.epsilon)

    @cached_property
    def beta_ends(self) -> tuple[int, int]:
        return int(self.beta.min()), int(self.beta.max())

    @cached_property
    def walk(self) -> WalkShape:
        return WalkShape(self.elements, self.lanes, *self.gamma.shape)

    @cached_property
    def levels(self) -> tuple[int, int]:
        """The least and the largest k for which a power / 4**k has precision + 1 or + 2 bits."""
        least, most = ((power.bit_length() - 1 - self.precision) >> 1
                       for power in (self.power.least, self.power.largest))
        return least, most

    @property
    def below(self) -> int:
        """Bits that a power keeps below its mantissa at the highest level; further ones come as zeros, or are cut."""
        least, most = self.levels
        return 2 * max(0, min(most - least, most))

    @property
    def lift(self) -> int:
        """Places by which a power is shifted up to be levelled; negative: bits that are cut off."""
        return self.below - 2 * self.levels[1]

    @cached_property
    def levelling(self) -> Levelling:
        least, most = self.levels
        return Levelling(self.precision + 2 + self.below, most - least + 1, {"total": holding(*self.power.sum_ends)})

    @cached_property
    def root(self) -> Root:
        return Root(self.precision, {"total": holding(*self.power.sum_ends), "place": self.place_shape})

    @property
    def place_shape(self) -> Shape:
        """The shape of the level less the least one."""
        return Shape.cast(range(self.levels[1] - self.levels[0] + 1))

    @cached_property
    def distance(self) -> SumPlan:
        """count * u - sum of u."""
        digits = [Term(*self.power.element_ends, at, negative=sign < 0) for at, sign in signed_digits(self.elements)]
        return SumPlan((*digits, Term(*self.power.sum_ends, negative=True)))

    @property
    def distance_ends(self) -> tuple[int, int]:
        low, high = self.power.element_ends
        reach = (self.elements - 1) * (high - low)
        return (-reach, reach) if self.centred else (low, high)

    @property
    def distance_latency(self) -> int:
        return self.distance.latency if self.centred else int(bool(self.center))

    @property
    def scale_up(self) -> int:
        """Places by which a distance is shifted up at the least level; negative: down."""
        squared = self.elements - 1 if self.centred else 1
        peak = next(p for p in range(32) if squared * 4097 <= 4096 << 2 * p)
        return self.precision // 2 - 2 + self.guard - peak - self.levels[0]

    @property
    def shifts(self) -> int:
        """Cycles of the shift by the level."""
        return -(-self.place_shape.width // SHIFT_BITS)

    @property
    def reach(self) -> tuple[int, int]:
        """The reach of a shifted distance, and of what is normalized."""
        return -1 << (self.precision - 1), (1 << (self.precision - 1)) - 1

    @cached_property
    def first_product(self) -> BlockProduct:
        """A shifted distance times the root."""
        return BlockProduct((self.reach, (0, (1 << self.precision) - 1)))

    @cached_property
    def second_product(self) -> BlockProduct:
        """The product of what is normalized times gamma."""
        return BlockProduct((self.reach, self.reach))

    @cached_property
    def rounded(self) -> RoundedSum:
        """The rounding of that product and beta."""
        most = 1 << (2 * self.precision - 2)
        ends = [end << (self.shift - BETA_BITS) for end in self.beta_ends]
        operand = Operand(holding(min(ends) - most, max(ends) + most))
        return RoundedSum((operand,), (0,), (1,), self.shift, self.zero_point, self.low, self.high, self.output)

    @property
    def beta_offset(self) -> int:
        """The number that is added to beta: zero point, distance from `low`, half of the rounding."""
        return self.rounded.constant >> (self.shift - BETA_BITS)

    @property
    def below_beta(self) -> int:
        """The bits below beta, which are the same for all."""
        return self.rounded.constant & ((1 << (self.shift - BETA_BITS)) - 1)

    @property
    def constant_shapes(self) -> tuple[Shape, Shape]:
        """The shapes of gamma and of beta with its offset."""
        return holding(*self.reach), holding(min(self.beta_ends[0] + self.beta_offset, -1),
                                             self.beta_ends[1] + self.beta_offset)

    def gamma_time(self, technology: Technology) -> int:
        """From the start of a word to what is normalized, which meets gamma: ring, distance, shift, product."""
        return (technology.timing.ram + self.distance_latency + self.shifts
                + self.first_product.latency(technology))

    def result_latency(self, technology: Technology) -> int:
        """From the start of a word to its result."""
        return self.gamma_time(technology) + self.second_product.latency(technology) + 1 + TAIL

    def phases(self, technology: Technology) -> tuple[Phase]:
        """The power of a row, its level, its root; then its words."""
        return (Phase.of(self.words, self.power.latency(technology) + self.levelling.count + self.root.count),)

    def row_ring(self, technology: Technology) -> RowRingShape:
        (phase,) = self.phases(technology)
        return RowRingShape(width=self.lanes * self.element.width, depth=phase.depth, name="row")

    @property
    def row_constants(self) -> RowConstantsShape:
        return RowConstantsShape(self.walk, self.constant_shapes)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        (phase,), lanes = self.phases(technology), self.lanes
        members = {name: self.root.state.members[name].width for name in ("total", "place", "root")}
        latency = self.result_latency(technology)
        total = self.row_ring(technology).cost(technology) + self.power.cost(technology)
        for iteration in (self.levelling, self.root):
            total += ChainShape(iteration, self.words).cost(technology)
        total += Queue.cost(width=sum(members.values()), depth=phase.rows)
        total += self.row_constants.cost(technology)
        lane = self.lane_cost(technology)
        for _ in range(lanes):
            total += lane
        counters = 2 * Nest.bits((self.words,))
        ram, moved = technology.timing.ram, technology.timing.ram + self.distance_latency
        waits = members["total"] * ram + members["place"] * moved + members["root"] * (moved + self.shifts)
        return total + results_cost(self, latency, technology) + fitted("NormalizeStage") + Resources(
            lut=counters, ff=counters + latency + waits)

    def lane_cost(self, technology: Technology) -> Resources:
        """Count what a lane does with an element and what is known of its row."""
        bits, total = self.precision, Resources()
        distance = holding(*self.distance_ends).width
        if self.centred:
            total += self.distance.cost(technology)
        elif self.center:
            total += Resources(lut=adder_luts(distance, technology), ff=distance)
        for k in range(self.shifts):
            width = min(bits + (1 << k * SHIFT_BITS) - 1, distance + max(0, self.scale_up) + 1)
            total += Resources(lut=2 * width, ff=width)
        beta = self.constant_shapes[1].width
        wide = self.rounded.operands[0].width
        return (total + self.first_product.cost(technology) + self.second_product.cost(technology)
                + Resources(lut=adder_luts(wide, technology), ff=wide + beta * self.second_product.latency(technology))
                + self.rounded.tail_cost(technology))

    def build(self, technology: Technology, name: str) -> NormalizeStage:
        return NormalizeStage(shape=self, technology=technology, name=name)


class NormalizeStage(RowsStage):
    """The normalization of each row of `shape`.

    A word is taken, and given when all of its row is known (`NormalizeShape.phases`); a word a cycle.  A row waits for
    nothing but its own words and the rows before it.  `busy` says that a word starts that is given.
    """

    def model(self, beats: IntArray) -> IntArray:
        """Beats of whole frames, [beats, lanes], to as many; from the hardware's recurrences, a row after the other."""
        shape, rows = self.shape, np.asarray(beats).reshape(-1, self.shape.elements).tolist()
        results: list[int] = []
        for r, row in enumerate(rows):
            gamma, beta = (values[r % len(values)].tolist() for values in (shape.gamma, shape.beta))
            for j, n in enumerate(self.normalized(row)):
                total = n * gamma[j % len(gamma)] + (beta[j % len(beta)] << (shape.shift - BETA_BITS))
                results.append(shape.rounded.exactly(total))
        return np.array(results, np.int64).reshape(-1, shape.lanes)

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
        (phase,), latency = shape.phases(technology), shape.result_latency(technology)
        m.submodules.row = row = shape.row_ring(technology).build(technology)
        m.submodules.known = known = Queue(shape=self.known_layout, depth=phase.rows)
        queue, credit = self.results(m, latency)
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
        """The layout of what the second pass wants of a row."""
        state = self.shape.root.state.members
        return data.StructLayout({name: state[name] for name in ("root", "total", "place")})

    def learn(self, m: Module, taken: Value, known) -> None:
        """The level and the root of each row's power enter the queue."""
        shape = self.shape
        m.submodules.power = power = RowPower(shape=shape.power, element=shape.element, technology=self.technology)
        m.submodules.levelling = level = ChainShape(shape.levelling, shape.words).build()
        m.submodules.root = root = ChainShape(shape.root, shape.words).build()
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
        wait = shape.gamma_time(technology) - shape.row_constants.latency(technology)
        m.submodules.constants = constants = RowConstants(
            shape=shape.row_constants, values=(shape.gamma, shape.beta + shape.beta_offset), technology=technology,
            name=f"{self.name}_constants")
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
