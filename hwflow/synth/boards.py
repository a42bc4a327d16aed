"""Dev boards: one YAML file each, checked when it is read.

A board is named by its file in `boards/` (in the checkout, or in the installed package `hwflow_boards`) or by the path
of a YAML file of the user's own.
"""

from __future__ import annotations

import difflib
import importlib.resources
import importlib.util
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import Entry, NotPlainYaml, plain_yaml, short
from hwflow_rtl.vendor import Resources, Technology

from .board_memories import BoardMemory, memories_of, memory_pins, memory_violations
from .families import FAMILIES, Family
from .transports import KINDS, BoardTransport, Pin
from .transports.base import Place


@dataclass(frozen=True)
class Programmer:
    """The program that puts a bitstream onto the board, and its arguments before the file's name.

    `memory` says what it can write on the board as it is sold: "sram", until the power goes, and "flash".
    """

    tool: str
    arguments: tuple[str, ...]
    memory: tuple[str, ...] = ("sram", "flash")


@dataclass(frozen=True, eq=False)
class BoardDevice:
    """A board's names and its FPGA; `family` is a name in `families.FAMILIES`."""

    name: str
    title: str
    family: str
    device: str
    package: str
    speed: str | None
    chip: str | None


@dataclass(frozen=True, eq=False)
class BoardPins:
    """The pins that designs use.

    `clock_mhz` is the oscillator; `pll_pad` says that it is at the pad that an iCE40's PLL takes for itself.
    `transports` are the ways to a host by their kinds, `chosen` is the kind that designs use.
    """

    clock: Pin
    clock_mhz: float
    pll_pad: bool
    reset: Pin | None
    reset_active_low: bool
    transports: Mapping[str, BoardTransport]
    chosen: str
    leds: tuple[Pin, ...]
    leds_active_low: bool


@dataclass(frozen=True, eq=False)
class Board(ByValue, BoardPins, BoardDevice):
    """Everything about a board that synthesis needs.

    `resources` are the device's: tables of four inputs, flip-flops, multiplier blocks, RAM blocks and SPRAM in the
    units of `hwflow_rtl.vendor.Technology.name`.  `memories` are those beside the FPGA.
    """

    resources: Resources
    programmer: Programmer | None
    source: str
    path: Path
    memories: tuple[BoardMemory, ...] = ()

    def technology(self) -> Technology:
        """The device's way of making multipliers, memories and PLLs; a new object each time."""
        return FAMILIES[self.family].technology(self)

    @property
    def transport(self) -> BoardTransport:
        """The way to a host that designs use."""
        return self.transports[self.chosen]

    def place(self, *, pads: bool = False) -> Place:
        """Where a transport is; `pads` as there."""
        return Place(self.technology(), self.clock_mhz, pads)

    def with_transport(self, kind: str | None, address: str | None = None) -> Board:
        """The same board with the way to a host of that kind, at that address; None changes nothing.  HwflowError where
        it has none, or one without addresses."""
        if address is not None:
            return self.with_transport(kind).with_address(address)
        if kind is None:
            return self
        if not isinstance(kind, str) or kind not in self.transports:  # a script may give anything
            raise HwflowError(f"transport must be one that {self.name} has, {', '.join(self.transports)}, not "
                              f"{kind if isinstance(kind, str) else type(kind).__name__}",
                              f"leave --transport out, or add the pins to a board file of your own ('{self.path}')")
        return self if kind == self.chosen else replace(self, chosen=kind)

    def with_address(self, address: str) -> Board:
        """The same board at another address in its network.  HwflowError where that cannot be."""
        line = self.transport
        if line.kind.moved is None:
            having = ", ".join(name for name, kind in KINDS.items() if kind.moved is not None)
            raise HwflowError(f"--address must be left out: it is for the transport {having}, not {line.kind.name}")
        try:
            changed = replace(line, entry=line.kind.moved(line.entry, address))
        except ValueError as error:
            raise HwflowError(f"--address must be the IPv4 address of a host, as 192.168.1.50: {error}") from None
        return replace(self, transports={**self.transports, self.chosen: changed})


