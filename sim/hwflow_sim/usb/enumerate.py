"""The work of an operating system when a device is plugged in: control transfers over a `UsbBench`, and their answers
parsed as the specification lays them out (USB 2.0, 9.4 to 9.6).

A transaction without a right answer is tried three times, as hosts do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hwflow_base.errors import HwflowError

from .bench import UsbBench

OUT, IN, SETUP, DATA0, DATA1, ACK, NAK, STALL = 1, 9, 13, 3, 11, 0xD2, 0x5A, 0x1E
TRIES, NAKS = 3, 200
GET_DESCRIPTOR, SET_ADDRESS, SET_CONFIGURATION, GET_CONFIGURATION = 6, 5, 9, 8
DEVICE, CONFIGURATION, STRING = 1, 2, 3
TO_HOST, CLASS_OF_INTERFACE = 0x80, 0x21
ENGLISH = 0x0409


class Refused(HwflowError):
    """The device answered STALL."""


@dataclass(frozen=True)
class Endpoint:
    """`attributes`: 2 bulk, 3 interrupt."""

    address: int
    attributes: int
    packet: int


@dataclass(frozen=True)
class Interface:
    """`kind` is its class."""

    number: int
    kind: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True)
class Device:
    """How a transfer reaches a device: its address, and the packet size of its control endpoint."""

    bench: UsbBench
    address: int = 0
    packet: int = 64

    def transaction(self, pid: int, data_pid: int = 0, payload: bytes = b"") -> bytes:
        """The answer of endpoint 0, not NAK; what is lost is tried again."""
        for _ in range(TRIES):
            for _ in range(NAKS):
                answer = self.bench.transact(pid, self.address, 0, data_pid, payload)
                if answer != bytes([NAK]):
                    break
            if answer == bytes([STALL]):
                raise Refused(f"endpoint 0 refused {payload.hex() or pid}")
            if answer == bytes([ACK]) or (pid == IN and len(answer) >= 3 and answer[0] & 3 == 3):
                return answer
        raise HwflowError(f"endpoint 0 must answer a transaction, with PID {pid}, but did not in {TRIES} tries")


def control(device: Device, kind: int, request: int, value: int, index: int, *, length: int = 0,
            data: bytes = b"") -> bytes:
    """A control transfer: what the device sends, at most `length` bytes, or nothing where `data` go to it."""
    setup = struct.pack("<BBHHH", kind, request, value, index, length if kind & TO_HOST else len(data))
    device.transaction(SETUP, DATA0, setup)
    answer, toggle = b"", DATA1
    if kind & TO_HOST:
        while len(answer) < length:
            packet = device.transaction(IN)
            if packet[0] & 15 == toggle:
                toggle ^= DATA0 ^ DATA1
                answer += packet[1:-2]
            if len(packet) - 3 < device.packet:
                break
        device.transaction(OUT, DATA1)
        return answer
    for at in range(0, len(data), device.packet):
        device.transaction(OUT, toggle, data[at:at + device.packet])
        toggle ^= DATA0 ^ DATA1
    if status := device.transaction(IN)[1:-2]:
        raise HwflowError(f"a request without data must end with an empty packet, not {status.hex()}")
    return b""


@dataclass(frozen=True)
class Enumeration:
    """The answers of a device about itself: fields of its descriptors, and all of them as they came."""

    device: Device
    vendor: int
    product: int
    manufacturer: str
    name: str
    serial: str
    interfaces: tuple[Interface, ...]
    raw: tuple[bytes, bytes]

    @property
    def bulk_packet(self) -> int:
        """Bytes of a packet of the bulk endpoints."""
        (packet,) = {endpoint.packet for interface in self.interfaces for endpoint in interface.endpoints
                     if endpoint.attributes == 2}
        return packet


def enumerate_device(bench: UsbBench, address: int = 5) -> Enumeration:
    """Reset the bus, give the device an address, read its descriptors, choose its configuration, raise DTR."""
    if not bench.reset():
        raise HwflowError("a device must pull up D+, but does not")
    return enumerate_after_reset(bench, address)


def enumerate_after_reset(bench: UsbBench, address: int = 5) -> Enumeration:
    first = control(Device(bench, 0, 64), TO_HOST, GET_DESCRIPTOR, DEVICE << 8, 0, length=8)
    control(Device(bench, 0, first[7]), 0, SET_ADDRESS, address, 0)
    bench.idle(100)
    device = Device(bench, address, first[7])
    head = control(device, TO_HOST, GET_DESCRIPTOR, DEVICE << 8, 0, length=18)
    total = struct.unpack_from("<H", control(device, TO_HOST, GET_DESCRIPTOR, CONFIGURATION << 8, 0, length=9), 2)[0]
    body = control(device, TO_HOST, GET_DESCRIPTOR, CONFIGURATION << 8, 0, length=total)
    if len(head) != 18 or len(body) != total:
        raise HwflowError(f"descriptors must be 18 and {total} bytes, not {len(head)} and {len(body)}")
    texts = [text_of(device, index) for index in head[14:17]]
    control(device, 0, SET_CONFIGURATION, body[5], 0)
    if control(device, TO_HOST, GET_CONFIGURATION, 0, 0, length=1) != body[5:6]:
        raise HwflowError("the device must be in the configuration that was chosen")
    # As a driver of serial ports does when a program opens one: the rate, and DTR with RTS.
    control(device, CLASS_OF_INTERFACE, 0x20, 0, 0, data=struct.pack("<IBBB", 1_000_000, 0, 0, 8))
    control(device, CLASS_OF_INTERFACE, 0x22, 3, 0)
    vendor, product = struct.unpack_from("<HH", head, 8)
    enumeration = Enumeration(device, vendor, product, *texts, interfaces_of(body), (head, body))
    bench.configured(address, enumeration.bulk_packet)
    return enumeration


def text_of(device: Device, index: int) -> str:
    raw = control(device, TO_HOST, GET_DESCRIPTOR, STRING << 8 | index, ENGLISH, length=255)
    if raw[:2] != bytes((len(raw), STRING)):
        raise HwflowError(f"string {index} must begin with its length, {len(raw)}, and {STRING}, not {raw[:2].hex()}")
    return raw[2:].decode("utf-16-le")


def interfaces_of(body: bytes) -> tuple[Interface, ...]:
    """The interfaces of a configuration, each with the endpoints behind it."""
    interfaces: list[Interface] = []
    while body:
        part, body = body[:body[0]], body[body[0]:]
        if part[1] == 4:
            interfaces.append(Interface(part[2], part[5], ()))
        elif part[1] == 5:
            address, attributes, packet = struct.unpack_from("<BBH", part, 2)
            last = interfaces.pop()
            endpoints = (*last.endpoints, Endpoint(address, attributes, packet))
            interfaces.append(Interface(last.number, last.kind, endpoints))
    return tuple(interfaces)
