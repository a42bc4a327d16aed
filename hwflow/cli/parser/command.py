"""A command of the command line: its request made of the words, its function called, its result printed.

What the command line does not say comes from `hwflow.toml`, where the folder has that file.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, NoReturn

import click
from click.core import ParameterSource
from hwflow_base.later import later
from hwflow_base.options import Option as Declaration
from hwflow_base.options import Options, Section

from .parameters import Option, parameters_of, request_of
from .project_file import FILE, ProjectFile, named, without_negations


class Formatter(click.HelpFormatter):
    """Lists whose texts are broken between words alone: a path or the name of an option can be copied."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        start = min(max(len(name) for name, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        room = self.width - self.current_indent - start
        for name, text in rows:
            lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False)
            if len(name) + col_spacing > start:
                self.write(f"{indent}{name}\n")
                name = ""
            for line in lines or [""]:
                self.write(f"{indent}{name:<{start}}{line}".rstrip() + "\n")
                name = ""


class Context(click.Context):
    """The context of a command with such lists."""

    formatter_class = Formatter


def by_section(command: click.Command, ctx: click.Context) -> dict[Section, list[tuple[str, str]]]:
    """The help on the options of a command: their names and their meanings by section, in order."""
    sections: dict[Section, list[tuple[str, str]]] = {section: [] for section in Section}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
        if record is not None:
            section = parameter.declaration.section if isinstance(parameter, Option) else Section.OUTPUT
            sections[section].append(record)
    return sections


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """A section for each title that has options here."""
    for section, records in by_section(command, ctx).items():
        if records:
            with formatter.section(section):
                formatter.write_dl(records)


def write_commands(group: click.Group, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Each command with the first paragraph of its help, as long as it is."""
    rows = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, "it is listed"
        rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
    with formatter.section("Commands"):
        formatter.write_dl(rows)


with later():
    from ...views.console.terminal import Console

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """How every command shows its result."""

    as_json: Annotated[bool, Declaration("Print the result as JSON.", name="json")] = False
    quiet: Annotated[bool, Declaration(
        "Show results, warnings and errors alone: no progress, no notes.", short="q")] = False


class Command(click.Command):
    """The command of a function that takes a console and, where it has options, a request.

    The function's docstring is its help.  A command whose argument MODEL must be there reads `hwflow.toml`.
    """

    context_class = Context

    def __init__(self, function: Callable[..., Result]) -> None:
        self.function = function
        kind = function.__annotations__.get("request")
        self.request: type[Options] | None = kind and getattr(sys.modules[function.__module__], kind)
        parts: list[type[Options]] = [*([self.request] if self.request else []), Output]
        super().__init__(function.__name__, params=[parameter for part in parts for parameter in parameters_of(part)],
                         callback=self.answer, help=getdoc(function))

    @property
    def options(self) -> dict[str, Option]:
        """The options that `hwflow.toml` may have, by their keys."""
        return {option.key: option for option in self.params if isinstance(option, Option) and option.name != "as_json"}

    def answer(self, **values: object) -> NoReturn:
        """Do what the values of the parameters ask for, print the result where --json asks for it, and exit."""
        output = request_of(Output, values)
        request = self.request and request_of(self.request, values)
        console = Console(quiet=output.as_json, progress=not output.quiet, verbose=getattr(request, "verbose", False))
        from_file = list(named(click.get_current_context()))
        if from_file:
            console.progress(f"from {FILE}: {' '.join(from_file)}")
        result = self.run(console, request)
        if output.as_json:
            click.echo(json.dumps(result, indent=1))
        sys.exit(int(result.get("exit_code", 0)))

    def run(self, console: Console, request: object) -> Result:
        """The result of the function."""
        return self.function(console) if request is None else self.function(console, request)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = self.with_file(ctx, args)
        if not ctx.resilient_parsing:
            self.require_together(ctx)
        return rest

    def require_together(self, ctx: click.Context) -> None:
        """UsageError for an option without one that it needs, or beside one with which it means nothing."""
        options = {option.key: option for option in self.params if isinstance(option, Option)}
        for option in options.values():
            if not option.was_given(ctx):
                continue
            where = f"{FILE}: " if ctx.get_parameter_source(str(option.name)) is ParameterSource.DEFAULT_MAP else ""
            needed = options.get(option.declaration.needs)
            if needed is not None and not needed.has_value(ctx):
                raise click.UsageError(f"{where}--{option.key} must be given together with --{needed.key}", ctx)
            for other in option.declaration.excludes:
                if other in options and options[other].has_value(ctx):
                    raise click.UsageError(
                        f"{where}--{option.key} must not be given together with --{other}: leave one of them out", ctx)

    def with_file(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line, and of the file what they leave open."""
        has_model = any(parameter.name == "model" and parameter.required for parameter in self.params)
        if ctx.resilient_parsing or not has_model or not Path(FILE).exists():
            return super().parse_args(ctx, args)
        options = self.options
        args, off = without_negations(args, [key for key, option in options.items() if option.is_flag])
        words, _, order = self.make_parser(ctx).parse_args(args=list(args))
        said = {key for key, option in options.items() if option in order}
        known = {name: command.options for name, command in leaves(ctx.find_root().command).items()}
        file, model = ProjectFile(Path(FILE), known), words.get("model")
        of_file = file.defaults(str(ctx.info_name), options, said | off, model if isinstance(model, str) else None)
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


class Group(click.Group):
    """The commands of a package: one module for each of `names`, imported when it is asked for.

    A module has a function of its own name, or is a package with the names of more COMMANDS.
    """

    context_class = Context

    def __init__(self, package: str, names: tuple[str, ...], **settings: Any) -> None:
        super().__init__(package.rpartition(".")[2], **settings)
        self.package, self.names = package, names

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.names:
            return None
        if cmd_name not in self.commands:
            name = f"{self.package}.{cmd_name}"
            module = import_module(name)
            inner = getattr(module, "COMMANDS", None)
            self.commands[cmd_name] = (
                Command(getattr(module, cmd_name)) if inner is None else Group(name, inner, help=getdoc(module)))
        return self.commands[cmd_name]

    @property
    def by_name(self) -> dict[str, click.Command]:
        """All commands, imported."""
        context = click.Context(self)
        return {name: command for name in self.names if (command := self.get_command(context, name)) is not None}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Options"):
            formatter.write_dl(by_section(self, ctx)[Section.OUTPUT])
        write_commands(self, ctx, formatter)


def leaves(command: click.Command) -> dict[str, Command]:
    """The commands of a group that are no groups, by name."""
    inner = command.by_name if isinstance(command, Group) else {}
    return {name: child for name, child in inner.items() if isinstance(child, Command)}
