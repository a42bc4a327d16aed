"""An engine without Dask, for tests of what is done with the results of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hwflow.search.exploration.engine import Lost


class Here:
    """An engine that runs each task when its result is wanted, the last one first, and loses the first `losses`."""

    def __init__(self, losses: int = 0) -> None:
        self.losses, self.ran = losses, 0

    def later(self, function: Any, *arguments: Any) -> Any:
        made: list[Any] = []

        def promise() -> Any:
            if not made:
                made.append(function(*(each() if callable(each) else each for each in arguments)))
            return made[0]

        return promise

    def finished(self, promises: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        for number, (job, promise) in enumerate(reversed(promises.items())):
            self.ran += 1
            yield job, Lost("its worker died") if number < self.losses else promise()
