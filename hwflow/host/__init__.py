"""The host's side of a model on a board.

    import hwflow.host

    with hwflow.host.open("/dev/ttyUSB0") as board:
        scores = board.run(images)["scores"]

What `run` gives is what the golden model gives, or an exception: nothing that the line damaged is ever used.
"""

from hwflow.host.open_board import OpenBoard
from hwflow.host.open_board import open_board as open
from hwflow.host.pace import Patience
from hwflow.host.port import PortInfo, found_ports
from hwflow.host.wire import LinkFailed, Statistics

__all__ = ["LinkFailed", "OpenBoard", "Patience", "PortInfo", "Statistics", "found_ports", "open"]
