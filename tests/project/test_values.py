"""Frozen objects are values: equal to their copies, hashable, and sent to other processes and back."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import ECP5, ICE40

import hwflow
import hwflow.api
import hwflow.host
import hwflow.onnx
from hwflow.hls.foldings.budget import DoesNotFit
from hwflow.onnx.container.document import Document
from hwflow.onnx.model import Graph, Node
from hwflow.quantize.problems import NoHardware, Problem
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from hwflow.synth import list_boards, load_board
from tests.e2e.networks import forked, gated, rows_for, small_network
from tests.layers.cases import CASES, Case

#: What is open, a board or a file, or computes: it stays in its process.
OPEN = (Document, hwflow.host.OpenBoard, hwflow.host.Stream)


def everywhere() -> None:
    """Import all of hwflow: then each class knows its subclasses."""
    for module in pkgutil.walk_packages(hwflow.__path__, "hwflow."):
        if ".files" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def classes_in(hint: object) -> Iterator[type]:
    """The classes of the project in a type hint, and arrays and mappings."""
    origin = typing.get_origin(hint) or hint
    if isinstance(origin, type):
        yield origin
    for inner in typing.get_args(hint) if origin is not Callable else ():
        yield from classes_in(inner)


def fields_of(kind: type) -> dict[str, set[type]]:
    """The classes that the compared fields of a dataclass hold, by name."""
    names = {k: v for each in kind.__mro__ for k, v in vars(inspect.getmodule(each) or object).items()}
    hints = typing.get_type_hints(kind, localns={**names, **vars(importlib.import_module(kind.__module__))})
    return {each.name: set(classes_in(hints[each.name])) for each in dataclasses.fields(kind) if each.compare}


@functools.cache
def public_dataclasses() -> tuple[type, ...]:
    """Every dataclass that functions of hwflow give or take, with what is in their fields."""
    everywhere()
    todo: list[type] = []
    for package in (hwflow.api, hwflow.onnx, hwflow.host):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isfunction(found):
                todo += [kind for hint in typing.get_type_hints(found).values() for kind in classes_in(hint)]
            elif isinstance(found, type):
                todo.append(found)
    seen: dict[type, bool] = {}
    while todo:
        kind = todo.pop()
        if kind in seen or not kind.__module__.startswith("hwflow") or issubclass(kind, OPEN):
            continue
        seen[kind] = dataclasses.is_dataclass(kind)
        todo += kind.__subclasses__()
        if seen[kind]:
            todo += [inner for held in fields_of(kind).values() for inner in held]
    return tuple(kind for kind, is_data in seen.items() if is_data)


def test_what_the_functions_give_can_be_hashed_and_sent() -> None:
    """A dataclass makes a hash that fails for arrays and mappings, and pickles what it keeps beside its fields."""
    assert len(public_dataclasses()) > 90
    wrong = []
    for kind in public_dataclasses():
        parameters = kind.__dataclass_params__
        held = {name for name, inner in fields_of(kind).items()
                if any(issubclass(each, np.ndarray | Mapping | list) for each in inner)}
        keeps = {name for each in kind.__mro__ for name, value in vars(each).items()
                 if isinstance(value, functools.cached_property)}
        if parameters.frozen and ((held and parameters.eq) or keeps) and not issubclass(kind, ByValue):
            wrong.append((kind.__qualname__, sorted(held | keeps)))
        assert not (issubclass(kind, ByValue) and parameters.eq), f"{kind.__qualname__} must have eq=False"
    assert wrong == []


def assert_copies(value: Any) -> None:
    """A copy through a pickle is equal and has the same hash."""
    again = pickle.loads(pickle.dumps(value))
    assert again is not value
    assert again == value
    assert hash(again) == hash(value)


@pytest.mark.parametrize("kind", CASES.values(), ids=lambda kind: kind.__name__)
def test_layers_whose_costs_were_computed(kind: Callable[[np.random.Generator], Case]) -> None:
    rng, computed = np.random.default_rng(7), 0
    for _ in range(8):
        graph = kind(rng).graph
        (layer,) = graph.layers
        if stage_of(graph, layer).hardware_problem() is None:
            for technology in (ECP5(), ICE40()):
                folding = next(stage_of(graph, layer).foldings_on(technology))
                stage_of(graph, layer).cost(folding, technology)
            stage_of(graph, layer).schedule(folding, REFERENCE)
            computed += 1
        assert_copies(graph)
        assert {layer: 1}[replace(layer)] == 1
        assert replace(layer, name="other") != layer
    assert computed > 2


@dataclass(frozen=True, eq=False)
class Held(ByValue):
    value: Any
    beside: object = field(default=0, compare=False)


def test_equality_is_of_contents() -> None:
    nan = float("nan")
    equal = [(np.array([1, 2]), np.array([1, 2])), (np.array([nan]), np.array([nan])), ({"a": 1, "b": (nan,)},
             {"b": (float("nan"),), "a": 1}), ([np.zeros(2)], [np.zeros(2)]), (1, 1.0),
             (np.array(["é", ""], object), np.array(["é", ""], object)), (np.zeros((3, 2)).T, np.zeros((2, 3))),
             (np.zeros(0), np.zeros(0)), (np.array(2), np.array(2))]
    for a, b in equal:
        assert Held(a) == Held(b, beside=1)
        assert hash(Held(a)) == hash(Held(b))
    other = [(np.array([1]), np.array([2])), (np.array([1]), np.array([1.0])), (np.zeros(2), np.zeros((1, 2))),
             (np.zeros(1), (0.0,)), ({"a": 1}, {"a": 1, "b": 2}), ({"a": np.zeros(1)}, {"a": np.ones(1)}),
             ((1,), [1]), ((1,), (1, 2)), (np.array(["a"], object), np.array(["b"], object)), (np.zeros(1), None)]
    for a, b in other:
        assert Held(a) != Held(b)
    assert Held(1) != 1


def test_models_are_equal_by_their_weights() -> None:
    one, again, other = small_network(), small_network(), small_network(seed=1)
    assert (one == again, one == other, len({one, again, other})) == (True, False, 2)
    body = Graph("body", (Node("Constant", (), ("c",), {"value": np.array([float("nan")])}),), (), (), {})
    assert_copies(Node("If", ("x",), ("y",), {"then_branch": body}))


@pytest.mark.parametrize("name", list_boards())
def test_boards(name: str) -> None:
    board = load_board(name)
    assert_copies(board)
    assert pickle.loads(pickle.dumps(board)).transport.kind is board.transport.kind
    technology = pickle.loads(pickle.dumps(board.technology()))
    assert repr(sorted(vars(technology).items())) == repr(sorted(vars(board.technology()).items()))


def there(value: Any) -> tuple[Any, bool]:
    """In another process: the value back, and whether its hash there is that of a copy."""
    return value, hash(value) == hash(pickle.loads(pickle.dumps(value)))


def test_a_pool_of_new_processes() -> None:
    """As `concurrent.futures` starts them where nothing can be forked: the functions and all that goes through them."""
    model, branched = small_network(), forked()
    rows = rows_for(model, 12)
    data = hwflow.read_data({**rows, "labels": np.arange(12) % 3}, model)
    quantized = hwflow.quantize_model(model, data)
    mixed = hwflow.quantize_model(branched, rows_for(branched, 4))
    plans = [hwflow.make_plan(quantized), hwflow.make_plan(quantized, "icebreaker"),
             hwflow.make_plan(mixed, execution="shared"),
             hwflow.make_plan(hwflow.quantize_model(gated(), rows_for(gated(), 4)))]
    values = [model, data, quantized, mixed, *plans, hwflow.measure_accuracy(model, quantized, data),
              hwflow.measure_layers(quantized, data), hwflow.onnx.infer_types(model)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for value, (back, same_hash) in zip(values, pool.map(there, values), strict=True):
            assert back == value
            assert same_hash
        made = pool.submit(hwflow.run_golden, quantized, data).result()
        assert np.array_equal(made["fc_out"], hwflow.run_golden(quantized, data)["fc_out"])
        assert pool.submit(hwflow.make_plan, quantized, "icebreaker").result() == plans[1]
        again = pool.submit(hwflow.make_plan, mixed, execution="shared").result()
        name = again.stages[0].name
        assert again.with_folding(name, lanes=1) == plans[2].with_folding(name, lanes=1)
        with pytest.raises(hwflow.AnswerIsNo, match="must be at least"):
            pool.submit(hwflow.make_plan, quantized, interval=1).result()


def test_errors_are_sent_too() -> None:
    """An error that cannot be unpickled breaks the pool whose worker raised it."""
    everywhere()
    todo, kinds = [HwflowError], []
    while todo:
        kinds.append(todo.pop())
        todo += kinds[-1].__subclasses__()
    assert len(kinds) > 20
    problem = Problem("'conv' (Conv)", "there is no such thing", "leave it out")
    errors = [NoHardware((problem,)) if kind is NoHardware else kind("why", "remedy") for kind in kinds]
    errors += [HwflowError("why", "remedy", where="here"), DoesNotFit.of("It is large. ", lacking="lut 9",
                                                                        outside_helps=3)]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
