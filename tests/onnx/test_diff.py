"""What must grow in the version of a model, an operator or an operator set when it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx import Model, load, loads, save
from hwflow.onnx.build import Builder
from hwflow.onnx.container.opset_document import OperatorEntry, OperatorSet, write_operator_set
from hwflow.onnx.schemas import find_schema, versions_of
from hwflow.onnx.versioning.diff import (
    Bump,
    compare_models,
    compare_operator_sets,
    compare_schemas,
    largest,
    next_version,
)
from hwflow.onnx.versioning.numbers import SemanticVersion, pack
from tests.e2e.command import Cli

T = TensorProto


def value(
    name: str, element: int = T.INT32, shape: tuple[int | str | None, ...] | None = (1, 3)
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    *inputs: onnx.ValueInfoProto,
    outputs: tuple[onnx.ValueInfoProto, ...] | None = None,
    weights: tuple[float, ...] = (1, 2, 3),
    op: str = "Identity",
    defaults: tuple[str, ...] = (),
) -> Model:
    """Identities from the first input to each output; the initializer w, and zeros as defaults of inputs."""
    inputs, outputs = inputs or (value("x"),), outputs or (value("y"),)
    nodes = [helper.make_node(op, [inputs[0].name], [out.name]) for out in outputs]
    initializers = [helper.make_tensor("w", T.FLOAT, (len(weights),), weights)]
    initializers += [helper.make_tensor(name, T.INT32, (1, 3), [0] * 3) for name in defaults]
    proto = helper.make_model(helper.make_graph(nodes, "g", list(inputs), list(outputs), initializers), ir_version=8)
    return loads(proto.SerializeToString())


def told(old: Model, new: Model) -> list[str]:
    return [str(change) for change in compare_models(old, new)]


OLD = model()


@pytest.mark.rule("VER-14", "VER-09")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (OLD, model(value("z")), "major: input 'x': is removed or renamed: callers that feed it fail [VER-14]"),
        (OLD, model(value("x"), value("z")), "major: input 'z': is new and has no default [VER-14]"),
        (model(value("x"), value("z")), model(value("z"), value("x")),
         "major: inputs: are in another order: z, x [VER-14]"),
        (OLD, model(value("z"), value("x")),
         "major: inputs: are at other positions: a new one must come after the others [VER-14]"),
        (OLD, model(outputs=(value("z"),)), "major: output 'y': is removed or renamed [VER-14]"),
        (model(outputs=(value("y"), value("z"))), model(outputs=(value("z"), value("y"))),
         "major: outputs: are in another order: z, y [VER-14]"),
        (OLD, model(value("x", T.INT8)), "major: input 'x': has the type int8[1, 3], before int32[1, 3] [VER-14]"),
        (OLD, model(value("x", T.FLOAT)), "major: input 'x': has the type float32[1, 3], before int32[1, 3] [VER-14]"),
        (OLD, model(value("x", T.STRING)), "major: input 'x': has the type string[1, 3], before int32[1, 3] [VER-14]"),
        (OLD, model(outputs=(value("y", T.UINT32),)),
         "major: output 'y': has the type uint32[1, 3], before int32[1, 3] [VER-14]"),
        (OLD, model(value("x", shape=(1, 4))),
         "major: input 'x': has the type int32[1, 4], before int32[1, 3] [VER-14]"),
        (OLD, model(value("x", shape=(1, 3, 1))),
         "major: input 'x': has the type int32[1, 3, 1], before int32[1, 3] [VER-14]"),
        (model(value("x", shape=("n", 3))), OLD,
         "major: input 'x': has the type int32[1, 3], before int32[n, 3] [VER-14]"),
        (model(value("x"), value("z"), defaults=("z",)), model(value("x"), value("z")),
         "major: input 'z': has no default any more [VER-14]"),
        (OLD, model(helper.make_tensor_sequence_value_info("x", T.INT32, [1, 3])),
         "major: input 'x': has the type sequence of int32[1, 3], before int32[1, 3] [VER-14]"),
    ],
)  # fmt: skip
def test_breaking_changes(old: Model, new: Model, message: str) -> None:
    assert message in told(old, new)
    assert largest(compare_models(old, new)) is Bump.MAJOR


@pytest.mark.rule("VER-15", "VER-09")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (OLD, model(value("x", T.INT64)), "minor: input 'x': has the type int64[1, 3], before int32[1, 3] [VER-15]"),
        (model(value("x", T.FLOAT16)), model(value("x", T.FLOAT)),
         "minor: input 'x': has the type float32[1, 3], before float16[1, 3] [VER-15]"),
        (OLD, model(outputs=(value("y", T.INT64),)),
         "minor: output 'y': has the type int64[1, 3], before int32[1, 3] [VER-15]"),
        (OLD, model(value("x", shape=("n", 3))),
         "minor: input 'x': has the type int32[n, 3], before int32[1, 3] [VER-15]"),
        (OLD, model(value("x", shape=None)),
         "minor: input 'x': has the type int32 of unknown rank, before int32[1, 3] [VER-15]"),
        (model(outputs=(value("y", shape=("n", 3)),)), OLD,
         "minor: output 'y': has the type int32[1, 3], before int32[n, 3] [VER-15]"),
        (OLD, model(value("x"), value("z"), defaults=("z",)), "minor: input 'z': is new and has a default [VER-15]"),
        (model(value("x"), value("z")), model(value("x"), value("z"), defaults=("z",)),
         "minor: input 'z': has a default now [VER-15]"),
        (OLD, model(outputs=(value("y"), value("z"))), "minor: output 'z': is new [VER-15]"),
    ],
)  # fmt: skip
def test_compatible_extensions(old: Model, new: Model, message: str) -> None:
    assert message in told(old, new)
    assert largest(compare_models(old, new)) is Bump.MINOR


@pytest.mark.rule("VER-16", "VER-09")
@pytest.mark.parametrize(
    ("new", "message"),
    [
        (model(weights=(1, 2, 4)), "patch: weights: 1 differ: 'w' [VER-16]"),
        (model(weights=(1, 2)), "patch: weights: 1 differ: 'w' [VER-16]"),
        (model(op="Neg"), "patch: nodes: what they compute or how differs (1 nodes, before 1) [VER-16]"),
        (replace(OLD, opsets={"": 13}), f"patch: operator sets: ai.onnx 13, before ai.onnx {OLD.opsets['']} [VER-16]"),
        (replace(OLD, ir_version=9), "patch: IR version: 9, before 8 [VER-16]"),
    ],
)
def test_inner_changes(new: Model, message: str) -> None:
    assert told(OLD, new) == [message]


@pytest.mark.rule("VER-13", "VER-16")
def test_texts_do_not_matter() -> None:
    new = replace(model(), doc_string="d", producer_name="p", model_version=7, metadata={"k": "v"}, domain="com.acme")
    assert compare_models(OLD, new) == ()


def test_weights_are_compared_bit_for_bit() -> None:
    nan = model(weights=(float("nan"), 0.0, 1))
    assert told(nan, model(weights=(float("nan"), 0.0, 1))) == []
    assert told(nan, model(weights=(float("nan"), -0.0, 1))) == ["patch: weights: 1 differ: 'w' [VER-16]"]


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        (np.int8, np.int16, True), (np.uint8, np.int16, True), (np.uint8, np.int8, False), (np.int8, np.uint64, False),
        (np.float32, np.float64, True), (np.float16, ml_dtypes.bfloat16, False), (ml_dtypes.bfloat16, np.float32, True),
        (ml_dtypes.int4, np.int8, True), (np.int32, np.float64, False), (np.complex64, np.complex128, True),
        (np.float32, np.complex64, False), (np.bool_, np.int8, False),
    ],
)  # fmt: skip
def test_which_types_widen(old: type, new: type, fits: bool) -> None:
    """Over all pairs: only a type that holds every value of the other one, of the same kind."""

    def typed(dtype: type) -> Model:
        b = Builder()
        b.output(b.node("Identity", b.input("x", dtype, (1,)), name="i"), dtype, (1,))
        return b.model()

    assert largest(compare_models(typed(old), typed(new))) is (Bump.MINOR if fits else Bump.MAJOR)


@pytest.mark.rule("VER-14", "VER-15", "VER-16")
def test_the_next_version() -> None:
    old = pack(SemanticVersion(1, 2, 3))
    assert [str(next_version(old, bump)) for bump in Bump] == ["1.2.3", "1.2.4", "1.3.0", "2.0.0"]
    assert [next_version(7, bump) for bump in Bump] == [7, 8, 8, 8]


@pytest.mark.rule("OS-16")
@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("Relu", 1, 6, ["attribute 'consumed_inputs' is removed or renamed"]),
        ("LSTM", 1, 7, ["attribute 'output_sequence' is removed or renamed"]),
        ("Dropout", 10, 12, ["attribute 'ratio' is removed or renamed", "attribute 'seed' is new",
                             "inputs are data, ratio, training_mode, before data"]),
        ("Relu", 13, 14, ["input 'X' may be tensor(int16), tensor(int32), tensor(int64), tensor(int8) too",
                          "output 'Y' may be tensor(int16), tensor(int32), tensor(int64), tensor(int8) too"]),
        ("Upsample", 9, 10, ["is taken away"]),
        ("MaxPool", 10, 11, []),  # the text only: what dilations default to
    ],
)  # fmt: skip
def test_versions_of_operators(name: str, old: int, new: int, changes: list[str]) -> None:
    first, second = find_schema("", name, old), find_schema("", name, new)
    assert first.since == old
    assert second.since == new
    found = compare_schemas(first, second)
    assert [change.what for change in found] == changes
    assert {(change.rule, change.bump) for change in found} <= {("OS-16", Bump.MAJOR)}


@pytest.mark.rule("OS-16")
def test_operators_whose_parameters_move() -> None:
    add = find_schema("", "Sub", 14)
    assert [c.what for c in compare_schemas(add, replace(add, inputs=add.inputs[::-1]))] == [
        "inputs are in another order: B, A"
    ]
    for schema in versions_of("", "Conv"):
        assert compare_schemas(schema, schema) == ()


SET = OperatorSet("com.acme", 2, (OperatorEntry("A", 1, True), OperatorEntry("B", 2, True)))


@pytest.mark.rule("OS-13", "OS-16", "OS-17", "OS-10", "OS-12")
@pytest.mark.parametrize(
    ("new", "messages"),
    [
        (SET, []),
        (replace(SET, version=3, doc_string="d"), []),
        (replace(SET, version=3, operators=SET.operators[:1]), ["major: operator com.acme.B: is removed [OS-16]"]),
        (replace(SET, version=3, operators=(*SET.operators, OperatorEntry("C", 3))),
         ["minor: operator com.acme.C: is new since version 3 [OS-13]"]),
        (replace(SET, operators=(*SET.operators, OperatorEntry("C", 2))),
         ["major: operator set: must have a version above 2 for these changes, not 2 [OS-13]",
          "minor: operator com.acme.C: is new since version 2 [OS-13]"]),
        (replace(SET, version=3, operators=(OperatorEntry("A", 3, True), SET.operators[1])),
         ["major: operator com.acme.A: is another operator since version 3, before 1 [OS-16]"]),
        (replace(SET, version=3, operators=(OperatorEntry("A", 1, False), SET.operators[1])),
         ["major: operator com.acme.A: is experimental, before stable [OS-10]"]),
        (replace(SET, domain="com.other"),
         ["major: operator set: is that of 'com.other', not of 'com.acme': two sets, not two versions of one [OS-12]"]),
    ],
)  # fmt: skip
def test_operator_sets(new: OperatorSet, messages: list[str]) -> None:
    assert list(map(str, compare_operator_sets(SET, new))) == messages


@pytest.mark.rule("OS-17")
def test_a_function_that_computes_something_else() -> None:
    def defined(op: str) -> OperatorSet:
        body = helper.make_function(
            "com.acme", "A", ["x"], ["y"], [helper.make_node(op, ["x"], ["y"])], [helper.make_opsetid("", 17)]
        )
        holder = helper.make_model(
            helper.make_graph([], "g", [], []),
            functions=[body],
            ir_version=8,
            opset_imports=[helper.make_opsetid("com.acme", 1)],
        )
        return replace(SET, version=3, functions=loads(holder.SerializeToString()).functions)

    assert compare_operator_sets(defined("Neg"), replace(defined("Neg"), version=4)) == ()
    assert list(map(str, compare_operator_sets(defined("Neg"), replace(defined("Abs"), version=4)))) == [
        "major: operator com.acme.A: computes something else, and must have another first version than 1 [OS-17]"
    ]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, onnx.ValueInfoProto, int], str]:
    def write(name: str, x: onnx.ValueInfoProto, version: int) -> str:
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [value("y", x_type(x))])
        onnx.save(helper.make_model(graph, ir_version=8, model_version=version), tmp_path / name)
        return name

    def x_type(x: onnx.ValueInfoProto) -> int:
        return x.type.tensor_type.elem_type

    return write


@pytest.mark.rule("VER-09")
def test_the_command(cli: Cli, saved: Callable[[str, onnx.ValueInfoProto, int], str]) -> None:
    old = saved("old.onnx", value("x"), pack(SemanticVersion(1, 2, 3)))
    wider = saved("wider.onnx", value("x", T.INT64), pack(SemanticVersion(1, 3, 0)))
    done = cli("onnx", "diff", old, wider)
    assert done.code == 0
    assert done.out.splitlines() == [
        "minor: input 'x': has the type int64[1, 3], before int32[1, 3] [VER-15]",
        "minor: output 'y': has the type int64[1, 3], before int32[1, 3] [VER-15]",
        "wider.onnx: compatible; as a minor change of version 1.2.3 it should have version 1.3.0, and has 1.3.0",
    ]
    result = cli("onnx", "diff", wider, old, "--json")
    assert result.code == result.json["exit_code"] == 1
    assert result.json["bump"] == "major"
    assert (result.json["old_version"], result.json["new_version"], result.json["needed"]) == (
        "1.3.0",
        "1.2.3",
        "2.0.0",
    )
    assert {change["rule"] for change in result.json["changes"]} == {"VER-14"}
    same = cli("onnx", "diff", old, old)
    assert (same.code, same.out) == (0, "old.onnx: nothing that matters to its version differs from old.onnx\n")


@pytest.mark.rule("OS-16")
def test_the_command_on_operator_sets(cli: Cli, saved: Callable[[str, onnx.ValueInfoProto, int], str]) -> None:
    Path("a.opset").write_bytes(write_operator_set(SET))
    Path("b.opset").write_bytes(write_operator_set(replace(SET, version=3, operators=SET.operators[:1])))
    done = cli("onnx", "diff", "a.opset", "b.opset")
    assert done.code == 1
    assert done.out == "major: operator com.acme.B: is removed [OS-16]\nb.opset: breaking changes\n"
    old = saved("old.onnx", value("x"), 1)
    assert cli.refuses("onnx", "diff", old, "b.opset") == (
        "old.onnx and b.opset must be two models or two operator sets, not one of each"
    )


def test_convert(cli: Cli, saved: Callable[[str, onnx.ValueInfoProto, int], str]) -> None:
    old = saved("old.onnx", value("x"), 1)
    assert cli("onnx", "convert", old, "new.textproto").code == 0
    assert 'op_type: "Identity"' in Path("new.textproto").read_text()
    assert cli("onnx", "convert", "new.textproto", "again.onnx", "--json").json["path"] == "again.onnx"
    assert compare_models(load(old), load("again.onnx")) == ()
    weights = Builder("g")
    x = weights.input("x", np.float32, (1, 4))
    weights.output(
        weights.node("MatMul", x, weights.constant("w", np.ones((4, 1024), np.float32)), name="m"), np.float32
    )
    save(weights.model(), "w.onnx")
    assert cli("onnx", "convert", "w.onnx", "e.onnx", "--external-data").code == 0
    assert Path("e.onnx.data").stat().st_size >= 4 * 4096 > Path("e.onnx").stat().st_size
    assert compare_models(load("w.onnx"), load("e.onnx")) == ()


def test_convert_to_another_operator_set(cli: Cli) -> None:
    b = Builder("g")
    b.output(b.node("Softmax", b.input("x", np.float32, (2, 3, 4)), output="y"), np.float32)
    save(b.model(opset=11, opsets={"ai.onnx.ml": 2}), "old.onnx")
    done = cli("onnx", "convert", "old.onnx", "new.onnx", "--opset", "21", "--opset", "ai.onnx.ml=2")
    assert done.out.splitlines()[:3] == [
        "ai.onnx: version 21, before 11",
        "ai.onnx.ml: version 2 already",
        "nodes: 4, 4 of them new; the source has 1",
    ]
    assert load("new.onnx").opsets == {"": 21, "ai.onnx.ml": 2}
    for word, message in (
        ("ai.onnx=29", "the version of ai.onnx must be 1 to 28, not 29; choose one that hwflow knows"),
        ("com.acme=1", "old.onnx must import the operator set com.acme to convert it; it does not use it"),
    ):
        assert cli.refuses("onnx", "convert", "old.onnx", "no.onnx", "--opset", word) == message
    assert "must have one version, not 2" in cli(
        "onnx", "convert", "old.onnx", "no.onnx", "--opset", "13", "--opset", "ai.onnx=14"
    ).err
    assert not Path("no.onnx").exists()


def test_the_rules_are_listed(cli: Cli) -> None:
    assert len(cli("onnx", "rules", "--json").json["rules"]) == 196
    assert (
        cli("onnx", "rules", "gr-03").out == "GR-03 (implied): a node has an input or an output; enforced in: check\n"
    )
    assert cli.refuses("onnx", "rules", "GR-99") == (
        "the rule must be one that `hwflow onnx rules` lists, not 'GR-99'; did you mean GR-19, GR-09, TR-09?"
    )
