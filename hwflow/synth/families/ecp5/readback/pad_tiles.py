"""The tiles that configure a pad: nextpnr, ecp5/bitstream.cc, get_pio_tile and get_pic_tile."""

from __future__ import annotations

from .die import Die
from .tiles import Place


def tiles_of_pad(die: Die, row: int, column: int, letter: str) -> tuple[Place, Place]:
    """The tiles with the electrical settings of a pad and with those of its registers."""
    device, bits = die.bits.device, die.bits
    second = letter in "BD"
    if row == 0:
        return (bits.place(0, column + second, f"PIOT{second:d}"), bits.place(1, column + second, f"PICT{second:d}"))
    if row == device.rows - 1:
        place = bits.place(row, column + second, rf"(?:EFB\d_|S)?PICB{second:d}")
        return place, place
    side = "L" if column == 0 else "R"
    if column not in (0, device.columns - 1):
        return Place([]), Place([])
    low = bits.place(row + 2, column, rf"PIC{side}2.*|MIB_CIB_LR(?:_A)?")
    high = bits.place(row, column, f"PIC{side}0.*")
    return bits.place(row + 1, column, f"PIC{side}1.*"), high if letter in "AB" else low
