"""A planned network as files for other people's designs: what the formats share is in `network`.

`FORMATS` is the list; `export` writes one.  `hwflow.pipeline.verilog` makes the `Network` of a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .fusesoc import fusesoc_files
from .network import Example, Files, Network, Port, facts_text, frames_file, require_room, write_folder
from .verilog import litex_files, verilog_files

__all__ = ["FORMATS", "Example", "Files", "Network", "Port", "export", "frames_file", "require_room"]

#: What makes the files of each format.
FORMATS: dict[str, Callable[[Network], Files]] = {
    "fusesoc": fusesoc_files, "litex": litex_files, "verilog": verilog_files}


def export(network: Network, kind: str, folder: Path) -> None:
    """Write `network` in a format of `FORMATS` into `folder`, as a whole or not at all.

    HwflowError where the folder holds something else, or files of an earlier export that were edited.
    """
    files = FORMATS[kind](network)
    write_folder(folder, files, facts_text(network, kind, files))
