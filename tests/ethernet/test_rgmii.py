"""The transport `udp` at the RGMII PHY of cocotbext-eth: what it says and how much it carries."""

from __future__ import annotations

import pytest

from tests.ethernet.meter import compile_meter
from tests.sim.open_bench import OpenSimulation

pytestmark = pytest.mark.slow  # Verilator and a compiler


@pytest.fixture(scope="module")
def meter(tmp_path_factory: pytest.TempPathFactory) -> OpenSimulation:
    return compile_meter(tmp_path_factory.mktemp("meter"))


@pytest.mark.parametrize("test", [
    "the_mac_is_told", "all_that_the_line_carries_comes_in", "packets_go_out_while_others_come_in"])
def test_at_the_pins(meter: OpenSimulation, test: str) -> None:
    meter.run(test)
