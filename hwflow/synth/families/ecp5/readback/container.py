"""The file that an ECP5 is programmed with: commands, checksums, compressed frames and contents of block RAMs.

Sources: Lattice FPGA-TN-02039 (sysCONFIG), and Project Trellis, docs/architecture/bitstream_format.rst, for the order
of frames and bits.  Written from these; no program of theirs is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from ....readback.crc import crc16_buypass

Bits = npt.NDArray[np.bool_]

PREAMBLE = bytes((0xFF, 0xFF, 0xBD, 0xB3))
#: A larger file is no bitstream of an ECP5: that of an LFE5U-85F has 1.9 MB of frames and 0.5 MB for its block RAMs.
LARGEST = 8 << 20
#: Of the first byte behind a command: a checksum follows, one at the end is enough, and bytes behind each frame.
CHECKED, ONLY_AT_END, DUMMIES = 0x80, 0x40, 0x0F
#: Words of a block RAM, and their bits; so many words are written in one piece.
RAM_WORDS, RAM_BITS, PIECE = 2048, 9, 8
#: Bytes of a compressed frame are filled up to a multiple of this, at the front.
FILLED = 8
PATTERNS = 8
DUMMY = 0xFF


@dataclass(frozen=True)
class Layout:
    """How the frames of a device are cut: `idcode` is its JTAG ID, `pad` are bits in front of those of a frame."""

    device: str
    idcode: int
    frames: int
    bits: int
    pad: int

    @property
    def frame_bytes(self) -> int:
        return (self.bits + self.pad) // 8


@dataclass
class Configuration:
    """What a file says: `frames` [frame, bit], `rams` by number, 2048 words of 9 bits each, `control` register 0."""

    frames: Bits
    rams: dict[int, npt.NDArray[np.uint16]] = field(default_factory=dict)
    control: int = 0
    usercode: int = 0


def read_configuration(path: Path, layout: Layout) -> Configuration:
    """The configuration in the file `path`.  HwflowError where it is none of this device, or cut, or damaged."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= LARGEST else b""
    except OSError as error:
        raise HwflowError(f"the bitstream must be readable: {error.strerror}", where=str(path)) from None
    if size > LARGEST:
        raise HwflowError(f"a bitstream must have at most {LARGEST} bytes, not {size}", where=str(path))
    return Commands(data, layout, str(path)).read()


