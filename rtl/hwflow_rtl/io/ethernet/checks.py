"""The two checks of an Ethernet frame, a byte in a cycle: CRC-32 of the frame, ones' complement sum of IP and UDP."""

from __future__ import annotations

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RESIDUE", "InternetSum", "crc_after"]

#: CRC-32 of IEEE 802.3, the first bit lowest.
POLYNOMIAL = 0xEDB88320
#: What the register holds after a frame with its right FCS: the same for every frame.
RESIDUE = 0xDEBB20E3


def crc_after(crc: Value, byte: Value) -> Value:
    """The CRC register, 32 bits and all ones at first, after a byte.

    The CRC is linear: each bit of the next register is the XOR of some bits of `crc` and of `byte`.  Which ones, the
    division by the polynomial tells for one bit at a time; a bit of the register's low byte does as one of `byte`.
    """
    mixed = crc[:8] ^ byte
    terms: list[list[Value]] = [[crc[n + 8]] if n < 24 else [] for n in range(32)]
    for k in range(8):
        effect = 1 << k
        for _ in range(8):
            effect = effect >> 1 ^ (POLYNOMIAL if effect & 1 else 0)
        for n in range(32):
            if effect >> n & 1:
                terms[n].append(mixed[k])
    return Cat(reduce(xor, bits) for bits in terms)


class InternetSum(wiring.Component):
    """The ones' complement sum of 16-bit words (RFC 1071), the high byte of a word first.

    The sum does not change when the bytes of all words are swapped but that its own are: so a byte is added to the low
    half, and the halves are swapped for the next one.  A carry is added in the cycle that follows it.

    Attributes
    ----------
    load, first : In(1), In(16)
        Begin with this sum.
    add, byte : In(1), In(8)
        Add a byte.
    sum : Out(16)
        In the order of bytes of the words where their number is even.  It has no carry left two zeros after a byte.
    good : Out(1)
        A cycle after the last byte, whether the sum of all, with its checksum among them, is right: all ones.
    """

    def __init__(self) -> None:
        super().__init__({"load": In(1), "first": In(16), "add": In(1), "byte": In(8), "sum": Out(16),
                          "good": Out(1)})

    @staticmethod
    def model(octets: bytes) -> int:
        """The sum of `octets`, with a zero behind an odd number of them."""
        padded = octets + bytes(len(octets) % 2)
        total = sum(int.from_bytes(padded[k:k + 2], "big") for k in range(0, len(padded), 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        return total

    def elaborate(self, platform):
        m = Module()
        carry = Signal()
        with m.If(self.load):
            m.d.sync += [self.sum.eq(self.first), carry.eq(0)]
        with m.Elif(self.add):
            # A carry of the last addition is worth one, and 256 behind the swap.
            m.d.sync += Cat(self.sum, carry).eq(Cat(self.sum[8:], self.sum[:8]) + Cat(self.byte, carry))
        # All ones and no carry, or one less and a carry.
        m.d.comb += self.good.eq(self.sum[1:].all() & (self.sum[0] ^ carry))
        return m
