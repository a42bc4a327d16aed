"""What units say that they cost, against the netlist: windows, queues, changes of lanes and pools of many sizes."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Value, signed, unsigned
from amaranth.lib import wiring
from hwflow_rtl.pool.fold_pool import FoldMaxPoolStage
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.window.shape import WindowShape
from hwflow_rtl.window.window import Window

from hwflow.synth import load_board
from hwflow.synth.job import Job
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import tools_of_family
from hwflow.synth.usage import count_parts
from tests.rtl.test_window import SHAPES
from tests.synth.test_flow import need

Units = dict[str, tuple[wiring.Component, Resources]]
#: What a unit may be off, in cells or as a part of what it takes; all of them together are within the last.
CELLS, SHARE, ALL = 32, 0.25, 0.12


def windows(technology: Technology) -> Units:
    return {name: (Window(shape=shape, element=signed(8), lanes=2, pad_value=-3, technology=technology),
                   Window.cost(shape=shape, width=16, technology=technology)) for name, shape in SHAPES.items()}


def streams(technology: Technology) -> Units:
    units: Units = {}
    for width in (4, 8, 16, 40):
        for depth in (2, 3, 4, 7, 12, 30, 60):
            units[f"{width} bits, {depth} deep"] = (
                Queue(shape=unsigned(width), depth=depth, technology=technology),
                Queue.cost(width=width, depth=depth, technology=technology))
    return units


def lanes(technology: Technology) -> Units:
    return {f"{come} to {go}": (Gearbox(shape=signed(8), lanes_in=come, lanes_out=go), Gearbox.cost(
        width=8, lanes_in=come, lanes_out=go, technology=technology))
        for come, go in ((1, 2), (1, 4), (2, 4), (1, 8), (2, 1), (4, 1), (4, 2), (8, 1))}


def pools(technology: Technology) -> Units:
    units: Units = {}
    for size, words, kernel, count in ((8, 8, 2, 1), (16, 4, 2, 4), (12, 16, 3, 1), (32, 8, 2, 1), (14, 2, 7, 2),
                                       (4, 16, 2, 1)):
        shape = WindowShape(height=size, width=size, words=words, kernel=(kernel, kernel), stride=(kernel, kernel),
                            groups=words)
        arguments = {"window": shape, "lanes": count, "element": signed(8), "technology": technology}
        units[f"{size}x{size}x{words}"] = FoldMaxPoolStage(**arguments), FoldMaxPoolStage.cost(**arguments)
    return units


class SideBySide(wiring.Component):
    """Units whose streams are pins; a window's other ports as well.  Nobody looks at the levels of queues."""

    def __init__(self, units: list[wiring.Component]):
        self.units = units
        super().__init__({f"u{k}_{name}": member for k, unit in enumerate(units)
                          for name, member in self.seen(unit)})

    @staticmethod
    def seen(unit: wiring.Component):
        return [(name, member) for name, member in unit.signature.members.items()
                if member.is_signature or isinstance(unit, Window)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, unit in enumerate(self.units):
            m.submodules[f"u{k}"] = unit
            for name, member in self.seen(unit):
                pin, port = getattr(self, f"u{k}_{name}"), getattr(unit, name)
                if member.is_signature:
                    wiring.connect(m, wiring.flipped(pin), port)
                else:
                    m.d.comb += port.eq(pin) if member.flow is wiring.In else pin.eq(port)
        return m


def unit_of(cell: str) -> str:
    return cell.replace("_", ".").partition(".")[0]


# On Gowin the multiplexers of a gearbox are called after the buffers of its pins.
@pytest.mark.slow
@pytest.mark.parametrize(("make", "name"), [
    *((make, "ulx3s_85f") for make in (windows, streams, lanes, pools)),
    *((make, "tangnano9k") for make in (windows, streams, pools))])
def test_a_unit_takes_what_it_says(make, name: str, tmp_path: Path) -> None:
    board = load_board(name)
    need(board.family)
    technology = board.technology()
    units = make(technology)
    top = SideBySide([unit for unit, _ in units.values()])
    pins = [Value.cast(value) for _, _, value in top.signature.flatten(top)]
    make_netlist(Job(board, tmp_path, tools_of_family(board.family), lambda text: None),
                 rtlil.convert(top, name="top", ports=pins, emit_src=False))
    cells = json.loads((tmp_path / "netlist" / "netlist.json").read_text())["modules"]["top"]["cells"]
    used = defaultdict(Resources, count_parts(cells, board.family, unit_of))
    planned = [technology.placed(cost) for _, cost in units.values()]
    wrong = [f"{unit}: {plan} instead of {used[f'u{k}']}"
             for k, (unit, plan) in enumerate(zip(units, planned, strict=True)) if plan.ram != used[f"u{k}"].ram
             or abs(plan.lut - used[f"u{k}"].lut) > max(CELLS, SHARE * used[f"u{k}"].lut)]
    assert not wrong, "\n".join(wrong)
    assert abs(sum(plan.lut for plan in planned) / sum(part.lut for part in used.values()) - 1) < ALL
