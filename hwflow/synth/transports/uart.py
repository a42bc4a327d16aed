"""The serial line of a board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwflow_rtl.io.transports import Uart
from hwflow_rtl.io.uart import divider_for

from .base import Kind, Place

__all__ = ["UART"]

#: Bits of a byte on the line: a start bit, eight of data, a stop bit.
BITS_OF_A_BYTE = 10


def gateware(entry: Mapping[str, Any], place: Place) -> Uart:
    return Uart(divider=divider_for(place.clock_mhz * 1e6, entry["baud"]))


UART = Kind(
    name="uart", title=lambda entry: f"the serial line ({entry['baud']} baud)",
    schema={
        "type": "object", "additionalProperties": False, "required": ["rx", "tx", "baud"],
        "properties": {"rx": {"$ref": "#/$defs/pin"}, "tx": {"$ref": "#/$defs/pin"},
                       "baud": {"type": "integer", "minimum": 300, "maximum": 100000000}}},
    pins=("rx", "tx"), gateware=gateware, cost=lambda entry, technology: Uart.cost(),
    rate=lambda entry: entry["baud"] / BITS_OF_A_BYTE, options=lambda entry: {"baud": entry["baud"]})
