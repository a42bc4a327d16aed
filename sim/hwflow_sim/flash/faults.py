"""What all simulated flashes have in common: their contents, and how a simulation ends with a violation."""

from __future__ import annotations

from collections.abc import Sequence

#: The file of the contents, beside the executable.
CONTENTS = "flash.hex"
#: What a flash has where nothing was written.
ERASED = b"\xff"
#: Kinds of violations that a program has room for.
COUNTED = 17
#: The file of that name in Verilog.
STANDARD_ERROR = "32'h8000_0002"


def fault_of(name: str, violations: Sequence[str]) -> str:
    """Verilog beside a chip on a board: the first violation of the data sheet ends the simulation."""
    kinds = "".join(f'      {number}: $fdisplay({STANDARD_ERROR}, "the {name}, %0d ps: {text}", chip_time);\n'
                    for number, text in enumerate(violations))
    return ("  wire [31:0] chip_total, chip_kind;\n  wire [63:0] chip_time;\n  assign fault = chip_total != 0;\n"
            f"  always @(posedge fault)\n    case (chip_kind)\n{kinds}    endcase\n")
