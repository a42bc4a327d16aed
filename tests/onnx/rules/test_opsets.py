"""Rules about operator sets and operators (OS, IR-05 to IR-07, IR-18, IR-19)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import helper

from hwflow.onnx import evaluate, loads, require_valid
from hwflow.onnx.ops import OPERATORS
from hwflow.onnx.schemas import NEWEST, SCHEMAS, Schema, find_schema, removed_at, versions_of
from hwflow.onnx.schemas.schema import resolve
from tests.onnx.rules.protos import (
    error_of,
    errors,
    findings,
    graph,
    leniently,
    model,
    node,
    value,
    warned,
)  # fmt: skip

REPLACE = "replace it in the model before the export"
RUN_HERE = "the file is valid; to run it here, replace the operator before the export, or cut the model in front of it"


def custom(domain: str = "com.other", op: str = "Fast", **more) -> onnx.NodeProto:
    return node(op, domain=domain, **more)


@pytest.mark.rule("IR-05")
def test_an_unknown_operator_set_that_is_not_used() -> None:
    assert warned(model(imports=[("", 17), ("com.other", 3)])) == (
        "opset_import 'com.other': an operator set that hwflow does not know must be used by a node, not only "
        "imported; remove the import [IR-05 W-opset-unused]"
    )
    assert findings(model(imports=[("", 17), ("ai.onnx.ml", 3)])) == (), "a known one may wait"


@pytest.mark.rule("IR-06")
def test_operator_sets_are_imported() -> None:
    proto = model(node(outputs=("a",)), node(inputs=("a",)), imports=())
    assert error_of(proto) == (
        "model: the model must import an operator set, not none; add opset_import of version 1 to 28 [IR-06]"
    )


@pytest.mark.rule("IR-07")
def test_before_ir_3_the_default_operator_set_is_implied() -> None:
    old = helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])  # as Relu was in operator set 1
    for ir in (1, 2):
        assert warned(model(old, imports=(), ir=ir)) == (
            f"model: IR version {ir} names no operator set; the operators are read as those of version 1 of ai.onnx; "
            "where they are newer, state IR version 3 or later and the version [IR-07 W-implied-opset]"
        )
        assert leniently(model(old, opset=1, ir=ir)) == (
            f"model: a model of IR version {ir} must import no operator set, not 1; state IR version 3 or later "
            "[IR-07 W-ir1-opset]"
        )
    late = model(node("HardSwish"), imports=(), ir=1)
    assert error_of(late) == (
        "graph/node[0] 'y' (HardSwish): the operator must exist in operator set 1, not only from 14 on; "
        "export the model with opset 14 or later [OS-08]"
    )


@pytest.mark.rule("IR-07", "OS-08")
def test_only_an_operator_set_of_others() -> None:
    assert findings(model(custom(), imports=[("com.other", 1)]))[0].code == "W-custom-operator"
    assert error_of(model(node(), imports=[("com.microsoft", 1)])) == (
        "graph/node[0] 'y' (Relu): operator set 'ai.onnx' must be imported, not missing; add it to opset_import [OS-08]"
    )


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


@pytest.mark.rule("OS-04")
def test_domains_of_operator_sets() -> None:
    proto = model(custom("Acme Inc"), imports=[("", 17), ("Acme Inc", 1)])
    assert str(findings(proto)[0]) == (
        "opset_import 'Acme Inc': the domain must be a reverse-DNS name like com.acme, not 'Acme Inc'; "
        "rename it where the operator set is defined [OS-04 W-opset-domain]"
    )
    assert errors(proto) == []
    fine = model(custom("org.others"), imports=[("", 17), ("org.others", 1)])
    assert [found.code for found in findings(fine)] == ["W-custom-operator"]


CONVERT = "convert it with onnx.version_converter, or update hwflow"


@pytest.mark.rule("OS-05", "VER-04")
@pytest.mark.parametrize(
    ("domain", "version", "message"),
    [
        ("", 0, "'ai.onnx': the version must be 1 to 28, not 0; export the model again [OS-05]"),
        ("", -1, "'ai.onnx': the version must be 1 to 28, not -1; export the model again [OS-05]"),
        ("", 29, f"'ai.onnx': the version must be 1 to 28, not 29; {CONVERT} [OS-05]"),
        ("", 9999, f"'ai.onnx': the version must be 1 to 28, not 9999; {CONVERT} [OS-05]"),
        ("ai.onnx.ml", 6, f"'ai.onnx.ml': the version must be 1 to 5, not 6; {CONVERT} [OS-05]"),
        ("com.other", 1 << 31, f"'com.other': the version must be 1 or more and an int32, not 2147483648; {CONVERT} "
                               "[OS-05]"),
        ("com.other", (1 << 48) + 1, "'com.other': the version must be a plain number below 2**32, not "
                                     "281474976710657; export the model again [VER-04]"),
    ],
)  # fmt: skip
def test_versions_that_do_not_exist(domain: str, version: int, message: str) -> None:
    nodes = [custom()] if domain == "com.other" else [node()]
    imports = [("", 17), (domain, version)] if domain else [(domain, version)]
    assert f"opset_import {message}" in errors(model(*nodes, imports=imports))


@pytest.mark.rule("OS-05")
@pytest.mark.parametrize("version", range(1, 29))
def test_versions_that_exist(version: int) -> None:
    assert errors(model(node("Tanh"), opset=version, ir=14)) == []


@pytest.mark.rule("VER-12")
def test_an_import_without_a_version() -> None:
    proto = model()
    proto.opset_import[0].ClearField("version")
    assert errors(proto)[0] == (
        "opset_import 'ai.onnx': the version must be given, not left out; export the model again [VER-12]"
    )


@pytest.mark.rule("OS-06")
def test_both_names_of_the_default_operator_set() -> None:
    """onnx takes only one of the two mixtures; here both mean the same."""
    assert findings(model(node(domain="ai.onnx"), imports=[("ai.onnx", 17)])) == ()
    for imported, used, shown in (
        ("ai.onnx", "", "'ai.onnx' where it is imported and ''"),
        ("", "ai.onnx", "'' where it is imported and 'ai.onnx'"),
    ):
        proto = model(node(domain=used), imports=[(imported, 17)])
        assert warned(proto) == (
            f"model: the default operator set must be written in one way, not {shown} in 1 nodes; "
            "write '' everywhere; both mean the same [OS-06 W-domain-alias]"
        )
        x = np.array([-1, 2], np.float32)
        np.testing.assert_array_equal(evaluate(loads(proto.SerializeToString()), {"x": x})["y"], [0, 2])


@pytest.mark.rule("OS-07")
def test_a_domain_is_imported_in_one_version() -> None:
    assert error_of(model(imports=[("", 17), ("", 13)])) == (
        "opset_import 'ai.onnx': operator set 'ai.onnx' must have one version, not 17 and 13; export the model again "
        "[OS-07]"
    )
    assert leniently(model(imports=[("", 17), ("", 17)])) == (
        "opset_import 'ai.onnx': operator set 'ai.onnx' must be imported once, not twice; remove one of them "
        "[OS-07 W-opset-twice]"
    )
    assert warned(model(imports=[("", 17), ("ai.onnx", 17)])) == (
        "opset_import 'ai.onnx': the default operator set must have one name, not two; export the model again "
        "[OS-06 W-domain-alias]"
    )


@pytest.mark.rule("OS-08")
@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("Reluu", f"the operator must be one of operator set 'ai.onnx', not 'Reluu'; perhaps 'Relu' or 'PRelu' is "
                  f"meant, else {REPLACE} [OS-08]"),
        ("relu", f"the operator must be one of operator set 'ai.onnx', not 'relu'; perhaps 'Selu' or 'Relu' is meant, "
                 f"else {REPLACE} [OS-08]"),
        ("Zzzzz", f"the operator must be one of operator set 'ai.onnx', not 'Zzzzz'; {REPLACE} [OS-08]"),
        ("LinearRegressor", "the operator must be one of operator set 'ai.onnx', not 'LinearRegressor'; perhaps that "
                            f"of 'ai.onnx.ml' is meant, else {REPLACE} [OS-08]"),
        ("Swish", "the operator must exist in operator set 17, not only from 24 on; export the model with opset 24 or "
                  "later [OS-08]"),
    ],
)  # fmt: skip
def test_operators_that_are_not_in_their_set(op: str, message: str) -> None:
    assert error_of(model(node(op))) == f"graph/node[0] 'y' ({op}): {message}"


@pytest.mark.rule("OS-08")
def test_a_domain_that_is_not_imported() -> None:
    assert error_of(model(custom())) == (
        "graph/node[0] 'y' (Fast): operator set 'com.other' must be imported, not missing; add it to opset_import "
        "[OS-08]"
    )


@pytest.mark.rule("OS-08")
@pytest.mark.parametrize("domain", ["qonnx.custom_op.general", "onnx.brevitas"])
def test_quantization_tools_forget_the_import(domain: str) -> None:
    quant = node("BipolarQuant", ("x", "s"), domain=domain)
    proto = model(quant, inputs=[value("x"), value("s", shape=())])
    assert [(f.severity.value, f.code) for f in findings(proto) if f.rule == "OS-08"] == [
        ("warning", "W-opset-missing")
    ]
    assert errors(proto) == []
    assert [text for text in errors(proto, strict=True) if "OS-08" in text] == [
        f"graph/node[0] 'y' (BipolarQuant): operator set '{domain}' must be imported, not missing; add it to "
        "opset_import [OS-08 W-opset-missing]"
    ]


@pytest.mark.rule("OS-10")
def test_an_operator_that_was_taken_away() -> None:
    inputs = [value("x", shape=(1, 1, 2, 2)), value("s", shape=(4,))]
    upsample = node("Upsample", ("x", "s"))
    outputs = [value("y", shape=(None,) * 4)]
    assert errors(model(upsample, inputs=inputs, outputs=outputs, opset=9)) == []
    assert error_of(model(upsample, inputs=inputs, opset=10)) == (
        "graph/node[0] 'y' (Upsample): the operator must exist in operator set 10, not be removed since 10; "
        "export the model with another operator, or with an opset below 10 [OS-10]"
    )


@pytest.mark.rule("OS-10")
def test_an_operator_that_came_back() -> None:
    """Never there below the set that took it away, so an older set is no way out."""
    inputs = [value("x", shape=(1, 4, 2)), value("s", shape=(4,)), value("b", shape=(4,))]
    normal = node("GroupNormalization", ("x", "s", "b"), num_groups=2)
    assert error_of(model(normal, inputs=inputs, opset=18)) == (
        "graph/node[0] 'y' (GroupNormalization): the operator must exist in operator set 18, not be removed since 18; "
        "export the model with opset 21 or later, which have it again [OS-10]"
    )
    assert errors(model(normal, inputs=inputs, outputs=[value("y", shape=(1, 4, 2))], opset=21)) == []


@pytest.mark.rule("OS-11")
@pytest.mark.parametrize("op", [
    "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
    "ParametricSoftplus", "Scale", "ScaledTanh",
])  # fmt: skip
def test_experimental_operators(op: str) -> None:
    assert warned(model(node(op))) == (
        f"graph/node[0] 'y' ({op}): the operator must be a stable one, not experimental; "
        "replace it: no release promises what it does [OS-11 W-experimental]"
    )


def inside(where: str, inner: onnx.NodeProto) -> onnx.ModelProto:
    """A model with the node in a subgraph, a function or a training graph."""
    part = graph(inner, outputs=[value("y")], name="inner")
    if where == "subgraph":
        holder = helper.make_node("If", ["c"], ["y"], then_branch=part, else_branch=part)
        return model(holder, inputs=[value("x"), value("c", onnx.TensorProto.BOOL, ())])
    if where == "function":
        body = helper.make_function("com.acme", "Body", ["x"], ["y"], [inner], [helper.make_opsetid("", 17)])
        return model(custom("com.acme", "Body"), imports=[("", 17), ("com.acme", 1)], functions=[body])
    proto = model()
    proto.training_info.add().algorithm.CopyFrom(part)
    proto.training_info[0].algorithm.node[0].output[0] = proto.training_info[0].algorithm.output[0].name = "z"
    return proto


@pytest.mark.rule("OS-14")
@pytest.mark.parametrize("where", ["subgraph", "function", "training"])
def test_operators_everywhere(where: str) -> None:
    assert errors(inside(where, node())) == []
    found = [text for text in errors(inside(where, node("Foo"))) if "OS-08" in text]
    assert len(found) == (2 if where == "subgraph" else 1)
    assert all("(Foo): the operator must be one of operator set 'ai.onnx', not 'Foo'" in text for text in found)


@pytest.mark.rule("OS-14")
def test_versions_in_functions() -> None:
    body = helper.make_function("com.acme", "Body", ["x"], ["y"], [node()], [helper.make_opsetid("", 99)])
    proto = model(custom("com.acme", "Body"), imports=[("", 17), ("com.acme", 1)], functions=[body])
    assert errors(proto)[0] == (
        f"function 'com.acme.Body'/opset_import 'ai.onnx': the version must be 1 to 28, not 99; {CONVERT} [OS-05]"
    )


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
