"""Ethernet, ARP, IPv4 and UDP of the transport `udp`: its checks, and a conversation with it byte by byte."""

from __future__ import annotations

import random
import zlib

from amaranth.hdl import Module, Signal
from hwflow_rtl.io.ethernet.endpoint import UdpEndpoint
from hwflow_rtl.io.ethernet.headers import Address, InternetSum, crc_after
from hwflow_rtl.io.ethernet.sender import LARGEST, OVERHEAD
from hwflow_rtl.vendor import Generic
from hwflow_sim.board.network import Datagram, Host, arp, internet_sum, on_line, received, received_datagram

from tests.rtl.harness import run

ADDRESS = Address("192.168.1.50", 17510)
BOARD = Host(ADDRESS.mac, ADDRESS.ip, ADDRESS.port)
HOST, OTHER = Host(), Host(port=40001)
RESET = bytes((1, 0, 0, 0, 0, 1, 2, 3, 4))


def test_crc_of_a_byte_at_a_time() -> None:
    m, crc, byte = Module(), Signal(32, init=0xFFFFFFFF), Signal(8)
    m.d.sync += crc.eq(crc_after(crc, byte))
    data = random.Random(1).randbytes(40)

    async def bench(ctx):
        for k, each in enumerate(data):
            ctx.set(byte, each)
            await ctx.tick()
            assert ctx.get(crc) ^ 0xFFFFFFFF == zlib.crc32(data[:k + 1])

    run(m, bench)


def test_internet_sum() -> None:
    """Of any bytes, of an odd number, and with the sums in which a carry makes a carry."""
    dut, source = InternetSum(), random.Random(2)
    cases = [source.randbytes(n) for n in (2, 3, 20, 21)]
    cases += [b"\xff" * 20, b"\xff\xfe\0\1", b"\0\0", b"\xff\xff\0\1\xff\xff"]

    async def bench(ctx):
        for case in cases:
            check = internet_sum(case).to_bytes(2, "big")
            # A checksum goes to an even place.
            for data, good in ((case + bytes(len(case) % 2) + check, 1),
                               (case + bytes(len(case) % 2) + bytes((check[0] ^ 1, check[1])), 0)):
                ctx.set(dut.load, 1)
                await ctx.tick()
                ctx.set(dut.load, 0)
                for byte in data:
                    ctx.set(dut.add, 1)
                    ctx.set(dut.byte, byte)
                    await ctx.tick()
                assert ctx.get(dut.good) == good, data.hex()
                assert InternetSum.model(case) == 0xFFFF - internet_sum(case)

    run(dut, bench)


class Talk:
    """Frames to an endpoint and from it, packets that it gives and that it is given."""

    def __init__(self) -> None:
        self.dut = UdpEndpoint(address=ADDRESS, technology=Generic())
        self.frames: list[bytes] = []
        self.packets: list[tuple[bytes, int]] = []
        self.begins: list[int] = []

    async def send(self, ctx, frame: bytes, gap: int = 12) -> None:
        for byte in on_line(frame):
            ctx.set(self.dut.rx_data, byte)
            ctx.set(self.dut.rx_valid, 1)
            await ctx.tick()
        ctx.set(self.dut.rx_valid, 0)
        await ctx.tick().repeat(gap)

    async def give(self, ctx, packet: bytes, bad: int = 0) -> None:
        for byte in [*packet, None]:
            ctx.set(self.dut.i.payload, {"byte": byte or 0, "flag": byte is None, "bad": bad})
            ctx.set(self.dut.i.valid, 1)
            await ctx.tick().until(self.dut.i.ready)
        ctx.set(self.dut.i.valid, 0)

    async def listen(self, ctx) -> None:
        ctx.set(self.dut.o.ready, 1)
        packet, frame, cycle = b"", b"", 0
        async for _, _, valid, token, enable, data in ctx.tick().sample(
                self.dut.o.valid, self.dut.o.payload, self.dut.tx_enable, self.dut.tx_data):
            cycle += 1
            if valid and token.flag:
                self.packets.append((packet, token.bad))
                packet = b""
            elif valid:
                packet += bytes([token.byte])
            if enable:
                self.begins += [] if frame else [cycle]
                frame += bytes([data])
            elif frame:
                whole = received(frame)
                assert whole is not None, frame.hex()
                self.frames.append(whole)
                frame = b""

    def datagrams(self) -> list[Datagram]:
        """The frames, all of which must be datagrams."""
        found = [each for each in map(received_datagram, self.frames) if each]
        assert len(found) == len(self.frames)
        return found

    def run(self, bench) -> None:
        run(self.dut, bench, watchers=[self.listen])