def list_boards() -> tuple[str, ...]:
    """The names of all boards that come with hwflow."""
    return tuple(sorted(path.stem for path in boards_folder().glob("*.yaml")))


def load_board(name: str | Path) -> Board:
    """The board of that name, or of the YAML file at that path.  Raises HwflowError for anything wrong with it."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.parent != Path("."):
        if not path.is_file():
            raise HwflowError(
                f"the board file '{path}' must exist",
                f"the boards that come with hwflow are {', '.join(list_boards())}",
            )
        return read_board(path)
    if str(name) not in list_boards():
        near = difflib.get_close_matches(str(name).lower(), list_boards(), n=1, cutoff=0.4)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise HwflowError(f"board must be one of {', '.join(list_boards())}, or the path of a YAML file, not "
                          f"'{name}'{guess}")
    return read_board(boards_folder() / f"{name}.yaml")


@cache
def boards_folder() -> Path:
    """The installed package `hwflow_boards`, or `boards/` beside the package `hwflow` in a checkout."""
    if importlib.util.find_spec("hwflow_boards") is not None:
        return Path(str(importlib.resources.files("hwflow_boards")))
    return Path(__file__).resolve().parents[2] / "boards"


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a board file, with the names and keys of all families."""
    text = importlib.resources.files("hwflow.synth").joinpath("board_schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    loaded["properties"]["family"] = {"enum": list(FAMILIES)}
    loaded["properties"]["transports"]["properties"] = {
        name: {**kind.schema, "properties": {**kind.schema["properties"], "io_standard": {"$ref": "#/$defs/word"}}}
        for name, kind in KINDS.items()}
    loaded["allOf"] = [
        {"if": {"properties": {"family": {"const": name}}}, "then": {"required": list(family.required_keys)}}
        for name, family in FAMILIES.items() if family.required_keys]
    return loaded


def read_board(path: Path) -> Board:
    """Parse and check one file."""
    content = parse(path)
    complaints = [*violations(content)]
    if not complaints:
        complaints = [*device_violations(content)]
    if complaints:
        listing = "".join(f"\n  {complaint}" for complaint in complaints)
        raise HwflowError(f"the board file '{path}' must have the keys of those in {boards_folder()}, with "
                          f"valid values:{listing}")
    return assemble(path, content)


def parse(path: Path) -> Any:
    try:
        return plain_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HwflowError(f"the board file '{path}' must be readable: {error.strerror}") from None
    except UnicodeDecodeError:
        raise HwflowError(f"the board file '{path}' must be UTF-8 text") from None
    except NotPlainYaml as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        raise HwflowError(f"the board file '{path}' must be valid YAML: {place}{error.problem}") from None


def violations(content: object) -> Iterator[str]:
    """One sentence for each way in which `content` breaks the schema, in the order of the file's keys."""
    validator = jsonschema.Draft202012Validator(schema())
    for error in sorted(validator.iter_errors(content), key=lambda e: [str(part) for part in e.absolute_path]):
        yield from sentences(error)


def sentences(error: Any) -> Iterator[str]:
    where = ".".join(str(part) for part in error.absolute_path)
    inside = f"{where}." if where else ""
    if error.validator == "required":
        missing = error.message.split("'")[1]
        yield f"key '{inside}{missing}' must be given"
    elif error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        for key in sorted(str(key) for key in set(error.instance) - set(known)):
            if not where and key == "uart":
                yield "key 'uart' must be inside of 'transports': 'transports: {uart: {rx: ..., tx: ..., baud: ...}}'"
                continue
            near = difflib.get_close_matches(key, known, n=1)
            guess = f"; did you mean '{near[0]}'?" if near else ""
            yield f"key '{inside}{key}' must be one of {', '.join(known)}{guess}"
    elif error.validator == "enum":
        yield f"key '{where}' must be one of {', '.join(error.validator_value)}, not {error.instance!r}"
    elif error.validator == "type":
        hint = "; put it in quotes" if error.validator_value == "string" and error.instance is not None else ""
        kinds = {"object": "a mapping of keys", "array": "a list", "integer": "an integer"}
        kind = kinds.get(str(error.validator_value), f"a {error.validator_value}")
        yield f"{f'key {where!r}' if where else 'the file'} must be {kind}, not {error.instance!r}{hint}"
    else:
        yield f"key '{where}' must not break this rule: {short(error.message, 200)}"


def device_violations(content: Entry) -> Iterator[str]:
    """Names that only the place and route tools know, and what the device does not have."""
    family, device = FAMILIES[content["family"]], content["device"]
    is_known = not family.devices or device in family.devices
    if not is_known:
        yield f"key 'device' must be one of {', '.join(family.devices)}, not {device!r}"
    if family.chips and content["chip"] not in family.chips:
        yield f"key 'chip' must be one of {', '.join(family.chips)}, not {content['chip']!r}"
    if math.isnan(content["clock"]["mhz"]):  # which no limit of the schema keeps out
        yield "key 'clock.mhz' must be a number, not .nan"
    if is_known:
        yield from spram_violations(family, device, content["resources"].get("spram", 0))
    yield from foreign_keys(family, content)
    yield from memory_violations(content.get("memories", []), family.pad_timing,
                                 family.user_flashes.get(content.get("chip", "")))
    pins = [content["clock"]["pin"], *content["leds"]["pins"]]
    pins += [content["reset"]["pin"]] if "reset" in content else []
    pins += memory_pins(content.get("memories", []))
    # A design uses one transport, so that pins of two may be the same.
    used = [pins + [pin.name for _, pin in line.ports()] for line in transports_of(content).values()]
    counts = Counter[str]()
    for names in used:
        counts |= Counter(names)  # the larger one of each pin
    yield from (f"pin {pin} must be used once, not {count} times" for pin, count in sorted(counts.items()) if count > 1)


def spram_violations(family: Family, device: str, spram: int) -> Iterator[str]:
    """More SPRAM than the device has."""
    most = family.single_port_rams.get(device, 0)
    if spram and not most:
        having = ", ".join(name for other in FAMILIES.values() for name in other.single_port_rams)
        yield f"key 'resources.spram' must be given only for device {having}: no other has memories with a single port"
    elif spram > most:
        yield f"key 'resources.spram' must be at most {most}, as many as a {device.upper()} has, not {spram!r}"


def foreign_keys(family: Family, content: Entry) -> Iterator[str]:
    """Keys that only boards of another family have."""
    for name, other in FAMILIES.items():
        for key, why in other.own_keys.items():
            value: Any = content
            for part in key.split("."):
                value = value.get(part, {})
            if value and other is not family:
                yield f"key '{key}' must be given only for family {name}: {why}"


def transports_of(content: Entry) -> dict[str, BoardTransport]:
    """The ways to a host, in the order of the file."""
    return {name: BoardTransport(KINDS[name], entry, content["io_standard"], content["clock"]["mhz"])
            for name, entry in content["transports"].items()}


def assemble(path: Path, content: Entry) -> Board:
    standard = content["io_standard"]
    clock, leds, reset = content["clock"], content["leds"], content.get("reset")
    programmer, family = content.get("programmer"), FAMILIES[content["family"]]

    def pin(name: str, group: Entry) -> Pin:
        return Pin(name, group.get("io_standard", standard), group.get("pull"))

    return Board(
        name=path.stem, title=content["title"], family=content["family"], device=content["device"],
        package=content["package"], speed=content.get("speed"), chip=content.get("chip"),
        clock=pin(clock["pin"], clock), clock_mhz=float(clock["mhz"]),
        pll_pad=clock.get("pll_pad", False),
        reset=pin(reset["pin"], reset) if reset else None,
        reset_active_low=reset is not None and reset["active"] == "low",
        transports=transports_of(content), chosen=next(iter(content["transports"])),
        leds=tuple(pin(name, leds) for name in leds["pins"]), leds_active_low=leds["active"] == "low",
        resources=Resources.of_counts({name: int(count) for name, count in content["resources"].items()}),  # 4.0 is 4
        programmer=Programmer(programmer["tool"], tuple(programmer.get("arguments", ())),
                              tuple(programmer.get("memory", ("sram", "flash")))) if programmer else None,
        source=content["source"], path=path, memories=memories_of(
            content.get("memories", []), standard, family.pad_timing, family.user_flashes.get(content.get("chip", ""))),
    )
