"""A slave on an SPI bus, on pins of a board's header."""

from __future__ import annotations

from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.io.transports import Spi
from hwflow_rtl.io.transports.spi import CYCLES_A_BIT

from .base import Kind

BITS_OF_A_BYTE = 8
PIN = {"$ref": "#/$defs/pin"}


def fastest(entry: Entry) -> int:
    """The highest clock of the bus, Hz."""
    return int(entry["clock_mhz"] * 1e6 / CYCLES_A_BIT)


SPI = Kind(
    name="spi", title=lambda entry: f"the SPI bus ({fastest(entry) / 1e6:g} MHz)",
    schema={"type": "object", "additionalProperties": False, "required": ["sck", "mosi", "miso", "cs_n"],
            "properties": {"sck": PIN, "mosi": PIN, "miso": PIN, "cs_n": PIN}},
    pins=("sck", "mosi", "miso", "cs_n"), gateware=lambda entry, place: Spi(),
    cost=lambda entry, technology: Spi.cost(), rate=lambda entry: fastest(entry) / BITS_OF_A_BYTE,
    options=lambda entry: {"hz": fastest(entry)})