def test_who_asks_for_the_mac_is_answered() -> None:
    talk = Talk()

    async def bench(ctx):
        await talk.send(ctx, arp(1, HOST, BOARD), 150)
        await talk.send(ctx, arp(1, HOST, Host(ip="192.168.1.51")), 150)
        await talk.send(ctx, arp(2, HOST, BOARD, to=BOARD.mac), 150)
        await talk.send(ctx, arp(1, OTHER, BOARD, to=BOARD.mac), 150)

    talk.run(bench)
    assert talk.frames == [arp(2, BOARD, host, to=host.mac, asked=host.mac) for host in (HOST, OTHER)]


def test_packets_of_the_session_alone() -> None:
    """Everybody is heard before the first RESET; then its sender is, until another one comes."""
    talk, heard = Talk(), []

    async def bench(ctx):
        for host, packet, counts in (
                (HOST, b"\3before", True), (OTHER, b"\3also", True), (HOST, RESET, True), (OTHER, b"\2foreign", False),
                (HOST, b"\2data", True), (HOST, b"\1no RESET", True), (OTHER, b"\1longer than a RESET", False),
                (OTHER, b"\4" + RESET[1:], True), (HOST, b"\2late", False), (OTHER, b"\2mine", True)):
            await talk.send(ctx, Datagram(host, BOARD, packet).frame())
            heard.extend([(packet, 0)] if counts else [])
        await talk.give(ctx, b"answer")
        await ctx.tick().repeat(150)

    talk.run(bench)
    assert talk.packets == heard
    assert [(found.target, found.payload) for found in talk.datagrams()] == [(OTHER, b"answer")]


def test_what_only_the_end_tells_makes_a_packet_bad() -> None:
    talk = Talk()
    packet = bytes(range(100))

    async def bench(ctx):
        await talk.send(ctx, Datagram(HOST, BOARD, packet, udp_sum=0).frame())
        await talk.send(ctx, Datagram(HOST, BOARD, packet, udp_sum=1).frame())
        await talk.send(ctx, Datagram(HOST, BOARD, packet).frame()[:-1])
        await talk.send(ctx, Datagram(HOST, BOARD, packet).frame()[:-5])

    talk.run(bench)
    assert [bad for _, bad in talk.packets] == [0, 1, 1, 1]
    assert talk.packets[0] == (packet, 0)


def test_packets_go_back_to_back() -> None:
    """Those that are empty, bad or too long are dropped; between two of the largest there are OVERHEAD cycles."""
    talk = Talk()
    packets = [random.Random(3).randbytes(LARGEST), bytes(LARGEST), b"x", bytes(17), bytes(18), bytes(19)]

    async def bench(ctx):
        await talk.send(ctx, Datagram(HOST, BOARD, RESET).frame())
        await talk.give(ctx, b"")
        await talk.give(ctx, b"bad", bad=1)
        await talk.give(ctx, bytes(LARGEST + 1))
        for packet in packets:
            await talk.give(ctx, packet)
        await ctx.tick().repeat(2500)

    talk.run(bench)
    assert [found.payload for found in talk.datagrams()] == packets
    assert talk.begins[1] - talk.begins[0] == LARGEST + OVERHEAD
