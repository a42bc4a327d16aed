"""The outputs of an operator by its rule on integer shapes, run in every world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from hwflow_base.errors import HwflowError, sentence

from hwflow.onnx.errors import LimitError, Unsupported
from hwflow.onnx.inference.facts import TensorFact, gathered, join
from hwflow.onnx.inference.worlds import ENOUGH, SMALL, Size, Worlds
from hwflow.onnx.limits import DEFAULT_LIMITS, Meter
from hwflow.onnx.operators import row_of
from hwflow.onnx.ops.base import Arr, Call, Known, Operator
from hwflow.onnx.run.calls import run
from hwflow.onnx.run.operands import describe
from hwflow.onnx.schemas import Schema

#: Constants with more elements than that are no shapes: they stay uncomputed.
MAX_ELEMENTS = 1 << 12
#: For sizes of trial, which are not those of the model; rules allocate nothing.
_UNLIMITED = Meter(replace(DEFAULT_LIMITS, tensor_bytes=1 << 80, total_bytes=1 << 80, seconds=1e9))
#: How often operands of one node, and of all nodes, are bent until a rule accepts them.
_MAX_TRIES, _MAX_ALL_TRIES = 40, 5_000

Operands: TypeAlias = Sequence[TensorFact | None]
_Key: TypeAlias = tuple[int, ...]
#: The operands in one world to the outputs.
InWorld = Callable[[Sequence[Known | None]], tuple[Known, ...]]


class Contradiction(Exception):
    """The operands do not suit the operator at any size: why, what to do, and where if it is inside of the node."""

    def __init__(self, why: str, remedy: str = "", where: str = "") -> None:
        super().__init__(sentence(why, remedy, where))
        self.why, self.remedy, self.where = why, remedy, where


@dataclass(frozen=True)
class _Rule:
    """An operator's rule; `kernel_call` has the limits of the run for constants that are computed."""

    call: Call
    operator: Operator
    kernel_call: Call

    def __call__(self, operands: Sequence[Known | None]) -> tuple[Known, ...]:
        """Raises HwflowError where the operands do not suit the operator."""
        assert self.operator.shapes is not None
        try:
            with np.errstate(all="ignore"):
                results = self.operator.shapes(self.call, *operands)
        except HwflowError:
            raise
        except (ValueError, TypeError, IndexError, ArithmeticError, AttributeError, AssertionError) as error:
            listed = ", ".join("-" if k is None else describe(k.dtype, k.shape) for k in operands) or "nothing"
            raise self.call.error(f"the inputs must suit the operator, not be {listed} ({error})") from None
        outputs = results if isinstance(results, tuple) else (results,)
        return self.with_elements(operands, outputs)

    def with_elements(self, operands: Sequence[Known | None], outputs: tuple[Known, ...]) -> tuple[Known, ...]:
        """The outputs with their elements where they are small and follow from constants."""
        if all(known.value is not None for known in outputs) or _is_random(self.call.schema):
            return outputs
        arrays: list[Arr | None] = []
        for operand in operands:
            if operand is not None and operand.value is None:
                return outputs
            arrays.append(None if operand is None else operand.value)
        sizes = [math.prod(known.shape) for known in outputs] + [a.size for a in arrays if a is not None]
        if max(sizes, default=0) > MAX_ELEMENTS:
            return outputs
        try:
            values = run(self.kernel_call, self.operator, arrays)
        except LimitError:
            raise
        except (HwflowError, AssertionError):
            return outputs
        folded = (Known(v.dtype, v.shape, v) if isinstance(v, np.ndarray) else None for v in values)
        return tuple(known or result for known, result in zip(folded, outputs, strict=False))


def _is_random(schema: Schema | None) -> bool:
    return schema is not None and schema.random


