"""`hwflow.toml`: what a user would have to repeat on every command line, read in the folder where hwflow is called.

The table `[model]` has the path of the model and what belongs to it alone, `[options]` the options of every command
that has them, and a table with the name of a command the options of that one (docs/project-file.md).  A key is the name
of an option without its dashes.  click takes the values as defaults, so the command line overrules them, and checks
them as it checks its own words.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text
from hwflow_base.files.target import same_file

from .parameters import Option

FILE = "hwflow.toml"
MODEL_TABLE, OPTIONS_TABLE = "model", "options"
#: The options of a command by their keys.
Options = Mapping[str, Option]
#: A value as click takes it of a command line.
Words = bool | str | list[str]
Table = Mapping[str, object]


def keys_of_model(commands: Iterable[Options]) -> list[str]:
    """The options that belong to one model: they are in the table of the model, beside its path."""
    return list(dict.fromkeys(key for options in commands for key, option in options.items()
                              if option.declaration.of_model))


def shared(commands: Iterable[Options]) -> dict[str, Option]:
    """The options that mean the same in all commands that have them, of which there are several; not of one model."""
    by_key: dict[str, list[Option]] = {}
    for options in commands:
        for key, option in options.items():
            by_key.setdefault(key, []).append(option)
    return {key: same[0] for key, same in by_key.items()
            if not any(option.declaration.of_model for option in same)
            and (any(option.declaration.common for option in same)
                 or (len(same) > 1 and len({option.help for option in same}) == 1))}


def excluded(key: str, options: Options) -> set[str]:
    """The options that mean nothing together with one of them, or stand for each other: where the command line has one,
    the file's is left out."""
    def apart(option: Option) -> Sequence[str]:
        return [*option.declaration.excludes, *option.declaration.replaces]

    return {*apart(options[key]), *(other for other, option in options.items() if key in apart(option))}


class ProjectFile:
    """The file `hwflow.toml` of a folder."""

    def __init__(self, path: Path, commands: Mapping[str, Options]):
        """HwflowError unless the file is TOML whose tables are those of hwflow, with keys that `commands`, the options
        of each, know."""
        self.path = path
        try:
            self.tables: dict[str, Table] = tomllib.loads(read_text(path))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise HwflowError(f"must be TOML: {error or 'it is nested too deeply'}", where=str(path)) from None
        allowed = {MODEL_TABLE: {"path", *keys_of_model(commands.values())},
                   OPTIONS_TABLE: set(shared(commands.values())),
                   **{name: set(options) for name, options in commands.items()}}
        for name, table in self.tables.items():
            self._require_known(name, allowed, "a table", "[options] has what several commands share")
            if not isinstance(table, dict):
                raise HwflowError(f"'{name}' must be a table, not {_said(table)}", f"write [{name}]", where=str(path))
            for key in table:
                self._require_known(key, allowed[name], f"a key of [{name}]", "a key is the name of an option without "
                                    "its dashes")

    def _require_known(self, name: str, known: Iterable[str], what: str, remedy: str) -> None:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise HwflowError(f"{what} must be one that hwflow knows, not '{name}'",
                              f"did you mean '{near[0]}'?" if near else remedy, where=str(self.path))

    def defaults(self, command: str, options: Options, said: set[str], model: str | None) -> dict[str, Words]:
        """The values of `options` that the file has for `command`, by the names of click's parameters.

        `said` are the keys on the command line.  `model` is the model there, None where none is named: what belongs to
        the file's model is no default for another one.
        """
        own = self.tables.get(MODEL_TABLE, {})
        tables = [self.tables.get(OPTIONS_TABLE, {}), self.tables.get(command, {})]
        if model is None or same_file(Path(model), Path(_text(own.get("path", ""), "path", self.path))):
            tables.insert(0, own)
        values = {key: value for table in tables for key, value in table.items() if key in options}
        return {str(options[key].name): _words(value, options[key], self.path) for key, value in values.items()
                if not said & excluded(key, options)
                and (options[key].declaration.needs or key) in said | set(values)}

    @property
    def model(self) -> str | None:
        """The model of the file; None where it names none."""
        own = self.tables.get(MODEL_TABLE, {})
        return _text(own["path"], "path", self.path) if "path" in own else None


def _words(value: object, option: Option, path: Path) -> Words:
    """A value as click expects it of a command line: a flag as it is, else text, or a list of texts."""
    key = option.key
    if option.is_flag:
        if not isinstance(value, bool):
            raise HwflowError(f"'{key}' must be true or false, not {_said(value)}", where=str(path))
        return value
    if option.multiple:
        return [_text(item, key, path) for item in (value if isinstance(value, list) else [value])]
    return _text(value, key, path)


def _text(value: object, key: str, path: Path) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise HwflowError(f"'{key}' must be a text or a number, not {_said(value)}", where=str(path))
    if "\0" in str(value):  # no file and no option has one
        raise HwflowError(f"'{key}' must be a text without the character U+0000, not {_said(value)}", where=str(path))
    return str(value)


def _said(value: object) -> str:
    return f"{value!r:.60}"


def without_negations(arguments: Sequence[str], flags: Iterable[str]) -> tuple[list[str], set[str]]:
    """The words of a command line without `--no-<flag>`, and the flags that these switch off."""
    ends = arguments.index("--") if "--" in arguments else len(arguments)
    off = {f"--no-{flag}": flag for flag in flags}
    left = [word for k, word in enumerate(arguments) if k >= ends or word not in off]
    return left, {off[word] for word in arguments[:ends] if word in off}


def named(context: click.Context) -> Iterator[str]:
    """The options that a call takes from the file, as words of a command line."""
    for parameter in context.command.params:
        name = str(parameter.name)
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP and context.default_map:
            value = context.default_map[name]
            if isinstance(parameter, click.Argument):
                yield str(value)
            elif value is not False:
                yield max(parameter.opts, key=len) + ("" if value is True else
                                                       f" {' '.join(value) if isinstance(value, list) else value}")
