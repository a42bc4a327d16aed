"""The hardware between a core and the pins of a board: clocks, serial line, host link, AXI4-Stream ports."""

from .axi_stream import AxiStreamTop
from .board_top import BoardTop
from .clocking import Clocking
from .frame_bytes import End, Ends
from .link.host_link import HostLink
from .transports.uart import UartReceiver, UartTransmitter

__all__ = ["AxiStreamTop", "BoardTop", "Clocking", "End", "Ends", "HostLink", "UartReceiver", "UartTransmitter"]
