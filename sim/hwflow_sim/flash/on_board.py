"""The simulated flash on a simulated board, with what was written into it."""

from __future__ import annotations

from math import ceil

import numpy as np
from hwflow_rtl.memory import FlashPart

from ..board import BoardChip
from .faults import CONTENTS, ERASED, fault_of
from .model import MODEL, VIOLATIONS, FlashLimits


def board_chip(part: FlashPart, contents: bytes, *, words: int) -> BoardChip:
    """`part` at the pins of a board's design, `memory_sck`, `memory_cs_n`, and `memory_io_i`, `_o` and `_oe`.

    It has `contents` from the part's offset on, at most `words` words of 32 bits.  A cycle of the board counts as a
    period of the part's clock, which is never shorter.  The first violation of the data sheet ends the simulation.
    """
    lines, missing = part.lines, 4 - part.lines
    parameters: dict[str, object] = {
        **FlashLimits.parameters(part), "TICK": ceil(500 * part.period), "OFFSET": part.offset, "WORDS": words,
        "IMAGE": f'"{CONTENTS}"'}
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    pulled = f"{{{missing}'b{'1' * missing}, memory_io_%s}}" if missing else "memory_io_%s"
    pins = [".sck(memory_sck)", ".cs_n(memory_cs_n)", f".io_in({pulled % 'o'})", f".io_driven({pulled % 'oe'})",
            ".io_out(chip_io)", ".total(chip_total)", ".first_kind(chip_kind)", ".first_time(chip_time)",
            ".counts(chip_counts)"]
    octets = np.frombuffer(contents.ljust(4 * words, ERASED), dtype="<u4")
    return BoardChip(
        "  wire [3:0] chip_io;\n"
        "  wire [17*32-1:0] chip_counts;\n"
        f"  hwflow_qspi_flash #({given}) chip ({', '.join(pins)});\n  assign memory_io_i = chip_io[{lines - 1}:0];\n"
        + fault_of("flash", VIOLATIONS), MODEL, {CONTENTS: "".join(f"{word:08x}\n" for word in octets.tolist())})
