"""The safety net under every rewrite: the rewritten model is evaluated against the model that it was made of.

Some rows (`telling_rows`) are evaluated on the original, and every tensor is kept.  The same rows are then evaluated on
the rewritten model, node by node: each tensor that has the name of a tensor of the original is compared with it, and
the nodes after it read the original's values.  So every comparison is local: errors do not add up along the network,
and the first tensor that differs is the one whose computation was changed.  This works because of one rule for all
passes: *a pass keeps the meaning of every tensor whose name it keeps*.

This comparison is one of reals (float32 against float32 in another order), so it has tolerances; from the integer
golden model on there are none.  Where it fails, the original is computed in float64 as well: what its own floats round
away, or overflow, is not held against the rewritten model.

A model is compared on the rows in which its tensors reach farthest, and on made-up ones.  A quiet row hides a
difference: what saturates, or a table that ends too early, shows where values are large.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import EvaluationError, LimitError, Unsupported
from hwflow.onnx.model import Array, Model, Node, Operand
from hwflow.onnx.operators import QUANTIZERS
from hwflow.onnx.rewrite.passes import Pass
from hwflow.onnx.run.evaluate import Program, program_of
from hwflow.onnx.run.sequences import state_pairs
from hwflow.quantize.calibrate import ranges as calibrate
from hwflow.quantize.graphs import ancestors
from hwflow.quantize.passes.floats import doubled, floats_to_float64

Floats = npt.NDArray[np.float64]

#: How the note begins of a model whose own file could not be evaluated.
NOT_COMPARED = "the rewritten model was not compared with the file's, which"

#: The root mean square of the error over that of the values.  Float32 sums in another order stay below 1e-5, even where
#: a batch normalization is folded whose mean is a hundred times its deviation; the mildest wrong meaning that was ever
#: met (an epsilon of 1e-3 for 1e-5) is above 1e-3.
_FLOAT = 1e-3
#: The same for reals that were quantized on their way: one element in a hundred may be a step off, by a tie.
_QUANTIZED = 0.05
#: The same in steps of the element type, for float16 and bfloat16.
_STEPS = 32
#: Share of a tensor's integers that may be off by one: ties that floats of another order break the other way.  A
#: channel that is constant is a tie everywhere or nowhere.
_TIES = 0.5
#: But so many may be in any tensor.
_FEW_TIES = 2
#: How many times its own rounding a tensor of the original may be off: a rewrite rounds elsewhere, and in fewer places.
_ROUNDINGS = 4
#: What stands for an infinite error.
_LARGEST = float(np.finfo(np.float32).max)


class MeaningChanged(HwflowError):
    """A pass of hwflow changed what a model computes: a mistake in hwflow.  Exit code 70."""

    exit_code = 70


@dataclass(frozen=True)
class Difference:
    """The first tensor that a rewritten model computes otherwise: its name, the node that makes it, and by how much."""

    tensor: str
    node: str
    how: str


@dataclass(frozen=True)
class Trail:
    """A model after each of some passes: (name of the pass, model), in order."""

    start: Model
    steps: tuple[tuple[str, Model], ...] = ()

    @property
    def end(self) -> Model:
        return self.steps[-1][1] if self.steps else self.start

    def run(self, passes: Iterable[Pass]) -> Trail:
        """With these passes run on the end."""
        trail = self
        for step in passes:
            trail = trail.then(step.name, step.run(trail.end))
        return trail

    def before(self, name: str) -> Model:
        """The model that the step `name` was given."""
        at = [step for step, _ in self.steps].index(name)
        return self.steps[at - 1][1] if at else self.start

    def then(self, name: str, model: Model) -> Trail:
        """With the step `name`, which made `model` of the end."""
        return Trail(self.start, (*self.steps, (name, model)))


@dataclass(frozen=True)
class Proof:
    """Rewrites, and what each of them must still compute."""

    trail: Trail
    meaning: Meaning

    def run(self, passes: Iterable[Pass]) -> Proof:
        """With these passes run on the end.  MeaningChanged where one on the trail changed what the model computes."""
        trail = self.trail.run(passes)
        self.meaning.require(trail)
        return replace(self, trail=trail)


@dataclass(frozen=True)
class Meaning:
    """The meaning of a model on a few rows: for each of `rows`, its inputs and all tensors, by name.

    `problem` says why there are none, where the model cannot be evaluated on these rows.  `model` is what was
    evaluated.
    """

    model: Model
    rows: tuple[Row, ...]
    problem: str = ""

    @staticmethod
    def of(model: Model, rows: Mapping[str, Array] | None, static: Model | None = None) -> Meaning:
        """The meaning of `model` on some of `rows` [n, *input shape], or on made-up ones.

        `static` is the same model with static input shapes, where `model` leaves some open.  Each row is a sequence of
        its own: states that stay in layers are 0, as those of its layers are then.
        """
        static = static or model
        data = calibrate.synthetic(static) if rows is None else calibrate.checked(static, rows)
        data |= {name: np.zeros_like(data[name]) for name in state_pairs(static) if name not in static.graph.kept}
        try:
            return Meaning(model, telling_rows(program_of(model), _computed(model), data, _is_quantized(model)))
        except (EvaluationError, LimitError, Unsupported) as error:
            return Meaning(model, (), str(error))

    def require(self, trail: Trail) -> None:
        """Raise MeaningChanged where the end of `trail` computes something else, with the pass that changed it.

        HwflowError where it computes the same, but float32 has too few digits for it.
        """
        if self.difference(trail.end) is None:
            return
        exact = self._in_float64()
        if self.difference(trail.end, exact) is None:
            return
        for name, model in (("infer", trail.start), *trail.steps):
            difference = self.difference(model, exact)
            if difference is None:
                continue
            change = f"tensor '{difference.tensor}' of {difference.node} {difference.how}"
            if exact.rows and exact.difference(floats_to_float64(model)) is None:
                raise HwflowError(
                    "every tensor must keep its digits in float32, in which hwflow computes, and one does not: "
                    f"{change}",
                    "shift or scale the values in front of it before the export",
                )
            raise MeaningChanged(
                f"the pass '{name}' must keep what the model computes, and does not: {change}; nothing was made of "
                "this model"
            )

    def _in_float64(self) -> Meaning:
        """The same in float64; without rows where some operator does not take them."""
        model, rows = floats_to_float64(self.model), []
        names = _computed(model)
        try:
            for row in self.rows:
                feeds = {name: doubled(array) for name, array in row.feeds.items()}
                rows.append(row._replace(feeds=feeds, values=program_of(model).run(feeds, names)))
        except (EvaluationError, LimitError, Unsupported) as error:
            return Meaning(model, (), str(error))
        return Meaning(model, tuple(rows))

    def difference(self, model: Model, exact: Meaning | None = None) -> Difference | None:
        """The first tensor of `model` that is not what it was; None where all are.

        With `exact`, the same in float64, errors count only beyond what the floats of the original round away.  Loud
        rows that are made up do not hide what the others show.
        """
        return self._difference(model, exact, False) or self._difference(model, exact, True)

    def _difference(self, model: Model, exact: Meaning | None, is_made_up: bool) -> Difference | None:
        """The first difference in the rows that are made up, or in the others."""
        comparison = Comparison(_QUANTIZED if _is_quantized(model) else _FLOAT)
        program = program_of(model)
        for k, row in enumerate(self.rows):
            if row.is_made_up != is_made_up:
                continue
            comparison.original = row.values
            comparison.exact = exact.rows[k].values if exact is not None and exact.rows else {}
            fed = {value.name: row.feeds[value.name] for value in model.graph.inputs}
            try:
                program.run(fed, watch=comparison.watch)
            except EvaluationError as error:
                return comparison.first() or Difference(model.graph.outputs[0].name, "the model", f"fails: {error}")
        return comparison.first()


def _is_quantized(model: Model) -> bool:
    return any(node.op_type in QUANTIZERS or node.domain for node in model.graph.nodes)


def _computed(model: Model) -> tuple[str, ...]:
    """The tensors that outputs of `model` depend on."""
    nodes = ancestors(model.graph, [value.name for value in model.graph.outputs])
    return tuple(dict.fromkeys([name for node in nodes for name in node.outputs if name]))


class Comparison:
    """Tensors of a model, and what they should be, over some rows."""

    def __init__(self, tolerance: float = _FLOAT) -> None:
        self.original: Mapping[str, Operand] = {}
        self.exact: Mapping[str, Operand] = {}
        self._tolerance = tolerance
        self._sums: dict[str, tuple[str, _Sums]] = {}

    def watch(self, node: Node, name: str, operand: Operand) -> Operand:
        """Compare an output of `node` with the tensor of that name of `original`, and go on with the latter."""
        expected = self.original.get(name)
        if not isinstance(expected, np.ndarray) or not isinstance(operand, np.ndarray):
            return operand
        exact = self.exact.get(name)
        self.add(name, node.label, expected, operand, exact if isinstance(exact, np.ndarray) else None)
        if expected.shape != operand.shape or expected.dtype == operand.dtype:
            return expected
        return expected.astype(operand.dtype)

    def add(self, name: str, maker: str, expected: Array, actual: Array, exact: Array | None = None) -> None:
        """One row of the tensor `name`, which `maker` makes; `exact` is what `expected` is without rounding."""
        _, sums = self._sums.setdefault(name, (maker, _Sums(self._tolerance)))
        sums.add(expected, actual, exact)

    def first(self) -> Difference | None:
        """The first tensor, in the order in which they came, that is not what it should be."""
        for name, (maker, sums) in self._sums.items():
            how = sums.difference()
            if how:
                return Difference(name, maker, how)
        return None


class _Sums:
    """The errors of one tensor over rows."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self.shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self._count = self._unequal = self._steps = 0
        self._signal = self._noise = self._rounded = self._largest = self._most = 0.0
        self._is_real = False

    def add(self, expected: Array, actual: Array, exact: Array | None = None) -> None:
        """One row of the tensor, as it should be and as it is."""
        if expected.shape != actual.shape:
            self.shapes = expected.shape, actual.shape
            return
        self._count += expected.size
        if np.array_equal(expected, actual):  # most tensors: their node was not touched
            flat = np.asarray(expected, np.float64).ravel() if expected.dtype.kind == "f" else np.zeros(0)
            self._signal += float(flat @ flat)
            return
        if expected.dtype.kind in "OSU":
            self._unequal += int(np.count_nonzero(expected != actual))
            self._steps = 2
            return
        a, b = (np.asarray(array, np.float64) for array in (expected, actual))
        error = _error(a, b)
        if expected.dtype.itemsize < actual.dtype.itemsize:  # float16 overflows where float32 does not
            error = np.where(np.isfinite(a), error, 0.0)
        if exact is not None and exact.shape == expected.shape and _is_float(expected.dtype):
            rounded = _error(a, np.asarray(exact, np.float64))
            overflows = rounded >= _LARGEST
            error = np.where(overflows, 0.0, error)
            self._rounded += float(np.sum(np.where(overflows, 0.0, rounded) ** 2))
        self._unequal += int(np.count_nonzero(error))
        self._steps = max(self._steps, int(min(np.max(error, initial=0.0), 2.0**40)))
        finite = np.where(np.isfinite(a), a, 0.0).ravel()
        self._signal += float(finite @ finite)
        self._noise += float(np.sum(error * error))
        self._largest = max(self._largest, float(np.abs(finite).max(initial=0.0)))
        self._most = max(self._most, float(error.max(initial=0.0)))
        self._is_real = self._is_real or _is_float(expected.dtype) or _is_float(actual.dtype)
        self._tolerance = max(self._tolerance, _STEPS * max(_epsilon(expected.dtype), _epsilon(actual.dtype)))

    def difference(self) -> str:
        """In words; empty where the tensor is what it was."""
        if self.shapes is not None:
            return f"has the shape {list(self.shapes[1])} in place of {list(self.shapes[0])}"
        if self._is_real:
            # A tensor that nearly cancels out has no more digits than what it is the difference of.
            allowed = self._tolerance**2 * self._signal + _ROUNDINGS**2 * self._rounded
            if self._noise <= allowed or self._most < np.finfo(np.float32).tiny:
                return ""
            return f"differs by up to {self._most:.3g}, where its values are up to {self._largest:.3g}"
        if self._steps <= 1 and self._unequal <= max(_FEW_TIES, _TIES * self._count):
            return ""
        return f"differs in {self._unequal} of {self._count} integers, by up to {self._steps}"


def _is_float(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def _epsilon(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).eps) if _is_float(dtype) else 0.0  # type: ignore[no-untyped-call]


def _error(a: Floats, b: Floats) -> Floats:
    """Absolute errors; two NaN or the same infinity are equal, and one alone is an error of the largest float32."""
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isfinite(error), error, _LARGEST))


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
    """Those rows of `data` [n, *input shape] those in which one of the tensors `names` has its least or its largest
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
    """The `rows` in which a tensor has its least or largest value, most such tensors first."""
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
    rng, rows = np.random.default_rng(0), []
    for share in (1.0, 0.0, *(0.5,) * _MIXED):
        row = {}
        for name, array in data.items():
            row[name] = array[0]
            if array.dtype.kind in "fiu" and array.size:
                row[name] = np.where(rng.random(array.shape[1:]) < share, array.max(), array.min()).astype(array.dtype)
        rows.append(row)
    return rows
