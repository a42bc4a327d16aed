"""Which rows a model is compared on: those in which its tensors reach farthest, and made-up ones.

A quiet row hides a difference: what saturates, or a table that ends too early, shows where values are large.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hwflow.onnx.errors import EvaluationError
from hwflow.onnx.model import Array, Operand
from hwflow.onnx.run.evaluate import Program

#: Processor time, in seconds, in which rows are looked at for one comparison.  It decides how much is compared, never
#: how: the first row is looked at however long it takes.
SECONDS = 0.2
#: Rows that are looked at, at most, spread over the data.
_LOOKED_AT = 32
#: Made-up rows whose elements are at both ends of the range of their input.
_MIXED = 2


class Row(NamedTuple):
    """The inputs of a model, by name, its tensors, and whether the inputs are made up."""

    feeds: Mapping[str, Array]
    values: Mapping[str, Operand]
    is_made_up: bool = False


def telling_rows(
    program: Program, names: tuple[str, ...], data: Mapping[str, Array], is_quantized: bool
) -> tuple[Row, ...]:
    """Of the rows of `data` [n, *input shape] those in which one of the tensors `names` has its least or its largest
    value, and made-up ones at the ends of the ranges of all inputs, where the model is quantized: there every tensor
    has a range that such rows fill and do not leave.

    EvaluationError, LimitError, Unsupported: the model cannot be evaluated on a row of `data`.
    """
    end = time.process_time() + SECONDS
    count = min((len(array) for array in data.values()), default=0)
    places = np.linspace(0, count - 1, min(count, _LOOKED_AT)).round().astype(int)
    rows: list[Row] = []
    for k in np.random.default_rng(0).permutation(places):
        if rows and time.process_time() > end:
            break
        feeds = {name: array[k] for name, array in data.items()}
        rows.append(Row(feeds, program.run(feeds, names)))
    made_up = []
    for feeds in _at_the_ends(data) if rows and is_quantized else ():
        if time.process_time() > end:
            break
        try:
            row = Row(feeds, program.run(feeds, names), is_made_up=True)
        except EvaluationError:
            continue  # no row of this model: its inputs depend on each other
        if all(np.isfinite(low) and np.isfinite(high) for low, high in _reach(row).values()):
            made_up.append(row)
    return *_farthest(rows), *made_up


def _reach(row: Row) -> dict[str, tuple[float, float]]:
    """The least and the largest value of each tensor of numbers."""
    arrays = {name: value for name, value in row.values.items()
              if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "fiu"}  # fmt: skip
    return {name: (float(array.min()), float(array.max())) for name, array in arrays.items()}


def _farthest(rows: list[Row]) -> list[Row]:
    """Those of `rows` in which a tensor has its least or largest value, most such tensors first."""
    reaches = [_reach(row) for row in rows]
    wins = np.zeros(len(rows), np.int64)
    for name in dict.fromkeys(name for reach in reaches for name in reach):
        ends = np.array([reach.get(name, (np.nan, np.nan)) for reach in reaches])
        for values in (-ends[:, 0], ends[:, 1]):
            if not np.isnan(values).all():
                wins[np.nanargmax(values)] += 1
    order = np.argsort(-wins, kind="stable")
    return [rows[k] for k in order if wins[k]] or rows[:1]


def _at_the_ends(data: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Rows of the largest, of the least, and of both values of each input of numbers; other inputs are as in the first
    row."""
    rng, found = np.random.default_rng(0), []
    for share in (1.0, 0.0, *(0.5,) * _MIXED):
        row = {}
        for name, array in data.items():
            row[name] = array[0]
            if array.dtype.kind in "fiu" and array.size:
                row[name] = np.where(rng.random(array.shape[1:]) < share, array.max(), array.min()).astype(array.dtype)
        found.append(row)
    return found
