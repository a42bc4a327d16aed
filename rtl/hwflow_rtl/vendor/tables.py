"""Small ROMs in lookup tables whose contents synthesis does not see, so that a routed design can be given others.

Every bit of 16 words is a table of its own, an instance of the family's cell that yosys is told to keep.  Nothing
is shared between bits and nothing vanishes because it is constant: the logic is the same for any contents.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Array, Cat, Const, Instance, Module, Signal, Value

from .base import Rom
from .blocks import bits_of, delay

#: Words that one table holds.
WORDS = 16


def table_of(bits: npt.NDArray[np.uint8]) -> int:
    """The contents of a table for up to 16 words of a bit, word 0 lowest.

    They are repeated up to the end, so that nothing depends on the inputs that their address does not need.
    """
    step = 1 << (len(bits) - 1).bit_length()
    whole = np.resize(np.pad(bits, (0, step - len(bits))), WORDS)
    return sum(int(bit) << k for k, bit in enumerate(whole))


class LutRom(Rom):
    """A ROM in lookup tables: address register, tables, data register; a family says what a table is.  Latency 2."""

    def __init__(self, *, width: int, contents: npt.NDArray[np.uint8], name: str):
        super().__init__(width=width, contents=contents)
        self.name = name

    @property
    def leaves(self) -> int:
        """Tables for each bit, a power of two."""
        return 1 << (-(-self.depth // WORDS) - 1).bit_length()

    def table(self, address: Value, out: Value, contents: int, **attributes: object) -> Instance:
        """The cell that gives the bit of `contents` at `address` (4 bits) at `out`."""
        raise NotImplementedError

    def join(self, m: Module, leaves: list[Value], select: Value, name: str) -> Value:
        """The leaf of number `select`."""
        raise NotImplementedError

    def elaborate(self, platform):
        m = Module()
        bits = bits_of(self.contents, self.width)
        address = delay(m, self.addr, 1, "addr")
        low, select = Cat(address, Const(0, 4))[:4], address[4:]
        words = []
        for bit in range(self.width):
            leaves = []
            for leaf in range(self.leaves):
                out = Signal(name=f"bit{bit}_{leaf}")
                part = bits[leaf * WORDS:(leaf + 1) * WORDS, bit]
                m.submodules[f"table{bit}_{leaf}"] = self.table(
                    low, out, table_of(part) if len(part) else 0, a_keep=1, a_hwflow_rom=self.name,
                    a_hwflow_block=f"table{bit}_{leaf}")
                leaves.append(out)
            words.append(self.join(m, leaves, select, f"bit{bit}"))
        m.d.comb += self.data.eq(delay(m, Cat(*words), 1, "data"))
        return m


class Multiplexed:
    """Joins leaves in pairs, and pairs of pairs, with the multiplexers of the slices, and what is left in tables.

    `kinds` names the cell for each level with its ports: for select 0, for select 1, select, output.
    """

    kinds: tuple[tuple[str, str, str, str, str], ...]

    def multiplexer(self, level: int, zero: Value, one: Value, select: Value, out: Value) -> Instance:
        """The cell of a level that gives `zero` or `one` at `out`."""
        kind, *ports, result = self.kinds[level]
        return Instance(kind, **{f"i_{port}": value for port, value in zip(ports, (zero, one, select), strict=True)},
                        **{f"o_{result}": out})

    def join(self, m: Module, leaves: list[Value], select: Value, name: str) -> Value:
        for level in range(min((len(leaves) - 1).bit_length(), len(self.kinds))):
            pairs = []
            for k in range(0, len(leaves), 2):
                pair = Signal(name=f"{name}_pair{level}_{k}")
                m.submodules[f"{name}_join{level}_{k}"] = self.multiplexer(
                    level, leaves[k], leaves[k + 1], select[level], pair)
                pairs.append(pair)
            leaves = pairs
        return leaves[0] if len(leaves) == 1 else Array(leaves)[select[len(self.kinds):]]


class ECP5LutRom(Multiplexed, LutRom):
    kinds = (("PFUMX", "BLUT", "ALUT", "C0", "Z"), *[("L6MUX21", "D0", "D1", "SD", "Z")] * 2)

    def table(self, address: Value, out: Value, contents: int, **attributes: object) -> Instance:
        return Instance("LUT4", p_INIT=Const(contents, WORDS), **attributes,
                        **{f"i_{port}": address[k] for k, port in enumerate("ABCD")}, o_Z=out)


class GowinLutRom(Multiplexed, LutRom):
    kinds = (("MUX2_LUT5", "I0", "I1", "S0", "O"), ("MUX2_LUT6", "I0", "I1", "S0", "O"))

    def table(self, address: Value, out: Value, contents: int, **attributes: object) -> Instance:
        return Instance("LUT4", p_INIT=Const(contents, WORDS), **attributes,
                        **{f"i_I{k}": address[k] for k in range(4)}, o_F=out)


class ICE40LutRom(LutRom):
    """Leaves are joined in tables, too: there is no multiplexer after them."""

    def table(self, address: Value, out: Value, contents: int, **attributes: object) -> Instance:
        return Instance("SB_LUT4", p_LUT_INIT=Const(contents, WORDS), **attributes,
                        **{f"i_I{k}": address[k] for k in range(4)}, o_O=out)

    def join(self, m: Module, leaves: list[Value], select: Value, name: str) -> Value:
        return leaves[0] if len(leaves) == 1 else Array(leaves)[select]
