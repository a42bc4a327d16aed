"""The test bench around a core: sources, sinks, a monitor at every boundary and link, stall generators, control.

The parts are the SystemVerilog modules in `verilog/`; this file counts and connects them.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Instance, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .streams import Streams


def check_core(core: wiring.Component, streams: Streams) -> None:
    """The boundaries must be those of the core's probes; a mistake of the caller's code, not of a user."""
    members, boundaries = core.signature.members, streams.boundaries
    for k, boundary in enumerate(boundaries):
        width = Shape.cast(members[f"probe{k}_data"].shape).width
        if width != boundary.width:
            raise ValueError(f"probe{k}_data of the core must have the {boundary.width} bits of boundary "
                             f"'{boundary.name}' ({boundary.lanes} lanes of {boundary.carried}), not {width}")
    of = {boundary.tensor: boundary for boundary in boundaries}
    for port, output in zip(core.output_names, streams.outputs, strict=True):
        width = len(Value.cast(getattr(core, port).payload))
        boundary = of.get(output.tensor)
        if boundary is not None and width != boundary.width:
            raise ValueError(f"payload of {output.name} of the core must have the {boundary.width} bits of boundary "
                             f"'{boundary.name}', not {width}")


class Bench(wiring.Component):
    """Runs `core` from `go` to `done` on the clock `clk`; a core with a port `settled` waits for it before its frames.

    Monitor k watches probe k; behind them come the sinks of all outputs, then the sources of all inputs.  Stalls are
    numbered from the sources on, those of weights from outside last; links as those of the core.
    """

    def __init__(self, core: wiring.Component, streams: Streams):
        check_core(core, streams)
        self.core = core
        self.streams = streams
        super().__init__({"clk": In(1), "go": In(1), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.core = core = self.core
        control = {name: Signal(name=name) for name in ("rst", "load", "prime", "running", "finish")}
        cycle = Signal(64)
        common = {"i_clk": self.clk, "i_load": control["load"]}
        timed = {**common, "i_running": control["running"], "i_finish": control["finish"], "i_cycle": cycle}
        boundaries = self.streams.boundaries
        sinks, sources = len(boundaries), len(boundaries) + len(core.output_names)
        activity, complete = (Signal(sources + len(core.input_names), name=name) for name in ("activity", "complete"))
        m.d.comb += [ClockSignal().eq(self.clk), ResetSignal().eq(control["rst"])]
        m.submodules.control = Instance(
            "hwflow_control", p_WARM_UP=int(hasattr(core, "settled")), i_settled=getattr(core, "settled", Const(1)),
            i_clk=self.clk, i_go=self.go, i_activity=activity.any(), i_complete=complete.all(),
            o_cycle=cycle, o_done=self.done, **{f"o_{name}": signal for name, signal in control.items()})

        for k, (boundary, stage) in enumerate(zip(boundaries, self.streams.probed, strict=True)):
            m.submodules[f"monitor{k}"] = Instance(
                "hwflow_monitor", p_WIDTH=boundary.width, p_ID=k, i_valid=getattr(core, f"probe{k}_valid"),
                i_payload=Value.cast(getattr(core, f"probe{k}_data")), i_busy=getattr(core, f"busy{stage}"),
                i_stall=getattr(core, f"stall{stage}"), o_activity=activity[k], o_complete=complete[k], **timed)
        for k, name in enumerate(core.input_names):
            stream, number = getattr(core, name), sources + k
            payload = Value.cast(stream.payload)
            m.submodules[f"source{k}"] = Instance(
                "hwflow_source", p_WIDTH=len(payload), p_ID=number, p_INPUT=k,
                i_enable=control["prime"] | control["running"], i_stall=self.stall(m, k, common),
                i_ready=stream.ready, o_valid=stream.valid, o_payload=payload, o_activity=activity[number],
                o_complete=complete[number], **timed)
        for k, name in enumerate(core.output_names):
            stream, number = getattr(core, name), sinks + k
            payload = Value.cast(stream.payload)
            m.submodules[f"sink{k}"] = Instance(
                "hwflow_sink", p_WIDTH=len(payload), p_ID=number, i_valid=stream.valid, i_payload=payload,
                i_stall=self.stall(m, len(core.input_names) + k, common), o_ready=stream.ready,
                o_activity=activity[number], o_complete=complete[number], **timed)
        self.watch_links(m, timed)
        self.stall_weights(m, common)
        return m

    def watch_links(self, m: Module, timed: dict[str, Value]) -> None:
        """Record how full the queue of each link is."""
        for e in range(len(self.streams.edges)):
            m.submodules[f"link{e}"] = Instance(
                "hwflow_link", p_ID=e, i_full=getattr(self.core, f"full{e}"), i_empty=getattr(self.core, f"empty{e}"),
                i_level=Cat(getattr(self.core, f"level{e}"), Const(0, 32))[:32], **timed)

    def stall_weights(self, m: Module, common: dict[str, Value]) -> None:
        """Stalls for the streams of weights from outside of the core."""
        ends = len(self.core.input_names) + len(self.core.output_names)
        for n, name in enumerate(getattr(self.core, "weight_stalls", ())):
            m.d.comb += getattr(self.core, name).eq(self.stall(m, ends + n, common))

    def stall(self, m: Module, number: int, common: dict[str, Value]) -> Signal:
        stall = Signal(name=f"stall{number}")
        m.submodules[f"stall{number}"] = Instance("hwflow_stall", p_ID=number, o_stall=stall, **common)
        return stall
