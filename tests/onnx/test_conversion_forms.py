"""`convert_opset` keeps the meaning of every version of every operator: small models of each, against other runtimes.

The forms stand in tests/onnx/forms, with at least one for each version that has a newer one.  The converted model is
evaluated and compared with the answer that somebody else gives for the *original*; what is refused stands in `REFUSED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

import hwflow.onnx
from hwflow.onnx import Model, Severity, TensorType, convert_opset
from hwflow.onnx.errors import ConversionError, EvaluationError, Unsupported
from tests.onnx.forms.corpus import corpus, old_pairs
from tests.onnx.forms.form import Form, answers, same
from tests.onnx.oracle import ChildOracle, Refused

#: The version of ai.onnx.ml that goes with one of the default set.
ML = {28: 5, 21: 4, 13: 2, 9: 1, 7: 1, 1: 1}

_OTHER_TYPES = (
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu HardSigmoid HardSwish Mish Round Sin Sinh Softplus Softsign Tan "
    "ThresholdedRelu"
)

#: Operators, the versions and the targets of forms that have no equal in the target, and a part of the reason.  Upward:
REFUSED_UP = [
    ("Resize", {11}, {13, 21, 28}, "no coordinates from version 13 on are those of tf_half_pixel_for_nn"),
]
#: Downward: element types, attributes and operators that came later.
REFUSED_DOWN = [
    (_OTHER_TYPES, {22}, {13, 21}, "is tensor(bfloat16)"),
    ("LeakyRelu", {16}, {13}, "is tensor(bfloat16)"),
    ("Add Div Mul Sub", {14}, {13}, "is tensor(int8)"),
    ("Relu", {14}, {13}, "is tensor(int32)"),
    ("BitShift", {28}, {13, 21}, "is tensor(int8)"),
    ("Celu", {28}, {13, 21}, "is tensor("),
    ("Equal", {19}, {13}, "is tensor(string)"),
    ("Cast", {19, 21, 23, 24, 25, 28}, {13}, "is tensor(float8e4m3fn)"),
    ("Identity", {14, 16, 19, 21, 23, 24, 25}, {13}, "is seq(tensor(float))"),
    ("LabelEncoder", {4}, {13}, "is tensor("),
    ("AffineGrid", {20}, {13}, "came with operator set 20"),
    ("Attention", {23, 24, 25}, {13, 21}, "came with operator set 23"),
    ("Bernoulli", {15, 22}, {13}, "came with operator set 15"),
    ("BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im", {18}, {13}, "came with operator set 18"),
    ("CumProd", {26}, {13, 21}, "came with operator set 26"),
    ("DFT", {17, 20}, {13}, "came with operator set 17"),
    ("DeformConv", {19, 22}, {13}, "came with operator set 19"),
    ("GridSample", {16, 20, 22}, {13}, "came with operator set 16"),
    ("GridSample", {20}, {13}, "a grid for other inputs than images"),
    ("Optional", {15, 28}, {13}, "came with operator set 15"),
    ("OptionalGetElement OptionalHasElement", {15, 18, 28}, {13}, "came with operator set 15"),
    ("TensorScatter", {24}, {13, 21}, "came with operator set 24"),
    ("Trilu", {14}, {13}, "came with operator set 14"),
    ("AveragePool", {19, 22}, {13}, "attribute 'dilations'"),
    ("LpPool", {18, 22}, {13}, "attribute 'dilations'"),
    ("QuantizeLinear", {21, 23, 24, 25, 28}, {13}, "is tensor(int16)"),
    ("DequantizeLinear", {21, 23, 24, 25, 28}, {13}, "is tensor(int4)"),
    ("QuantizeLinear DequantizeLinear", {21, 23, 24, 25, 28}, {13}, "attribute 'block_size'"),
    ("LayerNormalization", {17}, {13}, "the statistics as outputs"),
    ("Pad", {19}, {13}, "attribute 'mode' ('wrap')"),
    ("Reshape", {14}, {13}, "attribute 'allowzero'"),
    ("Resize", {18}, {13}, "attribute 'keep_aspect_ratio_policy'"),
    ("Resize", {19}, {13}, "attribute 'coordinate_transformation_mode' ('half_pixel_symmetric')"),
    ("RoiAlign", {16, 22}, {13}, "attribute 'coordinate_transformation_mode' ('half_pixel')"),
    ("ScatterElements ScatterND", {16}, {13}, "attribute 'reduction'"),
    ("ScatterElements ScatterND", {18}, {13}, "attribute 'reduction'"),
]  # fmt: skip
REFUSED = {
    (op, version, target, upward, why)
    for rows, upward in ((REFUSED_UP, True), (REFUSED_DOWN, False))
    for ops, versions, targets, why in rows
    for op in ops.split() for version in versions for target in targets
}  # fmt: skip


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


#: Files of this and newer operator sets pass the check once their types are inferred.
PLAIN_SINCE = 7
ANSWERS: dict[str, list[Any]] = {}


def _answer(oracle: ChildOracle, form: Form) -> list[Any]:
    """What the original must give; the oracle is asked once."""
    if form.label not in ANSWERS:
        ANSWERS[form.label] = answers(form, oracle)
    return ANSWERS[form.label]


def _answers(oracle: ChildOracle) -> dict[str, list[Any]]:
    return {form.label: _answer(oracle, form) for form in corpus()}


def converted(form: Form, target: int) -> Model:
    return convert_opset(form.model, {form.domain: ML[target]} if form.domain else target)


def difference(model: Model, form: Form, wanted: list[Any]) -> str:
    """Empty where the model gives what is wanted."""
    found = list(hwflow.onnx.evaluate(model, form.feeds).values())
    if len(found) != len(wanted):
        return f"{len(found)} outputs for {len(wanted)}"
    return next(filter(None, (same(a, b, form) for a, b in zip(found, wanted, strict=True))), "")


def test_every_old_version_has_a_form() -> None:
    assert old_pairs() - {form.pair for form in corpus()} == set()


def errors_of(model: Model) -> list[str]:
    return [str(finding) for finding in hwflow.onnx.check(model) if finding.severity is Severity.ERROR]


def inference_differs(form: Form) -> str:
    """Empty where check finds no error, types are those of the answer, and a copy by way of a file is the same."""
    try:
        model = hwflow.onnx.infer(form.model)
    except (EvaluationError, Unsupported) as error:  # shapes that elements decide, and values that are no tensors
        open_types = ("whose shape follows from", "must be a tensor")
        return "" if any(text in str(error) for text in open_types) else str(error)
    if form.model.opsets.get("", 0) >= PLAIN_SINCE and (errors := errors_of(model)):
        return errors[0]
    found = hwflow.onnx.evaluate(form.model, form.feeds)
    for name, array in found.items():
        stated = model.graph.types.get(name)
        if isinstance(array, np.ndarray) and isinstance(stated, TensorType) and stated.shape is not None:
            static = all(isinstance(dim, int) for dim in stated.shape)
            if stated.dtype != array.dtype or (static and stated.shape != array.shape):
                return f"inferred {stated} for {array.dtype}{list(array.shape)}"
    data = hwflow.onnx.dumps(form.model)
    return "" if hwflow.onnx.dumps(hwflow.onnx.loads(data)) == data else "the file of a copy differs"


@pytest.mark.parametrize("letter", sorted({form.op[0] for form in corpus()}))
def test_evaluation_and_inference_are_right_about_every_form(oracle, letter) -> None:
    wrong = []
    for form in corpus():
        if form.op.startswith(letter):
            why = difference(form.model, form, _answer(oracle, form)) or inference_differs(form)
            wrong += [(form.label, why)] if why else []
    assert wrong == []


@pytest.mark.parametrize("target", [28, 21, 13])
def test_meaning_is_kept(oracle, target) -> None:
    wanted, wrong, unknown, hit = _answers(oracle), [], [], set()
    for form in corpus():
        _, op, version = form.pair
        try:
            model = converted(form, target)
        except ConversionError as error:
            here = (op, version, target, form.opset < (ML[target] if form.domain else target))
            rows = {row for row in REFUSED if row[:4] == here and row[4] in str(error)}
            hit |= rows
            if not rows:
                unknown.append(f"{form.label}: {error}")
            continue
        if why := difference(model, form, wanted[form.label]):
            wrong.append((form.label, why))
    assert wrong == []
    assert "\n".join(unknown) == ""
    assert {row for row in REFUSED if row[2] == target} - hit == set()


def stated(model: Model, wanted: list[Any]) -> Model:
    """The model with the types of its outputs, which forms leave to inference and files must have."""
    outputs = tuple(
        replace(value, type=TensorType(array.dtype, array.shape)) if isinstance(array, np.ndarray) else value
        for value, array in zip(model.graph.outputs, wanted, strict=True)
    )
    return replace(model, graph=replace(model.graph, outputs=outputs))


def complaints(model: Model) -> list[str]:
    """What the rules of hwflow and those of the package onnx say against a model."""
    found = errors_of(model)
    try:
        onnx.checker.check_model(hwflow.onnx.dumps(model))
    except onnx.checker.ValidationError as error:
        found.append(f"onnx.checker: {error}")
    return found


#: Operators that onnxruntime computes in its own way, in some of their forms: the mask and the saved variance of
#: training, the numbers of a generator, float8 as bytes, integers that overflow, NaN as a key, `axes` without an axis.
OWN_WAYS = ("BatchNormalization", "Bernoulli", "Cast", "Dropout", "LabelEncoder", "Pow", "Squeeze")


#: Operators, or forms, that newer operator sets write with operators that older ones do not have.
ONE_WAY = ("Scan-8-lengths", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


def onnxruntime_differs(oracle: ChildOracle, model: Model, form: Form, wanted: list[Any]) -> str:
    """Empty where onnxruntime gives what is wanted.  Raises Refused where it does not run the model."""
    found = oracle.run(model, form.feeds)
    return next(filter(None, (same(a, b, form) for a, b in zip(found, wanted, strict=True))), "")


@pytest.mark.slow
@pytest.mark.parametrize(("target", "least"), [(28, 0), (21, 2900), (13, 2700), (9, 2300), (7, 2100), (1, 900)])
def test_the_converted_model_is_valid_and_others_agree(oracle, target, least) -> None:
    """By the rules of hwflow and of onnx, where the original is; onnxruntime, where it runs it; and back again."""
    wanted, wrong, ran = _answers(oracle), [], 0
    for form in corpus():
        expected = [np.asarray(a) if isinstance(a, np.generic) else a for a in wanted[form.label]]
        try:
            model = stated(converted(form, target), expected)
        except ConversionError:
            continue
        if not complaints(stated(form.model, expected)):
            wrong += [(form.label, text) for text in complaints(model)]
        wrong += [(form.label, why) for why in (difference(model, form, expected), _back(model, form, expected)) if why]
        with suppress(Refused):
            why = onnxruntime_differs(oracle, model, form, expected)
            ran += 1
            if why and form.op not in OWN_WAYS:
                wrong.append((form.label, f"onnxruntime: {why}"))
    assert wrong == []
    assert ran >= least


def _back(model: Model, form: Form, wanted: list[Any]) -> str:
    """What is different after the conversion to the operator set of the original."""
    if form.label in ONE_WAY or (form.op in ONE_WAY and model.opsets[form.domain] > form.opset):
        return ""
    again = convert_opset(model, {form.domain: form.model.opsets[form.domain]})
    with np.errstate(all="ignore"):
        why = difference(again, form, wanted)
    return f"back: {why}" if why else ""
