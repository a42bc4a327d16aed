"""ONNX's own conformance suite (onnx.backend.test) against `hwflow.backend`: operators, small and real models.

The package onnx is a tool of development; without it these tests are skipped.  The cases are generated at the first
test and come in groups, by the first letter of the operator; a failure lists its cases.
"""

from __future__ import annotations

import functools
import string
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hwflow.backend
from hwflow.backend import BackendUnsupported

onnx = pytest.importorskip("onnx", reason="the conformance suite is a part of the package onnx")

from onnx import numpy_helper  # noqa: E402  behind the test that it is there
from onnx.backend.test.loader import load_model_tests  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402

GROUPS = (*string.ascii_uppercase, "simple", "pytorch-converted", "pytorch-operator", "real", "node")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

_RANDOM = "are not defined by ONNX and cannot be compared"  # numbers of a generator
_GRADIENT = "(Gradient)"  # differentiates the graph in front of it; no file of an exporter has it

#: Every case that is not evaluated, with the reason in the message.  No other one may be.
UNSUPPORTED = {
    "test_bernoulli": _RANDOM,
    "test_bernoulli_double": _RANDOM,
    "test_bernoulli_double_expanded": _RANDOM,
    "test_bernoulli_expanded": _RANDOM,
    "test_bernoulli_seed": _RANDOM,
    "test_bernoulli_seed_expanded": _RANDOM,
    "test_gradient_of_add": _GRADIENT,
    "test_gradient_of_add_and_mul": _GRADIENT,
    # The runner takes the length of each array of a sequence; this one holds a scalar.
    "test_loop16_seq_none": "a sequence with a scalar cannot be compared",
}


@functools.cache
def cases() -> dict[str, list[Any]]:
    """The suite's cases by group: the operator's first letter for a single node, the kind of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = {(kind, case.name): (kind, case) for kind in KINDS for case in load_model_tests(kind=kind)}
    groups: dict[str, list[Any]] = {}
    for kind, case in tests.values():
        expanded = case.name.split("_expanded")[0]
        model = tests.get((kind, expanded), (kind, case))[1].model
        alone = kind == "node" and model is not None and len(model.graph.node) == 1
        groups.setdefault(model.graph.node[0].op_type[0] if alone else kind, []).append(case)
    return groups


def tensor_of(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def stored(path: Path, kind: Any) -> Any:
    """The content of a data file: a tensor, a sequence or an optional."""
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def data_of(case: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """The model of a case, and its inputs with the outputs that belong to them."""
    if case.model is not None:
        return case.model, [(list(map(tensor_of, given)), list(map(tensor_of, want))) for given, want in case.data_sets]
    if case.url is not None:  # a real model without its weights, beside the package
        path = Path(onnx.__file__).parents[1] / case.url
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        fed = [value for value in model.graph.input if value.name not in constants]
        given = [Runner.generate_dummy_data(value, seed=0, name=case.name, random=False) for value in fed]
        outputs = enumerate(model.graph.output)
        return model, [(given, [stored(path.parent / f"{path.stem}_output_{k}.pb", v.type) for k, v in outputs])]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for part in sorted(folder.glob("test_data_set*")):
        given = [stored(part / f"input_{k}.pb", model.graph.input[k].type) for k in range(len([*part.glob("input_*")]))]
        want = [stored(part / f"output_{k}.pb", v.type) for k, v in enumerate(model.graph.output)]
        sets.append((given, want))
    return model, sets


def failure(case: Any) -> str | None:
    """What is wrong with one case, in a line; None where it is as it must be."""
    model, sets = data_of(case)
    reason = UNSUPPORTED.get(case.name)
    try:
        rep = hwflow.backend.prepare(model)
        for given, want in sets:
            Runner.assert_similar_outputs(want, list(rep.run(given)), rtol=case.rtol, atol=case.atol)
    except BackendUnsupported as error:
        return None if reason is not None and reason in str(error) else f"{case.name}: unsupported: {error}"
    except Exception as error:
        return f"{case.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None if reason is None else f"{case.name}: must be unsupported ({reason}), but passes; take it off the list"


@pytest.mark.parametrize("group", GROUPS)
def test_group(group: str) -> None:
    todo = cases().get(group, ())
    started = time.monotonic()
    failures = [line for line in map(failure, todo) if line is not None]
    assert not failures, "\n".join(failures)
    assert time.monotonic() - started < 20


def test_whole_suite_is_there() -> None:
    """More than in onnx 1.23, or as many; each case of the list of unsupported ones among them."""
    assert set(cases()) <= set(GROUPS)
    names = [case.name for group in cases().values() for case in group]
    assert len(names) >= 2033
    assert set(names) >= set(UNSUPPORTED)
    assert np.mean([name not in UNSUPPORTED for name in names]) > 0.99
