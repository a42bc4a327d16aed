"""Which design is on a board: eight bytes of an integer graph and a plan, held in a ROM and told to the host.

`identity.json` beside the bitstream says the same, and what else a driver needs (`DesignFacts`).
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import of_plain, plain
from hwflow_base.files.sources import open_plain
from hwflow_base.files.target import write_atomically
from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow.host.weight_image import IMAGE_SCHEMA, WeightImage
from hwflow.layers.base import LayerGraph
from hwflow.layers.matrix_layer import MatrixLayer
from hwflow.stages.folding import Folding
from hwflow.stages.partition import DATAFLOW, Partition

if TYPE_CHECKING:
    from hwflow.hls.plan.plan import Plan

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


#: Length of an identity (docs/host-link.md).
IDENTITY_BYTES = 8
#: The field of a layer whose contents may be beside the FPGA, and what stands for them.
WEIGHTS, OUTSIDE = "weights", "beside the FPGA"
#: The file in the folder of a board's bitstream.
IDENTITY_FILE = "identity.json"


def identity(graph: LayerGraph, plan: Plan) -> bytes:
    """The first 8 bytes of SHA-256 over all of `graph` (formats, scales, zero points, weights, constants) and over the
    foldings of `plan`.

    The same in every process and on every machine.  Not over what the foldings decide (cycles, resources): a better
    estimate makes no other design.
    """
    return identity_of(graph, [stage.folding for stage in plan.stages], plan.partition)


def identity_of(graph: LayerGraph, foldings: Sequence[Folding], partition: Partition = DATAFLOW) -> bytes:
    """The same as `identity`, for the foldings of a plan in order, and its stages."""
    return digested((graph, tuple(foldings), *shared_of(partition)))


def shared_of(partition: Partition) -> tuple[Partition, ...]:
    """`partition` where there is a shared stage: else foldings alone say what the stages are."""
    return (partition,) if partition.shared else ()


def layers_outside(graph: LayerGraph, foldings: Sequence[Folding], partition: Partition = DATAFLOW) -> list[int]:
    """The layers whose weights are in a memory beside the FPGA, by their numbers in the graph."""
    return [k for group, folding in zip(partition.groups(graph), foldings, strict=True) if folding.weight_rows
            for k in group.layers]


def sums_outside(graph: LayerGraph, foldings: Sequence[Folding], partition: Partition = DATAFLOW) -> tuple[int, ...]:
    """Bits of the accumulators that weights in a memory beside the FPGA are summed in, by layer.

    The hardware has these widths, and they follow from the weights that it was made for: others may need more.
    """
    layers = (graph.layers[k] for k in layers_outside(graph, foldings, partition))
    return tuple(layer.accumulator.bits for layer in layers if isinstance(layer, MatrixLayer))


def hardware_identity_of(graph: LayerGraph, foldings: Sequence[Folding], partition: Partition = DATAFLOW,
                         sums: Sequence[int] | None = None) -> bytes:
    """The name of a bitstream: as `identity_of`, without the weights that are in a memory beside the FPGA.

    Those have a digest of their own, that of their image.  So they may change while the bitstream stays.  `sums`: the
    widths of `sums_outside` in the hardware, those of `graph` unless given.
    """
    if not any(folding.weight_rows for folding in foldings):
        return identity_of(graph, foldings, partition)
    outside = layers_outside(graph, foldings, partition)
    sums = sums_outside(graph, foldings, partition) if sums is None else sums
    layers = [(type(layer).__name__, *((f.name, OUTSIDE if k in outside and f.name == WEIGHTS
                                        else getattr(layer, f.name)) for f in fields(layer)))  # type: ignore[arg-type]
              for k, layer in enumerate(graph.layers)]
    rest = [(f.name, getattr(graph, f.name)) for f in fields(graph)
            if f.compare and f.name != "layers" and _said(f, graph)]
    return digested((rest, layers, tuple(foldings), tuple(sums), *shared_of(partition)))


def digested(value: object) -> bytes:
    total = hashlib.sha256()
    for part in _parts(value):
        total.update(part)
    return total.digest()[:IDENTITY_BYTES]


def _parts(value: object) -> Iterator[bytes]:
    """`value` as bytes that no other value has: every part says its type and its length."""
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        yield f"array {little.dtype.str} {little.shape};".encode()
        yield little.tobytes()
    elif isinstance(value, enum.Enum):
        yield from _parts((type(value).__name__, value.value))
    elif is_dataclass(value):
        named = tuple((f.name, getattr(value, f.name)) for f in fields(value) if f.compare and _said(f, value))
        yield from _parts((type(value).__name__, named))
    elif isinstance(value, Mapping):
        yield from _parts(("mapping", tuple(sorted(value.items()))))  # tensors have no order
    elif isinstance(value, tuple | list):
        yield f"list {len(value)};".encode()
        for item in value:
            yield from _parts(item)
    else:
        yield _plain(value)


#: Fields of graphs and rescalings that earlier ones do not have.
_LATER = frozenset({"states", "outward"})


def _said(field: Field[object], value: object) -> bool:
    """False for a field of `_LATER` that is empty or 0: designs from before it keep their identity."""
    return field.name not in _LATER or bool(getattr(value, field.name))


def _plain(value: object) -> bytes:
    """A value without parts; raises TypeError for one whose text might differ between processes."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and type(value) not in (bool, int, float, str, Fraction):
        raise TypeError(f"a value of an identity must be plain data, not {type(value).__name__}")
    text = value.hex() if isinstance(value, float) else str(value)
    return f"{type(value).__name__} {len(text.encode())} {text};".encode()


