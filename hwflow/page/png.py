"""Pictures as PNG files inside of a page.

The standard library has all that it takes to write one (zlib and CRC-32), so a page needs no library for pictures.
The form is that of the PNG specification, third edition (W3C, 2025): signature, IHDR, IDAT, IEND.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

__all__ = ["data_uri", "png"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Colour types by number of channels: greyscale, and red, green and blue.
COLOURS = {1: 0, 3: 2}


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of uint8[height, width, 1 or 3], both at least 1.  ValueError for another array."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in COLOURS or not pixels.size:
        raise ValueError(f"pixels must be uint8[height, width, 1 or 3], not {pixels.dtype}{list(pixels.shape)}")
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # the byte before each line: filter 0, none
    lines[:, 1:] = pixels.reshape(height, -1)
    return SIGNATURE + b"".join((
        chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b"")))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """The same as the source of an image in HTML; its characters are letters, digits and `:;,/+=`."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"
