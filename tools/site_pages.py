"""The parts of the documentation that are made from the code each time the site is built, so none can be stale.

A page of docs/ marks the place of such a part with a comment, as in

    <!-- generated: command line -->

`PARTS` maps these names to functions that give Markdown.  tools/site_build.py puts it there.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click

ROOT = Path(__file__).parent.parent

#: The commands in the order of the work, not of the alphabet; one that is not named here comes after them.
ORDER = ("check", "info", "data", "quantize", "golden", "build", "sim", "synth", "report", "explore", "program", "run",
         "reweight", "serve", "boards", "init", "doctor", "onnx")

#: Modules of the Python interface, with their titles.
MODULES = {
    "hwflow": "The steps, as functions",
    "hwflow.host": "A board that runs a model",
    "hwflow.onnx": "ONNX models",
    "hwflow.backend": "ONNX's Backend interface",
}


def command_line() -> str:
    """Every command with its arguments, and its options in the sections of `--help`."""
    from hwflow.cli.commands import cli

    context = click.Context(cli, info_name="hwflow")
    return "\n".join(line for name in in_order(cli.list_commands(context))
                     for line in command_page(cli.by_name[name], name, context))


def in_order(names: Iterable[str]) -> list[str]:
    known = {name: place for place, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (known.get(name, len(known)), name))


def command_page(command: click.Command, name: str, parent: click.Context, level: int = 2) -> Iterator[str]:
    """The section of one command; a group has a section for each of its commands below its own."""
    from hwflow.cli.parser.command import Group

    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"{'#' * level} {context.command_path}", "", "```text", usage, "```", "")
    for paragraph in (command.help or "").replace("\b", "").split("\n\n"):
        yield from (cell(paragraph).replace("Exit codes:", "**Exit codes:**"), "")
    yield from option_tables(command, context)
    if isinstance(command, Group):
        for inner in in_order(command.list_commands(context)):
            yield from command_page(command.by_name[inner], inner, context, level + 1)


def option_tables(command: click.Command, context: click.Context) -> Iterator[str]:
    """A table for each section of the help that the command has options in."""
    from hwflow.cli.parser.command import by_section

    for section, records in by_section(command, context).items():
        if records:
            yield from (f"**{section}**", "", "| option | meaning |", "|---|---|")
            yield from (f"| {code(names)} | {cell(text)} |" for names, text in records)
            yield ""


def cell(text: str) -> str:
    """Text inside of a table: what Markdown or HTML would take for its own is written as it is."""
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("*", "&#42;"), ("[", "&#91;")):
        text = text.replace(sign, written)
    return linked(" ".join(text.split()))


def linked(text: str) -> str:
    """The text with links in place of the names of documents."""
    return re.sub(r"\bdocs/([a-z0-9-]+)\.md", r"[\1](\1.md)", text)


def code(text: str) -> str:
    return f"<code>{cell(text).replace('_', '&#95;')}</code>"


def python_interface() -> str:
    """An entry for mkdocstrings for each public class and function of each module, in the order of the source."""
    lines = []
    for module, title in MODULES.items():
        found = importlib.import_module(module)
        names = sorted(filter(partial(is_code, found), found.__all__), key=partial(place_of, found))
        lines += [f"## {title}", "", f"`import {module}`", "", *(f"::: {path_of(found, name)}\n" for name in names)]
    return "\n".join(lines)


def is_code(module: ModuleType, name: str) -> bool:
    """Whether a public name is a class or a function of hwflow; modules have sections of their own."""
    value = getattr(module, name)
    return callable(value) and str(getattr(value, "__module__", "")).startswith("hwflow") and bool(value.__doc__)


def path_of(module: ModuleType, name: str) -> str:
    """Where a name is defined, which is where mkdocstrings finds it: a package imports it when it is first used."""
    value = getattr(module, name)
    return f"{value.__module__}.{value.__qualname__}"


def place_of(module: ModuleType, name: str) -> tuple[bool, bool, str, int]:
    """Where a name is defined: functions first, then classes, the errors at the end."""
    value = getattr(module, name)
    return (value.__module__ == "hwflow_base.errors", isinstance(value, type), value.__module__,
            inspect.getsourcelines(value)[1])


def board_keys() -> str:
    """The keys of a board file, from the schema that refuses wrong ones."""
    schema = json.loads((ROOT / "hwflow" / "synth" / "board_schema.json").read_text(encoding="utf-8"))
    parts = ["## Keys", "", *keys_table(schema, schema)]
    for name in ("sdr_sdram", "qspi_flash", "user_flash"):
        parts += [f"## `memories`: kind `{name}`", "", *keys_table(schema["$defs"][name], schema)]
    return "\n".join(parts)


def settings_keys() -> str:
    """The keys of a file of quantization settings, from the schema that refuses wrong ones."""
    schema = json.loads((ROOT / "hwflow" / "quantize" / "settings.schema.json").read_text(encoding="utf-8"))
    parts = ["## The file", "", *keys_table(schema, schema)]
    titles = {"layer": "A layer, and `default`", "weights": "`weights` of a layer",
              "activation": "`output` of a layer, and each of `inputs`"}
    for name, title in titles.items():
        parts += [f"## {title}", "", *keys_table(schema["$defs"][name], schema)]
    return "\n".join(parts)


def keys_table(schema: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """A row for each key of an object, and for those of the objects inside of it."""
    return ["| key | needed | value |", "|---|---|---|", *keys_of(schema, whole, ""), ""]


def keys_of(schema: dict[str, Any], whole: dict[str, Any], before: str) -> Iterator[str]:
    for key, value in schema["properties"].items():
        value = resolved(value, whole)
        needed = "yes" if key in schema.get("required", ()) else "no"
        yield f"| {code(before + key)} | {needed} | {cell(meaning(value, whole))} |"
        if value.get("properties") and "items" not in value and not value.get("description"):
            yield from keys_of(value, whole, f"{before}{key}.")


def resolved(value: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = whole["$defs"][value["$ref"].rpartition("/")[2]] if "$ref" in value else value
    return found


def meaning(value: dict[str, Any], whole: dict[str, Any]) -> str:
    """What a value must be, in words."""
    if "description" in value:
        return str(value["description"])
    if "enum" in value:
        return " or ".join(map(str, value["enum"]))
    if value.get("type") == "array":
        return "list of: " + meaning(resolved(value["items"], whole), whole)
    if value.get("pattern"):
        return "name of a pin, part or standard"
    limits = [f"{word} {value[key]}" for key, word in LIMITS.items() if key in value]
    return ", ".join([WORDS[value["type"]], *limits])


LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
WORDS = {"object": "mapping", "string": "text", "integer": "whole number", "number": "number",
         "boolean": "true or false"}


def example_plan() -> str:
    """The plan of the example model, as `hwflow build` writes it."""
    import hwflow
    from hwflow.hls.plan.plan_file import plan_to_yaml

    model = hwflow.load(ROOT / "models" / "digits_cnn.onnx")
    quantized = hwflow.quantize_model(model, hwflow.read_data(ROOT / "models" / "digits_cnn.npz", model))
    return f"```yaml\n{plan_to_yaml(hwflow.make_plan(quantized, board='icebreaker'))}```"


def picture() -> str:
    """The picture of the landing page, as HTML inside of Markdown."""
    svg: str = runpy.run_path(str(ROOT / "tools" / "flow_picture.py"))["picture"]()
    return f'<div class="flow-frame" markdown="0">\n{svg}\n</div>'


PARTS: dict[str, Callable[[], str]] = {
    "picture": picture,
    "command line": command_line,
    "python interface": python_interface,
    "keys of a board file": board_keys,
    "keys of a settings file": settings_keys,
    "plan of the example": example_plan,
}
