"""The driver of a board that runs a model.

    import hwflow.host

    with hwflow.host.open("/dev/ttyUSB0") as board:
        scores = board.run(images)["scores"]
        for outputs in board.stream(camera()):
            ...

`run` and `stream` give the same results as the golden model, or raise an exception.  They never use bytes that the line
damaged.
"""

from hwflow.host.open_board import OpenBoard
from hwflow.host.open_board import open_board as open
from hwflow.host.pace import Patience
from hwflow.host.ports.serial import PortInfo, found_ports
from hwflow.host.stream import Stream, Throughput
from hwflow.host.wire import LinkFailed, Statistics

__all__ = ["LinkFailed", "OpenBoard", "Patience", "PortInfo", "Statistics", "Stream", "Throughput", "found_ports",
           "open"]
