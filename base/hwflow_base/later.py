"""Names that are imported when they are used first: for modules that must be quick to import, and seldom do their work.

    with later():
        from .pipeline import Pipeline

Only functions, classes and modules may be imported so; a name stands for itself in calls, for its attributes and in
`isinstance`, but not in `except` and not as a base class.  Python 3.15 has the same as `lazy from ... import ...`
(PEP 810).
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import resolve_name
from typing import Any


class Later:
    """Stands for the attribute `name` of a module."""

    def __init__(self, module: str, name: str) -> None:
        self.__dict__.update(_module=module, _name=name)

    def _found(self) -> Any:
        value = self.__dict__.get("_value")
        if value is None:
            module, name = self.__dict__["_module"], self.__dict__["_name"]
            value = getattr(import_module(module), name, None) or import_module(f"{module}.{name}")
            self.__dict__["_value"] = value
        return value

    def __call__(self, *arguments: object, **named: object) -> object:
        return self._found()(*arguments, **named)

    def __getattr__(self, name: str) -> object:
        return getattr(self._found(), name)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._found())

    def __iter__(self) -> Iterator[object]:
        return iter(self._found())

    def __getitem__(self, key: object) -> object:
        return self._found()[key]


class Unloaded:
    """Stands for a module while the import statement takes names out of it."""

    def __init__(self, name: str) -> None:
        self.__dict__["_module"] = name

    def __getattr__(self, name: str) -> Later:
        return Later(self.__dict__["_module"], name)


@contextlib.contextmanager
def later() -> Iterator[None]:
    """`from ... import ...` in the body imports nothing yet."""
    module, imported = sys._getframe(2).f_globals, builtins.__import__

    def stand_in(name: str, globals: Mapping[str, object] | None = None, locals: Mapping[str, object] | None = None,
                 fromlist: Sequence[str] | None = (), level: int = 0) -> Any:
        if globals is not module or not fromlist:
            return imported(name, globals, locals, fromlist, level)
        return Unloaded(resolve_name("." * level + name, str(module["__package__"])))

    builtins.__import__ = stand_in
    try:
        yield
    finally:
        builtins.__import__ = imported


# The names of a package, in the same way.


def lazy_names(package: str, names: Mapping[str, tuple[str, ...]]
               ) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; `names` are by the module of the package that has them.

    No name may be that of a module of the package too: what `import` finds first would decide which of them it is.
    """
    where = {name: f"{package}.{module}" for module, of_module in names.items() for name in of_module}

    def get(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        of_module = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, of_module)
        return of_module

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return get, listed
