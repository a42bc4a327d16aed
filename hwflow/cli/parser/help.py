"""The text of `--help`: the options of a command in sections, and each command with its whole sentence.

click has no sections for options, and cuts the descriptions in a list of commands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import click
from hwflow_base.options import Section

from .parameters import Option


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
