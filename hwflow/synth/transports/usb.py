"""The USB socket of a board that leads to the FPGA: two pins at full speed, or an ULPI PHY at high speed."""

from __future__ import annotations

import importlib.util

from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.io.transports import FullSpeedUsb, Transport, UlpiUsb
from hwflow_rtl.io.usb import SAMPLE_MHZ, ULPI_MHZ, UsbIdentity
from hwflow_rtl.vendor import Resources, Technology

from ...host.ports.serial import PRODUCT, VENDOR
from .base import Kind, Place

#: Bytes a second of bulk packets, at most: 19 of 64 bytes in a millisecond (USB 2.0, table 5-9), and at high speed what
#: the framing takes, a byte in two cycles of 60 MHz.
FULL_SPEED_RATE, HIGH_SPEED_RATE = 19 * 64 * 1000.0, 60e6 / 2
#: The net of the clock that a PLL makes.
SAMPLE_NET = "transport.sample_clk"
FULL_SPEED_PINS = ("d_p", "d_n", "pullup")
ULPI_PINS = ("clk", "data", "dir", "nxt", "stp", "rst")
PIN = {"$ref": "#/$defs/pin"}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 0xFFFF}


def is_ulpi(entry: Entry) -> bool:
    return "clk" in entry


def gateware(entry: Entry, place: Place) -> Transport:
    if importlib.util.find_spec("luna") is None:
        raise HwflowError("LUNA, the gateware of a USB device, must be installed", "pip install hwflow[usb]")
    identity = UsbIdentity(vendor=entry.get("vendor", VENDOR), product=entry.get("product", PRODUCT),
                           serial=entry["serial"])
    if is_ulpi(entry):
        return UlpiUsb(identity=identity, technology=place.technology, pads=place.pads)
    return FullSpeedUsb(identity=identity, line_mhz=place.clock_mhz, technology=place.technology, pads=place.pads)


def cost(entry: Entry, technology: Technology) -> Resources:
    return (UlpiUsb if is_ulpi(entry) else FullSpeedUsb).cost(technology)


def clock(entry: Entry) -> tuple[str, float] | None:
    """The clock of the PHY, or the one that the gateware makes for its own."""
    if is_ulpi(entry):
        return "clk", ULPI_MHZ
    return (SAMPLE_NET, SAMPLE_MHZ) if entry["clock_mhz"] != SAMPLE_MHZ else None


def options(entry: Entry) -> dict[str, int | str]:
    return {"serial": entry["serial"], "vendor": entry.get("vendor", VENDOR), "product": entry.get("product", PRODUCT)}


USB = Kind(
    name="usb", title=lambda entry: f"USB at {'high' if is_ulpi(entry) else 'full'} speed",
    schema={
        "type": "object", "additionalProperties": False, "required": ["serial"],
        "oneOf": [{"required": list(FULL_SPEED_PINS), "not": {"required": ["clk"]}},
                  {"required": list(ULPI_PINS), "not": {"required": ["d_p"]}}],
        "properties": {**{name: PIN for name in (*FULL_SPEED_PINS, *ULPI_PINS) if name != "data"},
                       "data": {"type": "array", "items": PIN, "minItems": 8, "maxItems": 8},
                       "serial": {"type": "string", "pattern": "^[!-~]{1,40}$"}, "vendor": NUMBER, "product": NUMBER,
                       "pull": {"enum": ["up", "down", "none"]}}},
    pins=(*FULL_SPEED_PINS, *ULPI_PINS), gateware=gateware, cost=cost, clock=clock,
    shape=lambda entry: UlpiUsb.shape if is_ulpi(entry) else None,
    rate=lambda entry: HIGH_SPEED_RATE if is_ulpi(entry) else FULL_SPEED_RATE, options=options)
