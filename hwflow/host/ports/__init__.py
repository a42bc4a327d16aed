"""The ports of this machine behind which a board may be, a kind in each file.

A name says which: `/dev/ttyUSB0` or `socket://host:port` is a serial line; others begin with their kind, as in `spi:`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwflow.host.wire import BytePort, Line

__all__ = ["OTHER_PORTS", "is_serial", "open_port"]

def _spi(name: str) -> BytePort:
    from hwflow.host.ports.spi import open_spi

    return open_spi(name)


def _udp(name: str) -> Line:
    from hwflow.host.ports.udp import open_udp

    return open_udp(name)


def _usb(name: str) -> BytePort:
    from hwflow.host.ports.serial import open_usb

    return open_usb(name)


#: What opens the ports that are no serial lines, by the first part of their names, up to the colon.
OTHER_PORTS: Mapping[str, Callable[[str], BytePort | Line]] = {"spi": _spi, "udp": _udp, "usb": _usb}


def is_serial(name: str) -> bool:
    """Whether a port of this name is a serial line, which has a bit rate."""
    return name.partition(":")[0] not in OTHER_PORTS


def open_port(name: str, baud: int) -> BytePort | Line:
    """The port `name`, a serial line at `baud` bits a second.  LinkFailed where that does not go."""
    if is_serial(name):
        from hwflow.host.ports.serial import SerialPort

        return SerialPort(name, baud)
    return OTHER_PORTS[name.partition(":")[0]](name)
