"""What connects a core to the pins of a board."""

from .board_top import BoardTop, End, Ends
from .uart import UartReceiver, UartTransmitter

__all__ = ["BoardTop", "End", "Ends", "UartReceiver", "UartTransmitter"]
