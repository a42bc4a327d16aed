"""The driver of a board that runs a model.

    import hwflow.host

    with hwflow.host.open("/dev/ttyUSB0") as board:
        scores = board.run(images)["scores"]
        for outputs in board.stream(camera()):
            ...

`run` and `stream` give the same results as the golden model, or raise an exception.  They never use bytes that the line
damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.later import lazy_names

if TYPE_CHECKING:
    from hwflow.host.open_board import OpenBoard, open
    from hwflow.host.ports.serial import PortInfo, found_ports
    from hwflow.host.session import Patience
    from hwflow.host.stream import Stream, Throughput
    from hwflow.host.wire import LinkFailed, Statistics

__all__ = ["LinkFailed", "OpenBoard", "Patience", "PortInfo", "Statistics", "Stream", "Throughput", "found_ports",
           "open"]

__getattr__, __dir__ = lazy_names(__name__, {
    "open_board": ("OpenBoard", "open"),
    "ports.serial": ("PortInfo", "found_ports"),
    "session": ("Patience",),
    "stream": ("Stream", "Throughput"),
    "wire": ("LinkFailed", "Statistics"),
})
