"""A program: frames of a width of TDATA and a number of beats through the two ends of the exported `NetworkDMA`.

    python frames_in_memory.py FOLDER BITS BEATS

FOLDER has hwflow_network.py.  Memory on a Wishbone bus, which answers after random cycles, and a stream with random
stalls are played by migen's own simulator.
"""

from __future__ import annotations

import random
import sys

from litex.soc.interconnect import wishbone
from migen import run_simulation
from migen.sim import passive

sys.path.insert(0, sys.argv[1])
from hwflow_network import FramesIn, FramesOut, frame_bytes, frame_words

FRAMES, BASE, CYCLES = 3, 0x100, 20_000


@passive
def memory(bus, words, dice):
    """Answers each access after some cycles."""
    while True:
        yield bus.ack.eq(0)
        yield
        if (yield bus.stb) and (yield bus.cyc):
            for _ in range(dice.randrange(3)):
                yield
            if (yield bus.stb):
                address = yield bus.adr
                if (yield bus.we):
                    words[address] = yield bus.dat_w
                else:
                    yield bus.dat_r.eq(words[address])
                yield bus.ack.eq(1)
                yield


def started(path, port):
    """Base and length, then the start."""
    yield path.dma.base.eq(4 * BASE)
    yield path.dma.length.eq(4 * frame_words(port) * FRAMES)
    yield path.dma.enable.eq(1)


def taken(path, port, came, dice):
    yield from started(path, port)
    for _ in range(CYCLES):
        yield path.source.ready.eq(dice.random() < 0.6)
        yield
        if (yield path.source.valid) and (yield path.source.ready):
            came.append(((yield path.source.data), (yield path.source.last)))
        if len(came) == FRAMES * port["beats"] and (yield path.dma.done):
            return


def given(path, port, beats, dice):
    yield from started(path, port)
    for data, last in beats:
        while dice.random() < 0.4:
            yield
        yield path.sink.data.eq(data)
        yield path.sink.last.eq(last)
        yield path.sink.valid.eq(1)
        yield
        while not (yield path.sink.ready):
            yield
        yield path.sink.valid.eq(0)
    for _ in range(CYCLES):
        if (yield path.dma.done):
            return
        yield
    raise TimeoutError("the writer is not done")


def main() -> None:
    bits, beats = map(int, sys.argv[2:4])
    port, dice, size = {"tdata_bits": bits, "beats": beats}, random.Random(1), bits // 8
    frames = [dice.randbytes(frame_bytes(port)) for _ in range(FRAMES)]
    stream = [(int.from_bytes(frame[k:k + size], "little"), int(k + size == len(frame)))
              for frame in frames for k in range(0, len(frame), size)]
    room = 4 * frame_words(port)
    data = b"".join(frame + dice.randbytes(room - len(frame)) for frame in frames)
    words = {BASE + k // 4: int.from_bytes(data[k:k + 4], "little") for k in range(0, len(data), 4)}

    bus, came = wishbone.Interface(data_width=32, address_width=32, addressing="word"), []
    path = FramesIn(bus, port)
    run_simulation(path, [taken(path, port, came, dice), memory(bus, words, dice)])
    assert came == stream

    bus, written = wishbone.Interface(data_width=32, address_width=32, addressing="word"), {}
    path = FramesOut(bus, port)
    run_simulation(path, [given(path, port, stream, dice), memory(bus, written, dice)])
    assert sorted(written) == sorted(words)
    image = b"".join(written[address].to_bytes(4, "little") for address in sorted(written))
    assert [image[k * room:k * room + len(frame)] for k, frame in enumerate(frames)] == frames


if __name__ == "__main__":
    main()
