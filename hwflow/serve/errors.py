"""Why a request has no result: each error has the status that HTTP has for it."""

from __future__ import annotations

from typing import ClassVar

from hwflow_base.errors import HwflowError

__all__ = ["BadRequest", "BoardsLost", "NoBoard", "NotServed", "QueueFull", "ServerStops", "TimedOut", "UnknownCoding"]


class NotServed(HwflowError):
    """A request without a result.  `retry_after`: whether the same request may have one later."""

    status: ClassVar[int] = 500
    retry_after: ClassVar[bool] = False


class BadRequest(NotServed):
    """The request says something that the model has not."""

    status = 400


class UnknownCoding(NotServed):
    """The body is compressed in a way that nobody here knows."""

    status = 415


class QueueFull(NotServed):
    """As many frames wait as may wait."""

    status = 503
    retry_after = True


class NoBoard(NotServed):
    """No board is there."""

    status = 503
    retry_after = True


class ServerStops(NotServed):
    """The server ends, and takes no more requests."""

    status = 503
    retry_after = True


class BoardsLost(NotServed):
    """Several boards were lost while they computed this request."""

    status = 502
    retry_after = True


class TimedOut(NotServed):
    """The result did not come in time."""

    status = 504
