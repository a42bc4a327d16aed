"""The widths and the schedule of a `NormalizeStage`, from the worst case of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Shape

from ..join.add_rounded import TAIL, RoundedSum
from ..join.multiply import BlockProduct
from ..join.tree import SumPlan, Term, holding, signed_digits
from ..multiply.products import Operand
from ..rescale.ranges import shape_range
from ..vendor.base import Technology
from .constants import WalkShape
from .power import PowerShape
from .reciprocal import Levelling, Root
from .times import Phase

#: Bits of a shift that one cycle does.
SHIFT_BITS = 2
#: Fractional bits of beta, which counts steps of the output.
BETA_BITS = 8


@dataclass(frozen=True)
class NormalizeShape:
    """Rows of `elements`, `lanes` of them in a beat, and the integers of the function.

    `constants`: rows and period of gamma, a signed number of `precision` bits, and beta, from `beta_ends`.  The other
    integers are those of `PowerShape` and `RoundedSum`.
    """

    elements: int
    lanes: int
    element: Shape
    output: Shape
    constants: tuple[int, int]
    beta_ends: tuple[int, int]
    centred: bool
    center: int
    guard: int
    epsilon: int
    precision: int
    shift: int
    zero_point: int
    low: int
    high: int

    @property
    def words(self) -> int:
        """Beats of a row."""
        return self.elements // self.lanes

    @cached_property
    def power(self) -> PowerShape:
        return PowerShape(self.elements, self.lanes, shape_range(self.element), self.center, self.centred, self.guard,
                          self.epsilon)

    @cached_property
    def walk(self) -> WalkShape:
        return WalkShape(self.elements, self.lanes, *self.constants)

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
        """Of the level less the least one."""
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
        """Of a shifted distance, and of what is normalized."""
        return -1 << (self.precision - 1), (1 << (self.precision - 1)) - 1

    @cached_property
    def first_product(self) -> BlockProduct:
        """A shifted distance times the root."""
        return BlockProduct((self.reach, (0, (1 << self.precision) - 1)))

    @cached_property
    def second_product(self) -> BlockProduct:
        """What is normalized times gamma."""
        return BlockProduct((self.reach, self.reach))

    @cached_property
    def rounded(self) -> RoundedSum:
        """What becomes of that product and beta."""
        most = 1 << (2 * self.precision - 2)
        ends = [end << (self.shift - BETA_BITS) for end in self.beta_ends]
        operand = Operand(holding(min(ends) - most, max(ends) + most))
        return RoundedSum((operand,), (0,), (1,), self.shift, self.zero_point, self.low, self.high, self.output)

    @property
    def beta_offset(self) -> int:
        """What is added to beta: zero point, distance from `low`, half of the rounding."""
        return self.rounded.constant >> (self.shift - BETA_BITS)

    @property
    def below_beta(self) -> int:
        """The bits below beta, which are the same for all."""
        return self.rounded.constant & ((1 << (self.shift - BETA_BITS)) - 1)

    @property
    def constant_shapes(self) -> tuple[Shape, Shape]:
        """Of gamma and of beta with its offset."""
        return holding(*self.reach), holding(min(self.beta_ends[0] + self.beta_offset, -1),
                                             self.beta_ends[1] + self.beta_offset)

    def gamma_time(self, technology: Technology) -> int:
        """From the start of a word to what is normalized, which meets gamma: ring, distance, shift, product."""
        return (technology.timing.ram + self.distance_latency + self.shifts
                + self.first_product.latency(technology))

    def result_latency(self, technology: Technology) -> int:
        """From the start of a word to its result."""
        return self.gamma_time(technology) + self.second_product.latency(technology) + 1 + TAIL

    def phase(self, technology: Technology) -> Phase:
        """The power of a row, its level, its root; then its words."""
        return Phase.of(self.words, self.power.latency(technology) + self.levelling.count + self.root.count)
