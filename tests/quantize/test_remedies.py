"""What to do about a part without hardware, in terms of the framework that a model was exported from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.onnx.operators import row_of
from hwflow.quantize.problems import Problem
from hwflow.quantize.support import unsupported

F = np.float32


def network(op: str, *constants: np.ndarray, opset: int = 17, **attributes: object) -> Model:
    """An operator between two convolutions."""
    b = Builder()
    weights = b.constant("w", np.ones((4, 4, 1, 1), F))
    x = b.node("Conv", b.input("x", F, (1, 4, 8, 8)), weights, name="first")
    y = b.node(op, x, *(b.constant(f"c{k}", value) for k, value in enumerate(constants)), name="it", **attributes)
    b.output(b.node("Conv", y, weights, name="last"), F)
    return infer(b.model(opset=opset))


def problem(model: Model, producer: str) -> Problem:
    (found,) = unsupported(replace(model, producer_name=producer))
    return found.advised()


@pytest.mark.parametrize(("producer", "remedy"), [
    ("pytorch", "train the model with torch.nn.BatchNorm2d in place of torch.nn.LocalResponseNorm"),
    ("tf2onnx", "train the model with BatchNormalization in place of local_response_normalization"),
    ("", "train the model with BatchNormalization in its place")])
def test_the_call_of_the_framework(producer: str, remedy: str) -> None:
    found = problem(network("LRN", size=3), producer)
    assert found.why == "operator LRN has no hardware, and the host cannot run it because 'last' (Conv) follows"
    assert found.remedy == f"{remedy}, or cut the model in front of it and run the rest on the host"


@pytest.mark.parametrize(("producer", "remedy"), [
    ("pytorch", "torch.nn.Upsample(mode='bilinear') or"), ("tf2onnx", "UpSampling2D(interpolation='bilinear') or"),
    ("onnx-example", "export the model with linear or nearest")])
def test_interpolation(producer: str, remedy: str) -> None:
    roi, scales = np.zeros(0, F), np.array([1, 1, 2, 2], F)
    assert problem(network("Resize", roi, scales, mode="cubic"), producer).remedy.startswith(remedy)


def test_statistics_of_the_batch() -> None:
    model = network("BatchNormalization", *[np.ones(4, F)] * 4, training_mode=1)
    assert problem(model, "pytorch").remedy == "call model.eval() before torch.onnx.export"


def test_what_can_only_be_cut() -> None:
    """Nothing is said of another operator where none computes the same."""
    found = problem(network("Hardmax", axis=1), "pytorch")
    assert found.why == "Hardmax runs on the host, but layers after it need hardware"
    found = problem(network("Atanh"), "pytorch")
    assert found.remedy == "cut the model in front of it and run the rest on the host"


def test_behind_the_last_layer_the_host_runs_it() -> None:
    b = Builder()
    x = b.node("Conv", b.input("x", F, (1, 4, 8, 8)), b.constant("w", np.ones((4, 4, 1, 1), F)), name="first")
    b.output(b.node("LRN", x, name="it", size=3), F)
    assert unsupported(infer(b.model(opset=17))) == []


@pytest.mark.parametrize(("op", "producer", "part"), [
    ("If", "pytorch", "torch.where between the results of both branches"),
    ("If", "tf2onnx", "tf.where between the results of both branches"),
    ("Loop", "pytorch", "a range of fixed size in place of a while loop"),
    ("Scan", "tf2onnx", "fix the number of steps in the input's shape"),
    ("Loop", "", "let neither its limit nor its condition depend on the data"),
    ("ScatterND", "pytorch", "torch.cat of the parts, or torch.where with a mask"),
    ("ScatterND", "", "write at constant places without a reduction")])
def test_what_is_seen_through_in_another_form(op: str, producer: str, part: str) -> None:
    """The advice says with what the operator maps, and how to come there."""
    advice = row_of("", op).advice
    assert advice is not None
    assert part in advice.for_producer(producer)
    assert row_of("", op).limits


@pytest.mark.parametrize(("op", "operands"), [("Add", "xm"), ("Where", "bxm")])
def test_infinities_of_a_mask_are_no_matter_of_training(op: str, operands: str) -> None:
    """Behind it is no Softmax, which alone could tell what is as far below."""
    b = Builder()
    tensors = {"x": b.node("Conv", b.input("x", F, (1, 4, 8, 8)), b.constant("w", np.ones((4, 4, 1, 1), F))),
               "m": b.constant("mask", F([-np.inf])),
               "b": b.constant("seen", np.arange(8) > 2)}
    y = b.node(op, *(tensors[name] for name in operands), name="hide")
    b.output(b.node("Conv", b.node("Sigmoid", y), "w"), F)
    found = problem(infer(b.model(opset=17)), "pytorch")
    assert found.why == f"a mask must be finite, not -inf at [0] (1 such entries; in 'hide' ({op}))"
    assert found.remedy.startswith("only before a softmax may it be infinite: masked_fill or torch.where with")


def test_rests_and_rows_that_data_choose() -> None:
    found = problem(network("Mod", F([0.5, 1, 2, 4] * 2), fmod=1), "pytorch")
    assert found.why.startswith("operator Mod has no hardware in this form")
    assert found.remedy.startswith("torch.fmod(x, 1.0), or another single power of two; else x - by * torch.floor(")
    b = Builder()
    x = b.node("MatMul", b.input("x", F, (1, 6, 4)), b.constant("w", np.ones((4, 4), F)), name="first")
    rows = b.node("Gather", x, b.input("edges", np.int64, (9,)), axis=1, name="it")
    b.output(b.node("MatMul", rows, b.constant("v", np.ones((4, 2), F)), name="last"), F)
    found = problem(infer(b.model()), "pytorch")
    assert found.remedy.startswith("numbers that an input decides choose rows of a constant table alone: a product "
                                   "with a matrix of 0 and 1 that is an input in place of x[index]")
