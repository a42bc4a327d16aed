"""Multipliers and memories asked for by meaning; each FPGA family makes them its own way.

A unit takes a `Technology`, asks for "eight signed 8 x 8 products" or "a ROM of 64-bit words", and counts on the
latency that `Technology.timing` states.  `generic.Generic` makes the portable technology with any family's latencies.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Shape, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.style import MultiplierStyle
from .known import KeepsCosts
from .memory import Holds, Memory, MemoryKind, Place
from .pads import DoubleRate, Pads
from .pll import Pll, PllSettings

#: Logic cells that one block counts for in `price`: an LFE5U-85F has 83 640 cells, 156 multipliers and 208 RAM blocks.
CELLS_OF_A_DSP = 83640 / 156
CELLS_OF_A_RAM = 83640 / 208


#: Operands of a multiplier in tables.
WIDEST_IN_LOGIC = 16


@dataclass(frozen=True)
class Timing:
    """Clock cycles from an operand or address at a port to the result at the output; constant, one result a cycle."""

    multiply: int
    accumulate: int = 4
    rom: int = 2
    ram: int = 2


@dataclass(frozen=True)
class Resources:
    """Logic cells (4-input tables), flip-flops, multiplier blocks and RAM blocks of a family; `spram` counts large
    memories with a single port, which few devices have.

    `memories` are those that the counts hold, each in the place that its family prefers; no two are equal that only
    differ in them.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    ram: int = 0
    spram: int = 0
    memories: tuple[Memory, ...] = field(default=(), compare=False, repr=False)

    #: The names of the counts.
    KINDS: ClassVar[tuple[str, ...]] = ("lut", "ff", "dsp", "ram", "spram")

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.ram + other.ram,
                         self.spram + other.spram, self.memories + other.memories)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> Resources:
        """From the counts by their names; those that are missing are 0."""
        return cls(*(counts.get(kind, 0) for kind in cls.KINDS))

    def counts(self) -> dict[str, int]:
        """The counts by their names."""
        return {kind: getattr(self, kind) for kind in self.KINDS}

    def copies(self, count: int) -> Resources:
        """`count` of the same; the names of their memories end with their numbers."""
        memories = tuple(replace(each, name=f"{each.name}{k}") for k in range(count) for each in self.memories)
        return Resources(*(count * number for number in self.counts().values()), memories)

    def within(self, part: str) -> Resources:
        """The same as a part of a larger unit: its memories are named `<part>_<name>`, or `<part>`."""
        return replace(self, memories=tuple(
            replace(each, name=f"{part}_{each.name}" if each.name else part) for each in self.memories))


def price(resources: Resources) -> float:
    """One number for the sake of comparison where no board is known, in logic cells.

    Each kind of resource counts by its share of an LFE5U-85F, which has about the same proportions as its smaller
    sisters: a table or a flip-flop 1, a multiplier 536, a RAM block 402.
    """
    return resources.lut + resources.ff + CELLS_OF_A_DSP * resources.dsp + CELLS_OF_A_RAM * resources.ram


def product_shape(a: Shape, b: Shape) -> Shape:
    """The shape that holds every product of `a` and `b`."""
    width = a.width + b.width
    return signed(width) if a.signed or b.signed else unsigned(width)


def gated(value: Value, gate: Value) -> Value:
    """`value` where `gate` is set, else 0.

    Bit by bit: of a choice between `value` and 0 in front of a register yosys makes the register's reset, and registers
    with different resets do not share a tile.
    """
    bits = value[:] & gate.replicate(len(value))
    return bits.as_signed() if value.shape().signed else bits


class Multipliers(wiring.Component):
    """`count` products a cycle: p[n] = a[n] * b[n], `timing.multiply` cycles later.  Never stalls."""

    def __init__(self, *, count: int, a: Shape, b: Shape):
        self.count = count
        super().__init__({
            "a": In(data.ArrayLayout(a, count)),
            "b": In(data.ArrayLayout(b, count)),
            "p": Out(data.ArrayLayout(product_shape(a, b), count)),
        })


class MultiplyAccumulate(wiring.Component):
    """`count` sums of products, two products a cycle each: t[n] = a[2n] * b[2n] + a[2n + 1] * b[2n + 1].

    `more` comes with the operands and says that they go on with the sums before, which are added too; without it new
    sums begin.  Sums wrap around in `total`.  `timing.accumulate` cycles later; never stalls.
    """

    def __init__(self, *, count: int, a: Shape, b: Shape, total: Shape):
        self.count = count
        self.total = total
        super().__init__({
            "more": In(1),
            "a": In(data.ArrayLayout(a, 2 * count)),
            "b": In(data.ArrayLayout(b, 2 * count)),
            "t": Out(data.ArrayLayout(total, count)),
        })


