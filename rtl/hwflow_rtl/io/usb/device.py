"""A serial port on the USB: LUNA's device with our endpoints, between a PHY and two streams of bytes."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Technology
from .identity import DATA_ENDPOINT, NOTIFICATION_ENDPOINT, UsbIdentity


class SerialDevice(wiring.Component):
    """All in the domain `usb`: the 48 MHz of a PHY in gateware, or the 60 MHz of one with ULPI.

    LUNA counts times as for a UTMI of 12 MHz in the first case, so all of the shortest ones are a quarter: the answer
    to a packet begins two cycles after it, and the PHY adds more than the two bit times that the specification wants.

    Parameters
    ----------
    bus
        What LUNA takes for a bus: a component with UTMI, or the pins of an ULPI PHY.
    identity
        The descriptors.
    high_speed
        Whether the device may run at high speed, which only an ULPI PHY can.
    technology
        Makes the buffers.

    Attributes
    ----------
    o, i : streams of bytes
        From and to the host.
    """

    def __init__(self, *, bus: Any, identity: UsbIdentity, high_speed: bool, technology: Technology):
        self.bus = bus
        self.identity = identity
        self.high_speed = high_speed
        self.technology = technology
        super().__init__({"o": Out(stream_of(BYTE, 1)), "i": In(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        # LUNA is there where it is used, not where a transport is only named.
        from .bulk import BulkIn, BulkOut, Silent
        from .luna_parts import DeviceDescriptorCollection, USBDevice
        from .requests import LineRequests, StandardRequests

        m = Module()
        device = USBDevice(bus=self.bus, handle_clocking=False)
        descriptors = DeviceDescriptorCollection(automatic_language_descriptor=False)
        for (kind, index), octets in self.identity.descriptors(high_speed=self.high_speed).items():
            descriptors.add_descriptor(octets, index=index, descriptor_type=kind)
        control = device.add_control_endpoint()
        control.add_request_handler(StandardRequests(descriptors))
        control.add_request_handler(LineRequests())
        out = BulkOut(DATA_ENDPOINT, technology=self.technology)
        into = BulkIn(DATA_ENDPOINT, technology=self.technology)
        for endpoint in (out, into, Silent(NOTIFICATION_ENDPOINT)):
            device.add_endpoint(endpoint)
            m.d.comb += endpoint.restart.eq(device.reset_detected | control.interface.config_changed)
        m.submodules.device = device
        # Not in reset: a host sees then that the board has gone, and comes back when it starts anew.
        connected = Signal()
        m.d.usb += connected.eq(1)
        m.d.comb += [device.connect.eq(connected), device.full_speed_only.eq(not self.high_speed)]
        link(m, out.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), into.i)
        return m