def frame_bytes(graph: LayerGraph, names: Sequence[str]) -> int:
    """Bytes on the line of one frame of these tensors: an element takes as many whole bytes as it needs."""
    tensors = [graph.tensors[name] for name in names]
    return sum(tensor.frame.elements * element_bytes(tensor.format.bits) for tensor in tensors)


def element_bytes(bits: int) -> int:
    """Whole bytes on the line of an element of so many bits."""
    return -(-bits // 8)


#: Bytes of an identity file that are read; one of a design with thousands of stages is shorter.
LONGEST = 1 << 24


def no_number(text: str) -> float:
    """Refuse NaN and Infinity, which Python's JSON has and no clock is."""
    raise ValueError(f"{text} is no number")


def folding_facts(folding: Folding) -> dict[str, object]:
    """For JSON, without what has its default."""
    defaults: Mapping[str, object] = {"rescale": None, "weight_rows": 0, "weight_interval": "1"}
    return {name: value for name, value in plain(folding).items()
            if name not in defaults or value != defaults[name]}


COUNT: Mapping[str, object] = {"type": "integer", "minimum": 1}
CLOCK: Mapping[str, object] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1000}
TEXT: Mapping[str, object] = {"type": "string", "minLength": 1}
#: Without characters that no file's name has.
FOLDER: Mapping[str, object] = {"type": "string", "pattern": "^[^\\0\\ud800-\\udc7f\\udd00-\\udfff]+$"}
FRACTION: Mapping[str, object] = {"type": "string", "pattern": "^[1-9][0-9]{0,999}(/[1-9][0-9]{0,999})?$"}
FOLDING: Mapping[str, object] = {
    "type": "object", "required": ["rows", "cols", "lanes", "style"], "additionalProperties": False,
    "properties": {"rows": COUNT, "cols": COUNT, "lanes": COUNT,
                   "style": {"enum": [style.value for style in MultiplierStyle]}, "rescale": {"const": "logic"},
                   "weight_rows": COUNT, "weight_interval": FRACTION}}
SHARED: Mapping[str, object] = {
    "type": "object", "required": ["name", "layers", "single_port", "buffer", "interval", "rom_rows", "banks"],
    "additionalProperties": False,
    "properties": {"name": TEXT, "layers": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
                   "single_port": {"type": "boolean"}, "banks": COUNT, "buffer": COUNT, "interval": COUNT,
                   "rom_rows": COUNT, "sliding": {"type": "boolean"},
                   **{name: {"type": "integer", "minimum": 0} for name in ("ahead", "bands", "words_ahead")}}}
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "required": ["identity", "model", "board", "transport", "clock_mhz", "interval", "bytes_in", "bytes_out",
                 "quantized", "foldings"],
    "properties": {
        "identity": {"type": "string", "pattern": f"^[0-9a-f]{{{2 * IDENTITY_BYTES}}}$"}, "model": TEXT, "board": TEXT,
        "quantized": FOLDER, "transport": TRANSPORT_SCHEMA, "interval": COUNT, "bytes_in": COUNT, "bytes_out": COUNT,
        "clock_mhz": CLOCK, "foldings": {"type": "array", "minItems": 1, "items": FOLDING},
        "weights": IMAGE_SCHEMA, "shared": {"type": "array", "minItems": 1, "items": SHARED},
        "sums": {"type": "array", "minItems": 1, "items": COUNT}},
    "additionalProperties": False,
}


