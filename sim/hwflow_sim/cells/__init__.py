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
    the words.
    """

    verilog: Path
    blocks: Mapping[str, tuple[int, int]]
    contents: re.Pattern[str]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The cells with a model: modules, and those that a macro of the file makes."""
        text = self.verilog.read_text()
        return frozenset(re.findall(r"^module (\w+)", text, re.M)) | frozenset(
            re.findall(r"^`[A-Z_]+\((\w+)", text, re.M))


FOLDER = Path(__file__).parent
#: By the name of the family's technology.
MODELS: dict[str, CellModels] = {
    ECP5.name: CellModels(FOLDER / "ecp5.v", {"DP16KD": (64, 320)}, re.compile(r"INITVAL_[0-9A-F]{2}")),
    ICE40.name: CellModels(FOLDER / "ice40.v", {"SB_RAM40_4K": (16, 256)}, re.compile(r"INIT_[0-9A-F]")),
    Gowin.name: CellModels(FOLDER / "gowin.v", {"pROM": (64, 256), "SDPB": (64, 256), "pROMX9": (64, 288),
                                                "SDPX9B": (64, 288)}, re.compile(r"INIT_RAM_[0-9A-F]{2}")),
}