class Rom(wiring.Component):
    """`data` is the word at `addr`, `timing.rom` cycles later.

    `contents` is uint8[depth, ceil(width / 8)], each row one word, least significant byte first.
    """

    def __init__(self, *, width: int, contents: npt.NDArray[np.uint8]):
        self.width = width
        self.contents = contents
        self.depth = len(contents)
        super().__init__({"addr": In(range(self.depth)), "data": Out(width)})


class Ram(wiring.Component):
    """One write port, one read port; `read_data` is the word at `read_addr`, `timing.ram` cycles later.

    A word may be read from the cycle after its write on; reading an address while it is written is undefined.
    """

    def __init__(self, *, width: int, depth: int):
        self.width = width
        self.depth = depth
        super().__init__({
            "write_en": In(1), "write_addr": In(range(depth)), "write_data": In(width),
            "read_addr": In(range(depth)), "read_data": Out(width),
        })


class SinglePortRam(wiring.Component):
    """Rows of two words of `width` bits, one port: in a cycle a row is read, or words of it are written.

    `data_out` is the row that was at `addr` in the cycle before; undefined where one of its words was written then.
    `write_en` has a bit for each word, the low word's first; a word may be read from the cycle after its write on.
    """

    def __init__(self, *, width: int, depth: int):
        self.width = width
        self.depth = depth
        super().__init__({"addr": In(range(depth)), "write_en": In(2), "data_in": In(2 * width),
                          "data_out": Out(2 * width)})


