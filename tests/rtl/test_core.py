import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, Link, inputs_of, port_names, submodule_names
from hwflow_rtl.emit import emit, emit_rtlil
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import lanes_of, link, payload_of, stream_of

from tests.rtl.harness import pack, run, simulate
from tests.rtl.toys import INT8, Sum, wrapped

CORE, STAGE = Endpoint.core, Endpoint.stage


class Increment(wiring.Component):
    """Adds a constant to every element, behind a queue."""

    def __init__(self, lanes: int, amount: int, shape=INT8):
        self.amount = amount
        super().__init__({"i": In(stream_of(shape, lanes)), "o": Out(stream_of(shape, lanes)), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=payload_of(self.i), depth=2)
        link(m, wiring.flipped(self.i), queue.i)
        m.d.comb += [self.o.valid.eq(queue.o.valid), queue.o.ready.eq(self.o.ready), self.busy.eq(queue.o.valid)]
        for lane in range(lanes_of(self.i)):
            m.d.comb += self.o.payload[lane].eq(queue.o.payload[lane] + self.amount)
        return m


def chain(stages: list, lanes: int = 2) -> Core:
    """Stages one behind the other, from the input to the output."""
    links = [Link(STAGE(k - 1) if k else CORE(0), STAGE(k)) for k in range(len(stages))]
    return Core(stages=stages, inputs=[stream_of(INT8, lanes)], links=[*links, Link(STAGE(len(stages) - 1), CORE(0))])


def make_core() -> Core:
    return chain([("first", Increment(2, 1)), ("/layer2/Conv:0", Increment(2, 2)), ("last", Increment(3, 4))])


@pytest.mark.parametrize("stall_in, stall_out", [(0, 0), (0.5, 0.5), (0.9, 0), (0, 0.9)])
def test_core_joins_stages_and_shows_every_boundary(stall_in, stall_out):
    core, frame = make_core(), np.random.default_rng(1).integers(-128, 128, 60)
    seen = [[], [], []]
    stalls = busy = 0

    async def watch(ctx):
        nonlocal stalls, busy
        ports = [(getattr(core, f"probe{k}_valid"), getattr(core, f"probe{k}_data"), getattr(core, f"stall{k}"),
                  getattr(core, f"busy{k}")) for k in range(3)]
        flat = [port for group in ports for port in group]
        while len(seen[2]) < 20:
            _, _, *values = await ctx.tick().sample(*flat)
            for k in range(3):
                valid, word, stall, works = values[4 * k:4 * k + 4]
                assert not (valid and stall)
                stalls += stall
                busy += works
                if valid:
                    seen[k].append(word)

    traces = simulate(core, sends={"i": frame.reshape(-1, 2)}, receives={"o": 20}, stall_in=stall_in,
                      stall_out=stall_out, testbenches=[watch])
    assert np.array_equal(traces["o"].beats.reshape(-1), wrapped(frame + 7))
    for k, (lanes, amount) in enumerate([(2, 1), (2, 3), (3, 7)]):
        beats = wrapped(frame + amount).reshape(-1, lanes)
        assert seen[k] == [pack(beat, signed(8)) for beat in beats]
    assert busy >= 80
    assert (stalls > 0) == (stall_out > 0)


def test_core_refuses_other_elements():
    with pytest.raises(wiring.ConnectionError, match=re.escape(
            "input elements of stage 'b' must be of the shape that stage 'a' gives, signed(8), not unsigned(8)")):
        chain([("a", Increment(2, 1)), ("b", Increment(2, 1, unsigned(8)))])


def test_core_refuses_no_stages():
    with pytest.raises(ValueError, match="stages of a Core must be at least one"):
        chain([])


def make_graph(depth: int = 4) -> Core:
    """Two inputs, two outputs: a = x + 1; b = a + 2 with other lanes; o0 = b + y; o1 = a, and x itself is o2."""
    stages = [("a", Increment(2, 1)), ("b", Increment(4, 2)), ("sum", Sum(4))]
    links = [Link(CORE(0), STAGE(0)), Link(STAGE(0), STAGE(1), depth=depth), Link(STAGE(1), STAGE(2), 0),
             Link(CORE(1), STAGE(2), 1, depth), Link(STAGE(2), CORE(0)), Link(STAGE(0), CORE(1)),
             Link(CORE(0), CORE(2), depth=2)]
    return Core(stages=stages, inputs=[stream_of(INT8, 2), stream_of(INT8, 4)], links=links)


@pytest.mark.quick(4)
@pytest.mark.parametrize("stall_in, stall_out", [(0, 0), (0.5, 0.5), (0.9, 0), (0, 0.9)])
@pytest.mark.parametrize("depth", [1, 4, 9])
def test_core_of_branches(depth, stall_in, stall_out):
    x, y = np.random.default_rng(2).integers(-128, 128, (2, 40))
    traces = simulate(make_graph(depth), sends={"i0": x.reshape(-1, 2), "i1": y.reshape(-1, 4)},
                      receives={"o0": 10, "o1": 20, "o2": 20}, stall_in=stall_in, stall_out=stall_out)
    for name, expected in (("o0", x + 3 + y), ("o1", x + 1), ("o2", x)):
        assert np.array_equal(traces[name].beats.reshape(-1), wrapped(expected)), name


def test_core_says_which_link_is_full_and_which_is_empty():
    """Input 1 never comes: all that leads to the sum fills up, and output 0 stays empty."""
    core, seen = make_graph(4), {}

    async def testbench(ctx):
        ctx.set(core.i0.valid, 1)
        for name in ("o0", "o1", "o2"):
            ctx.set(getattr(core, name).ready, 1)
        ports = {f"{name}{e}": getattr(core, f"{name}{e}") for e in range(7) for name in ("full", "empty", "level")}
        for cycle in range(60):
            _, _, *values = await ctx.tick().sample(*ports.values())
            seen[cycle] = dict(zip(ports, values, strict=True))

    run(core, testbench)
    last = seen[59]
    assert seen[50] == last, "everything stands still"
    # a fills its queue to b, then nothing gets into the fork behind a any more; the other reader runs empty.
    assert [last[f"full{e}"] for e in range(7)] == [1, 1, 1, 0, 0, 0, 0]
    assert [last[f"empty{e}"] for e in range(7)] == [0, 0, 0, 1, 1, 1, 1]
    assert [last[f"level{e}"] for e in range(7)] == [2, 4, 0, 0, 0, 0, 0]
    assert max(values["level1"] for values in seen.values()) == core.capacity(1) == 4
    assert [core.capacity(e) for e in range(7)] == [2, 4, 0, 4, 0, 2, 2]


def refused(links: list[Link], message: str, **options) -> None:
    stages = options.get("stages", [("a", Increment(2, 1)), ("b", Sum(2))])
    with pytest.raises(ValueError, match=re.escape(message)):
        Core(stages=stages, inputs=[stream_of(INT8, 2)], links=links)


def test_core_refuses_links_that_do_not_fit():
    right = [Link(CORE(0), STAGE(0)), Link(STAGE(0), STAGE(1), 0), Link(CORE(0), STAGE(1), 1), Link(STAGE(1), CORE(0))]
    Core(stages=[("a", Increment(2, 1)), ("b", Sum(2))], inputs=[stream_of(INT8, 2)], links=right)
    refused(right[:2] + right[3:], "links of a Core must feed each of")
    refused([*right, Link(STAGE(0), STAGE(1), 1)], "links of a Core must feed each of")
    refused([Link(STAGE(1), STAGE(0)), *right[1:]], "must be an input or a state of the Core, or an earlier stage")
    refused([*right[:3], Link(STAGE(0), CORE(0))], "sources of a Core must each have a reader; stage 'b' has none")
    refused([Link(CORE(1), STAGE(0)), *right[1:]], "must be an input or a state of the Core, or an earlier stage")


def test_names_of_ports():
    assert port_names("i", 1) == ["i"]
    assert port_names("o", 3) == ["o0", "o1", "o2"]
    assert len(inputs_of(Sum(2))) == 2
    assert len(inputs_of(Increment(2, 1))) == 1


def test_submodule_names_are_safe_and_unique():
    assert submodule_names(["conv", "1_conv", "/a/b.c:0", "", "Größe"]) == [
        "stage0_conv", "stage1_conv", "stage2_a_b_c_0", "stage3", "stage4_Gr__e"]


def test_verilog_is_deterministic_and_names_no_path():
    first, second = emit(make_core(), name="core"), emit(make_core(), name="core")
    assert first == second
    assert "stage1_layer2_Conv_0" in first
    assert str(Path(__file__).parent) not in first
    assert ".py" not in first
    ports = set(re.search(r"module core\(([^)]*)\)", first).group(1).replace(" ", "").split(","))
    assert {"clk", "rst", "i__valid", "i__ready", "i__payload", "o__valid", "o__ready", "o__payload", "probe0_valid",
            "probe2_data", "stall1", "busy2"} <= ports
    assert re.search(r"\[23:0\] o__payload", first)


def test_rtlil_is_deterministic_and_names_no_path():
    first, second = emit_rtlil(make_core(), name="core"), emit_rtlil(make_core(), name="core")
    assert first == second
    assert "\\src" not in first
    assert ".py" not in first


def test_probe_is_as_wide_as_the_payload():
    core = make_core()
    assert [len(Value.cast(getattr(core, f"probe{k}_data"))) for k in range(3)] == [16, 16, 24]
    assert isinstance(core.probe0_valid, Signal)
