"""The structure of a core, without its text: a digest of its structure, and the contents of its ROMs.

Writing a design as RTLIL takes Amaranth four times as long as walking through the hardware that is written (ResNet-8:
3.3 to 4.7 s against 0.8 to 0.9 s).  So the digest is taken of the hardware, though its classes are not all public: of
the statements, signals, cells and memories that Amaranth would write, in the order in which it comes to them.
Whatever is not looked at by name is a part of it, but for where in a source file something stands.  The same version
of hwflow writes the same text of two cores with the same digest, but for the contents of ROMs.
"""

from __future__ import annotations

import enum
import hashlib
import importlib.metadata
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from amaranth.hdl import Const, Fragment, Instance
from hwflow_base.files.cache import cached_step, code_fingerprint, digest, is_whole
from hwflow_rtl.emit import without_collector
from hwflow_rtl.io.link.sender import identity_rom

from .rom_contents import BLOCK, ROM, Contents
from .top import CoreOnBoard

#: The step in the folder of a routed design, and the file in it.
FOLDER, NOTE = "structure", "structure.json"
#: What says where in a source file something stands, or what of Amaranth's objects made it.
SOURCES = ("src_loc", "_src_loc", "origins", "generated")
#: Values that say all that they are.
PLAIN = frozenset((str, int, bool, float, bytes, type(None)))


@dataclass(frozen=True)
class Structure:
    """`digest` of all but the contents of ROMs, and these."""

    digest: str
    contents: Contents


def structure_of(design: CoreOnBoard, clock: float | str | None = None) -> Structure:
    """The structure of `design.top(clock)`, with this very hwflow.

    Only the core is looked into: all else of a board's top depends on the other fields alone, and on nothing of the
    identity but the contents of its ROM.
    """
    core, board, identity = design.core, design.board, design.identity
    with without_collector():
        walk = Walk()
        walk.on(core.signature.flatten(core))
        walk.on(Fragment.get(core, None))
        identities = Walk()
        identities.on(Fragment.get(identity_rom(board.technology(), identity), None))
    around = (repr(replace(board, path=Path())), repr(design.ends), str(len(identity)), repr(design.pll(clock)),
              repr(design.weights))
    versions = (code_fingerprint(), importlib.metadata.version("amaranth"))
    return Structure(digest(*versions, *around, walk.digest()), walk.contents | identities.contents)


def save_structure(folder: Path, text: str, structure: Structure) -> None:
    """Write the digest of the design whose RTLIL is `text` into `folder`."""
    note = json.dumps({"text": digest(text), "structure": structure.digest})

    def make(place: Path) -> None:
        (place / NOTE).write_text(note, encoding="utf-8")

    cached_step(folder / FOLDER, note, make)


def saved_structure(folder: Path, text: str) -> str:
    """The digest that `save_structure` wrote into `folder` for the design with this RTLIL; "" where it is not there."""
    if not is_whole(folder / FOLDER):
        return ""
    try:
        note = json.loads((folder / FOLDER / NOTE).read_text(encoding="utf-8"))
        return str(note["structure"]) if note["text"] == digest(text) else ""
    except (ValueError, KeyError, TypeError):
        return ""


class Walk:
    """Says all that an object of Amaranth is made of, part by part; `contents` are those of the ROMs it came by.

    An object is said once and has a number from then on.  Signals also have an order, that in which they were made:
    Amaranth sorts by it.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.numbers: dict[int, int] = {}
        self.held: list[object] = []
        self.order: list[int] = []
        self.contents: Contents = {}

    def digest(self) -> str:
        ranks = {number: rank for rank, number in enumerate(sorted(self.order))}
        order = " ".join(str(ranks[number]) for number in self.order)
        return hashlib.sha256("\0".join((*self.said, order)).encode()).hexdigest()

    def on(self, value: Any) -> None:
        kind = type(value)
        if kind in PLAIN:
            self.said.append(repr(value))
        elif isinstance(value, list | tuple):
            self.said.append(f"{kind.__name__} {len(value)}")
            for item in value:
                self.on(item)
        elif isinstance(value, dict):
            self.said.append(f"{kind.__name__} {len(value)}")
            for name, item in value.items():
                self.on(name)
                self.on(item)
        elif isinstance(value, set | frozenset):
            self.said += [f"{kind.__name__} {len(value)}", *sorted(map(repr, value))]
        elif isinstance(value, enum.Enum | type):
            self.said.append(repr(value))
        elif isinstance(value, FunctionType | MethodType):
            self.said.append(f"{value.__module__}.{value.__qualname__}")
        else:
            self.on_object(value)

    def on_object(self, value: Any) -> None:
        if (number := self.numbers.get(id(value))) is not None:
            self.said.append(f"# {number}")
            return
        self.numbers[id(value)] = len(self.numbers)
        self.held.append(value)  # an object that ended would leave its id to another one
        self.said.append(type(value).__qualname__)
        rom = isinstance(value, Instance) and ROM in value.attrs
        for name in attributes_of(value):
            if name == "duid":
                self.order.append(value.duid)
            elif rom and name == "parameters":
                self.on_contents(value)
            elif name not in SOURCES and not name.startswith("_MustUse"):
                self.said.append(name)
                self.on(getattr(value, name, None))

    def on_contents(self, rom: Instance) -> None:
        """The parameters of a cell that holds a part of a ROM: of contents the widths."""
        place = (str(rom.attrs[ROM]), str(rom.attrs.get(BLOCK, "")))
        if place in self.contents:
            raise ValueError(f"part '{place[1]}' of ROM '{place[0]}' must be in one cell, not in two")
        own = self.contents[place] = {}
        for name, value in rom.parameters.items():
            self.said.append(name)
            if "INIT" in name and isinstance(value, Const):
                own[name] = f"{value.value % (1 << len(value)):0{len(value)}b}"
                self.said.append(str(len(value)))
            else:
                self.on(value)


def attributes_of(value: Any) -> list[str]:
    """The names of all that an object holds, in the order in which its class, and then it, got them."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", ())]
