"""The core: stages in a chain, a stream in, a stream out, and probes that let a simulation see every boundary."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .streams import Gearbox, lanes_of, link, payload_of

__all__ = ["Core", "submodule_names"]


class Core(wiring.Component):
    """A chain of stages, each a component with the streams `i` and `o` and the output `busy`.

    Where a stage gives other lanes than the next one takes, a `Gearbox` stands between them.

    Parameters
    ----------
    stages
        Pairs of a name and a stage, first to last.

    Ports
    -----
    i, o
        The input of the first stage, the output of the last.
    probe{k}_valid, probe{k}_data
        A beat leaves stage k in this cycle; its payload as bits, lane 0 lowest.  The gearbox comes behind the probe.
    stall{k}
        Stage k offers a beat which the next does not take.
    busy{k}
        Stage k computes.
    """

    def __init__(self, *, stages: Sequence[tuple[str, wiring.Component]]):
        if not stages:
            raise ValueError("stages of a Core must be at least one, not none")
        self.stages = tuple(stages)
        for (first, source), (second, sink) in zip(self.stages, self.stages[1:], strict=False):
            ours, theirs = payload_of(source.o).elem_shape, payload_of(sink.i).elem_shape
            if ours != theirs:
                raise wiring.ConnectionError(
                    f"input elements of stage '{second}' must be of the shape that stage '{first}' gives, {ours!r}, "
                    f"not {theirs!r}")
        members = {"i": In(self.stages[0][1].i.signature.flip()), "o": Out(self.stages[-1][1].o.signature)}
        for k, (_, stage) in enumerate(self.stages):
            members |= {
                f"probe{k}_valid": Out(1), f"probe{k}_data": Out(len(Value.cast(stage.o.payload))),
                f"stall{k}": Out(1), f"busy{k}": Out(1),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        names = submodule_names([name for name, _ in self.stages])
        source, source_name = wiring.flipped(self.i), "i"
        for k, (name, (_, stage)) in enumerate(zip(names, self.stages, strict=True)):
            m.submodules[name] = stage
            if lanes_of(source) != lanes_of(stage.i):
                m.submodules[f"gearbox{k}"] = gearbox = Gearbox(
                    shape=payload_of(stage.i).elem_shape, lanes_in=lanes_of(source), lanes_out=lanes_of(stage.i))
                link(m, source, gearbox.i, names=(source_name, f"gearbox{k}.i"))
                source, source_name = gearbox.o, f"gearbox{k}.o"
            link(m, source, stage.i, names=(source_name, f"{name}.i"))
            source, source_name = stage.o, f"{name}.o"
            m.d.comb += [
                getattr(self, f"probe{k}_valid").eq(stage.o.valid & stage.o.ready),
                getattr(self, f"probe{k}_data").eq(Value.cast(stage.o.payload)),
                getattr(self, f"stall{k}").eq(stage.o.valid & ~stage.o.ready),
                getattr(self, f"busy{k}").eq(stage.busy),
            ]
        link(m, source, wiring.flipped(self.o), names=(source_name, "o"))
        return m


def submodule_names(names: Sequence[str]) -> list[str]:
    """`stage{k}_{name}`, with letters, digits and underscores alone; a name that begins with its position has it once.

    The position makes them unique.
    """
    result = []
    for k, name in enumerate(names):
        clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_").removeprefix(f"{k}_")
        result.append(f"stage{k}_{clean}".rstrip("_"))
    return result
