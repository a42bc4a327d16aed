"""From the options of the command line, by name, to the request that a command takes."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NoReturn, TypeVar, get_type_hints

import click

from ..report.console import Console
from ..request import PARTS
from .options import console_of_call
from .project_file import FILE, named

__all__ = ["finish", "request_of", "takes"]

Request = TypeVar("Request")
Result = Mapping[str, Any]


def takes(kind: type[Request]) -> Callable[[Callable[[Console, Request], Result]], Callable[..., NoReturn]]:
    """Decorates what a command does with a request of this kind: makes the request of the options, and prints the
    result where --json asks for it."""
    def decorate(command: Callable[[Console, Request], Result]) -> Callable[..., NoReturn]:
        @functools.wraps(command)
        def answer(as_json: bool, **options: object) -> NoReturn:
            console, from_file = console_of_call(as_json), list(named(click.get_current_context()))
            if from_file:
                console.progress(f"from {FILE}: {' '.join(from_file)}")
            finish(command(console, request_of(kind, options)), as_json)

        return answer
    return decorate


def request_of(kind: type[Request], options: Mapping[str, object]) -> Request:
    """The request with these options.  TypeError unless each option has a field, and each field an option."""
    left = dict(options)
    request = _taken(kind, left)
    if left:
        raise TypeError(f"{kind.__name__} must have a field for each option of its command, and has none for "
                        f"{', '.join(left)}")
    return request


def _taken(kind: type[Request], left: dict[str, object]) -> Request:
    """The request, or a part of one; its options are gone from `left`."""
    types = get_type_hints(kind)
    values: dict[str, object] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if types[field.name] in PARTS:
            values[field.name] = _taken(types[field.name], left)
        elif field.name in left:
            values[field.name] = left.pop(field.name)
        else:
            raise TypeError(f"the command of {kind.__name__} must have an option for each field, and has none for "
                            f"{field.name}")
    return kind(**values)


def finish(result: Result, as_json: bool) -> NoReturn:
    """Print a result as JSON where asked, and exit with its code."""
    if as_json:
        click.echo(json.dumps(result, indent=1))
    sys.exit(int(result.get("exit_code", 0)))
