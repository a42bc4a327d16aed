"""The file that icepack writes: its commands, checked, and the bits of the device that they load.

Sources: Lattice FPGA-TN-02001 (programming and configuration); Project IceStorm, docs/source/format.rst.  The file is
read here from its first byte to its last, so no program of the packer's has a say in it.
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

Bits = npt.NDArray[np.bool_]

PREAMBLE = bytes.fromhex("7EAA997E")
#: A comment may stand before the preamble.  A bitstream of the largest device has 135 kB.
LONGEST_COMMENT, LONGEST = 65_536, 1 << 20
BANKS = 4
#: The checksum, CRC-16-CCITT, starts with all bits 1 and is 0 after its own two bytes.
START = 0xFFFF
#: Rows of block RAM that a bank has in the file.
RAM_ROWS = 256
REMEDY = "make it again with hwflow synth"


@dataclass(frozen=True)
class Shape:
    """The sizes that tell devices apart: columns of configuration bits, rows in each bank, columns of block RAM in
    each."""

    columns: int
    rows: tuple[int, int, int, int]
    ram_columns: tuple[int, int, int, int]


#: Project IceStorm, icepack.cc: banks 0 and 2 are the lower half of the device, 1 and 3 the upper one; a UP5K has twice
#: as many rows of tiles in its lower half.
SHAPES = {"5k": Shape(692, (336, 176, 336, 176), (160, 80, 160, 80)), "8k": Shape(872, (272,) * 4, (128,) * 4)}
#: What the board file calls the devices.
DEVICES = {"up5k": "5k", "hx8k": "8k"}


@dataclass
class Image:
    """What a file loads.

    `cells[bank]` are configuration bits [row, column], `memory[bank]` bits of block RAMs [row, column].  `frequency` is
    the setting of the loader's oscillator, `flags` its warm boot (bit 5) and whether the flash stays awake (bit 0).
    `places` says where in the file a command loads so many bits of (kind, bank) from which row on.
    """

    frequency: int = 0
    flags: int = 0
    cells: dict[int, Bits] = field(default_factory=dict)
    memory: dict[int, Bits] = field(default_factory=dict)
    places: list[Load] = field(default_factory=list)


@dataclass(frozen=True)
class Load:
    """Bits in the file: of `kind` "cells" or "memory" and `bank`, from row `row` on, `rows` x `columns` of them from
    byte `at` on."""

    kind: str
    bank: int
    row: int
    rows: int
    columns: int
    at: int


def read_image(path: Path, device: str) -> Image:
    """The image in `path`, of a board's `device`.

    HwflowError where it is no bitstream of an iCE40, is cut, fails its checksum, or is of another device.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except OSError as error:
        raise HwflowError(f"the bitstream must be a file that can be read ({error.strerror})", REMEDY,
                          where=str(path)) from None
    if len(data) > LONGEST:
        raise wrong(path, f"must have at most {LONGEST} bytes")
    image = Parser(path, data).image()
    require_device(path, image, device)
    return image


def wrong(path: Path, why: str) -> HwflowError:
    return HwflowError(f"the bitstream {why}", REMEDY, where=str(path))


