"""Each command takes exactly the options that its request declares, with the same defaults."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import FunctionType, GenericAlias, ModuleType
from typing import Annotated

import pytest
from hwflow_base.later import Later
from hwflow_base.options import Option, Options, options_of

import hwflow.cli
from hwflow.cli.commands import cli
from hwflow.cli.parser.command import Command, Group, Output
from hwflow.cli.parser.parameters import parameters_of, request_of
from hwflow.options import Project

MODEL, BASE = Path("model.onnx"), Path("base.onnx")
#: What a name may be that is imported later.
POSSIBLE = (FunctionType, type, ModuleType, GenericAlias)
#: Commands without options of their own.
BARE = {"boards", "doctor"}


def leaves(group: Group) -> dict[str, Command]:
    """Every command by its name."""
    found: dict[str, Command] = {}
    for name, command in group.by_name.items():
        found |= leaves(command) if isinstance(command, Group) else {name: command}  # type: ignore[dict-item]
    return found


COMMANDS = leaves(cli)
REQUESTS: dict[str, type[Options]] = {
    name: command.request for name, command in COMMANDS.items() if command.request is not None}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_a_console_and_its_own_request(name: str) -> None:
    parameters = inspect.signature(COMMANDS[name].function).parameters
    assert list(parameters) == (["console"] if name in BARE else ["console", "request"])
    if name not in BARE:
        assert REQUESTS[name].__name__ == f"{name.title()}Request"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_declared_option_is_one_of_the_command(name: str) -> None:
    parts = [REQUESTS[name], Output] if name in REQUESTS else [Output]
    declared = [each.name for part in parts for each in options_of(part)]
    taken = [parameter.name for parameter in COMMANDS[name].params if parameter.expose_value]
    assert taken == declared
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("name", sorted({*REQUESTS} - {"diff", "convert", "extract", "completion"}))
def test_without_options_a_request_is_as_its_fields_have_it(name: str) -> None:
    more = {"reweight": ["--base", str(BASE)], "data": ["rows.csv"]}
    words = [] if name in ("init", "rules") else [str(MODEL), *more.get(name, [])]
    made = request_of(REQUESTS[name], COMMANDS[name].make_context(name, list(words)).params)
    needed = {"project": Project(MODEL), "model": MODEL, "base": BASE, "sources": ("rows.csv",)} if words else {}
    assert made == REQUESTS[name](**{field.name: needed[field.name] for field in fields(REQUESTS[name])
                                     if field.name in needed})


def test_every_option_says_what_it_is_for() -> None:
    for kind in (Output, *REQUESTS.values()):
        for each in options_of(kind):
            assert each.option.argument or each.option.help.endswith((".", "...")), each.name


def test_what_is_imported_later_can_be() -> None:
    """A function, a class or a module; a constant would not be its own value."""
    names = [module.name for module in pkgutil.walk_packages(hwflow.cli.__path__, "hwflow.cli.")
             if not module.name.endswith("__main__")]
    assert len(names) > len(COMMANDS)
    wrong = [(name, key) for name in names for key, value in vars(import_module(name)).items()
             if isinstance(value, Later) and not isinstance(value._found(), POSSIBLE)]
    assert wrong == []


@dataclass(frozen=True)
class Example:
    project: Project
    rows: Annotated[int, Option("Rows.")] = 3
    more: int = 0


def test_a_field_without_an_option_is_a_mistake() -> None:
    with pytest.raises(TypeError, match=r"Example\.more must be annotated with an Option"):
        list(parameters_of(Example))