class Commands:
    """A walk over the commands of a file."""

    def __init__(self, data: bytes, layout: Layout, where: str):
        self.data, self.layout, self.where = data, layout, where
        self.at, self.crc = 0, 0
        self.patterns: bytes | None = None
        self.known, self.done, self.filled = False, False, False
        self.address: int | None = None
        self.made = Configuration(np.zeros((layout.frames, layout.bits), np.bool_))

    def fail(self, why: str) -> NoReturn:
        raise HwflowError(why, "make the bitstream again with hwflow synth", where=self.where)

    def take(self, count: int) -> bytes:
        """The next bytes, which the checksum counts."""
        if self.at + count > len(self.data):
            self.fail(f"the bitstream must go on at byte {len(self.data)}, where it ends: it is cut")
        piece = self.data[self.at:self.at + count]
        self.at += count
        self.crc = crc16_buypass(piece, self.crc)
        return piece

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def check(self, what: str) -> None:
        """The checksum that stands here must be the one of all that was read since the last."""
        must, found = self.crc, int.from_bytes(self.take(2), "big")
        if found != must:
            self.fail(f"the checksum of {what} must be 0x{must:04x}, not 0x{found:04x} (byte {self.at - 2}): the "
                      "bitstream is damaged")
        self.crc = 0

    def read(self) -> Configuration:
        start = self.data.find(PREAMBLE)
        if not self.data.startswith(b"\xff\x00") or start < 0:
            self.fail("the file must be a bitstream of Lattice's, which begins with the bytes FF 00 and has FF FF BD "
                      "B3 behind its comments")
        self.at = start + len(PREAMBLE)
        while not self.done:
            if self.at < len(self.data) and self.data[self.at] == DUMMY:
                self.at += 1  # not counted by the checksum
                continue
            at, code = self.at, self.take(1)[0]
            command = COMMANDS.get(code)
            if command is None:
                self.fail(f"commands of the bitstream must be ones that hwflow knows, not 0x{code:02x} (byte {at})")
            command(self, self.take(3))
        if self.data[self.at:].strip(b"\xff"):
            self.fail(f"nothing must come behind the end of the bitstream (byte {self.at})")
        if not self.filled:
            self.fail("the bitstream must have the frames of the device, and has none")
        return self.made

    def reset_crc(self, info: bytes) -> None:
        self.crc = 0

    def identify(self, info: bytes) -> None:
        idcode = self.number()
        if idcode != self.layout.idcode:
            self.fail(f"the bitstream must be for {self.layout.device} (JTAG ID 0x{self.layout.idcode:08x}), not for a "
                      f"device with the ID 0x{idcode:08x}")
        self.known = True

    def control(self, info: bytes) -> None:
        self.made.control = self.number()

    def usercode(self, info: bytes) -> None:
        self.made.usercode = self.number()
        if info[0] & CHECKED:
            self.check("the user code")

    def ignore(self, info: bytes) -> None:
        """LSC_INIT_ADDRESS: frames come from the last on anyway."""

    def finish(self, info: bytes) -> None:
        self.done = True

    def dictionary(self, info: bytes) -> None:
        self.patterns = self.take(PATTERNS)[::-1]

    def frames(self, info: bytes) -> None:
        self.fill(info, lambda: self.take(self.layout.frame_bytes))

    def compressed_frames(self, info: bytes) -> None:
        if self.patterns is None:
            self.fail("the patterns of compressed frames must come before them")
        bits = "".join(f"{value:08b}" for value in self.data[self.at:])
        self.fill(info, Unpacking(self, bits, self.at, self.patterns).frame)

    def fill(self, info: bytes, frame: Callable[[], bytes]) -> None:
        """All frames, the last of the device first; bits of a frame from the end of its bytes on."""
        layout, count = self.layout, int.from_bytes(info[1:3], "big")
        if not self.known or self.filled or count != layout.frames:
            self.fail(f"the bitstream must have {layout.frames} frames of {layout.device} once, behind its ID, not "
                      f"{count}")
        for number in range(count):
            raw = frame()
            bits = np.unpackbits(np.frombuffer(raw, np.uint8)[::-1], bitorder="little")
            self.made.frames[count - 1 - number] = bits[:layout.bits]
            if info[0] & CHECKED and (number == count - 1 or not info[0] & ONLY_AT_END):
                self.check(f"frame {count - 1 - number}")
            if bits[layout.bits:].any():
                self.fail(f"bits of frame {count - 1 - number} beyond its {layout.bits} must be 0")
            self.take(info[0] & DUMMIES)
        self.filled = True

    def ram_address(self, info: bytes) -> None:
        value = self.number()
        if value % RAM_WORDS:
            self.fail(f"contents of a block RAM must begin with its first word, not with {value % RAM_WORDS}")
        self.address = value // RAM_WORDS

    def ram_contents(self, info: bytes) -> None:
        """Words of 9 bits, the first bit of the first byte is the highest of the first word."""
        count, number = int.from_bytes(info[1:3], "big"), self.address
        if number is None or number in self.made.rams or count * PIECE != RAM_WORDS:
            self.fail(f"contents of a block RAM must be {RAM_WORDS} words behind its number, once, not {count * PIECE}")
        bits = np.unpackbits(np.frombuffer(self.take(count * PIECE * RAM_BITS // 8), np.uint8))
        weights = 1 << np.arange(RAM_BITS - 1, -1, -1)
        self.made.rams[number] = (bits.reshape(RAM_WORDS, RAM_BITS) @ weights).astype(np.uint16)
        self.address = None
        if info[0] & CHECKED:
            self.check(f"block RAM {number}")


class Unpacking:
    """Compressed frames: 0 is a byte of zeros, 100 and 3 bits one with that bit set, 101 and 3 bits a pattern, 11 and 8
    bits any byte.  A frame ends with its last byte filled up."""

    def __init__(self, commands: Commands, bits: str, start: int, patterns: bytes):
        self.commands, self.bits, self.start = commands, bits, start
        self.words = bytes(1 << k for k in range(8)) + patterns
        size = commands.layout.frame_bytes
        self.size = size + -size % FILLED

    def frame(self) -> bytes:
        commands, bits = self.commands, self.bits
        first = at = 8 * (commands.at - self.start)
        found = bytearray()
        while len(found) < self.size:
            one = bits.find("1", at, at + self.size - len(found))
            if one < 0:
                at += self.size - len(found)
                break
            found += bytes(one - at)
            if bits.startswith("11", one):
                found.append(int(bits[one + 2:one + 10] or "0", 2))
                at = one + 10
            else:
                found.append(self.words[int(bits[one + 2:one + 6] or "0", 2)])
                at = one + 6
        found += bytes(self.size - len(found))
        commands.take(-(-(at - first) // 8))
        return bytes(found)


#: By their code; FPGA-TN-02039, table of commands.
COMMANDS: dict[int, Callable[[Commands, bytes], None]] = {
    0x3B: Commands.reset_crc, 0xE2: Commands.identify, 0x22: Commands.control, 0x46: Commands.ignore,
    0x02: Commands.dictionary, 0x82: Commands.frames, 0xB8: Commands.compressed_frames, 0xC2: Commands.usercode,
    0xF6: Commands.ram_address, 0xB2: Commands.ram_contents, 0x5E: Commands.finish}
