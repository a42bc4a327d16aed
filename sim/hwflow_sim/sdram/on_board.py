"""The simulated chip on a simulated board."""

from __future__ import annotations

from collections.abc import Collection

from hwflow_rtl.memory import SdramPart
from hwflow_rtl.memory.sdram_part import address_lines

from ..board import BoardChip
from .model import MODEL, VIOLATIONS, SdramLimits

#: What pins are that a board ties to a level.
TIED = {"cke": "1'b1", "cs_n": "1'b0"}

#: The file of that name in Verilog.
STANDARD_ERROR = "32'h8000_0002"


def board_chip(part: SdramPart, names: Collection[str]) -> BoardChip:
    """`part` at the pins `names` of a board's design, where `dq` is `memory_dq_i`, `memory_dq_o` and `memory_dq_oe`.

    The first violation of the data sheet ends the simulation.
    """
    sizes = {"BANK_BITS": part.banks, "ROW_BITS": part.rows, "COLUMN_BITS": part.columns}
    parameters = {name: (count - 1).bit_length() for name, count in sizes.items()}
    parameters |= {"WIDTH": part.width, "ADDRESS_BITS": address_lines(part), **SdramLimits.of(part).values}
    tied = {**TIED, "dqm": f"{part.width // 8}'b0"}
    pins = [f".{name}({f'memory_{name}' if name in names else tied[name]})"
            for name in ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm")]
    pins += [".dq_in(memory_dq_o)", ".dq_driven(memory_dq_oe)", ".dq_out(memory_dq_i)", ".total(chip_total)",
             ".first_kind(chip_kind)", ".first_cycle(chip_cycle)",
             ".counts(chip_counts)", ".cycle(chip_now)"]
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    kinds = "".join(f'      {number}: $fdisplay({STANDARD_ERROR}, "the memory chip, cycle %0d: {text}", chip_cycle);\n'
                    for number, text in enumerate(VIOLATIONS))
    return BoardChip(
        "  wire [31:0] chip_total, chip_kind;\n  wire [63:0] chip_cycle;\n"
        f"  wire [24*32-1:0] chip_counts;\n  wire [63:0] chip_now;\n"
        f"  hwflow_sdr_sdram #({given}) chip ({', '.join(pins)});\n"
        f"  assign fault = chip_total != 0;\n  always @(posedge fault)\n    case (chip_kind)\n{kinds}    endcase\n",
        MODEL)
