"""How much a model may ask for.

A model file is untrusted input: work stops with a LimitError before memory or time run out.
Limits are counted by a Meter, one for each load, inference or evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import LimitError
from hwflow.onnx.model import DType


@dataclass(frozen=True)
class Limits:
    """The largest amounts; the command line takes them as `--limit NAME=NUMBER`."""

    tensor_bytes: int = 1 << 31  # of one tensor
    total_bytes: int = 1 << 33  # of the tensors that are alive at one time
    nodes: int = 10_000_000  # executed, those of loops and functions counted every time
    iterations: int = 100_000  # of all loops together
    work: int = 10**12  # multiplications and the like of one run
    seconds: float = 300.0  # of one run
    messages: int = 2_000_000  # that a file consists of: nodes, attributes, dims and so on
    depth: int = 64  # of graphs in graphs and functions in functions
    inlined_nodes: int = 100_000  # that inlining of functions may make
    folded_bytes: int = 1 << 28  # of constants that shape inference computes; small FPGAs hold a few MiB


DEFAULT_LIMITS = Limits()

#: What each limit that a Meter counts is about, and its unit.
_MEANINGS = {
    "tensor_bytes": ("a tensor", "bytes"),
    "total_bytes": ("the tensors alive at one time", "bytes"),
    "nodes": ("the executed part of the model", "nodes"),
    "iterations": ("all loops together", "iterations"),
    "work": ("the computation", "multiplications"),
    "seconds": ("the run", "seconds"),
}


def parse_limits(texts: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> Limits:
    """The limits with those changed that `NAME=NUMBER` texts give.  Raises HwflowError for others."""
    known = {f.name: type(getattr(limits, f.name)) for f in fields(Limits)}
    changed: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            value = known[name](float(number)) if name in known else 0
        except (ValueError, OverflowError):
            value = 0
        if value <= 0 or not math.isfinite(value):
            raise HwflowError(f"--limit must be NAME=NUMBER with one of {', '.join(known)}, not '{text}'")
        changed[name] = value
    return replace(limits, **changed)  # type: ignore[arg-type]


@dataclass
class Meter:
    """Counts what one run uses against the limits.  `what` names the user of it in messages."""

    limits: Limits = DEFAULT_LIMITS
    used_bytes: int = 0
    used_nodes: int = 0
    used_iterations: int = 0
    used_work: int = 0
    started: float = field(default_factory=time.monotonic)

    def tensor(self, shape: Sequence[int], dtype: DType, what: str) -> None:
        """A tensor is about to be made.  Negative dims are refused too."""
        size = math.prod(shape) * dtype.itemsize
        if any(d < 0 for d in shape):
            raise LimitError(f"{what}: the dims must be 0 or more, not {list(shape)}", "this file cannot be trusted")
        if size > self.limits.tensor_bytes:
            raise self._error(what, "tensor_bytes", size)
        if self.used_bytes + size > self.limits.total_bytes:
            raise self._error(what, "total_bytes", self.used_bytes + size)

    def hold(self, size: int, what: str) -> None:
        """`size` bytes are kept from now on; a negative size releases them."""
        self.used_bytes += size
        if self.used_bytes > self.limits.total_bytes:
            raise self._error(what, "total_bytes", self.used_bytes)

    def node(self, what: str) -> None:
        """A node is about to be executed."""
        self.used_nodes += 1
        if self.used_nodes > self.limits.nodes:
            raise self._error(what, "nodes", self.used_nodes)
        self._check_time(what)

    def iteration(self, what: str) -> None:
        """A loop is about to start another iteration."""
        self.used_iterations += 1
        if self.used_iterations > self.limits.iterations:
            raise self._error(what, "iterations", self.used_iterations)

    def work(self, amount: int, what: str) -> None:
        """About `amount` multiplications (or steps as costly) are about to be done."""
        self.used_work += amount
        if self.used_work > self.limits.work:
            raise self._error(what, "work", self.used_work)

    def _check_time(self, what: str) -> None:
        spent = time.monotonic() - self.started
        if spent > self.limits.seconds:
            raise self._error(what, "seconds", math.ceil(spent))

    def _error(self, what: str, name: str, amount: float) -> LimitError:
        thing, unit = _MEANINGS[name]
        return LimitError(
            f"{thing} must be at most {getattr(self.limits, name):,} {unit} ({name}), not {amount:,}",
            f"if you trust the model, raise it with --limit {name}={amount}", where=what
        )
