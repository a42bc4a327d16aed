import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, submodule_names
from hwflow_rtl.emit import emit, emit_rtlil
from hwflow_rtl.streams import Queue, lanes_of, link, payload_of, stream_of

from tests.rtl.harness import pack, simulate

INT8 = signed(8)


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


def make_core() -> Core:
    return Core(stages=[("first", Increment(2, 1)), ("/layer2/Conv:0", Increment(2, 2)), ("last", Increment(3, 4))])


def wrapped(values: np.ndarray) -> np.ndarray:
    return (values + 128) % 256 - 128


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
        Core(stages=[("a", Increment(2, 1)), ("b", Increment(2, 1, unsigned(8)))])


def test_core_refuses_no_stages():
    with pytest.raises(ValueError, match="stages of a Core must be at least one"):
        Core(stages=[])


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
