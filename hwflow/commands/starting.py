"""The command that sets up a folder: `init`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import write_atomically

from .. import onnx
from ..report.console import Console
from ..synth.boards import load_board

__all__ = ["init"]

Result = Mapping[str, Any]

HEAD = """\
# What hwflow's commands take in this folder where their command line does not say it.  A key is the name of an option
# without its dashes; `hwflow COMMAND --help` says more.  --no-FLAG on the command line switches a flag off.
"""
OF_MODEL = """
# The model, and what belongs to it alone: not used where the command line names another model.
[model]
path = {path}
{data}
# input-shape = ["image=1,3,32,32"]
# state = ["h0=hn"]
# settings = "quantize.yaml"
# plan = "plan.yaml"
"""


def init(console: Console, target: Path, model: Path | None, data: Path | None, board: str,
         comments: Mapping[str, str], force: bool) -> Result:
    """Write `target` for the model; `comments` has for each table the options that a user may want to set."""
    if target.exists() and not force:
        raise HwflowError("there is such a file already", "edit it, or replace it with --force", where=str(target))
    chosen = model or only_model(Path())
    onnx.load(chosen)
    beside = chosen.with_suffix(".npz")
    rows = data or (beside if beside.is_file() else None)
    if data is not None and not data.is_file():
        raise HwflowError(f"--data must be a file, not '{data}'", "see docs/data-files.md")
    load_board(board)
    write_atomically(target, text_of(chosen, rows, board, comments))
    console.say(f"{target}: {chosen}{f' with {rows}' if rows else ', without data'}, for {board}")
    console.next("hwflow check --hardware" if rows else
                 f"hwflow data makes a file of rows for {shlex.quote(str(chosen))} (docs/data-files.md)")
    return {"file": str(target), "model": str(chosen), "data": str(rows) if rows else None, "board": board}


def text_of(model: Path, data: Path | None, board: str, comments: Mapping[str, str]) -> str:
    """The file."""
    rows = f"data = {quoted(data)}" if data else '# data = "rows.npz"'
    parts = [HEAD, OF_MODEL.format(path=quoted(model), data=rows),
             f"\n# For every command that has the option.\n[options]\nboard = {quoted(board)}\n{comments['options']}\n"]
    parts += [f"\n[{table}]\n{text}\n" for table, text in comments.items() if table != "options"]
    return "".join(parts)


def quoted(text: object) -> str:
    """A TOML string: JSON's escapes are TOML's."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def only_model(folder: Path) -> Path:
    """The one ONNX file of a folder.  HwflowError where there are none, or several."""
    found = sorted(folder.glob("*.onnx"))
    if len(found) != 1:
        what = "none" if not found else f"{', '.join(map(str, found[:5]))}{', ...' if len(found) > 5 else ''}"
        raise HwflowError(f"this folder must have one ONNX file, and has {what}", "name the model: hwflow init MODEL")
    return found[0]
