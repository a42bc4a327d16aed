"""A component whose insides are the netlist that yosys made of it."""

from __future__ import annotations

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring

from ..board import Netlist


class NetlistUnit(wiring.Component):
    """Has the ports of `unit`, and is `netlist`, its module `top`; simulators need its Verilog and its models."""

    def __init__(self, *, unit: wiring.Component, netlist: Netlist):
        self.netlist = netlist
        super().__init__(unit.signature)

    def elaborate(self, platform):
        m = Module()
        ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.signature.flatten(self):
            ports[f"{'i' if member.flow is wiring.In else 'o'}_{'__'.join(path)}"] = Value.cast(value)
        there = {name: value for name, value in ports.items() if name[2:] in self.netlist.ports}
        m.submodules.netlist = Instance("top", **there)
        return m
