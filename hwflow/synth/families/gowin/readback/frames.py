"""The file of gowin_pack: lines of bits.  Commands, then frames with their CRC, then commands again.

Source: Project Apicula (MIT), doc/commandstructure.md and doc/filestructure.md; the commands of each chip are those of
its database (`cmd_hdr`, `cmd_ftr`).  A frame is a row of the bitmap of all tiles, written from the last column on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from ....readback.crc import crc16_arc

#: No file of a chip that we read is longer.
MOST_BYTES = 64_000_000
#: Behind the bits of a frame: its CRC, low byte first, and six bytes of ones.
CRC_BITS, TAIL_BITS = 16, 48
#: The first command that counts for the CRC is behind the preamble.
PREAMBLE = 3
DEVICE, ADDRESS, FRAMES, CHECKSUM = 0x06, 0xD2, 0x3B, 0x0A
REMEDY = "make the bitstream again with hwflow synth"
Bitmap = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """What the file of a chip looks like: the commands around the frames, the size of the bitmap, and how many rows
    with contents of block RAMs may follow it."""

    chip: str
    header: tuple[bytes, ...]
    footer: tuple[bytes, ...]
    height: int
    width: int
    contents: int

    @property
    def padding(self) -> int:
        """Ones before the bits of a frame."""
        return -self.width % 8


@dataclass(frozen=True)
class Frames:
    """`main` [height, width]: the bits of the tiles.  `contents` [rows, width]: those of block RAMs; no rows where the
    file has none."""

    main: Bitmap
    contents: Bitmap


def read_frames(path: Path, layout: Layout) -> Frames:
    """The bits in the file `path`.  HwflowError where it is not whole, damaged, or of another chip."""
    lines = file_lines(path)
    header = [as_bytes(path, number, line) for number, line in lines[:len(layout.header)]]
    count = require_header(path, header, layout)
    body, footer = lines[len(header):][:count], lines[len(header) + count:]
    if len(body) < count:
        raise HwflowError(f"the bitstream must have {count} frames, as it says, not {len(body)}: it is cut", REMEDY,
                          where=str(path))
    bits = frame_bits(path, body, layout)
    require_crc(path, body[0][0], bits, b"".join(header[k] for k in range(PREAMBLE, len(header))
                                                 if header[k][0] != ADDRESS))
    require_padding(path, body, bits, layout)
    start = layout.padding
    whole = np.ascontiguousarray(bits[:, start:start + layout.width][:, ::-1])
    frames = Frames(whole[:layout.height], whole[layout.height:])
    require_footer(path, [as_bytes(path, number, line) for number, line in footer], layout, checksum(frames.main))
    return frames


def file_lines(path: Path) -> list[tuple[int, str]]:
    """The lines with bits, and their numbers."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise HwflowError(f"the bitstream must have at most {MOST_BYTES} bytes, not {path.stat().st_size}",
                              "give a file that gowin_pack wrote", where=str(path))
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise HwflowError(f"the bitstream must be a text file of bits ({error})", "give a file that gowin_pack wrote",
                          where=str(path)) from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line and not line.startswith("//")]
    for number, line in lines:
        if line.strip("01") or len(line) % 8:
            raise HwflowError(f"line {number} of the bitstream must be whole bytes of 0 and 1", REMEDY,
                              where=str(path))
    return lines


