"""Rules about the model itself (IR)."""

from __future__ import annotations

import onnx
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Severity, check, dumps, load, loads, require_valid
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.catalogue import CATALOGUE
from hwflow.onnx.versioning.numbers import IR_VERSIONS
from tests.onnx.rules.protos import (
    document,
    error_of,
    errors,
    findings,
    leniently,
    model,
    node,
    value,
    weight,
)  # fmt: skip


def changed(**fields: object) -> onnx.ModelProto:
    proto = model()
    for name, content in fields.items():
        setattr(proto, name, content)
    return proto


@pytest.mark.rule("IR-02")
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no model at all", model().SerializeToString()[:-7]])
def test_other_bytes_are_no_model(data: bytes) -> None:
    with pytest.raises(HwflowError, match=r"must be an? .*ONNX model"):
        loads(data)
    assert loads(model().SerializeToString()).graph.name == "g"


@pytest.mark.rule("IR-03", "IR-04", "VER-10")
@pytest.mark.parametrize("ir", range(1, 15))
def test_every_ir_version_is_known(ir: int) -> None:
    """Numbers that grow, with dates that do; all of them are accepted."""
    assert sorted(IR_VERSIONS) == list(range(1, 15))
    dates = [IR_VERSIONS[number].date for number in range(1, 14)]
    assert dates == sorted(dates)
    assert IR_VERSIONS[ir].brought
    assert errors(model(imports=() if ir < 3 else [("", 6)], ir=ir)) == []


@pytest.mark.rule("VER-10")
def test_ir_versions_are_those_of_onnx() -> None:
    assert max(IR_VERSIONS) == onnx.IR_VERSION
    published = {number: name for name, number in onnx.Version.items() if name.startswith("IR_VERSION_")}
    for number, name in published.items():
        year, month, day = map(int, name.removeprefix("IR_VERSION_").split("_"))
        assert IR_VERSIONS[number].date == f"{year}-{month:02}-{day:02}"


@pytest.mark.rule("IR-08", "IR-22")
@pytest.mark.parametrize("text", ["# *Markdown*", "<script>alert(1)</script>", "line\nline\x00\x1b[31m", "ü" * 1000])
def test_descriptions_are_free_text(text: str) -> None:
    proto = changed(producer_name=text, producer_version=text, doc_string=text)
    assert findings(proto) == ()
    assert loads(proto.SerializeToString()).doc_string == text


@pytest.mark.rule("IR-09")
def test_domain_of_the_model() -> None:
    for domain in ("", "acme", "com..acme", "com.acme inc"):
        (found,) = check(document(changed(domain=domain)))
        assert str(found) == (
            f"model: the domain of the model must be a reverse-DNS name like com.acme, not '{domain}'; "
            "set ModelProto.domain [IR-09 W-model-domain]"
        )
        assert found.severity is Severity.WARNING
        (strictly,) = check(document(changed(domain=domain)), strict=True)
        assert strictly.severity is Severity.ERROR
    assert check(document(changed(domain="org.onnx-project.models"))) == ()


@pytest.mark.rule("IR-10", "VER-13", "VER-07")
@pytest.mark.parametrize("number", [-(1 << 63), -1, 0, 5, 281483566645593, (1 << 63) - 1])
def test_any_version_of_a_model(number: int) -> None:
    proto = changed(model_version=number)
    assert findings(proto, strict=True) == ()
    assert loads(proto.SerializeToString()).model_version == number


@pytest.mark.rule("IR-13")
def test_agreed_keys_of_metadata_are_kept_as_text() -> None:
    proto = model()
    proto.metadata_props.add(key="model_author", value="A. Nonymous, Jane Doe")
    proto.metadata_props.add(key="model_license", value="https://example.org/licence")
    assert findings(proto) == ()
    read = loads(proto.SerializeToString())
    assert read.metadata["model_author"] == "A. Nonymous, Jane Doe"
    assert read.metadata["model_license"] == "https://example.org/licence"


@pytest.mark.rule("IR-21")
def test_reading_and_writing_loses_nothing() -> None:
    proto = changed(producer_name="p", doc_string="d", model_version=3)
    data = proto.SerializeToString() + b"\xaa\x3f\x02hi"  # field 1013, which no version has
    again = onnx.ModelProto.FromString(dumps(loads(data)))
    assert again.SerializeToString(deterministic=True).endswith(b"\xaa\x3f\x02hi")
    assert (again.producer_name, again.doc_string, again.model_version) == ("p", "d", 3)
    assert again.graph.node == proto.graph.node


@pytest.mark.rule("TY-03", "IR-02")
def test_texts_are_utf8() -> None:
    """The file is built by hand: protobuf's classes refuse to write such texts."""
    data = model(node("Re__lu")).SerializeToString().replace(b"Re__lu", b"Re\xff\xfelu")
    found = check(Document(pb.ModelProto.FromString(data)))
    assert [str(one) for one in found] == [
        r"NodeProto.op_type: names must be UTF-8 text, not b'Re\xff\xfelu'; "
        "the file is damaged, export the model again [TY-03]"
    ]


@pytest.mark.rule("VER-11")
def test_missing_and_unknown_fields_are_borne() -> None:
    data = model().SerializeToString() + b"\xaa\x3f\x02hi"
    assert [f.severity for f in check(Document(pb.ModelProto.FromString(data)))].count(Severity.ERROR) == 0
    assert check(Document(pb.ModelProto())) != ()  # nothing is there, and nothing fails but the rules


@pytest.mark.rule("VER-17")
def test_lenient_and_strict() -> None:
    """Read leniently, judged strictly where that is asked for; the order is that of the file."""
    proto = model(node(outputs=("1",)), node(inputs=("1",)), name="", inputs=[value("x", shape=None)])
    expected = [("GR-02", "graph"), ("NM-01", "graph"), ("GR-18", "graph/input[0]")]
    assert [(f.rule, f.path) for f in findings(proto)] == expected
    assert {f.severity for f in findings(proto)} == {Severity.WARNING}
    assert [(f.rule, f.path) for f in findings(proto, strict=True)] == expected
    assert {f.severity for f in findings(proto, strict=True)} == {Severity.ERROR}
    assert leniently(model(name="")) == "graph: the graph must have a name, not none; give it one [GR-02 W-graph-name]"


def test_all_errors_in_one_message(tmp_path) -> None:
    path = tmp_path / "m.onnx"
    proto = model(node(outputs=("a",)), node("Foo", ("a",)), node("Add"))
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(HwflowError) as caught:
        require_valid(load(path))
    first, *lines = str(caught.value).splitlines()
    assert first == "the model must follow the rules of ONNX and of hwflow, not break 3:"
    assert lines == [f"  {found}" for found in errors(proto)]
    with pytest.raises(HwflowError) as caught:
        require_valid(loads(model(node("Foo")).SerializeToString()))
    assert str(caught.value) == error_of(model(node("Foo")))


def test_very_many_findings_are_counted() -> None:
    proto = model(*(node(inputs=("missing",), outputs=(f"y{i}",)) for i in range(250)), outputs=[value("y0")])
    found = errors(proto)
    assert len(found) == 101
    assert found[-1] == "everywhere: and 150 more places that break this rule; mend those above first [NM-14]"
    assert len([f for f in check(document(proto), most=3) if f.rule == "NM-14"]) == 4


def test_each_finding_is_of_the_catalogue() -> None:
    proto = model(node("Foo"), node(outputs=("y",)), initializers=[weight(""), weight("w"), weight("w")])
    assert {found.rule for found in findings(proto)} <= CATALOGUE.keys()
