"""Counts of a server in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from hwflow.serve.pool import Pool

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Upper ends of the ranges of the histogram, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What has been asked and answered since the start."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.rows = 0
        self.seconds = 0.0
        self.ranges = [0] * (len(BUCKETS) + 1)

    def answered(self, status: int, rows: int, seconds: float) -> None:
        """A request for results had this status after so many seconds."""
        self.answers[status] += 1
        self.rows += rows
        self.seconds += seconds
        self.ranges[bisect_left(BUCKETS, seconds)] += 1

    def text(self, pool: Pool) -> str:
        return "\n".join([*self._of_requests(), *self._of_boards(pool), ""])

    def _of_requests(self) -> Iterator[str]:
        yield from head("hwflow_requests_total", "counter", "requests for results, by the status of the answer")
        for status, count in sorted(self.answers.items()):
            yield f'hwflow_requests_total{{status="{status}"}} {count}'
        yield from head("hwflow_rows_total", "counter", "rows of inputs with results")
        yield f"hwflow_rows_total {self.rows}"
        name = "hwflow_request_seconds"
        yield from head(name, "histogram", "seconds from a request to its answer")
        below = 0
        for end, count in zip((*map(str, BUCKETS), "+Inf"), self.ranges, strict=True):
            below += count
            yield f'{name}_bucket{{le="{end}"}} {below}'
        yield f"{name}_sum {self.seconds:.6f}"
        yield f"{name}_count {below}"

    def _of_boards(self, pool: Pool) -> Iterator[str]:
        yield from head("hwflow_outstanding_requests", "gauge", "requests that were accepted and have no answer yet")
        yield f"hwflow_outstanding_requests {pool.outstanding}"
        yield from head("hwflow_waiting_frames", "gauge", "frames that wait for a board")
        yield f"hwflow_waiting_frames {pool.backlog.frames}"
        boards = pool.facts()
        for key, name, kind, text in (
                ("up", "hwflow_board_up", "gauge", "whether the board is there"),
                ("frames", "hwflow_board_frames_total", "counter", "frames with results of the board"),
                ("batches", "hwflow_board_batches_total", "counter", "batches that the board was given"),
                ("lost", "hwflow_board_lost_total", "counter", "times that the board was lost"),
                ("retried", "hwflow_board_retried_total", "counter", "requests that were under way when it was lost")):
            yield from head(name, kind, text)
            for board in boards:
                label = str(board["name"]).translate({ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"})
                yield f'{name}{{board="{label}"}} {int(board[key])}'


def head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