@dataclass(frozen=True)
class BoardFacts:
    """The board that a design is for: its name, the way to it, and the clock of its core."""

    name: str
    transport: TransportFacts
    clock_mhz: float


@dataclass(frozen=True)
class DesignFacts:
    """The facts that a driver must know of a design on a board besides its integer model.

    `interval`: cycles of a clock of `clock_mhz` between two frames; `bytes_in`, `bytes_out`: of one frame on the line
    of `transport`; `quantized`: the folder of the integer model, from the folder of `identity.json`;
    `weights`: what is to be in the memory beside the FPGA, None where the design has no weights there; `partition`:
    which layers share a stage; `sums`: the widths of `sums_outside` in the hardware.
    """

    identity: bytes
    model: str
    board: str
    transport: TransportFacts
    clock_mhz: float
    interval: int
    bytes_in: int
    bytes_out: int
    foldings: tuple[Folding, ...]
    quantized: str
    weights: WeightImage | None = None
    partition: Partition = DATAFLOW
    sums: tuple[int, ...] = ()

    @staticmethod
    def of(graph: LayerGraph, plan: Plan, board: BoardFacts, *, quantized: str = "../../quantized",
           weights: WeightImage | None = None, structure: LayerGraph | None = None) -> DesignFacts:
        """The facts of `plan` on a board; the hardware has the widths of `structure`, of `graph` unless given."""
        foldings = tuple(stage.folding for stage in plan.stages)
        sums = sums_outside(structure or graph, foldings, plan.partition)
        return DesignFacts(
            hardware_identity_of(graph, foldings, plan.partition, sums), graph.name, board.name, board.transport,
            board.clock_mhz, plan.interval_at(board.clock_mhz), frame_bytes(graph, graph.inputs),
            frame_bytes(graph, graph.outputs), foldings, quantized, weights, plan.partition, sums)

    def is_of(self, graph: LayerGraph) -> bool:
        """Whether the hardware was made of `graph`, whatever its weights beside the FPGA were.

        An edited file may have stages that `graph` cannot have.
        """
        if any(k >= len(graph.layers) for stage in self.partition.shared for k in stage.layers):
            return False
        try:
            groups = self.partition.groups(graph)
        except HwflowError:
            return False
        return len(groups) == len(self.foldings) and self.identity == hardware_identity_of(
            graph, self.foldings, self.partition, self.sums)

    def write(self, folder: Path) -> Path:
        """Write `identity.json` into `folder`."""
        text = {**plain(self), "identity": self.identity.hex(),
                "foldings": [folding_facts(folding) for folding in self.foldings],
                "transport": self.transport.facts(), "weights": self.weights and self.weights.facts(),
                "shared": plain(self.partition.shared)}
        del text["partition"]
        text = {name: value for name, value in text.items() if value or name not in ("weights", "shared", "sums")}
        write_atomically(folder / IDENTITY_FILE, json.dumps(text, indent=1) + "\n")
        return folder / IDENTITY_FILE

    @staticmethod
    def read(folder: Path) -> DesignFacts:
        """Read the facts that `write` wrote.  HwflowError where it is missing or damaged."""
        import jsonschema  # takes as long to import as the rest of the driver

        path, remedy = folder / IDENTITY_FILE, "make it with `hwflow synth`"
        try:
            with open_plain(path) as file:
                text = json.loads(file.read(LONGEST).decode("utf-8"), parse_constant=no_number)
            jsonschema.validate(text, SCHEMA, jsonschema.Draft202012Validator)
        except OSError as error:
            raise HwflowError(f"'{path}' must describe the design on the board: {error.strerror}", remedy) from None
        except (ValueError, RecursionError) as error:
            raise HwflowError(f"'{path}' must be JSON, which it is not ({error})", remedy) from None
        except jsonschema.ValidationError as error:
            place = "/".join(map(str, error.absolute_path)) or "the top level"
            raise HwflowError(f"'{path}', {place}: {error.message[:200]}", remedy) from None
        return of_plain({
            **text, "identity": bytes.fromhex(text["identity"]), "partition": {"shared": text.pop("shared", ())},
            "transport": TransportFacts.from_facts(text["transport"]),
            "weights": WeightImage.from_facts(text["weights"]) if "weights" in text else None},
            DesignFacts, edited=True)
