"""The command line that asks for what requests ask for, so that results can name the command that makes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from .onnx.limits import DEFAULT_LIMITS
from .request import PARTS

__all__ = ["command_line"]

#: Fields whose option has another name.
OPTIONS = {"input_shapes": "input-shape", "states": "state", "limits": "limit"}


def command_line(command: str, *parts: Any, options: Sequence[str] = ()) -> str:
    """`hwflow command` with the model and the options of `parts`, and further `options`, as a line for a shell.

    `parts` are requests, or parts of them; the first has the model.  What is as by default is left out.
    """
    words = [word for part in parts for word in words_of(part)]
    return shlex.join(["hwflow", command, str(parts[0].model), *words, *options])


def words_of(part: Any) -> Iterator[str]:
    """The options of a request that are not as by default."""
    defaults = {field.name: field.default for field in fields(part)}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, PARTS):
            yield from words_of(value)
        elif field.name != "model" and value != defaults[field.name]:
            yield from option_of(f"--{OPTIONS.get(field.name, field.name).replace('_', '-')}", field.name, value)


def option_of(option: str, name: str, value: Any) -> Iterator[str]:
    """One option with its value; without one where the value is a flag."""
    if value is True:
        yield option
    elif name == "input_shapes":
        for tensor, shape in value:
            yield from (option, f"{tensor}={','.join(map(str, shape))}")
    elif name == "states":
        for read, written in value:
            yield from (option, f"{read}={written}")
    elif name == "limits":
        for field in fields(value):
            if getattr(value, field.name) != getattr(DEFAULT_LIMITS, field.name):
                yield from (option, f"{field.name}={getattr(value, field.name)}")
    elif name == "bits":
        yield from (option, ",".join(map(str, value)))
    elif isinstance(value, Enum):
        yield from (option, str(value.value))
    else:
        yield from (option, str(value))
