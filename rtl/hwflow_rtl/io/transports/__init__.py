"""The ways from a host to a design on a board, a kind in each file."""

from .base import Transport
from .spi import Spi
from .uart import Uart
from .udp import Udp
from .usb import FullSpeedUsb, UlpiUsb

__all__ = ["FullSpeedUsb", "Spi", "Transport", "Uart", "Udp", "UlpiUsb"]
