"""The hardware as files: one Verilog text for simulators and other tools, and the contents of its ROMs."""

from __future__ import annotations

import shutil
from pathlib import Path

from amaranth.back.verilog import YosysError
from hwflow_rtl.emit import emit
from hwflow_rtl.vendor import FAMILIES, Generic
from hwflow_sim.rom import ROM_MODULE, write_roms

from . import hls
from .errors import ToolFailed
from .layers.base import LayerGraph

__all__ = ["twin", "write_rtl"]

#: The top module of every design.
TOP = "hwflow_core"


def twin(plan: hls.Plan) -> Generic:
    """Portable hardware that makes the same choices as the plan's technology and has its latencies."""
    family = FAMILIES.get(plan.technology)
    return Generic(timing=plan.timing, hex_roms=True, like=family() if family else None)


def write_rtl(graph: LayerGraph, plan: hls.Plan, folder: Path) -> None:
    """Write `hwflow_core.v`, the module of its ROMs, and a hex file for each ROM, into `folder`."""
    technology = twin(plan)
    core = hls.lower(graph, plan, technology)
    try:
        verilog = emit(core, name=TOP)
    except YosysError as error:
        reason = str(error).strip().splitlines()[-1:]
        raise ToolFailed(f"Amaranth's own yosys could not write the Verilog: {' '.join(reason)}") from None
    (folder / f"{TOP}.v").write_text(verilog)
    shutil.copyfile(ROM_MODULE, folder / ROM_MODULE.name)
    write_roms(technology.roms, folder)
