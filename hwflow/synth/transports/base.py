"""A way to a host: what a board file says of it, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import Entry
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.io.transports import Transport
from hwflow_rtl.vendor import Resources, Technology

from ...host.identity import TransportFacts


@dataclass(frozen=True)
class Pin:
    """A pin of the package: its name, its electrical standard, and `pull` (up, down, none) where that matters."""

    name: str
    io_standard: str
    pull: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a transport is: the family's technology, and the oscillator.

    `pads`: pins in both directions are single ports, as for place and route; else three ports, as for a simulation.
    """

    technology: Technology
    clock_mhz: float
    pads: bool = False


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of transport.  Functions of an entry have the board's `clock_mhz` in it besides.

    Attributes
    ----------
    name
        As in board files, on the command line and in `identity.json`.
    title
        What people call it in a sentence, of an entry.
    schema
        JSON schema of its entry in a board file, without `io_standard`; keys that are pins refer to `pin` or `pins`.
    pins
        The keys of the entry that are pins, a string or a list of strings.
    gateware
        The `Transport` for an entry on a board.  ValueError where the entry cannot be had there: the key and the rule.
    cost
        Of that gateware.
    rate
        Bytes a second that the line of an entry carries, all overhead of packets included.
    options
        What the host's half must know besides the kind, plain data.
    moved
        The entry with another address in a network, ValueError where that is none; None: it has no address.
    shape
        Of the host link; None: what fits the FPGA's RAM best.
    clock
        The key of the pin whose clock the host link then has, or the net of one that the gateware makes for itself, and
        its MHz; None: all of it has the oscillator's.
    """

    name: str
    title: Callable[[Entry], str]
    schema: Mapping[str, Any]
    pins: tuple[str, ...]
    gateware: Callable[[Entry, Place], Transport]
    cost: Callable[[Entry, Technology], Resources]
    rate: Callable[[Entry], float]
    options: Callable[[Entry], dict[str, int | str]] = field(default=lambda entry: {})
    moved: Callable[[Entry, str], Entry] | None = None
    shape: Callable[[Entry], LinkShape | None] = field(default=lambda entry: None)
    clock: Callable[[Entry], tuple[str, float] | None] = field(default=lambda entry: None)

    def __repr__(self) -> str:
        """Without the functions, whose addresses differ from run to run: a board's is a part of digests."""
        return f"Kind({self.name!r})"


@dataclass(frozen=True, eq=False)
class BoardTransport(ByValue):
    """A transport of a board: `entry` is what its file says, `ports` the pins by the names of the top's ports;
    `clock_mhz` is the board's oscillator."""

    kind: Kind
    entry: Entry
    io_standard: str
    clock_mhz: float

    @property
    def known(self) -> Entry:
        """The entry, and the clock that everything in it may depend on."""
        return {**self.entry, "clock_mhz": self.clock_mhz}

    @property
    def bytes_per_second(self) -> float:
        """The bytes that the line carries, overhead of packets included."""
        return self.kind.rate(self.known)

    @property
    def title(self) -> str:
        """The name for people, in a sentence."""
        return self.kind.title(self.known)

    def ports(self) -> Iterator[tuple[str, Pin]]:
        """The pins of the board by the names of the top's ports; those of a wide port as `name[0]`, `name[1]`, ..."""
        standard, pull = self.entry.get("io_standard", self.io_standard), self.entry.get("pull")
        for name, pins in self.named_pins():
            if isinstance(pins, str):
                yield name, Pin(pins, standard, pull)
            else:
                yield from ((f"{name}[{k}]" if len(pins) > 1 else name, Pin(pin, standard, pull))
                            for k, pin in enumerate(pins))

    def named_pins(self) -> Iterator[tuple[str, str | list[str]]]:
        """The ports of the top and their pins: the keys of a serial line, of others with the kind before them."""
        for key in self.kind.pins:
            if key in self.entry:
                yield self.port(key), self.entry[key]

    def port(self, key: str) -> str:
        """The port of the top for a key of the entry that is a pin."""
        return key if self.kind.name == "uart" else f"{self.kind.name}_{key}"

    @property
    def shape(self) -> LinkShape | None:
        """The shape of the host link; None for the one that fits the FPGA's RAM best."""
        return self.kind.shape(self.known)

    @property
    def clock(self) -> tuple[str, float] | None:
        """The port of the top, or the net, of a clock that is not the oscillator's, and its MHz."""
        source = self.kind.clock(self.known)
        return source and (self.port(source[0]) if source[0] in self.kind.pins else source[0], source[1])

    @property
    def port_clock(self) -> tuple[str, float] | None:
        """The same where it comes in at a port."""
        source = self.kind.clock(self.known)
        return self.clock if source and source[0] in self.kind.pins else None

    def gateware(self, place: Place, source: object) -> Transport:
        """The component.  HwflowError naming `source`, the board's file, where the board cannot have it."""
        try:
            return self.kind.gateware(self.known, place)
        except ValueError as error:
            raise HwflowError(f"the board file '{source}': key 'transports.{self.kind.name}': {error}") from None

    def cost(self, technology: Technology) -> Resources:
        """The cost of the component."""
        return self.kind.cost(self.known, technology)

    def facts(self) -> TransportFacts:
        """The facts that the driver must know."""
        return TransportFacts(self.kind.name, self.bytes_per_second, self.kind.options(self.known))
