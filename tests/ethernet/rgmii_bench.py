"""What runs inside of the simulation of a `Meter`: the RGMII PHY of cocotbext-eth at its pins."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import ClockCycles
from cocotb.utils import get_sim_time
from cocotbext.eth import GmiiFrame, RgmiiPhy
from hwflow_sim.board.network import Datagram, Host, arp, received_datagram

from tests.ethernet.echo import BOARD

HOST = Host()
RESET = bytes((1, 0, 0, 0, 0, 1, 2, 3, 4))
LARGEST, COUNT = 1472, 40
#: Cycles of a datagram of LARGEST bytes that are none of it, by IEEE 802.3: preamble, headers, FCS, gap.
LEAST = 66
#: The same of what we send.
OURS = 77


class Bench:
    def __init__(self, dut):
        self.dut = dut
        dut.sends.value = 0
        dut.reset.value = 1
        self.phy = RgmiiPhy(dut.udp_txd, dut.udp_tx_ctl, dut.udp_txc, dut.udp_rxd, dut.udp_rx_ctl, dut.udp_rxc)

    async def begin(self) -> None:
        await ClockCycles(self.dut.udp_rxc, 10)
        self.dut.reset.value = 0
        await self.send(Datagram(HOST, BOARD, RESET).frame())

    async def send(self, frame: bytes) -> None:
        await self.phy.rx.send(GmiiFrame.from_payload(frame))

    async def frame(self) -> bytes:
        """The next of the board, whose FCS must be right."""
        found = await self.phy.tx.recv()
        assert found.check_fcs()
        return bytes(found.get_payload())

    def rate(self, began: float, count: int) -> float:
        """Mbit/s of payload."""
        return count * LARGEST * 8e3 / (get_sim_time("ns") - began)


@cocotb.test()
async def the_mac_is_told(dut) -> None:
    bench = Bench(dut)
    await bench.begin()
    await bench.send(arp(1, HOST, BOARD))
    assert await bench.frame() == arp(2, BOARD, HOST, to=HOST.mac, asked=HOST.mac)


@cocotb.test()
async def all_that_the_line_carries_comes_in(dut) -> None:
    bench, source = Bench(dut), random.Random(1)
    await bench.begin()
    for _ in range(COUNT):
        await bench.send(Datagram(HOST, BOARD, b"\2" + source.randbytes(LARGEST - 1)).frame())
    while dut.packets.value.to_unsigned() < 2:
        await ClockCycles(dut.udp_rxc, 1)
    began = get_sim_time("ns")
    while dut.packets.value.to_unsigned() < COUNT + 1:
        await ClockCycles(dut.udp_rxc, 1)
    assert dut.octets.value.to_unsigned() == len(RESET) + COUNT * LARGEST
    assert dut.bad.value.to_unsigned() == 0
    rate = bench.rate(began, COUNT - 1)
    cocotb.log.info("payload in: %.1f Mbit/s", rate)
    assert round(rate, 2) == round(LARGEST / (LARGEST + LEAST) * 1000, 2)


@cocotb.test()
async def packets_go_out_while_others_come_in(dut) -> None:
    bench = Bench(dut)
    await bench.begin()
    for _ in range(COUNT):
        await bench.send(Datagram(HOST, BOARD, b"\2" + bytes(LARGEST - 1)).frame())
    await ClockCycles(dut.udp_rxc, 200)
    dut.sends.value = 1
    for k in range(COUNT):
        found = received_datagram(await bench.frame())
        assert found is not None
        assert (found.source, found.target) == (BOARD, HOST)
        assert found.payload == bytes(place & 0xFF for place in range(LARGEST))
        if k == 0:
            began = get_sim_time("ns")
    rate = bench.rate(began, COUNT - 1)
    cocotb.log.info("payload out: %.1f Mbit/s", rate)
    assert round(rate, 2) == round(LARGEST / (LARGEST + OURS) * 1000, 2)
    assert dut.packets.value.to_unsigned() >= COUNT
    assert dut.bad.value.to_unsigned() == 0