class Technology(KeepsCosts, ABC):
    """One FPGA family's way of making multipliers and memories, and what they cost there."""

    name: str
    timing: Timing
    #: Bits of an operand that the family's multiplier blocks take.
    operand_bits: int
    #: A carry chain of the family adds what `gated_sum` wants without tables before it.
    gates_in_chains: bool = False
    #: Requantizers multiply in the fabric: the family's multiplier blocks are few, or too narrow for 18 bits.
    prefers_fabric_requantizer: bool = False
    #: Tables and flip-flops that a requantizer may take more to do without a multiplier block.
    cells_for_a_multiplier: int = 0
    #: Logic cells that begin and end a carry chain.
    chain_ends: int = 4
    #: RAM blocks and multipliers are so far from each other that a word which is read passes a register on its way.
    has_distant_blocks: bool = False
    #: Multipliers in the fabric take two bits of a factor in a step: a clock is slow enough for it, and cells are few.
    multiplies_by_digits: bool = False

    #: The stage that `placing` named, and where it has its memories.
    _stage: str = ""
    _places: Mapping[str, Place] = MappingProxyType({})

    #: Bits of a RAM block.
    ram_block_bits: int = 18432
    #: The registers in its pads, and those with two bits in a cycle; None where no design has them.
    pads: Pads | None = None
    double_rate: DoubleRate | None = None
    #: Large memories with a single port that the device has, each of which `Resources.spram` counts as 1.
    single_port_rams: int = 0
    #: Logic cells that a RAM block is worth when a queue may use those memories instead.
    cells_for_a_ram_block: int = 0

    #: Share of the logic that can be used before place and route has a hard time or fails.
    usable_logic: float = 0.85
    #: The same of a design that is one shared stage, if that is more: its clock is a slow one.
    usable_logic_shared: float = 0.0

    def placed(self, resources: Resources) -> Resources:
        """Count what the sum of all units' resources takes once it is packed into the family's cells."""
        return resources

    def styles(self, a: Shape, b: Shape) -> tuple[MultiplierStyle, ...]:
        """The styles of what can make the products of an element `a` and a weight `b`."""
        wide = max(a.width, b.width)
        possible = {MultiplierStyle.BLOCKS: wide <= self.operand_bits,
                    MultiplierStyle.MACS: self.accumulates(a, b),
                    MultiplierStyle.PAIRS: self.pair_shift(a, b) is not None,
                    MultiplierStyle.LOGIC: wide <= WIDEST_IN_LOGIC}
        return tuple(style for style, there in possible.items() if there)

    def check_operands(self, a: Shape, b: Shape) -> None:
        """Refuse operands that the multiplier blocks cannot take."""
        if max(a.width, b.width) > self.operand_bits:
            raise ValueError(f"operands of a multiplier must be at most {self.operand_bits} bits wide on {self.name}, "
                             f"not {a!r} and {b!r}; split them, or multiply in the fabric")

    def pair_shift(self, a: Shape, b: Shape) -> int | None:
        """See `packing`; None where one block makes as many products without."""
        return None

    def pair_multipliers(self, *, count: int, a: Shape, b: Shape) -> wiring.Component:
        """`PairMultipliers`, where there is a `pair_shift`."""
        raise ValueError(f"style of multipliers must be blocks or logic on {self.name} for {a!r} and {b!r}, not pairs")

    def accumulates(self, a: Shape, b: Shape) -> bool:
        """Whether multiplier blocks themselves add up products of `a` and `b`, as many as they have multipliers."""
        return False

    def gated_sum(self, m: Module, value: Value, gates: Value, *, minus: bool, shape: Shape, name: str) -> Value:
        """value * gates[0] + 2 * value * gates[1], or, with `minus`, - instead of +; of `shape`, which holds it."""
        low, high = gated(value, gates[0]), gated(value << 1, gates[1])
        return low - high if minus else low + high

    @abstractmethod
    def multipliers(self, *, count: int, a: Shape, b: Shape) -> Multipliers: ...

    @abstractmethod
    def multiply_accumulate(self, *, count: int, a: Shape, b: Shape, total: Shape) -> MultiplyAccumulate: ...

    @abstractmethod
    def rom(self, *, width: int, contents: npt.NDArray[np.uint8], name: str) -> Rom:
        """`name` is unique in the design and stable from build to build: new weights are put in by it."""

    @abstractmethod
    def ram(self, *, width: int, depth: int, name: str = "") -> Ram:
        """`name` is what the cost of the unit calls the memory."""

    @abstractmethod
    def multipliers_cost(self, *, count: int, a: Shape, b: Shape) -> Resources: ...

    @abstractmethod
    def multiply_accumulate_cost(self, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources: ...

    def rom_cost(self, *, width: int, depth: int, name: str = "", holds: Holds = Holds.TABLE) -> Resources:
        """The cost of a ROM in the place that the family prefers for one of its size, whatever `placing` says."""
        return self.preferred_cost(Memory(name, MemoryKind.ROM, holds, width, depth))

    def ram_cost(self, *, width: int, depth: int, name: str = "", holds: Holds = Holds.RING) -> Resources:
        """The cost of a RAM in the place that the family prefers for one of its size, whatever `placing` says."""
        return self.preferred_cost(Memory(name, MemoryKind.RAM, holds, width, depth))

    def preferred_cost(self, memory: Memory) -> Resources:
        found: Resources | None = self.known.get(memory)
        if found is None:
            found = replace(self.memory_cost(memory, self.places(memory)[0]), memories=(memory,))
            self.known[memory] = found
        return found

    def places(self, memory: Memory) -> tuple[Place, ...]:
        """Where `memory` can be, the place that the family prefers first."""
        return self.family_places(memory) if memory.fixed is None else (memory.fixed,)

    @abstractmethod
    def family_places(self, memory: Memory) -> tuple[Place, ...]:
        """Where the family can have a memory of this size, the place that it prefers first."""

    @abstractmethod
    def memory_cost(self, memory: Memory, place: Place) -> Resources:
        """Count what it takes in one of its `places`."""

    def placing(self, stage: str, places: Mapping[str, Place]) -> Self:
        """The same technology for the stage of that name, whose memories are in `places`, by their names in the stage.

        Those that are not in `places` are where the family prefers them.
        """
        found = copy.copy(self)
        found.known = self.known
        found._stage, found._places = stage, dict(places)
        return found

    def place_of(self, kind: MemoryKind, width: int, depth: int, name: str) -> Place:
        """Where the memory `name` is put: a ROM's name begins with that of its stage."""
        memory = Memory(name.removeprefix(f"{self._stage}_"), kind, Holds.TABLE, width, depth)
        return self._places.get(memory.name) or self.places(memory)[0]

    def single_port_ram(self, *, width: int, depth: int) -> SinglePortRam:
        """In memories that `Resources.spram` counts; ValueError where the family has none."""
        raise ValueError(f"memory must be tables or blocks on {self.name}, which has no large memories with a single "
                         f"port, not spram")

    def single_port_ram_cost(self, *, width: int, depth: int) -> Resources:
        """ValueError where the family has none."""
        raise ValueError(f"memory must be tables or blocks on {self.name}, which has no large memories with a single "
                         f"port, not spram")

    @abstractmethod
    def pll_settings(self, input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
        """Dividers for the highest clock that is not above `output_mhz`, in all ranges of the data sheet, or None."""

    @abstractmethod
    def pll(self, settings: PllSettings) -> Pll:
        """A PLL with the settings that `pll_settings` of this very technology gave."""
