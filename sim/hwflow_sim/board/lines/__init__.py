"""The lines to the host that a simulated board may have: a header in C++ for each, and how fast it is."""

from .base import Line
from .rgmii import RgmiiLine
from .spi import SpiLine
from .uart import UartLine
from .usb import UlpiLine, UsbLine

__all__ = ["Line", "RgmiiLine", "SpiLine", "UartLine", "UlpiLine", "UsbLine"]
