"""Verilog models of the cells of a netlist, for each family, and the parameters with the contents of block RAMs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hwflow_rtl.vendor import ECP5, ICE40, Gowin

__all__ = ["MODELS", "CellModels"]


@dataclass(frozen=True)
class CellModels:
    """The cells of one family.

    `verilog` has a module for each cell that a netlist may hold.  `blocks` says of each block RAM how many parameters
    hold its contents, and of how many bits; `contents` finds the names of these parameters, which sort in the order of
    the words.  `open` says of a cell which pins may be left open: outputs that nobody reads, and inputs that the
    cell, with the parameters of our designs, does not read.
    """

    verilog: Path
    blocks: Mapping[str, tuple[int, int]]
    contents: re.Pattern[str]
    open: Mapping[str, re.Pattern[str]]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The cells with a model: modules, and those that a macro of the file makes."""
        text = self.verilog.read_text()
        return frozenset(re.findall(r"^module (\w+)", text, re.M)) | frozenset(
            re.findall(r"^`[A-Z_]+\((\w+)", text, re.M))


FOLDER = Path(__file__).parent
ECP5_OPEN = {"TRELLIS_FF": "M", "MULT18X18D": r"(P|SR[IO][AB]|RO[AB])\d+|SIGNEDP",
             "ALU54B": r"(C|CFB|CIN|CO|R)\d+|SIGNED(CIN|R)|EQ\w+|OVER|UNDER|OVERUNDER",
             "EHXPLLL": r"CLK(FB|INTFB|OP|OS\d?)|ENCLK\w+|INTLOCK|REFCLK"}
ICE40_PLL = r"PLLOUT(CORE|GLOBAL)[AB]?|EXTFEEDBACK|DYNAMICDELAY|LATCHINPUTVALUE|SCLK|SDI|SDO"
ICE40_OPEN = {"SB_MAC16": "CO|ACCUMCO|SIGNEXTOUT", "SB_PLL40_CORE": ICE40_PLL, "SB_PLL40_PAD": ICE40_PLL,
              "SB_PLL40_2_PAD": ICE40_PLL,
              "SB_IO": r"D_(IN|OUT)_[01]|LATCH_INPUT_VALUE|(IN|OUT)PUT_CLK"}
GOWIN_OPEN = {"MULT9X9": "SO[AB]", "MULT18X18": "SO[AB]", "rPLL": r"CLKOUT(P|D3?)"}


def cells(family: str, blocks: Mapping[str, tuple[int, int]], contents: str, open: Mapping[str, str]) -> CellModels:
    return CellModels(FOLDER / f"{family}.v", blocks, re.compile(contents),
                      {kind: re.compile(pins) for kind, pins in open.items()})


#: By the name of the family's technology.
MODELS: dict[str, CellModels] = {
    ECP5.name: cells("ecp5", {"DP16KD": (64, 320)}, r"INITVAL_[0-9A-F]{2}", ECP5_OPEN),
    ICE40.name: cells("ice40", {"SB_RAM40_4K": (16, 256)}, r"INIT_[0-9A-F]", ICE40_OPEN),
    Gowin.name: cells("gowin", {"pROM": (64, 256), "SDPB": (64, 256), "pROMX9": (64, 288), "SDPX9B": (64, 288)},
                      r"INIT_RAM_[0-9A-F]{2}", GOWIN_OPEN),
}
