"""Plain Amaranth multipliers and memories with the latencies of any family: what simulation runs.

With `hex_roms=True` a ROM is an instance of the Verilog module `hwflow_rom` (sim/hwflow_sim/verilog), which reads its
contents with $readmemh, so that the Verilog does not change when the weights do; `Generic.roms` holds the contents.
Without it ROMs are Amaranth memories, for Amaranth's own simulator.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
from amaranth.hdl import ClockSignal, Const, Instance, Module, Mux, Shape, Signal, Value
from amaranth.lib import memory

from .base import Multipliers, MultiplyAccumulate, Ram, Resources, Rom, SinglePortRam, Technology, Timing
from .memory import Memory, Place
from .pads import GenericDoubleRate
from .pairs import PairMultipliers, packing
from .pll import Pll, PllSettings, Wire, exact


class GenericMultipliers(Multipliers):
    def __init__(self, *, count: int, a: Shape, b: Shape, latency: int):
        super().__init__(count=count, a=a, b=b)
        self.latency = latency

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            value = self.a[n] * self.b[n]
            for k in range(self.latency):
                register = Signal(value.shape(), name=f"product{n}_{k}", reset_less=True)
                m.d.sync += register.eq(value)
                value = register
            m.d.comb += self.p[n].eq(value)
        return m


class GenericMultiplyAccumulate(MultiplyAccumulate):
    def __init__(self, *, count: int, a: Shape, b: Shape, total: Shape, latency: int):
        super().__init__(count=count, a=a, b=b, total=total)
        self.latency = latency

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            pair = self.a[2 * n] * self.b[2 * n] + self.a[2 * n + 1] * self.b[2 * n + 1]
            sums = Signal(self.total, name=f"sum{n}", reset_less=True)
            m.d.sync += sums.eq(pair + Mux(self.more, sums, 0))
            m.d.comb += self.t[n].eq(delay(m, sums, self.latency - 1, f"sum{n}"))
        return m


class GenericPairs(PairMultipliers):
    def __init__(self, *, count: int, a: Shape, b: Shape, shift: int | None, latency: int):
        super().__init__(count=count, a=a, b=b, shift=shift)
        self.latency = latency

    def block(self, m: Module, n: int, a: Value, packed: Value) -> Value:
        return delay(m, a * packed, self.latency - 1, f"product{n}")


class GenericRom(Rom):
    """An Amaranth memory, or `hwflow_rom` where `hex_file` names a file; then registers up to `latency`."""

    def __init__(self, *, width: int, contents: npt.NDArray[np.uint8], latency: int, hex_file: str | None):
        super().__init__(width=width, contents=contents)
        self.latency = latency
        self.hex_file = hex_file

    def elaborate(self, platform):
        m = Module()
        word = Signal(self.width)
        if self.hex_file is not None:
            # That of one word has no bits, and an instance would not have the port.
            address = self.addr if len(self.addr) else Const(0, 1)
            m.submodules.rom = Instance(
                "hwflow_rom", p_WIDTH=self.width, p_DEPTH=self.depth, p_ADDR=len(address), p_FILE=self.hex_file,
                i_clk=ClockSignal(), i_addr=address, o_data=word)
        else:
            words = [int.from_bytes(row.tobytes(), "little") for row in self.contents]
            m.submodules.rom = rom = memory.Memory(shape=self.width, depth=self.depth, init=words)
            port = rom.read_port()
            m.d.comb += [port.addr.eq(self.addr), word.eq(port.data)]
        m.d.comb += self.data.eq(delay(m, word, self.latency - 1, "data"))
        return m


class GenericRam(Ram):
    def __init__(self, *, width: int, depth: int, latency: int):
        super().__init__(width=width, depth=depth)
        self.latency = latency

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = memory.Memory(shape=self.width, depth=self.depth, init=[])
        write, read = ram.write_port(), ram.read_port()
        m.d.comb += [
            write.en.eq(self.write_en), write.addr.eq(self.write_addr), write.data.eq(self.write_data),
            read.addr.eq(self.read_addr), self.read_data.eq(delay(m, read.data, self.latency - 1, "read_data")),
        ]
        return m


class GenericSinglePortRam(SinglePortRam):
    """The value read after a write is wrong on purpose: the row with all its bits inverted."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = memory.Memory(shape=2 * self.width, depth=self.depth, init=[])
        write, read, wrote = ram.write_port(granularity=self.width), ram.read_port(), Signal()
        m.d.sync += wrote.eq(self.write_en.any())
        m.d.comb += [
            write.en.eq(self.write_en), write.addr.eq(self.addr), write.data.eq(self.data_in),
            read.addr.eq(self.addr), self.data_out.eq(read.data ^ wrote.replicate(2 * self.width)),
        ]
        return m


