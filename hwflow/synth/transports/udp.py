"""UDP over gigabit Ethernet, of boards with a PHY at RGMII."""

from __future__ import annotations

from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.io.ethernet.headers import Address
from hwflow_rtl.io.ethernet.rgmii import Delays
from hwflow_rtl.io.transports import Udp
from hwflow_rtl.io.transports.udp import CLOCK_MHZ

from .base import Kind, Place

#: Where a board is if nobody says otherwise.
DEFAULT_ADDRESS, DEFAULT_PORT = "192.168.1.50", 17510
#: Of a datagram of 1472 bytes, and of its frame with preamble, FCS and the gap behind it (IEEE 802.3).
DATAGRAM, ON_LINE = 1472, 1538
#: A gigabit a second.
BYTES_PER_SECOND = 125e6
#: The first byte of an address of a host, and another one.
FIRST, OCTET = "([1-9][0-9]?|1[0-9][0-9]|2[01][0-9]|22[0-3])", "([1-9]?[0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
NANOSECONDS = {"type": "number", "minimum": 0, "maximum": 3}


def address(entry: Entry) -> Address:
    """The address of the board on the network; ValueError where it is none of a host."""
    return Address(entry.get("address", DEFAULT_ADDRESS), entry.get("port", DEFAULT_PORT))


def moved(entry: Entry, ip: str) -> Entry:
    changed = {**entry, "address": ip}
    address(changed)
    return changed


def gateware(entry: Entry, place: Place) -> Udp:
    return Udp(address=address(entry), technology=place.technology,
               delays=Delays(entry.get("rx_delay_ns", 0.0), entry.get("txc_delay_ns", 0.0)))


UDP = Kind(
    name="udp", title=lambda entry: f"UDP to {address(entry).ip}, port {address(entry).port}",
    schema={
        "type": "object", "additionalProperties": False,
        "required": ["rxc", "rxd", "rx_ctl", "txc", "txd", "tx_ctl", "reset_n"],
        "properties": {
            **{name: {"$ref": "#/$defs/pin"} for name in ("rxc", "rx_ctl", "txc", "tx_ctl", "reset_n")},
            **{name: {"$ref": "#/$defs/pins", "minItems": 4, "maxItems": 4} for name in ("rxd", "txd")},
            "rx_delay_ns": NANOSECONDS, "txc_delay_ns": NANOSECONDS, "pull": {"enum": ["up", "down", "none"]},
            "address": {"type": "string", "pattern": rf"^(?!127\.){FIRST}(\.{OCTET}){{3}}\Z"},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535}}},
    pins=("rxc", "rxd", "rx_ctl", "txc", "txd", "tx_ctl", "reset_n"), gateware=gateware,
    cost=lambda entry, technology: Udp.cost(technology), moved=moved, shape=lambda entry: Udp.shape,
    clock=lambda entry: ("rxc", CLOCK_MHZ),
    rate=lambda entry: BYTES_PER_SECOND * DATAGRAM / ON_LINE,
    options=lambda entry: {"address": address(entry).ip, "port": address(entry).port})