def by_rule(call: Call, operator: Operator, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    """The outputs; None where the rule needs something that is not known.

    Raises Contradiction where no sizes suit, LimitError where an output of known size is too large.
    """
    if operator.shapes is None or any(o is not None and (o.dtype is None or o.shape is None) for o in operands):
        return None
    for position in operator.constant:
        operand = operands[position] if position < len(operands) else None
        if operand is not None and operand.elements is None:
            return None
    if all(o is None or o.is_static for o in operands):
        return _static(_Rule(call, operator, call), operands)
    rule = _Rule(replace(call, meter=_UNLIMITED), operator, call)
    since = row_of(call.node.domain, call.node.op_type).broadcasts
    if since and call.opset >= since and len(operands) > 1:
        broadcast = _broadcast(rule, operands, worlds)
        if broadcast is not None:
            return broadcast
    return _in_all_worlds(rule, operands, worlds)


def _static(rule: _Rule, operands: Operands) -> list[TensorFact] | None:
    try:
        return [TensorFact(k.dtype, k.shape, k.value) for k in rule(_in_world(operands, 0))]
    except (LimitError, Unsupported):
        raise
    except HwflowError as error:
        raise Contradiction(error.why, error.remedy, error.where) from None


def _in_world(operands: Operands, world: int) -> list[Known | None]:
    return [None if o is None else o.known(world) for o in operands]


def _run(rule: InWorld, operands: Operands, worlds: Worlds) -> tuple[dict[int, tuple[Known, ...]], HwflowError | None]:
    outputs: dict[int, tuple[Known, ...]] = {}
    failure: HwflowError | None = None
    for world in worlds.alive:
        try:
            outputs[world] = rule(_in_world(operands, world))
        except Unsupported:
            raise
        except HwflowError as error:
            failure = error
    return outputs, failure


def _in_all_worlds(rule: _Rule, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    outputs, failure = _run(rule, operands, worlds)
    if failure is None or sum(world >= SMALL for world in outputs) >= ENOUGH:
        if failure is not None:
            worlds.keep([world for world in worlds.alive if world in outputs])
        return _combined(outputs, worlds)
    results: list[TensorFact] | None = None
    sizes = _open_sizes(operands, worlds)
    for choice in itertools.chain(_single_choices(operands, sizes), _joint_choices(operands, sizes, worlds)):
        worlds.bent += 1
        if worlds.bent > _MAX_ALL_TRIES or (results is not None and len(choice) > 1):
            break
        bent = _bent(operands, choice, worlds)
        outputs, _ = _run(rule, bent, worlds)
        if sum(world >= SMALL for world in outputs) >= min(ENOUGH, len(worlds.large())):
            more = _loosely(outputs, bent, worlds)
            if len(choice) > 1:
                return [_sizes_unknown(fact, worlds) for fact in more]
            results = more if results is None else _common(results, more, worlds)
    return results


def _sizes_unknown(fact: TensorFact, worlds: Worlds) -> TensorFact:
    """Other sizes than those chosen at once may suit as well: what they say of the output's sizes is a guess."""
    return TensorFact(fact.dtype, None if fact.shape is None else tuple(worlds.fresh() for _ in fact.shape))


def _combined(by_world: dict[int, tuple[Known, ...]], worlds: Worlds) -> list[TensorFact]:
    results = []
    for outputs in zip(*(by_world[world] for world in worlds.alive), strict=False):
        inside = dict(zip(worlds.alive, outputs, strict=True))
        first = outputs[0]
        dtype = first.dtype if all(k.dtype == first.dtype for k in outputs) else None
        if any(k.ndim != first.ndim for k in outputs):
            results.append(TensorFact(dtype, None))
            continue
        shape = tuple(worlds.gather({w: k.shape[axis] for w, k in inside.items()}) for axis in range(first.ndim))
        arrays = {w: k.value for w, k in inside.items() if k.value is not None}
        results.append(TensorFact(dtype, shape, gathered(arrays, worlds)))
    return results


def _shapes(operands: Operands) -> list[tuple[Size, ...]]:
    return [o.shape for o in operands if o is not None and o.shape is not None]


def _open_sizes(operands: Operands, worlds: Worlds) -> dict[_Key, Size]:
    return {worlds.key(d): d for s in _shapes(operands) for d in s if not isinstance(worlds.reduced(d), int)}


def _single_choices(operands: Operands, sizes: Mapping[_Key, Size]) -> Iterator[Mapping[_Key, Size]]:
    """One open size set to a constant or to another one, as a valid model may have meant it.

    2 is among the constants because some operators want 1 or 2 (real and complex numbers), or allow any small one.
    """
    constants = [1, *sorted({2, *(d for shape in _shapes(operands) for d in shape if isinstance(d, int) and d > 1)})]
    choices: list[Mapping[_Key, Size]] = [{key: c} for key in sizes for c in constants]
    choices += [{b: sizes[a]} for a, b in itertools.combinations(sizes, 2)]
    yield from choices[:_MAX_TRIES]


def _joint_choices(
    operands: Operands, sizes: Mapping[_Key, Size], worlds: Worlds
) -> Iterator[Mapping[_Key, Size]]:
    """All open sizes at once: those of one axis (counted from the last) are the same, or all are."""
    shapes = _shapes(operands)
    aligned: dict[_Key, Size] = {}
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        here = [worlds.reduced(shape[-axis]) for shape in shapes if len(shape) >= axis]
        best = min(here, key=lambda d: (not isinstance(d, int), worlds.text(d) is None))
        aligned.update((worlds.key(d), best) for d in here if not isinstance(d, int))
    if len(sizes) > 1:
        yield aligned
        yield dict.fromkeys(sizes, worlds.fresh())


def _bent(operands: Operands, choice: Mapping[_Key, Size], worlds: Worlds) -> list[TensorFact | None]:
    return [
        o
        if o is None or o.shape is None
        else replace(o, shape=tuple(choice.get(worlds.key(d), d) for d in o.shape))
        for o in operands
    ]


def _common(a: list[TensorFact], b: list[TensorFact], worlds: Worlds) -> list[TensorFact]:
    """The outputs that hold whichever way the operands were meant."""
    joined = (join(p, q, worlds) for p, q in zip(a, b, strict=True))
    return [fact for fact in joined if isinstance(fact, TensorFact)]


def _loosely(by_world: dict[int, tuple[Known, ...]], operands: Operands, worlds: Worlds) -> list[TensorFact]:
    """The outputs as far as the worlds that were found agree; everything else is unknown."""
    sizes = {d for o in operands if o is not None and o.shape is not None for d in o.shape if isinstance(d, tuple)}
    results = []
    for outputs in zip(*by_world.values(), strict=False):
        first = outputs[0]
        if any(k.ndim != first.ndim or k.dtype != first.dtype for k in outputs):
            results.append(TensorFact(first.dtype, None))
            continue
        shape: list[Size] = []
        for axis in range(first.ndim):
            numbers = {world: k.shape[axis] for world, k in zip(by_world, outputs, strict=True)}
            same = (d for d in sizes if all(d[world] == n for world, n in numbers.items()))
            constant = len(set(numbers.values())) == 1
            shape.append(next(iter(numbers.values())) if constant else next(same, worlds.fresh()))
        results.append(TensorFact(first.dtype, tuple(shape)))
    return results


def _broadcast(rule: _Rule, operands: Operands, worlds: Worlds) -> list[TensorFact] | None:
    """Outputs of an elementwise operator.  None where the elements follow from constants, or the rule shall say it."""
    tensors = [o for o in operands if o is not None]
    if all(o.elements is not None for o in tensors):
        return None
    rank = max(len(o.shape or ()) for o in tensors)
    shape: list[Size] = []
    for axis in range(-rank, 0):
        sizes = [worlds.reduced(o.shape[axis]) for o in tensors if o.shape is not None and -axis <= len(o.shape)]
        constants = {d for d in sizes if isinstance(d, int) and d != 1}
        if len(constants) > 1:
            shown = " and ".join(str(d) for d in sorted(constants))
            raise Contradiction(
                f"the input shapes must fit together by broadcasting, not have {shown} in axis {axis}"
            )
        open_sizes = {worlds.key(d): d for d in sizes if not isinstance(d, int)}
        if constants or not open_sizes:
            shape.append(next(iter(constants), 1))
        else:
            shape.append(next(iter(open_sizes.values())) if len(open_sizes) == 1 else worlds.fresh())
    scalars = [None if o is None or o.dtype is None else Known(o.dtype, ()) for o in operands]
    return [TensorFact(rule(scalars)[0].dtype, tuple(shape))]
