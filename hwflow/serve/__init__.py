"""A model on one or several boards behind HTTP: requests in, shared between the boards, answers out (docs/serve.md).

`Pool` shares frames between boards and knows no HTTP; `protocol` reads and writes the bodies and knows no boards;
`service.Service` joins both, and `service.serve` listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.later import lazy_names

from hwflow.serve.errors import ServeLimits

if TYPE_CHECKING:
    from hwflow.serve.pool import Pool

__all__ = ["Pool", "ServeLimits"]

__getattr__, __dir__ = lazy_names(__name__, {"pool": ("Pool",)})
