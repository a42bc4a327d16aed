"""`hwflow init`."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from hwflow_base.errors import HwflowError
from hwflow_base.files.target import write_atomically
from hwflow_base.later import later
from hwflow_base.options import Option, Section

from ..options import BOARD, BoardName
from .parser.command import leaves
from .parser.parameters import Option as Parameter
from .parser.project_file import FILE, OPTIONS_TABLE, Options, keys_of_model, shared

with later():
    from .. import onnx
    from ..synth.boards import load_board
    from ..views.console.terminal import Console

#: Columns of the comments.
WIDTH = 100
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


@dataclass(frozen=True)
class InitRequest:
    """The request of `hwflow init`."""

    model: Annotated[Path | None, Option(argument=True)] = None
    data: Annotated[Path | None, Option(
        "The data of the model; default: the NPZ file of the model's name, where there is one.", Section.MODEL)] = None
    board: BoardName = BOARD
    force: Annotated[bool, Option(f"Replace a {FILE} that is there.")] = False


def init(console: Console, request: InitRequest) -> Mapping[str, object]:
    """Write hwflow.toml into this folder: the model, its data, the board, and every other option as a comment.

    Commands in this folder then take from it what their command line does not say (docs/project-file.md).  Without
    MODEL it is the one ONNX file of the folder.

    Exit codes: 0 written; 2 if there is such a file already, or no model.
    """
    target, board = Path(FILE), request.board
    if target.exists() and not request.force:
        raise HwflowError("there is such a file already", "edit it, or replace it with --force", where=str(target))
    chosen = request.model or only_model(Path())
    onnx.load(chosen)
    beside = chosen.with_suffix(".npz")
    rows = request.data or (beside if beside.is_file() else None)
    if request.data is not None and not request.data.is_file():
        raise HwflowError(f"--data must be a file, not '{request.data}'", "see docs/data-files.md")
    load_board(board)
    known = {name: command.options for name, command in leaves(click.get_current_context().find_root().command).items()}
    write_atomically(target, text_of(chosen, rows, board, comments_of(known)))
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
    models = sorted(folder.glob("*.onnx"))
    if len(models) != 1:
        what = "none" if not models else f"{', '.join(map(str, models[:5]))}{', ...' if len(models) > 5 else ''}"
        raise HwflowError(f"this folder must have one ONNX file, and has {what}", "name the model: hwflow init MODEL")
    return models[0]


def comments_of(known: Mapping[str, Options]) -> dict[str, str]:
    """Every option as a comment, by table: those that several commands share, then those of single ones."""
    common = {key: option for key, option in shared(known.values()).items() if key != "board"}
    elsewhere = {*common, *keys_of_model(known.values()), "board"}
    tables = {OPTIONS_TABLE: common}
    for name, options in known.items():
        own = {key: option for key, option in options.items() if key not in elsewhere}
        if own and name != "init":
            tables[name] = own
    return {table: "\n".join(comment_of(*item) for item in options.items()) for table, options in tables.items()}


def comment_of(key: str, option: Parameter) -> str:
    """The purpose of an option, and a line to take the comment sign from."""
    about = textwrap.wrap(" ".join((option.help or "").split()), WIDTH, initial_indent="# ", subsequent_indent="# ",
                          break_on_hyphens=False, break_long_words=False)
    return "\n".join([*about, f"# {key} = {example_of(option)}"])


def example_of(option: Parameter) -> str:
    """A value for the line of a comment: the default where there is one, else what the help calls the value."""
    if option.is_flag:
        return "true"
    value = option.declared.default if option.show_default else None
    if isinstance(option.type, click.IntRange) and value is None:
        return str(option.type.min or 0)
    if isinstance(value, (int, float)):
        return str(value)
    shown = option.metavar or option.type.name.upper() if value is None else option.default_text()
    return f'["{shown}"]' if option.multiple else f'"{shown}"'
