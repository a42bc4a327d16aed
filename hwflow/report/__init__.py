"""The output for people: the console, tables, one module for each report.

`hwflow.report(...)` writes the page of a design.  This package has the name of that function, so it calls it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class Called(ModuleType):
    """The package, which can be called as `function`."""

    @property
    def function(self) -> Any:
        """`hwflow.api.report`; imported when it is used, because imports go one way."""
        return importlib.import_module("hwflow.api").report

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.function(*arguments, **options)


sys.modules[__name__].__class__ = Called
