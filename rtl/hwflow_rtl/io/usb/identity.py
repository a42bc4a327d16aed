"""Descriptors: a board says with them what it is on the USB, as the bytes that a host reads.

Layouts: USB 2.0, chapter 9.6; "Class Definitions for Communications Devices" 1.2, chapter 5, and its subclass
specification for PSTN devices 1.2, chapter 5.3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: Bytes of a bulk packet, at most: USB 2.0, 5.8.3.
FULL_SPEED_PACKET, HIGH_SPEED_PACKET = 64, 512
#: Of the control endpoint.
CONTROL_PACKET = 64
#: Numbers of the endpoints: the data go both ways, and notifications, of which there are none, to the host.
DATA_ENDPOINT, NOTIFICATION_ENDPOINT = 1, 2
NOTIFICATION_PACKET = 8
IN = 0x80
BULK, INTERRUPT = 2, 3

DEVICE, CONFIGURATION, STRING, INTERFACE, ENDPOINT, QUALIFIER, OTHER_SPEED, ASSOCIATION, CLASS_INTERFACE = (
    1, 2, 3, 4, 5, 6, 7, 11, 0x24)
USB_2_0 = 0x0200
#: Class, subclass and protocol: of a device whose interfaces belong together, of a modem's two interfaces.
MISCELLANEOUS, ACM, CDC_DATA = (0xEF, 2, 1), (2, 2, 1), (0x0A, 0, 0)
ENGLISH = 0x0409
#: Only what every device has: it takes its power from the bus, as the board does.
ATTRIBUTES, TWO_MILLIAMPERES = 0x80, 250
#: Rates of the notification endpoint: 2 ** (n - 1) microframes at high speed, and milliseconds.
HIGH_SPEED_INTERVAL, FULL_SPEED_INTERVAL = 9, 32


@dataclass(frozen=True, kw_only=True)
class UsbIdentity:
    """How a host finds and names the device.

    Attributes
    ----------
    vendor, product
        The numbers of the device.
    serial, manufacturer, name
        Texts; the host opens the device by `serial`.
    """

    vendor: int
    product: int
    serial: str
    manufacturer: str = "hwflow"
    name: str = "hwflow"

    #: Characters of a text: its descriptor has a byte for its length in bytes.
    MOST_CHARACTERS = 126

    def __post_init__(self) -> None:
        for name in ("vendor", "product"):
            if not 0 <= getattr(self, name) <= 0xFFFF:
                raise ValueError(f"{name} must be from 0 to 65535, not {getattr(self, name)}")
        for name in ("serial", "manufacturer", "name"):
            text = getattr(self, name)
            if not (1 <= len(text) <= self.MOST_CHARACTERS and text.isascii() and text.isprintable()):
                raise ValueError(f"{name} must be 1 to {self.MOST_CHARACTERS} printable ASCII characters, not {text!r}")

    def descriptors(self, *, high_speed: bool) -> dict[tuple[int, int], bytes]:
        """All of them by (type, index).  A device with high speed says what it would be at the other speed."""
        texts = (self.manufacturer, self.name, self.serial)
        known = {(DEVICE, 0): self.device(), (CONFIGURATION, 0): configuration(CONFIGURATION, high_speed=high_speed),
                 (STRING, 0): struct.pack("<BBH", 4, STRING, ENGLISH),
                 **{(STRING, 1 + k): string(text) for k, text in enumerate(texts)}}
        if high_speed:
            known |= {(QUALIFIER, 0): struct.pack("<BBH3BBBB", 10, QUALIFIER, USB_2_0, *MISCELLANEOUS, CONTROL_PACKET,
                                                  1, 0),
                      (OTHER_SPEED, 0): configuration(OTHER_SPEED, high_speed=False)}
        return known

    def device(self) -> bytes:
        return struct.pack("<BBH3BBHHHBBBB", 18, DEVICE, USB_2_0, *MISCELLANEOUS, CONTROL_PACKET, self.vendor,
                           self.product, 0x0100, 1, 2, 3, 1)


def string(text: str) -> bytes:
    octets = text.encode("utf-16-le")
    return struct.pack("<BB", 2 + len(octets), STRING) + octets


def configuration(kind: int, *, high_speed: bool) -> bytes:
    """The configuration with its interfaces: one for the control of a modem, which takes what a host sends there, and
    one for the data."""
    packet = HIGH_SPEED_PACKET if high_speed else FULL_SPEED_PACKET
    interval = HIGH_SPEED_INTERVAL if high_speed else FULL_SPEED_INTERVAL
    parts = [
        struct.pack("<4B3BB", 8, ASSOCIATION, 0, 2, *ACM, 0),
        struct.pack("<5B3BB", 9, INTERFACE, 0, 0, 1, *ACM, 0),
        # CDC 1.20; no call management; the device knows the requests of a line; interface 1 belongs to interface 0.
        bytes((5, CLASS_INTERFACE, 0x00, 0x20, 0x01)), bytes((5, CLASS_INTERFACE, 0x01, 0x00, 1)),
        bytes((4, CLASS_INTERFACE, 0x02, 0x02)), bytes((5, CLASS_INTERFACE, 0x06, 0, 1)),
        endpoint(IN | NOTIFICATION_ENDPOINT, INTERRUPT, NOTIFICATION_PACKET, interval),
        struct.pack("<5B3BB", 9, INTERFACE, 1, 0, 2, *CDC_DATA, 0),
        endpoint(DATA_ENDPOINT, BULK, packet, 0), endpoint(IN | DATA_ENDPOINT, BULK, packet, 0)]
    body = b"".join(parts)
    return struct.pack("<BBHBBBBB", 9, kind, 9 + len(body), 2, 1, 0, ATTRIBUTES, TWO_MILLIAMPERES) + body


def endpoint(address: int, kind: int, packet: int, interval: int) -> bytes:
    return struct.pack("<BBBBHB", 7, ENDPOINT, address, kind, packet, interval)
