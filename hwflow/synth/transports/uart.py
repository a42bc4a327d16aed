"""The serial line of a board."""

from __future__ import annotations

from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.io import HostLink
from hwflow_rtl.io.transports import Uart
from hwflow_rtl.io.transports.uart import PARTS, bit_time_for
from hwflow_rtl.vendor import Resources, Technology

from ...host.line_rate import rates_of
from .base import Kind, Place

#: Bits of a byte on the line: a start bit, eight of data, a stop bit.
BITS_OF_A_BYTE = 10
PIN = {"$ref": "#/$defs/pin"}
RATE = {"type": "integer", "minimum": 300, "maximum": 100000000}


def gateware(entry: Entry, place: Place) -> Uart:
    if entry.get("fastest", entry["baud"]) < entry["baud"]:
        raise ValueError(f"fastest must be at least the {entry['baud']} baud of 'baud', not {entry['fastest']}")
    return Uart(divider=bit_time_for(place.clock_mhz * 1e6, entry["baud"]) / PARTS, settable="fastest" in entry,
                flow="rts_n" in entry)


def cost(entry: Entry, technology: Technology) -> Resources:
    """The rate of the link counts, where it tells the line what the host wants."""
    settable = "fastest" in entry
    line = Uart.cost(entry["clock_mhz"] * 1e6 / entry["baud"], settable=settable)
    return line + (HostLink.settings_cost() if settable else Resources())


def options(entry: Entry) -> dict[str, int | str]:
    """The rates that a driver may choose."""
    if "fastest" not in entry:
        return {"baud": entry["baud"]}
    return {"baud": entry["baud"], "fastest": entry["fastest"], "clock_hz": round(entry["clock_mhz"] * 1e6)}


def fastest(entry: Entry) -> int:
    """The rate that a driver comes to on a line without errors."""
    return next(iter(rates_of(options(entry))), int(entry["baud"]))


UART = Kind(
    name="uart", title=lambda entry: f"the serial line ({fastest(entry)} baud)",
    schema={
        "type": "object", "additionalProperties": False, "required": ["rx", "tx", "baud"],
        "dependentRequired": {"rts_n": ["cts_n"], "cts_n": ["rts_n"]},
        "properties": {"rx": PIN, "tx": PIN, "rts_n": PIN, "cts_n": PIN, "baud": RATE, "fastest": RATE}},
    pins=("rx", "tx", "rts_n", "cts_n"), gateware=gateware,  cost=cost,
    rate=lambda entry: fastest(entry) / BITS_OF_A_BYTE, options=options)
