"""The test bench around a core: source, sink, a monitor at every boundary, stall generators, control.

The parts are the SystemVerilog modules in `verilog/`; this file counts and connects them.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .results import Boundary

__all__ = ["Bench", "check_core"]

SOURCE_STALL, SINK_STALL = 0, 1


def check_core(core, boundaries: Sequence[Boundary]) -> None:
    """The boundaries must be those of the core's probes; a mistake of the caller's code, not of a user."""
    members = core.signature.members
    probes = sum(name.startswith("probe") and name.endswith("_valid") for name in members)
    if probes != len(boundaries):
        raise ValueError(f"boundaries must be one for each of the core's {probes} probes, not {len(boundaries)}")
    for k, boundary in enumerate(boundaries):
        width = Shape.cast(members[f"probe{k}_data"].shape).width
        if width != boundary.width:
            raise ValueError(f"probe{k}_data of the core must have the {boundary.width} bits of boundary "
                             f"'{boundary.name}' ({boundary.lanes} lanes of {boundary.shape}), not {width}")
    output = len(Value.cast(core.o.payload))
    if output != boundaries[-1].width:
        raise ValueError(f"output payload of the core must have the {boundaries[-1].width} bits of its last boundary "
                         f"'{boundaries[-1].name}', not {output}")


class Bench(wiring.Component):
    """Runs `core` from `go` to `done` on the clock `clk`.

    Monitor k watches probe k; number len(boundaries) is the sink, number len(boundaries) + 1 the source.
    """

    def __init__(self, core, boundaries: Sequence[Boundary]):
        check_core(core, boundaries)
        self.core = core
        self.boundaries = tuple(boundaries)
        super().__init__({"clk": In(1), "go": In(1), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.core = core = self.core
        control = {name: Signal(name=name) for name in ("rst", "load", "prime", "running", "finish")}
        cycle = Signal(64)
        common = {"i_clk": self.clk, "i_load": control["load"]}
        timed = {**common, "i_running": control["running"], "i_finish": control["finish"], "i_cycle": cycle}
        count = len(self.boundaries)
        activity, complete = Signal(count + 2), Signal(count + 2)
        m.d.comb += [ClockSignal().eq(self.clk), ResetSignal().eq(control["rst"])]
        m.submodules.control = Instance(
            "hwflow_control", i_clk=self.clk, i_go=self.go, i_activity=activity.any(), i_complete=complete.all(),
            o_cycle=cycle, o_done=self.done, **{f"o_{name}": signal for name, signal in control.items()})

        stalls = [Signal(name=name) for name in ("source_stall", "sink_stall")]
        for number, stall in enumerate(stalls):
            m.submodules[stall.name] = Instance("hwflow_stall", p_ID=number, o_stall=stall, **common)
        for k, boundary in enumerate(self.boundaries):
            m.submodules[f"monitor{k}"] = Instance(
                "hwflow_monitor", p_WIDTH=boundary.width, p_ID=k, i_valid=getattr(core, f"probe{k}_valid"),
                i_payload=Value.cast(getattr(core, f"probe{k}_data")), i_busy=getattr(core, f"busy{k}"),
                i_stall=getattr(core, f"stall{k}"), o_activity=activity[k], o_complete=complete[k], **timed)
        m.submodules.sink = Instance(
            "hwflow_sink", p_WIDTH=self.boundaries[-1].width, p_ID=count, i_stall=stalls[SINK_STALL],
            i_valid=core.o.valid, i_payload=Value.cast(core.o.payload), o_ready=core.o.ready,
            o_activity=activity[count], o_complete=complete[count], **timed)
        payload = Value.cast(core.i.payload)
        m.submodules.source = Instance(
            "hwflow_source", p_WIDTH=len(payload), p_ID=count + 1,
            i_enable=control["prime"] | control["running"], i_stall=stalls[SOURCE_STALL], i_ready=core.i.ready,
            o_valid=core.i.valid, o_payload=payload, o_activity=activity[count + 1],
            o_complete=complete[count + 1], **timed)
        return m
