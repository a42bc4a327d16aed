"""Version numbers, operator identities and the table of releases (VER, OS-12)."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from hwflow.onnx.schemas import NEWEST, find_schema
from hwflow.onnx.versioning.numbers import (
    NEWEST_IR,
    RELEASES,
    OperatorId,
    SemanticVersion,
    first_release,
    is_compatible,
    is_plain,
    least_ir,
    pack,
    unpack,
    version_text,
)

VERSIONS = st.builds(
    SemanticVersion, st.integers(0, 65535), st.integers(1, 65535), st.integers(0, (1 << 32) - 1)
)  # fmt: skip


@pytest.mark.rule("VER-01")
def test_the_example_of_the_specification() -> None:
    version = SemanticVersion(1, 2, 345)
    assert pack(version) == 0x0001000200000159 == 281483566645593
    assert unpack(281483566645593) == version
    assert version_text(281483566645593) == "1.2.345"
    assert SemanticVersion.parse("1.2.345") == version


@pytest.mark.rule("VER-01", "VER-05", "VER-06")
@given(VERSIONS)
def test_round_trip(version: SemanticVersion) -> None:
    number = pack(version)
    assert unpack(number) == version
    assert SemanticVersion.parse(str(version)) == version
    assert not is_plain(number)
    proto = onnx.ModelProto(model_version=number)  # raises ValueError for what no int64 is
    assert onnx.ModelProto.FromString(proto.SerializeToString()).model_version == number


@pytest.mark.rule("VER-02")
def test_plain_numbers() -> None:
    for number in (0, 1, 7, (1 << 32) - 1):
        assert is_plain(number)
        assert unpack(number) == number
    assert unpack(1 << 32) == SemanticVersion(0, 1, 0)
    with pytest.raises(ValueError, match=r"major or minor of a version must not be zero, not 0\.0\.5"):
        SemanticVersion(0, 0, 5)
    assert version_text(7) == "7"


@pytest.mark.rule("VER-03")
@pytest.mark.parametrize(
    "text", ["1.2.3-rc1", "1.2.3+build5", "1.2", "1.2.3.4", "01.2.3", "v1.2.3", "1.2.-3", "١.2.3", ""]
)
def test_other_texts_are_no_version(text: str) -> None:
    with pytest.raises(ValueError, match=r"a version must be MAJOR.MINOR.PATCH in digits"):
        SemanticVersion.parse(text)


@pytest.mark.rule("VER-05")
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((65536, 0, 0), "major of a version must be 0 to 65535, not 65536"),
        ((-1, 0, 0), "major of a version must be 0 to 65535, not -1"),
        ((1, 65536, 0), "minor of a version must be 0 to 65535, not 65536"),
        ((1, 0, 1 << 32), "patch of a version must be 0 to 4294967295, not 4294967296"),
    ],
)
def test_ranges(parts: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SemanticVersion(*parts)


@pytest.mark.rule("VER-06")
def test_large_majors_are_negative_numbers() -> None:
    assert pack(SemanticVersion(32767, 65535, 0)) > 0
    assert pack(SemanticVersion(32768, 0, 0)) == -(1 << 63)
    assert pack(SemanticVersion(65535, 65535, (1 << 32) - 1)) == -1
    assert unpack(-1) == SemanticVersion(65535, 65535, (1 << 32) - 1)
    assert unpack(-(1 << 63)) == SemanticVersion(32768, 0, 0)


@pytest.mark.rule("VER-08")
@pytest.mark.parametrize(
    ("old", "new", "compatible"),
    [("1.0.0", "1.9.9", True), ("1.2.3", "2.0.0", False), ("2.0.0", "1.9.0", False), ("0.1.0", "0.2.0", True),
     ("40000.0.0", "40000.1.0", True)],
)  # fmt: skip
def test_compatibility(old: str, new: str, compatible: bool) -> None:
    numbers = [pack(SemanticVersion.parse(text)) for text in (old, new)]
    assert is_compatible(*numbers) is compatible


@pytest.mark.rule("VER-08")
def test_plain_numbers_say_nothing_about_changes() -> None:
    assert is_compatible(3, 3)
    assert not is_compatible(3, 4)
    assert not is_compatible(3, pack(SemanticVersion(3, 0, 0)))


@pytest.mark.rule("OS-12")
@pytest.mark.parametrize(
    ("text", "operator"),
    [("com.acme.FastConv:3", OperatorId("com.acme", "FastConv", 3)), ("ai.onnx.Conv:11", OperatorId("", "Conv", 11)),
     ("ai.onnx.ml.Scaler:1", OperatorId("ai.onnx.ml", "Scaler", 1))],
)  # fmt: skip
def test_identity_of_operators(text: str, operator: OperatorId) -> None:
    assert OperatorId.parse(text) == operator
    assert str(operator) == text
    assert find_schema("", "Conv", 17).identifier == str(OperatorId("", "Conv", 11))


@pytest.mark.rule("OS-12")
@pytest.mark.parametrize("text", ["Conv:11", "com.acme.Conv", "com.acme.Conv:0", "com.acme.Conv:x", "com.acme.:1", ""])
def test_no_identity(text: str) -> None:
    with pytest.raises(ValueError, match=r"an operator must be named DOMAIN.NAME:VERSION"):
        OperatorId.parse(text)


@pytest.mark.rule("VER-18")
def test_releases_are_those_of_onnx() -> None:
    wanted = [(*row, None)[:5] for row in helper.VERSION_TABLE]
    assert [(r.version, r.ir, r.opset, r.ml, r.training) for r in RELEASES] == wanted
    assert (RELEASES[-1].ir, RELEASES[-1].opset) == (NEWEST_IR, NEWEST[""])
    assert RELEASES[-1].ml == NEWEST["ai.onnx.ml"]
    assert RELEASES[-1].training == NEWEST["ai.onnx.preview.training"]


@pytest.mark.rule("VER-18")
def test_least_ir_of_an_operator_set() -> None:
    names = {"ai.onnx": "", "ai.onnx.ml": "ai.onnx.ml", "ai.onnx.preview.training": "ai.onnx.preview.training"}
    checked = 0
    for (domain, version), ir in helper.OP_SET_ID_VERSION_MAP.items():
        if domain in names:
            assert least_ir(names[domain], version) == ir
            checked += 1
    assert checked > 30
    assert least_ir("", 2) == 3, "between two releases: the later one"
    assert least_ir("", 29) is None
    assert least_ir("com.acme", 1) is None
    assert first_release("", 13).version == "1.8.0"
