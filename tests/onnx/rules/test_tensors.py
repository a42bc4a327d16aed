"""Data of tensors in the model: rules TD."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from hwflow.onnx import check, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.limits import Limits
from tests.onnx.rules.protos import BYTES, findings, tensor, warned, with_tensor


def fine(proto: TensorProto) -> bool:
    return not [f for f in findings(with_tensor(proto)) if f.code != "W-nan"]


@pytest.mark.rule("TD-04")
def test_the_budget_can_be_raised() -> None:
    proto = pb.ModelProto.FromString(with_tensor(tensor(raw_data=BYTES)).SerializeToString())
    small = [f for f in check(Document(proto, limits=Limits(tensor_bytes=7))) if f.rule == "TD-04"]
    assert "tensor_bytes must be at most 7, not 8 for float[2]" in small[0].message
    assert "--limit tensor_bytes=NUMBER" in small[0].remedy
    assert not [f for f in check(Document(proto, limits=Limits(tensor_bytes=8))) if f.rule == "TD-04"]


@pytest.mark.rule("TD-07", "TD-08")
@pytest.mark.parametrize("code", [c for c in range(1, 29) if c != TensorProto.STRING])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_every_type_is_decoded_as_the_oracle_does(code: int, count: int) -> None:
    """Random bits in raw_data, and what the oracle makes of them in the typed field."""
    bits = helper.tensor_dtype_to_np_dtype(code).itemsize * 8
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}.get(code, bits)
    random = np.random.default_rng(code)
    raw = random.integers(0, 2 if code == TensorProto.BOOL else 256, -(-bits * count // 8), np.uint8)
    if spare := 8 * len(raw) - bits * count:
        raw[-1] &= (1 << (8 - spare)) - 1
    proto = tensor(data_type=code, dims=[count], raw_data=raw.tobytes())
    assert [f for f in findings(with_tensor(proto)) if f.code != "W-nan"] == []
    found = loads(with_tensor(proto).SerializeToString()).graph.initializers["w"]
    same(found, numpy_helper.to_array(proto))
    typed = helper.make_tensor("w", code, [count], numpy_helper.to_array(proto).tolist())
    assert [f for f in findings(with_tensor(typed)) if f.code != "W-nan"] == []
    same(loads(with_tensor(typed).SerializeToString()).graph.initializers["w"], numpy_helper.to_array(typed))


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_array_equal(found.astype(kind), wanted.astype(kind))


@pytest.mark.rule("TD-08")
def test_bits_that_no_element_uses() -> None:
    packed = tensor(data_type=TensorProto.UINT4, dims=[3], raw_data=b"\x21\x03")
    assert fine(packed)
    found = loads(with_tensor(packed).SerializeToString()).graph.initializers["w"]
    assert found.dtype == ml_dtypes.uint4
    assert found.astype(int).tolist() == [1, 2, 3]  # the first in the low bits
    packed.raw_data = b"\x21\x53"
    assert warned(with_tensor(packed)) == (
        "graph/initializer 'w': the last 4 bits must be 0 because no element uses them, not 5; "
        "export the model again [TD-08 W-pad-bits]"
    )
    typed = tensor(data_type=TensorProto.UINT2, dims=[5], int32_data=[0xE4, 0x3C])
    assert [f.code for f in findings(with_tensor(typed)) if f.rule == "TD-08"] == ["W-pad-bits"]
    six = tensor(data_type=TensorProto.FLOAT6E2M3, dims=[1], raw_data=b"\x7f")
    assert [f.code for f in findings(with_tensor(six)) if f.rule == "TD-08"] == ["W-pad-bits"]


# External data.
