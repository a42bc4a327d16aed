"""Each command takes exactly the options that its request has fields for, with the same defaults."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

from hwflow import request as requests
from hwflow.cli.requests import request_of
from hwflow.cli.words import cli

MODEL, BASE = Path("model.onnx"), Path("base.onnx")


def leaves(group: click.Group) -> dict[str, click.Command]:
    """Every command by its name."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found |= leaves(command) if isinstance(command, click.Group) else {name: command}
    return found


COMMANDS = leaves(cli)


def function_of(command: click.Command) -> Any:
    """What the command line has under the decorators."""
    assert command.callback is not None
    return inspect.unwrap(command.callback)


def request_kind(command: click.Command) -> Any:
    return get_type_hints(function_of(command)).get("request")


REQUESTS = {name: kind for name, command in COMMANDS.items() if (kind := request_kind(command)) is not None}


def options_in(kind: Any) -> list[str]:
    """The names of the options that a request has fields for, those of its parts included."""
    types = get_type_hints(kind)
    return [name for field in fields(kind)
            for name in (options_in(types[field.name]) if types[field.name] in requests.PARTS else [field.name])]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_parameters_are_named(name: str) -> None:
    """Nothing is taken as `**options`, whose names and types nobody can check."""
    kinds = {parameter.kind for parameter in inspect.signature(function_of(COMMANDS[name])).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_has_a_field_and_each_field_an_option(name: str) -> None:
    """In the request where there is one, else in the function's own parameters."""
    kind, function = REQUESTS.get(name), function_of(COMMANDS[name])
    taken = list(inspect.signature(function).parameters) if kind is None else [*options_in(kind), "as_json"]
    given = [parameter.name for parameter in COMMANDS[name].params if parameter.expose_value]
    assert sorted(map(str, given)) == sorted(taken)


@pytest.mark.parametrize("name", REQUESTS)
def test_without_options_a_request_is_as_its_fields_have_it(name: str) -> None:
    more = {"reweight": ["--base", str(BASE)], "data": ["rows.csv"]}
    words = [str(MODEL), *more.get(name, [])]
    context = COMMANDS[name].make_context(name, words)
    made = request_of(REQUESTS[name], {key: value for key, value in context.params.items() if key != "as_json"})
    given = {"project": requests.Project(MODEL), "model": MODEL, "base": BASE, "sources": ("rows.csv",)}
    assert made == REQUESTS[name](**{field.name: given[field.name] for field in fields(REQUESTS[name])
                                     if field.name in given})


def test_each_request_has_its_command() -> None:
    kinds = {kind for name, kind in vars(requests).items() if name.endswith("Request")}
    assert set(REQUESTS.values()) == kinds
    assert len(kinds) == len(REQUESTS) == 14


@dataclass(frozen=True)
class Example:
    project: requests.Project
    rows: int


def test_an_option_without_a_field_and_a_field_without_an_option() -> None:
    options = {"model": MODEL, "input_shapes": (), "states": (), "data": None, "build": Path("b"),
               "limits": requests.DEFAULT_LIMITS}
    assert request_of(Example, {**options, "rows": 3}) == Example(requests.Project(MODEL, build=Path("b")), 3)
    with pytest.raises(TypeError, match="Example must have a field for each option of its command, and has none for "
                                        "more"):
        request_of(Example, {**options, "rows": 3, "more": 1})
    with pytest.raises(TypeError, match="command of Example must have an option for each field, and has none for rows"):
        request_of(Example, options)
