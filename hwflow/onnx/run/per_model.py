"""Objects that are made once of a model, and kept for as long as the model is there."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

from hwflow.onnx.model import Model

Derived = TypeVar("Derived")
Key = TypeVar("Key")


class PerModel(Generic[Key, Derived]):
    """For each model a dict of its own, empty at first.

    Models are told apart by identity: they are frozen, but their arrays have no hash.  An entry goes when its model
    does, before another model can get the same identity; so what is kept must not hold the model.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Model], dict[Key, Derived]]] = {}

    def __len__(self) -> int:
        """Models that are there and were asked for."""
        return len(self._entries)

    def of(self, model: Model) -> dict[Key, Derived]:
        """The dict of `model`, to read and to fill."""
        key = id(model)
        entry = self._entries.get(key)
        if entry is None or entry[0]() is not model:
            entry = self._entries[key] = weakref.ref(model, lambda _: self._entries.pop(key, None)), {}
        return entry[1]
