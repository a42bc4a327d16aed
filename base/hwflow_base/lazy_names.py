"""Names of a package that are imported when they are first used, so that importing one of its modules stays quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, tuple[str, ...]]
               ) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; `names` are by the module of the package that has them.

    No name may be that of a module of the package too: what `import` finds first would decide which of them it is.
    """
    where = {name: f"{package}.{module}" for module, found in names.items() for name in found}

    def get(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return get, listed
