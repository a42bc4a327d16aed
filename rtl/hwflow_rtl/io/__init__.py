"""What connects a core to the pins of a board."""

from .board_top import BoardTop
from .uart import UartReceiver, UartTransmitter

__all__ = ["BoardTop", "UartReceiver", "UartTransmitter"]
