"""Operators of TensorFlow Lite against its own kernels: the reference kernels of LiteRT.

Their outputs for small random networks are recorded, so that this needs no package; where one is there, the record is
compared with it.  `python -m tests.tflite.record` makes it anew.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.model import Array
from tests.tflite import runtimes
from tests.tflite.case import Case, behind_a_layer
from tests.tflite.cases import KINDS, made

RECORD = Path(__file__).with_name("litert.npz")
SEEDS = range(2)

#: The most steps by which an integer may differ from that of the kernel: both round the same real number, the kernel
#: with a multiplier of 16 or 31 bits, with tables, or halves away from zero.  All others are equal.
ONE_STEP = """
    CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED TRANSPOSE_CONV BATCH_MATMUL AVERAGE_POOL_2D MEAN MUL ADD SUB
    SQUARED_DIFFERENCE ABS HARD_SWISH LEAKY_RELU PRELU LOGISTIC L2_NORMALIZATION RESIZE_BILINEAR GREATER EQUAL LESS
    GREATER_EQUAL LESS_EQUAL NOT_EQUAL ELU GELU EXP LOG_SOFTMAX QUANTIZE RSQRT SQRT LOG SUM DILATED"""
STEPS = dict.fromkeys(ONE_STEP.split(), 1) | {"TANH": 2, "SOFTMAX": 2}
#: Kernels of 8 bits whose two roundings the model has, too.
EXACT = {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "DILATED"}
#: Kernels of 16 bits that interpolate in a table of 513 places, in steps of 65536.
INTERPOLATED = {"EXP": 80}
#: The kernel of LiteRT for a quantized SUM whose scales differ gives something else than the sum; that of TensorFlow
#: Lite Micro gives the sum.
BY_MICRO = {("SUM", "INT8"), ("SUM", "INT16")}

CASES = [(kind, width) for kind, each in KINDS.items() for width in each.widths]


def engine(kind: str, width: str) -> str:
    return runtimes.MICRO if (kind, width) in BY_MICRO else runtimes.LITERT


def key(kind: str, width: str, seed: int) -> str:
    return f"{kind}-{width}-{seed}"


def asked(kind: str, width: str, seed: int) -> tuple[Case, bytes, list[Array]]:
    """A network, its file and a row of inputs."""
    case = made(kind, width, seed)
    return case, case.file(), case.row()


def digest(data: bytes, row: list[Array]) -> Array:
    """Of what was asked: another file or row needs another record."""
    return np.frombuffer(hashlib.sha256(data + b"".join(map(np.ndarray.tobytes, row))).digest()[:8], np.uint8)


@cache
def record() -> dict[str, Array]:
    with np.load(RECORD) as archive:
        return dict(archive)


def computed(data: bytes, row: list[Array]) -> list[Array]:
    model = hwflow.onnx.infer(hwflow.onnx.loads(data))
    inputs = {value.name: array for value, array in zip(model.graph.inputs, row, strict=True)}
    return list(hwflow.onnx.evaluate(model, inputs).values())


def steps(kind: str, width: str) -> int:
    if kind in EXACT and width in ("INT8", "UINT8"):
        return 0
    return INTERPOLATED.get(kind, STEPS.get(kind, 0)) if width == "INT16" else STEPS.get(kind, 0)


def require_alike(found: Array, expected: Array, kind: str, width: str) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    else:
        most = np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0)
        assert most <= steps(kind, width)


@pytest.mark.parametrize("kind, width", CASES)
def test_kernels(kind: str, width: str) -> None:
    for seed in SEEDS:
        _, data, row = asked(kind, width, seed)
        name = key(kind, width, seed)
        assert np.array_equal(record()[f"{name}-asked"], digest(data, row)), "python -m tests.tflite.record"
        for k, found in enumerate(computed(data, row)):
            require_alike(found, record()[f"{name}-{k}"], kind, width)


@pytest.mark.slow
@pytest.mark.parametrize("kind, width", CASES)
def test_many_networks(kind: str, width: str) -> None:
    """The same with others, and with the runtime itself."""
    for seed in range(100, 110):
        _, data, row = asked(kind, width, seed)
        for found, expected in zip(computed(data, row), runtimes.run(engine(kind, width), data, [row])[0], strict=True):
            require_alike(found, expected, kind, width)


@pytest.mark.slow
def test_the_record_is_what_the_runtime_says() -> None:
    for kind, width in CASES:
        _, data, row = asked(kind, width, 0)
        for k, found in enumerate(runtimes.run(engine(kind, width), data, [row])[0]):
            assert np.array_equal(found, record()[f"{key(kind, width, 0)}-{k}"]), (kind, width)


@pytest.mark.parametrize("width", ["INT8", "UINT8"])
def test_blocks_around_a_convolution_are_its_dilation(width: str) -> None:
    """One layer, with the padding of the blocks less what is cropped, and the kernels' integers."""
    for seed in SEEDS:
        case = made("DILATED", width, seed)
        row = case.row()
        model = hwflow.onnx.infer(hwflow.onnx.loads(case.file()))
        quantized = hwflow.quantize_model(model, None)
        (conv,) = quantized.graph.layers
        assert conv.dilations in ((2, 2), (3, 3))
        assert conv.pads == conv.dilations * 2
        fed = {value.name: array[None] for value, array in zip(model.graph.inputs, row, strict=True)}
        (found,) = hwflow.run_golden(quantized, fed).values()
        assert np.array_equal(found.ravel(), record()[f"{key('DILATED', width, seed)}-0"].ravel())


@pytest.mark.parametrize("kind, width", [("ABS", "INT16"), ("LEAKY_RELU", "INT16"), ("SQUARED_DIFFERENCE", "INT8"),
                                         ("GATHER_ND", "INT8"), ("BATCH_TO_SPACE_ND", "INT8")])
def test_integer_layers_without_tables(kind: str, width: str) -> None:
    """Behind a layer, so that the operator is not the host's: what the model's numbers are, or the next ones."""
    for seed in SEEDS:
        case = behind_a_layer(made(kind, width, seed))
        model = hwflow.onnx.infer(hwflow.onnx.loads(case.file()))
        row = case.row()
        fed = {value.name: array[None] for value, array in zip(model.graph.inputs, row, strict=True)}
        found = hwflow.run_golden(hwflow.quantize_model(model, None), fed)
        for golden, expected in zip(found.values(), computed(case.file(), row), strict=True):
            assert np.abs(golden[0].astype(np.int64) - expected).max() <= (width == "INT16" or kind[:7] == "SQUARED")