def as_bytes(path: Path, number: int, line: str) -> bytes:
    if len(line) > 512:
        raise HwflowError(f"line {number} of the bitstream must be a command, not {len(line)} bits", REMEDY,
                          where=str(path))
    return int(line, 2).to_bytes(len(line) // 8, "big")


def require_header(path: Path, found: Sequence[bytes], layout: Layout) -> int:
    """The number of frames that follow the header."""
    device = next((command for command in found if command[0] == DEVICE), None)
    wanted = next(command for command in layout.header if command[0] == DEVICE)
    if device is not None and device != wanted:
        raise HwflowError(f"the bitstream must be one of a {layout.chip}, whose number is {wanted[4:].hex()}, not "
                          f"{device[4:].hex()}", "name the board that it was made for", where=str(path))
    if len(found) < len(layout.header):
        raise HwflowError("the bitstream must have its commands and frames, and ends before them: it is cut", REMEDY,
                          where=str(path))
    for ours, theirs in zip(layout.header, found, strict=True):
        if (ours[:2] if ours[0] == FRAMES else ours) != (theirs[:2] if ours[0] == FRAMES else theirs):
            raise HwflowError(f"a command before the frames must be {ours.hex()}, not {theirs.hex()}",
                              "hwflow reads files that gowin_pack of apycula 0.31 or later writes without options for "
                              "compression; " + REMEDY, where=str(path))
    count = int.from_bytes(found[-1][2:], "big")
    if count not in (layout.height, layout.height + layout.contents):
        raise HwflowError(f"the bitstream must have {layout.height} frames, or {layout.height + layout.contents} with "
                          f"contents of block RAMs, not {count}", REMEDY, where=str(path))
    return count


def frame_bits(path: Path, body: Sequence[tuple[int, str]], layout: Layout) -> Bitmap:
    """The bits of all frames with their padding, CRC and tail."""
    length = layout.padding + layout.width + CRC_BITS + TAIL_BITS
    for number, line in body:
        if len(line) != length:
            raise HwflowError(f"line {number} of the bitstream must be a frame of {length} bits, not {len(line)}",
                              REMEDY, where=str(path))
    joined = "".join(line for _, line in body).encode()
    return (np.frombuffer(joined, np.uint8) - ord("0")).reshape(len(body), length)


def require_crc(path: Path, first: int, bits: Bitmap, before: bytes) -> None:
    """The first frame's CRC is also of the commands `before` it, those of the others of the tail before them."""
    data = np.packbits(bits, axis=1)
    for k, row in enumerate(data):
        body, low, high = row[:-8].tobytes(), int(row[-8]), int(row[-7])
        made = crc16_arc(before + body)
        if made != low + 256 * high:
            raise HwflowError(f"the CRC of line {first + k} of the bitstream must be {made:04x}, not "
                              f"{low + 256 * high:04x}: it is damaged", REMEDY, where=str(path))
        before = row[-6:].tobytes()


def require_padding(path: Path, body: Sequence[tuple[int, str]], bits: Bitmap, layout: Layout) -> None:
    ones = np.concatenate([bits[:, :layout.padding], bits[:, -TAIL_BITS:]], axis=1)
    if not ones.all():
        number = body[int(np.argmin(ones.all(axis=1)))][0]
        raise HwflowError(f"line {number} of the bitstream must begin with {layout.padding} and end with {TAIL_BITS} "
                          "ones", REMEDY, where=str(path))


def require_footer(path: Path, found: Sequence[bytes], layout: Layout, made: int) -> None:
    wanted = [CHECKSUM.to_bytes(1, "big") + made.to_bytes(7, "big") if command[0] == CHECKSUM else command
              for command in layout.footer]
    if len(found) < len(wanted):
        raise HwflowError("the bitstream must end with its commands behind the frames: it is cut", REMEDY,
                          where=str(path))
    for ours, theirs in zip(wanted, found, strict=False):
        if ours != theirs:
            what = "the checksum" if ours[0] == CHECKSUM else "a command behind the frames"
            raise HwflowError(f"{what} must be {ours.hex()}, not {theirs.hex()}", REMEDY, where=str(path))
    if len(found) > len(wanted):
        raise HwflowError(f"the bitstream must end after {len(wanted)} commands behind the frames, not {len(found)}",
                          REMEDY, where=str(path))


def checksum(main: Bitmap) -> int:
    """The sum of all words of 16 bits of the tiles, as they are in the file without padding."""
    data = np.packbits(main[:, ::-1]).astype(np.int64)
    return int(data[0::2].sum() * 256 + data[1::2].sum()) & 0xFFFF


def written(frames: Frames, layout: Layout) -> str:
    """The text of a file of these frames, as gowin_pack would write it: `read_frames` backwards."""
    whole = np.concatenate([frames.main, frames.contents])[:, ::-1]
    padded = np.concatenate([np.ones((len(whole), layout.padding), np.uint8), whole], axis=1)
    header = [command[:2] + len(whole).to_bytes(2, "big") if command[0] == FRAMES else command
              for command in layout.header]
    footer = [CHECKSUM.to_bytes(1, "big") + checksum(frames.main).to_bytes(7, "big") if command[0] == CHECKSUM
              else command for command in layout.footer]
    before = b"".join(command for command in header[PREAMBLE:] if command[0] != ADDRESS)
    rows = []
    for row in np.packbits(padded, axis=1):
        value = crc16_arc(before + row.tobytes())
        rows.append(row.tobytes() + value.to_bytes(2, "little") + bytes([255] * 6))
        before = bytes([255] * 6)
    return "".join(f"{int.from_bytes(line, 'big'):0{8 * len(line)}b}\n" for line in [*header, *rows, *footer])
