"""Errors of what is done with a model begin with the path of its file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Model

Function = TypeVar("Function", bound=Callable[..., object])


@contextmanager
def about(model: Model) -> Iterator[None]:
    """Every HwflowError in this context begins with the path that `model` was read from, where it was read."""
    try:
        yield
    except HwflowError as error:
        named = error.about(model.file)
        if named is error:
            raise
        raise named from error


def names_file(function: Function) -> Function:
    """Decorates a function whose first argument is a model: its errors begin with the path that this was read from."""
    @functools.wraps(function)
    def named(model: Model, *arguments: object, **options: object) -> object:
        with about(model):
            return function(model, *arguments, **options)

    return cast(Function, named)
