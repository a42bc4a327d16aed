"""The facts that a driver must know of the way to a design on a board; `identity.json` has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Bits of a byte on a serial line: a start bit, eight of data, a stop bit.
BITS_OF_A_BYTE = 10
#: Of `TransportFacts.facts`.
TRANSPORT_SCHEMA: Mapping[str, object] = {
    "type": "object", "required": ["kind", "bytes_per_second"], "additionalProperties": {"type": ["integer", "string"]},
    "properties": {"kind": {"type": "string", "pattern": "^[a-z]{1,20}$"},
                   "bytes_per_second": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e12},
                   "baud": {"type": "integer", "minimum": 1, "maximum": 10**8}}}


@dataclass(frozen=True)
class TransportFacts:
    """The way to a design on a board, of a `kind` of `hwflow.synth.transports`.

    `bytes_per_second` is what its line carries, overhead of packets included; `options` what a driver must know besides
    (a serial line's `baud`, the `address` of a board on a network).
    """

    kind: str
    bytes_per_second: float
    options: Mapping[str, int | str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.options['baud']} baud" if "baud" in self.options else self.kind

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"kind": self.kind, "bytes_per_second": self.bytes_per_second, **self.options}

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> TransportFacts:
        """Read the mapping that `facts` gave."""
        options = {name: value for name, value in facts.items() if name not in ("kind", "bytes_per_second")}
        return TransportFacts(facts["kind"], float(facts["bytes_per_second"]), options)

    @staticmethod
    def of_serial_line(baud: int) -> TransportFacts:
        """A serial line of `baud` bits a second."""
        return TransportFacts("uart", baud / BITS_OF_A_BYTE, {"baud": baud})
