"""The commands that set up a folder and a shell: `init` and `completion`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from .. import commands
from .command import leaves
from .help import Command
from .options import board_option, console_of_call, output_options
from .project_file import FILE, OF_MODEL, OPTIONS_TABLE, keys_of, shared_keys
from .requests import finish

__all__ = ["completion", "init"]

#: Columns of the comments.
WIDTH = 100
#: Commands whose options nobody wants to keep.
NOT_LISTED = ("init", "completion")
SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@click.option("--data", type=click.Path(path_type=Path),
              help="The data of the model; default: the NPZ file of the model's name, where there is one.")
@board_option
@click.option("--force", is_flag=True, help=f"Replace a {FILE} that is there.")
@output_options
def init(model: Path | None, data: Path | None, board: str, force: bool, as_json: bool) -> None:
    """Write hwflow.toml into this folder: the model, its data, the board, and every other option as a comment.

    Commands in this folder then take from it what their command line does not say (docs/project-file.md).  Without
    MODEL it is the one ONNX file of the folder.

    Exit codes: 0 written; 2 if there is such a file already, or no model.
    """
    comments = comments_of(leaves(click.get_current_context().find_root().command))
    finish(commands.init(console_of_call(as_json), Path(FILE), model, data, board, comments, force), as_json)


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes hwflow's commands, options, boards and files.

    bash: eval "$(hwflow completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: hwflow completion fish |
    source in ~/.config/fish/config.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has all of these"
    click.echo(kind(click.Group(), {}, "hwflow", "_HWFLOW_COMPLETE").source())


def comments_of(known: dict[str, click.Command]) -> dict[str, str]:
    """By table, every option as a comment: those that several commands share, then those of single ones."""
    shared = {key: option for key, option in shared_keys(known).items() if key != "board"}
    tables = {OPTIONS_TABLE: shared}
    for name, command in known.items():
        own = {key: option for key, option in keys_of(command).items() if key not in (*shared, *OF_MODEL, "board")}
        if own and name not in NOT_LISTED:
            tables[name] = own
    return {table: "\n".join(comment_of(*item) for item in options.items()) for table, options in tables.items()}


def comment_of(key: str, option: click.Parameter) -> str:
    """What an option is for, and a line to take the comment sign from."""
    assert isinstance(option, click.Option)
    about = textwrap.wrap(" ".join((option.help or "").split()), WIDTH, initial_indent="# ", subsequent_indent="# ",
                          break_on_hyphens=False, break_long_words=False)
    return "\n".join([*about, f"# {key} = {example_of(option)}"])


def example_of(option: click.Option) -> str:
    """A value for the line of a comment: the default where there is one, else what the help calls the value."""
    if option.is_flag:
        return "true"
    value = option.get_default(click.Context(click.Command("none"))) if option.show_default else None
    if isinstance(option.type, click.IntRange) and value is None:
        return str(option.type.min or 0)
    if isinstance(value, (int, float)):
        return str(value)
    shown = option.metavar or option.type.name.upper() if value is None else str(getattr(value, "value", value))
    return f'["{shown}"]' if option.multiple else f'"{shown}"'
