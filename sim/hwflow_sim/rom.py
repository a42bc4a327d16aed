"""ROM contents as files for `$readmemh`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
