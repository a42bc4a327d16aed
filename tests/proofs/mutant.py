"""One line of a unit, changed: what a proof must notice."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Mutant:
    """`method` of `kind` with `new` instead of `old`, which is in its text once; the `proof` that then fails."""

    proof: str
    kind: type
    method: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.kind.__name__}-{self.method}"

    def put(self, patch: pytest.MonkeyPatch) -> None:
        """Change the method until the test ends."""
        function = inspect.unwrap(getattr(self.kind, self.method))
        text = textwrap.dedent(inspect.getsource(function))
        assert text.count(self.old) == 1, f"{self.old!r} is {text.count(self.old)} times in {function.__qualname__}"
        names: dict[str, object] = {}
        exec(compile(text.replace(self.old, self.new), inspect.getfile(function), "exec"),
             vars(sys.modules[self.kind.__module__]), names)
        patch.setattr(self.kind, self.method, names[self.method])
