"""From a dataclass of options (`hwflow_base.options`) to click's parameters, and from their values to its object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem
from hwflow_base.options import Declared, OneOf, Options, Range, declared, options_of, text_of

T = TypeVar("T", bound=Options)

#: click's types of words that are taken as they are.
PLAIN: Mapping[Any, click.ParamType[Any]] = {
    Path: click.Path(path_type=Path), int: click.INT, float: click.FLOAT, str: click.STRING}


class Parsed(click.ParamType[Any]):
    """A word that a function parses, which raises ValueError with the reason."""

    def __init__(self, declared: Declared) -> None:
        self.name, self.declared = declared.name, declared

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if not isinstance(value, str):
            return value
        assert callable(self.declared.option.parse), "it is declared so"
        try:
            return self.declared.option.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class OneOfEnum(click.Choice[str]):
    """The values of an enumeration as words."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([str(member.value) for member in kind])
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, self.kind) else self.kind(super().convert(value, param, ctx))


class Option(click.Option):
    """An option of click, with what is declared of it."""

    def __init__(self, declared: Declared) -> None:
        option, flag, default = declared.option, declared.type is bool, declared.default
        said = not (flag or declared.repeated or default in (None, (), MISSING) or text_of(default) == "")
        super().__init__(
            [declared.name, f"--{declared.key}", *([f"-{option.short}"] if option.short else [])],
            type=None if flag else type_of(declared), is_flag=flag, multiple=declared.repeated,
            metavar=option.metavar, help=option.help, required=default is MISSING, callback=whole(declared),
            default=default if flag or said else None, show_default=said)
        self.declared, self.declaration, self.key = declared, option, declared.key

    def was_given(self, ctx: click.Context) -> bool:
        """Whether the command line or `hwflow.toml` has it, with any value; a flag, whether it is set."""
        source, value = ctx.get_parameter_source(str(self.name)), ctx.params[str(self.name)]
        return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP) and not (self.is_flag and not value)

    def has_value(self, ctx: click.Context) -> bool:
        """Whether it was given, with another value than its default."""
        return self.was_given(ctx) and ctx.params[str(self.name)] != self.declared.default

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """With the default as words of the command line."""
        extra = super().get_help_extra(ctx)
        if "default" in extra:
            extra["default"] = self.default_text()
        return extra

    def default_text(self) -> str:
        """The default as a word of the command line."""
        words, default = self.declaration.words, self.declared.default
        return ",".join(words(default)) if words else text_of(default)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        offered = self.declaration.complete
        if offered is None:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(word) for word in offered() if word.startswith(incomplete)]


def argument(declared: Declared) -> click.Argument:
    """A parameter without a name of its own; click has no help for it."""
    required = declared.default in (MISSING, None) and type(None) not in getattr(declared.type, "__args__", ())
    return click.Argument([declared.name], type=type_of(declared), nargs=-1 if declared.repeated else 1,
                          required=required, metavar=declared.option.metavar, callback=whole(declared))


class NumberRange(click.FloatRange):
    """Numbers in a range: NaN, which no comparison finds outside of one, is none of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def type_of(declared: Declared) -> click.ParamType[Any]:
    """How click makes a value of a word."""
    kind, parse = declared.kind, declared.option.parse
    if isinstance(parse, Range):
        low, high, strict = parse.least if parse.above is None else parse.above, parse.most, parse.above is not None
        return (click.IntRange if kind is int else NumberRange)(low, high, min_open=strict)  # type: ignore[arg-type]
    if isinstance(parse, OneOf):
        return click.Choice(parse.words)
    if parse is not None:
        return Parsed(declared)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return OneOfEnum(kind)
    return PLAIN.get(kind, click.STRING)


def whole(declared: Declared) -> Any:
    """The function that click calls with the value of all words."""
    function = declared.option.whole

    def check(_context: click.Context, _parameter: click.Parameter, value: Any) -> object:
        if function is None:
            return value
        try:
            return function(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return check


def parameters_of(kind: type[Options]) -> Iterator[click.Parameter]:
    """The parameters of a command that takes such a request."""
    for option in options_of(kind):
        yield argument(option) if option.option.argument else Option(option)


def request_of(kind: type[T], values: Mapping[str, object]) -> T:
    """The request with these values of click's parameters."""
    return kind(**{field.name: request_of(field.part, values) if field.part else
                   field.default if values[field.name] is None and field.default is not MISSING else values[field.name]
                   for field in declared(kind)})
