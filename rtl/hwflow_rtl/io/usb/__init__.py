"""A USB device that is a serial port (CDC-ACM): descriptors, endpoints, and the device around LUNA's packet layer.

LUNA (the extra `usb`) is imported only by `luna_parts.py`, and that only when a device is made.
"""

from __future__ import annotations

from .device import SerialDevice
from .full_speed import SAMPLE_MHZ, FullSpeedPort
from .identity import FULL_SPEED_PACKET, HIGH_SPEED_PACKET, UsbIdentity
from .ulpi import ULPI_MHZ, UlpiPort

__all__ = ["FULL_SPEED_PACKET", "HIGH_SPEED_PACKET", "SAMPLE_MHZ", "ULPI_MHZ", "FullSpeedPort", "SerialDevice",
           "UlpiPort", "UsbIdentity"]
