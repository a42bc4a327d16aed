"""Frames of integers to beats of bits and back: lane 0 in the lowest bits, a beat padded to 64-bit words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .results import Element


def words_per_beat(lanes: int, shape: Element) -> int:
    return -(-lanes * shape.width // 64)


def pack(elements: npt.NDArray[np.int64], *, lanes: int, shape: Element) -> npt.NDArray[np.uint64]:
    """int64[beats * lanes] to uint64[beats, words].  Higher bits of the elements are dropped."""
    words = words_per_beat(lanes, shape)
    raw = np.ascontiguousarray(elements, dtype="<i8").view(np.uint8).reshape(-1, lanes, 8)
    beats = len(raw)
    if shape.width % 8 == 0:
        content = raw[:, :, : shape.width // 8].reshape(beats, lanes * shape.width // 8)
    else:
        bits = np.unpackbits(raw, axis=2, count=shape.width, bitorder="little")
        content = np.packbits(bits.reshape(beats, lanes * shape.width), axis=1, bitorder="little")
    padded = np.zeros((beats, 8 * words), dtype=np.uint8)
    padded[:, : content.shape[1]] = content
    return padded.view("<u8").astype(np.uint64, copy=False)


def unpack(words: npt.NDArray[np.uint64], *, lanes: int, shape: Element) -> npt.NDArray[np.int64]:
    """uint64[beats, words] to int64[beats * lanes]."""
    beats = len(words)
    raw = np.ascontiguousarray(words, dtype="<u8").view(np.uint8).reshape(beats, 8 * words.shape[1])
    if shape.width % 8 == 0:
        size = shape.width // 8
        low = raw[:, : lanes * size].reshape(-1, size)
    else:
        bits = np.unpackbits(raw, axis=1, count=lanes * shape.width, bitorder="little")
        low = np.packbits(bits.reshape(-1, shape.width), axis=1, bitorder="little")
    padded = np.zeros((beats * lanes, 8), dtype=np.uint8)
    padded[:, : low.shape[1]] = low
    value = padded.view("<i8").reshape(-1).astype(np.int64, copy=False)
    if shape.signed:
        unused = 64 - shape.width
        value = (value << unused) >> unused
    return value


# ROM contents as files for `$readmemh`.


#: The Verilog module that reads such a file.
ROM_MODULE = Path(__file__).parent / "verilog" / "hwflow_rom.sv"


def hex_text(contents: npt.NDArray[np.uint8]) -> str:
    """uint8[depth, bytes], each row one word, least significant byte first: one line of hexadecimal digits a word."""
    backwards = np.ascontiguousarray(contents[:, ::-1], dtype=np.uint8)
    return backwards.tobytes().hex("\n", contents.shape[1]) + "\n"


def write_roms(roms: Mapping[str, npt.NDArray[np.uint8]], folder: Path) -> None:
    """Write NAME.hex for every ROM into `folder`; a file is replaced in one step, or left alone if it is right."""
    for name, contents in roms.items():
        path = folder / f"{name}.hex"
        text = hex_text(contents).encode()
        if path.is_file() and path.read_bytes() == text:
            continue
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(text)
        temporary.replace(path)
