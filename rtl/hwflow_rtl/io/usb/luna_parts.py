"""Parts that hwflow uses of LUNA 0.2 (Great Scott Gadgets, BSD-3-Clause), in one place.

LUNA for Amaranth 0.5 still uses parts of Amaranth that are deprecated; importing it says so.  Nothing here can change
that, so these warnings, and only these, end here.
"""

from __future__ import annotations

import warnings

#: Of Amaranth: what it deprecates is in these modules.
DEPRECATED = r".*(amaranth\.hdl\.(rec|ast|xfrm)|amaranth\.lib\.coding)"

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=DEPRECATED)
    from luna.gateware.stream.generator import StreamSerializer
    from luna.gateware.usb.request.control import ControlRequestHandler
    from luna.gateware.usb.request.standard import StandardRequestHandler
    from luna.gateware.usb.stream import USBInStreamInterface
    from luna.gateware.usb.usb2 import USBSpeed
    from luna.gateware.usb.usb2.device import USBDevice
    from luna.gateware.usb.usb2.endpoint import EndpointInterface
    from usb_protocol.emitters import DeviceDescriptorCollection
    from usb_protocol.types import USBRequestType

__all__ = ["ControlRequestHandler", "DeviceDescriptorCollection", "EndpointInterface", "StandardRequestHandler",
           "StreamSerializer", "USBDevice", "USBInStreamInterface", "USBRequestType", "USBSpeed"]