def delay(m: Module, value, cycles: int, name: str):
    """`value`, `cycles` clock cycles later, through registers without reset."""
    for k in range(cycles):
        register = Signal.like(value, name=f"{name}_{k}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


class Generic(Technology):
    """See the module's text.  `roms` maps a ROM's name to its contents, in the order of creation.

    `like` is a family whose costs it has besides the latencies `timing`, so that what is chosen by cost is the same.
    """

    name = "generic"
    double_rate = GenericDoubleRate()
    operand_bits = 18

    def __init__(self, *, timing: Timing = Timing(multiply=4), hex_roms: bool = False, like: Technology | None = None):
        self.timing = timing
        self.hex_roms = hex_roms
        self.like = like
        if like is not None:
            self.name, self.prefers_fabric_requantizer = like.name, like.prefers_fabric_requantizer
            self.operand_bits, self.gates_in_chains = like.operand_bits, like.gates_in_chains
            self.chain_ends, self.has_distant_blocks = like.chain_ends, like.has_distant_blocks
            self.cells_for_a_multiplier = like.cells_for_a_multiplier
            self.multiplies_by_digits = like.multiplies_by_digits
            self.ram_block_bits = like.ram_block_bits
            self.single_port_rams, self.cells_for_a_ram_block = like.single_port_rams, like.cells_for_a_ram_block
        self.roms: dict[str, npt.NDArray[np.uint8]] = {}

    def placed(self, resources: Resources) -> Resources:
        return resources if self.like is None else self.like.placed(resources)

    def pll_settings(self, input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
        if self.like is not None:
            return self.like.pll_settings(input_mhz, output_mhz)
        return PllSettings("none", exact(input_mhz), exact(output_mhz), exact(output_mhz), ())

    def pll(self, settings: PllSettings) -> Pll:
        """A wire: in simulation `sync` is as fast as the clock that is driven."""
        return Wire()

    def multipliers(self, *, count: int, a: Shape, b: Shape) -> Multipliers:
        return GenericMultipliers(count=count, a=a, b=b, latency=self.timing.multiply)

    def pair_shift(self, a: Shape, b: Shape) -> int | None:
        return packing(a, b, self.operand_bits) if self.like is None else self.like.pair_shift(a, b)

    def pair_multipliers(self, *, count: int, a: Shape, b: Shape) -> GenericPairs:
        return GenericPairs(count=count, a=a, b=b, shift=self.pair_shift(a, b), latency=self.timing.multiply)

    def accumulates(self, a: Shape, b: Shape) -> bool:
        return self.like is None or self.like.accumulates(a, b)

    def multiply_accumulate(self, *, count: int, a: Shape, b: Shape, total: Shape) -> GenericMultiplyAccumulate:
        return GenericMultiplyAccumulate(count=count, a=a, b=b, total=total, latency=self.timing.accumulate)

    def rom(self, *, width: int, contents: npt.NDArray[np.uint8], name: str) -> Rom:
        if name in self.roms:
            raise ValueError(f"ROM names must be unique, and '{name}' is taken")
        self.roms[name] = contents
        return GenericRom(width=width, contents=contents, latency=self.timing.rom,
                          hex_file=f"{name}.hex" if self.hex_roms else None)

    def ram(self, *, width: int, depth: int, name: str = "") -> Ram:
        return GenericRam(width=width, depth=depth, latency=self.timing.ram)

    def multipliers_cost(self, *, count: int, a: Shape, b: Shape) -> Resources:
        if self.like is not None:
            return self.like.multipliers_cost(count=count, a=a, b=b)
        return Resources(dsp=count)

    def multiply_accumulate_cost(self, *, count: int, a: Shape, b: Shape, total: Shape) -> Resources:
        if self.like is not None:
            return self.like.multiply_accumulate_cost(count=count, a=a, b=b, total=total)
        return Resources(dsp=2 * count)

    def family_places(self, memory: Memory) -> tuple[Place, ...]:
        return (Place.BLOCKS,) if self.like is None else self.like.family_places(memory)

    def memory_cost(self, memory: Memory, place: Place) -> Resources:
        if self.like is not None:
            return self.like.memory_cost(memory, place)
        return Resources(ram=-(-memory.bits // 18432))

    def single_port_ram(self, *, width: int, depth: int) -> SinglePortRam:
        self.single_port_ram_cost(width=width, depth=depth)
        return GenericSinglePortRam(width=width, depth=depth)

    def single_port_ram_cost(self, *, width: int, depth: int) -> Resources:
        """The cost of memories of `like`, which says no where it has none; without `like`, memories of 2^18 bits."""
        if self.like is not None:
            return self.like.single_port_ram_cost(width=width, depth=depth)
        return Resources(spram=-(-2 * width * depth // (1 << 18)))
