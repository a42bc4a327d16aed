"""What `--help` shows: the options of a command in sections, and each command with its whole sentence.

click has no sections for options, and cuts the descriptions in a list of commands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

import click

__all__ = ["SECTIONS", "Command", "Group", "section_of"]

#: The sections in the order of the help, with their options; one that means something else in a single command is named
#: with that command.
SECTIONS = {
    "Model and data": ("--input-shape", "--state", "--limit", "--data", "--rows", "--base", "--from", "--to"),
    "Rows": ("--labels", "--classes", "data --rows", "--calibration", "--calibration-data", "--in-order",
             "data --seed"),
    "Numbers": ("--scale", "--mean", "--std"),
    "Pictures and recordings": ("--resize", "--crop", "--interpolation", "--layout", "--bgr", "--rate"),
    "Check": ("--strict", "--hardware", "check --board"),
    "Design space": ("--boards", "explore --bits", "explore --settings", "--intervals", "explore --frames",
                     "explore --execution", "explore --logic-multipliers", "explore --stream-weights",
                     "explore --accuracy-drop", "--objective"),
    "Engine": ("--workers", "--scheduler"),
    "Quantization": ("--bits", "--settings", "--rescale-bits", "--hardware-argmax"),
    "Search for widths": ("--accuracy-drop", "--search-evaluations"),
    "Board": ("--board", "--transport", "--address", "--clock", "--flash", "--weights", "--port", "--baud",
              "--patience"),
    "Plan": ("--plan", "--interval", "--frames-per-second", "--logic-multipliers", "--stream-weights",
             "--execution", "--reweightable"),
    "Place and route": ("synth --seed", "--seeds", "--jobs", "--placer", "--route", "--runs"),
    "Server": ("--host", "--http-port", "--token-file", "--timeout", "--queue", "--max-batch", "--batch-wait",
               "--max-body", "serve --verbose"),
    "Simulation": ("--simulate", "--terminal", "--frames", "--streaming", "--stalls", "--seed", "--waves", "--netlist"),
    "Output": ("--build", "--export", "--output", "--force", "--svg", "--layer-rows", "--axi-stream", "--opset",
               "--external-data", "--json", "--quiet", "--verbose", "--help"),
}


def section_of(command: str, option: str) -> str | None:
    """The title of the section that `option` of `command` stands in; None for an option that no section names."""
    for name in (f"{command} {option}", option):
        for title, names in SECTIONS.items():
            if name in names:
                return title
    return None


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
    """Of a command with such lists."""

    formatter_class = Formatter


class Command(click.Command):
    """A command whose help shows its options in sections."""

    context_class = Context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)


class Group(click.Group):
    """Commands, whose list has the first paragraph of each one's help, as long as it is."""

    command_class, context_class = Command, Context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Options"):
            formatter.write_dl([record for _, record in records(self, ctx)])
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None, "it is listed"
            rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


Group.group_class = Group


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """A section for each title that has options here."""
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
    for name, record in records(command, ctx):
        rows[section_of(str(ctx.info_name), name) or "Output"].append(record)
    for title, found in rows.items():
        if found:
            with formatter.section(title):
                formatter.write_dl(found)


def records(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, tuple[str, str]]]:
    """Of each option its long name, and what the help says of it."""
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield max(parameter.opts, key=len), record
