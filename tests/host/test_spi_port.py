"""The host's half of SPI: the driver over a bus that stands for spidev, on the RTL of a board; and names of ports."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from hwflow_rtl.io.transports import Spi
from hwflow_sim.board import CompiledBoard, SimulatedBoard, SpiLine

from hwflow.host import LinkFailed, Patience
from hwflow.host.host_link import HostLink
from hwflow.host.ports import is_serial, open_port
from hwflow.host.ports.spi import SpiPort
from tests.host.digest_core import IDENTITY, digest_board, digests, frames

BYTES_IN, BYTES_OUT = 900, 40
#: Of the clock on the wall, which a simulation is slow against.
PATIENCE = Patience(silence=20.0, stall=60.0)


class Bus:
    """What `spidev.SpiDev` is, with a simulated board at its pins."""

    def __init__(self, board: SimulatedBoard) -> None:
        self.board, self.closed, self.sizes = board, False, []

    def xfer3(self, data: Sequence[int]) -> list[int]:
        self.sizes.append(len(data))
        return list(self.board.exchange(bytes(data), len(data)))

    def close(self) -> None:
        self.closed = True


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    return digest_board(Spi(), tmp_path_factory.mktemp("spi"), cache, BYTES_IN, BYTES_OUT, line=SpiLine)


@pytest.fixture
def bus(compiled: CompiledBoard) -> Iterator[Bus]:
    with SimulatedBoard(compiled, line=SpiLine(4, asks=False)) as board:
        board.wait(b"", 10_000)
        yield Bus(board)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 2e-5])
def test_the_driver_over_a_bus(bus: Bus, rate: float) -> None:
    link = HostLink(SpiPort("spi:test", bus), patience=PATIENCE, seed=1)
    assert link.reset().design == IDENTITY
    bus.board.inject(rate, 7)
    data = frames(60, BYTES_IN)
    assert link.exchange(data) == digests(data, BYTES_IN, BYTES_OUT)
    assert (link.statistics.losses > 0) == (rate > 0)
    assert max(bus.sizes) <= 4096
    link.close()
    link.close()
    assert bus.closed


def test_a_bus_without_a_board_is_asked_until_the_time_is_up() -> None:
    class Nothing(Bus):
        def __init__(self) -> None:
            self.transfers = 0

        def xfer3(self, data: Sequence[int]) -> list[int]:
            self.transfers += 1
            return [0x7E] * len(data)

    bus = Nothing()
    began = time.monotonic()
    assert SpiPort("spi:test", bus).read(0.05) == b""
    assert 0.05 <= time.monotonic() - began < 1
    assert bus.transfers > 3


@pytest.mark.parametrize("name", ["spi:", "spi:/dev/spidev0", "spi:/dev/spidev0.0@", "spi:/dev/spidev0.0@fast",
                                  "spi:/dev/ttyUSB0"])
def test_other_names_are_refused(name: str) -> None:
    assert not is_serial(name)
    with pytest.raises(LinkFailed, match=r"must be spi:/dev/spidevB\.C, perhaps with @HZ behind it"):
        open_port(name, 0)


def test_without_the_package_and_without_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spidev", None)
    with pytest.raises(LinkFailed, match=r"needs the package spidev; install it: pip install 'hwflow\[spi\]'"):
        open_port("spi:/dev/spidev0.0", 0)

    class Device:
        def open(self, bus: int, device: int) -> None:
            raise PermissionError(13, "Permission denied")

        def close(self) -> None:
            pass

    stand_in = ModuleType("spidev")
    stand_in.SpiDev = Device
    monkeypatch.setitem(sys.modules, "spidev", stand_in)
    with pytest.raises(LinkFailed, match=r"must be an SPI bus that is open to you \(Permission denied\); switch"):
        open_port("spi:/dev/spidev0.1@1000000", 0)
