"""The ports of simulated boards: their time is that of the simulation."""

from __future__ import annotations

import pytest
from hwflow_sim.board import LinePort, NetworkPort, RgmiiLine, UartLine
from hwflow_sim.board.process import LineFacts


class Silent:
    """A board that says nothing, and counts the cycles in which it was waited for."""

    def __init__(self, line: RgmiiLine | UartLine):
        self.line, self.facts = line, LineFacts()

    def wait(self, data: bytes, cycles: int) -> bytes:
        self.facts = LineFacts(self.facts.cycles + cycles)
        return b""


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 1e-9, 1e-5])
def test_time_goes_on_for_a_driver_that_waits_for_less_than_a_cycle(timeout: float) -> None:
    """A byte of Ethernet passes in a fifth of a cycle of an oscillator of 25 MHz; who waits would wait for ever."""
    network, serial = Silent(RgmiiLine(5.0)), Silent(UartLine(8.5))
    NetworkPort(network, "192.168.1.50", 17510).receive(timeout)
    LinePort(serial).read(timeout)
    assert network.facts.cycles == 1
    assert serial.facts.cycles == 85
