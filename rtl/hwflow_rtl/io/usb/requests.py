"""The control requests of a device: the standard ones, and those of a serial port (PSTN subclass 1.2, chapter 6.3).

Operating systems set a rate and raise DTR whenever a program opens the port, and some give up where that is refused.
Neither means anything here: the rate is that of the bus.
"""

from __future__ import annotations

import struct
from typing import Any

from amaranth.hdl import Const, Module, ResetInserter

from .luna_parts import (
    ControlRequestHandler,
    StandardRequestHandler,
    StreamSerializer,
    USBInStreamInterface,
    USBRequestType,
)

SET_LINE_CODING, GET_LINE_CODING, SET_CONTROL_LINE_STATE, SEND_BREAK = 0x20, 0x21, 0x22, 0x23
#: What every port says of itself: 115 200 baud, one stop bit, no parity, 8 bits.
LINE_CODING = struct.pack("<IBBB", 115_200, 0, 0, 8)


def begun_anew(handler: ControlRequestHandler, m: Any) -> Any:
    """`m`, the module of `handler`, which forgets at each SETUP what it was about: a host may leave a transfer
    half-way, and every SETUP begins another one (USB 2.0, 8.5.3)."""
    token = handler.interface.tokenizer
    return ResetInserter({"usb": token.new_token & token.is_setup})(m)


class StandardRequests(StandardRequestHandler):
    """LUNA's, which by itself answers the next request as the one that was left."""

    def elaborate(self, platform):
        return begun_anew(self, super().elaborate(platform))


class LineRequests(ControlRequestHandler):
    """Takes what sets the line, and answers what asks for it."""

    def elaborate(self, platform):
        m = Module()
        usb, setup = self.interface, self.interface.setup
        m.submodules.coding = coding = StreamSerializer(
            data_length=len(LINE_CODING), domain="usb", stream_type=USBInStreamInterface,
            max_length_width=len(LINE_CODING).bit_length())
        m.d.comb += usb.tx_data_pid.eq(1)
        with m.If(setup.type == USBRequestType.CLASS), m.Switch(setup.request):
            with m.Case(SET_LINE_CODING, SET_CONTROL_LINE_STATE, SEND_BREAK):
                m.d.comb += [usb.claim.eq(1), usb.handshakes_out.ack.eq(usb.rx_ready_for_response)]
                with m.If(usb.status_requested):
                    m.d.comb += self.send_zlp()
            with m.Case(GET_LINE_CODING):
                m.d.comb += [usb.claim.eq(1), coding.stream.attach(usb.tx), coding.max_length.eq(len(LINE_CODING)),
                             coding.start.eq(usb.data_requested), usb.handshakes_out.ack.eq(usb.status_requested)]
                m.d.comb += [place.eq(Const(octet, 8)) for place, octet in zip(coding.data, LINE_CODING, strict=True)]
        return begun_anew(self, m)