class Parser:
    """Follows the commands: four bits of command, four bits that count the bytes of its number."""

    def __init__(self, path: Path, data: bytes):
        self.path, self.data = path, data
        self.at = data.find(PREAMBLE, 0, LONGEST_COMMENT)
        if self.at < 0:
            raise wrong(path, f"must be one of an iCE40, with the bytes {PREAMBLE.hex().upper()} near its start")
        self.at += len(PREAMBLE)
        self.since: int | None = None  # where the checksum begins
        self.columns = self.rows = self.row = self.bank = 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at:self.at + count]
        if len(found) < count:
            raise wrong(self.path, f"must be whole, not end after {len(self.data)} bytes within its commands")
        self.at += count
        return found

    def image(self) -> Image:
        image, checked, awake = Image(), False, False
        while not awake:
            start = self.at
            command = self.take(1)[0]
            number = int.from_bytes(self.take(command & 15), "big")
            kind = command >> 4
            if kind == 0 and number in (1, 3):
                self.load(image, number)
            elif kind == 0 and number == 5:
                self.since = self.at
            elif kind == 0 and number == 6:
                awake = True
            elif kind == 2:
                self.check()
                checked = True
            elif kind == 5:
                image.frequency = number
            elif kind == 9:
                image.flags = number
            elif not self.set(kind, number):
                raise wrong(self.path, f"must have known commands, not {command:02X} {number:X} at byte {start}")
        if not checked:
            raise wrong(self.path, "must have a checksum before it starts the device")
        if self.data[self.at:].strip(b"\0"):
            raise wrong(self.path, f"must end after {self.at} bytes, where it starts the device")
        return image

    def set(self, kind: int, number: int) -> bool:
        """Sets what the next load is of."""
        if kind == 1 and number < BANKS:
            self.bank = number
        elif kind == 6:
            self.columns = number + 1
        elif kind == 7:
            self.rows = number
        elif kind == 8:
            self.row = number
        else:
            return False
        return True

    def load(self, image: Image, number: int) -> None:
        """One block of bits, rows one after the other, each byte's highest bit first; behind it two bytes 0."""
        kind, banks = ("cells", image.cells) if number == 1 else ("memory", image.memory)
        count, place = self.rows * self.columns, Load(kind, self.bank, self.row, self.rows, self.columns, self.at)
        if not count or count % 8:
            raise wrong(self.path, f"must load whole bytes, not {self.rows} rows of {self.columns} bits "
                                   f"(byte {self.at})")
        found = np.unpackbits(np.frombuffer(self.take(count // 8), np.uint8)).astype(bool)
        if self.take(2) != b"\0\0":
            raise wrong(self.path, f"must have two bytes 0 behind the bits of bank {self.bank} (byte {self.at - 2})")
        before = banks.get(self.bank, np.zeros((0, self.columns), bool))
        if before.shape != (self.row, self.columns):
            raise wrong(self.path, f"must load the rows of bank {self.bank} one after the other (byte {place.at})")
        banks[self.bank] = np.concatenate([before, found.reshape(self.rows, self.columns)])
        image.places.append(place)

    def check(self) -> None:
        if self.since is None or crc_hqx(self.data[self.since:self.at], START):
            raise wrong(self.path, "must have the checksum of its bits: it is damaged")


def require_device(path: Path, image: Image, device: str) -> None:
    """HwflowError where the blocks of the file are not those of `device`, as the board file calls it."""
    shape = SHAPES[DEVICES[device]]
    whole = sorted(image.cells) == sorted(image.memory) == list(range(BANKS))
    if not whole or shape_of(image) != shape:
        found = next((name for name, of in DEVICES.items() if whole and shape_of(image) == SHAPES[of]), None)
        raise wrong(path, f"must be one of the board's {device}" + (
            f", not of {found}" if found else "; its blocks have other sizes, or some are missing"))
    rows = {len(bits) for bits in image.memory.values()}
    if rows != {RAM_ROWS}:
        raise wrong(path, f"must fill {RAM_ROWS} rows of block RAM in each bank")


def shape_of(image: Image) -> Shape | None:
    """The sizes of its blocks; None where they are no device's."""
    columns = {bits.shape[1] for bits in image.cells.values()}
    rows = tuple(len(image.cells[bank]) for bank in range(BANKS))
    ram = tuple(image.memory[bank].shape[1] for bank in range(BANKS))
    if len(columns) != 1 or len(rows) != BANKS or len(ram) != BANKS:
        return None
    a, b, c, d = rows
    e, f, g, h = ram
    return Shape(columns.pop(), (a, b, c, d), (e, f, g, h))
