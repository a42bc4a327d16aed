"""Commands whose defaults `hwflow.toml` may change."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from . import help as helpful
from .project_file import FILE, ProjectFile, keys_of, without_negations

__all__ = ["Command", "Group", "leaves"]


class Command(helpful.Command):
    """A command that takes what its command line does not say from `hwflow.toml`, where the folder has that file.

    Commands without an argument MODEL do not read it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        of_model = any(parameter.name == "model" for parameter in self.params)
        if ctx.resilient_parsing or not of_model or not Path(FILE).exists():
            return super().parse_args(ctx, args)
        options = keys_of(self)
        flags = [key for key, option in options.items() if isinstance(option, click.Option) and option.is_flag]
        args, off = without_negations(args, flags)
        words, _, order = self.make_parser(ctx).parse_args(args=list(args))
        given = {key for key, option in options.items() if option in order}
        file, model = ProjectFile(Path(FILE), leaves(ctx.find_root().command)), words.get("model")
        of_file = file.defaults(str(ctx.info_name), options, given | off, model if isinstance(model, str) else None)
        ctx.default_map = {name: value for name, value in of_file.items()
                           if name not in {options[key].name for key in off}}
        if file.model is not None:
            ctx.default_map["model"] = file.model
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = "" if error.param is None else str(error.param.name)
            if ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                raise click.UsageError(f"{FILE}: {error.format_message()}", ctx) from None
            raise


class Group(helpful.Group):
    """A group of such commands."""

    command_class = Command


Group.group_class = Group


def leaves(command: click.Command) -> dict[str, click.Command]:
    """The commands of a group that are no groups, by name."""
    inner = command.commands if isinstance(command, click.Group) else {}
    return {name: each for name, each in inner.items() if not isinstance(each, click.Group)}
