"""A model on one or several boards behind HTTP: requests in, shared between the boards, answers out (docs/serve.md).

`Pool` shares frames between boards and knows no HTTP; `protocol` reads and writes the bodies and knows no boards;
`service.Service` joins both, and `server.serve` listens.
"""

from hwflow.serve.limits import ServeLimits
from hwflow.serve.pool import Pool

__all__ = ["Pool", "ServeLimits"]
