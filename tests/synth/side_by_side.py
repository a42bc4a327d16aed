"""What synthesis makes of units: many in one design, counted one by one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from hwflow_rtl.io import BoardTop, Clocking
from hwflow_rtl.io.axi_stream import AxiStreamTop
from hwflow_rtl.io.crossings import CoreCrossing, FastCrossing, ImageCrossing, SealCrossing
from hwflow_rtl.io.link.host_link import HostLink
from hwflow_rtl.io.transports import Transport
from hwflow_rtl.matmul.operand import OperandFiller
from hwflow_rtl.matrix.streamed_weights import TileFiller
from hwflow_rtl.memory import SealCheck, SealedController
from hwflow_rtl.rescale.requantizer import RequantizerDatapath
from hwflow_rtl.rescale.rescaler import Rescaler
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.vendor import Resources
from hwflow_rtl.window.line_buffer import LineBuffer

from hwflow.synth import Board
from hwflow.synth.design_parts import count_parts
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import Job, tools_of_family

#: Units whose ports are all pins.
WHOLE = (AxiStreamTop, BoardTop, Clocking, CoreCrossing, CreditCounter, FastCrossing, HostLink, ImageCrossing,
         LineBuffer, OperandFiller, RequantizerDatapath, Rescaler, SealCheck, SealCrossing, SealedController,
         TileFiller, Transport)


class SideBySide(wiring.Component):
    """Units whose streams are pins, and the other ports of those in `WHOLE` too.

    The level of a queue is no pin, so that what makes it is not there.
    """

    def __init__(self, units: Sequence[wiring.Component]):
        self.units = units
        super().__init__({f"u{k}_{name}": member for k, unit in enumerate(units)
                          for name, member in self.seen(unit)})

    @staticmethod
    def seen(unit: wiring.Component):
        return [(name, member) for name, member in unit.signature.members.items()
                if member.is_signature or isinstance(unit, WHOLE)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, unit in enumerate(self.units):
            # Of its own: of the module that a pin is connected in, cells of the pin have their name.
            m.submodules[f"u{k}"] = inner = Module()
            inner.submodules.unit = unit
            for name, member in self.seen(unit):
                pin, port = getattr(self, f"u{k}_{name}"), getattr(unit, name)
                if member.is_signature:
                    wiring.connect(inner, wiring.flipped(pin), port)
                else:
                    inner.d.comb += port.eq(pin) if member.flow is wiring.In else pin.eq(port)
        return m


def unit_of(cell: str) -> str:
    return cell.replace("_", ".").partition(".")[0]


def used_by(units: Sequence[wiring.Component], board: Board, folder: Path) -> list[Resources]:
    """What each unit takes on the board's device; the netlist is kept in `folder` for the same units."""
    top = SideBySide(units)
    make_netlist(Job(board, folder, tools_of_family(board.family), lambda text: None),
                 rtlil.convert(top, name="top", emit_src=False))
    cells = json.loads((folder / "netlist" / "netlist.json").read_text())["modules"]["top"]["cells"]
    used = defaultdict(Resources, count_parts(cells, board.family, unit_of))
    return [used[f"u{k}"] for k in range(len(units))]
