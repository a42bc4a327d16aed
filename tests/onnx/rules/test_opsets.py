"""Rules about operator sets and operators (OS, IR-05 to IR-07, IR-18, IR-19)."""

from __future__ import annotations

import onnx
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import loads, require_valid
from hwflow.onnx.ops import OPERATORS
from hwflow.onnx.schemas import NEWEST, SCHEMAS, Schema, find_schema, removed_at, versions_of
from hwflow.onnx.schemas.schema import resolve
from tests.onnx.rules.protos import (
    findings,
    model,
    node,
    warned,
)  # fmt: skip

RUN_HERE = "the file is valid; to run it here, replace the operator before the export, or cut the model in front of it"


def custom(domain: str = "com.other", op: str = "Fast", **more) -> onnx.NodeProto:
    return node(op, domain=domain, **more)


@pytest.mark.rule("IR-18")
def test_operators_of_others_are_told() -> None:
    proto = model(custom(), imports=[("", 17), ("com.other", 3)])
    assert warned(proto) == (
        "graph/node[0] 'y' (Fast): the operator must be one that hwflow knows, not 'com.other.Fast'; "
        f"{RUN_HERE} [IR-18 W-custom-operator]"
    )
    read = loads(proto.SerializeToString())
    assert read.graph.nodes[0].domain == "com.other"
    with pytest.raises(HwflowError, match=r"com\.other\.Fast"):
        require_valid(read)


@pytest.mark.rule("IR-19")
def test_operators_that_are_not_evaluated_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(model()) == ()
    monkeypatch.delitem(OPERATORS, ("", "Relu"))
    proto = model()
    assert warned(proto) == (
        "graph/node[0] 'y' (Relu): the operator must be one that hwflow evaluates, not ai.onnx.Relu:14; "
        f"{RUN_HERE} [IR-19 W-not-evaluated]"
    )
    with pytest.raises(HwflowError, match=r"ai\.onnx\.Relu:14"):
        require_valid(loads(proto.SerializeToString()))


# The table of schemas, and how a version is found in it.


def schema(name: str, since: int, deprecated: bool = False) -> Schema:
    return Schema("com.example", name, since, (), (), {}, {}, deprecated=deprecated)


@pytest.mark.rule("OS-15", "OS-10")
def test_the_example_of_the_specification() -> None:
    """Operator sets 1{A} 2{A,B} 3{A',B,C} 4{B,C'}: the version that each set holds of each operator."""
    history = {
        "A": (schema("A", 1), schema("A", 3), schema("A", 4, deprecated=True)),
        "B": (schema("B", 2),),
        "C": (schema("C", 3), schema("C", 4)),
    }
    expected = {"A": [1, 1, 3, "removed"], "B": [None, 2, 2, 2], "C": [None, None, 3, 4]}
    for name, versions in history.items():
        for opset, wanted in enumerate(expected[name], start=1):
            found = resolve(versions, opset)
            got = None if found is None else "removed" if removed_at(found) else found.since
            assert got == wanted, (name, opset)


@pytest.mark.rule("OS-09", "OS-10", "OS-13")
def test_one_schema_for_each_version() -> None:
    for (domain, name), versions in SCHEMAS.items():
        since = [one.since for one in versions]
        assert since == sorted(set(since)), (domain, name)
        assert all((one.domain, one.name) == (domain, name) for one in versions)
        assert since[-1] <= NEWEST[domain]
    assert versions_of("", "Relu") == tuple(find_schema("", "Relu", v.since) for v in versions_of("", "Relu"))


@pytest.mark.rule("OS-13", "OS-18")
def test_every_version_of_the_default_operator_set_changes_something() -> None:
    changes = {one.since for (domain, _), versions in SCHEMAS.items() if not domain for one in versions}
    assert changes == set(range(1, 29))


@pytest.mark.rule("OS-18")
def test_the_table_is_that_of_onnx() -> None:
    wanted = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    held = {(one.domain, one.name, one.since) for versions in SCHEMAS.values() for one in versions}
    assert {
        entry for entry in held if entry[0] in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
    } == {entry for entry in wanted if entry[0] != "ai.onnx.training"}


@pytest.mark.rule("OS-19")
def test_the_schema_is_bound_strictly_and_the_kernel_freely() -> None:
    """Relu has one kernel and four schemas, one of them for each version of the operator set."""
    assert [find_schema("", "Relu", opset).since for opset in (1, 5, 6, 12, 13, 14, 28)] == [1, 1, 6, 6, 13, 14, 14]
    assert len(OPERATORS["", "Relu"]) == 1
    assert find_schema("", "HardSwish", 13) is None
