"""The ways to a host that boards have, a kind in each file: pins of board files, gateware, and what a driver must know.

`KINDS` is the list.
"""

import copyreg
from collections.abc import Mapping

from .base import BoardTransport, Kind, Pin
from .spi import SPI
from .uart import UART
from .udp import UDP
from .usb import USB

__all__ = ["KINDS", "BoardTransport", "Kind", "Pin"]

#: All kinds by the names that board files use.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (UART, SPI, UDP, USB)}


def kind_named(name: str) -> Kind:
    return KINDS[name]


# There is one object of each name, in every process: pickle sends the name.
copyreg.pickle(Kind, lambda kind: (kind_named, (kind.name,)))
