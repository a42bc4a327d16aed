"""One corpus of small models, one for each version of each operator and more, through all that hwflow does with one.

The forms are in tests/onnx/forms.  Each is evaluated and compared with the answer of somebody else, its types are
inferred, it passes the check, comes back from a file, and keeps its meaning when it is converted to newer and older
operator sets.  What a conversion refuses is in the tables here.
"""

from __future__ import annotations

import re
from collections import Counter
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
from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.corpus import DOMAINS, corpus, versions
from tests.onnx.forms.form import Form, answers, removed, same
from tests.onnx.oracle import ChildOracle, Refused

#: The version of ai.onnx.ml that goes with one of the default set.
ML = {28: 5, 21: 4, 13: 2, 9: 1, 7: 1, 1: 1}

#: Why a target has no equal of a form: the operator, or the type of an operand, came later.
OLDER, TYPE = "older", "type"

#: Operators that the sets before theirs cannot write with others, except what follows from constants.
NO_OLDER = {
    "AffineGrid", "Attention", "Bernoulli", "BitCast", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "CausalConvWithState", "CenterCropPad", "Col2Im", "CumProd", "DFT", "DeformConv", "GridSample",
    "GroupNormalization", "LinearAttention", "MelWeightMatrix", "Optional", "OptionalGetElement",
    "OptionalHasElement", "RegexFullMatch", "RotaryEmbedding", "STFT", "SequenceMap", "StringConcat", "StringSplit",
    "TensorScatter", "TreeEnsemble", "Trilu",
}  # fmt: skip

#: Operators, versions, targets and a part of the reason: attributes, inputs and combinations of types that came later.
REFUSED_DOWN = [
    ("GridSample", {20}, (13,), "a grid for other inputs than images"),
    ("AveragePool", {19, 22}, (13,), "attribute 'dilations'"),
    ("LpPool", {18, 22}, (13,), "attribute 'dilations'"),
    ("QuantizeLinear DequantizeLinear", {21, 23, 24, 25, 28}, (13,), "attribute 'block_size'"),
    ("QuantizeLinear", {23}, (13, 21), "a scale of another type than the input"),
    ("RMSNormalization", {23}, (13, 21), "a scale of another type than the input"),
    ("BatchNormalization", {15}, (13,), "parameters of another element type than the input"),
    ("LayerNormalization", {17}, (13,), "the statistics as outputs"),
    ("Attention", {24}, (13, 21), "input 'nonpad_kv_seqlen'"),
    ("Attention", {25}, (13, 21), "_window_size' ("),
    ("Pad", {19}, (13,), "attribute 'mode' ('wrap')"),
    ("Reshape", {14, 19, 21, 23, 24, 25}, (13,), "attribute 'allowzero'"),
    ("Resize", {18}, (13,), "attribute 'keep_aspect_ratio_policy'"),
    ("Resize", {19}, (13,), "attribute 'coordinate_transformation_mode' ('half_pixel_symmetric')"),
    ("RoiAlign", {16, 22}, (13,), "attribute 'coordinate_transformation_mode' ('half_pixel')"),
    ("ScatterElements ScatterND", {16, 18}, (13,), "attribute 'reduction'"),
    ("TreeEnsembleClassifier", {3}, (2,), "attribute 'nodes_values_as_tensor' of float64"),
]
#: Operator, version, whether the target is newer, targets, a part of the reason.
REFUSED = {
    ("Resize", 11, True, (13, 21, 28), "no coordinates from version 13 on are those of tf_half_pixel_for_nn"),
    *((op, version, False, targets, why)
      for ops, sinces, targets, why in REFUSED_DOWN for op in ops.split() for version in sinces),
}  # fmt: skip

#: Files of this and newer operator sets pass the check once their types are inferred.
PLAIN_SINCE = 7
#: First letters of operators: by them the forms are shared out among processes.
LETTERS = "ABCDEFGHILMNOPQRSTUWX"
ANSWERS: dict[str, list[Any]] = {}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


def _answer(oracle: ChildOracle, form: Form) -> list[Any]:
    """What the original must give; the oracle is asked once."""
    if form.label not in ANSWERS:
        ANSWERS[form.label] = answers(form, oracle)
    return ANSWERS[form.label]


def convertible() -> list[Form]:
    """Forms of domains that have several operator sets."""
    return [form for form in corpus() if form.domain in DOMAINS]


def converted(form: Form, target: int) -> Model:
    return convert_opset(form.model, {form.domain: ML[target]} if form.domain else target)


def differing(found: list[Any], form: Form, wanted: list[Any]) -> str:
    """Empty where the outputs are what is wanted."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs for {len(wanted)}"
    return next(filter(None, (same(a, b, form) for a, b in zip(found, wanted, strict=True))), "")


def difference(model: Model, form: Form, wanted: list[Any]) -> str:
    """Empty where the model gives what is wanted."""
    return differing(list(hwflow.onnx.evaluate(model, form.feeds).values()), form, wanted)


def errors_of(model: Model) -> list[str]:
    return [str(finding) for finding in hwflow.onnx.check(model) if finding.severity is Severity.ERROR]


def wrong_about(form: Form, wanted: list[Any], checked: bool = True) -> str:
    """Empty where evaluation, inference, the check and a copy by way of a file are right about a form.

    Inference checks the form itself; `checked`: what it gives is checked, too.
    """
    found = hwflow.onnx.evaluate(form.model, form.feeds)
    if why := differing(list(found.values()), form, wanted):
        return why
    data = hwflow.onnx.dumps(form.model)
    if hwflow.onnx.dumps(hwflow.onnx.loads(data)) != data:
        return "the file of a copy differs"
    try:
        model = hwflow.onnx.infer(form.model)
    except (EvaluationError, Unsupported) as error:  # shapes that elements decide, and values that are no tensors
        open_types = ("whose shape follows from", "must be a tensor")
        if form.op in ("If", "Loop", "Scan"):  # which say more precisely what of them is open
            open_types += ("its condition must be constant", "its number of rounds must be constant",
                           "to be written out")
        return "" if any(text in str(error) for text in open_types) else str(error)
    if checked and form.model.opsets.get("", 0) >= PLAIN_SINCE and (errors := errors_of(model)):
        return errors[0]
    for name, array in found.items():
        stated = model.graph.types.get(name)
        if isinstance(array, np.ndarray) and isinstance(stated, TensorType) and stated.shape is not None:
            static = all(isinstance(dim, int) for dim in stated.shape)
            if stated.dtype != array.dtype or (static and stated.shape != array.shape):
                return f"inferred {stated} for {array.dtype}{list(array.shape)}"
    return ""


#: Operators of maps and of files of pictures, whose cases are in test_nodes.py and test_ops_images.py.
OTHERS = {"CastMap", "DictVectorizer", "ImageDecoder", "ZipMap"}


def test_every_version_has_a_form() -> None:
    missing = versions() - {form.pair for form in corpus()}
    assert {op for _, op, _ in missing} == OTHERS
    assert {form.op[0] for form in corpus()} == set(LETTERS)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_form(oracle, letter) -> None:
    forms = [form for form in corpus() if form.op.startswith(letter) and not removed(form)]
    wrong, seen = [], Counter[tuple[str, str, int]]()
    for form in forms:
        seen[form.pair] += 1
        why = wrong_about(form, _answer(oracle, form), checked=seen[form.pair] % 4 == 1)
        wrong += [(form.label, why)] if why else []
    assert wrong == []


TYPE = re.compile(r"(input|output) '\w(\d*)' is (.*), which version (\d+) of the operator does not take")


def newer_type(form: Form, message: str) -> bool:
    """Whether onnx says, too, that an operand's type came later than the version that the message names."""
    if (found := TYPE.search(message)) is None:
        return False
    schema = onnx.defs.get_schema(form.op, int(found[4]), form.domain)
    formals = schema.inputs if found[1] == "input" else schema.outputs
    return found[3] not in formals[min(int(found[2] or 0), len(formals) - 1)].types


def reason(form: Form, target: int, message: str) -> Any:
    """Why the target has no equal of a form: OLDER, TYPE, a row of the table, or None where nobody says so."""
    _, op, version = form.pair
    first = versions_of(form.domain, op)[0].since
    if first > target and f"the operator came with operator set {first}" in message:
        return OLDER
    if newer_type(form, message):
        return TYPE
    here = (op, version, form.opset < target)
    return next((row for row in REFUSED if row[:3] == here and target in row[3] and row[4] in message), None)


@pytest.mark.parametrize("number", [28, 21, 13])
def test_meaning_is_kept(oracle, number) -> None:
    """By conversion up and down; all that is refused is listed, and all that is listed is refused."""
    wrong, refused, older = [], set(), set()
    for form in convertible():
        target = ML[number] if form.domain else number
        if form.opset == target or (number == 21 and form.opset < 21 and form.op != "Resize"):
            continue  # what goes to 28 goes by way of 21
        try:
            model = converted(form, number)
        except ConversionError as error:
            why = reason(form, target, str(error))
            refused.add(why)
            older |= {form.op} if why is OLDER else set()
            wrong += [(form.label, str(error))] if why is None else []
            continue
        if why := difference(model, form, _answer(oracle, form)):
            wrong.append((form.label, why))
    assert wrong == []
    if number == 13:
        assert REFUSED - refused == set()
        assert older == NO_OLDER


def test_old_operator_sets_mean_the_same(oracle) -> None:
    """Below 13 inputs become attributes and axes move; every second form, where the target has it."""
    wrong, compared = [], 0
    for form in [form for form in convertible() if not form.domain and form.opset >= 13][::2]:
        with suppress(ConversionError):
            why = difference(converted(form, 9), form, _answer(oracle, form))
            wrong += [(form.label, why)] if why else []
            compared += 1
    assert wrong == []
    assert compared >= 1100


#: What a refusal says where a file does not tell the number of axes, and the operators whose old versions need it.
NEEDS_RANK, RANKED = "the number of axes of 'x0' decides what the node means", {"Tile"}


def without_shapes(model: Model) -> Model:
    inputs = (replace(v, type=TensorType(v.type.dtype, None)) if isinstance(v.type, TensorType) else v
              for v in model.graph.inputs)  # fmt: skip
    return replace(model, graph=replace(model.graph, inputs=tuple(inputs)))


def test_meaning_is_kept_where_ranks_are_unknown(oracle) -> None:
    """Of nodes from before operator set 13, every second of them; what is written is valid."""
    wrong, refused = [], set()
    for form in [form for form in convertible() if not form.domain and form.opset < 13][::2]:
        try:
            model = convert_opset(without_shapes(form.model), 28)
        except ConversionError as error:
            why = reason(form, 28, str(error))
            refused |= {form.op} if why is None else set()
            wrong += [(form.label, str(error))] if why is None and NEEDS_RANK not in str(error) else []
            continue
        answer = [np.asarray(a) if isinstance(a, np.generic) else a for a in _answer(oracle, form)]
        why = difference(model, form, answer) or next(iter(errors_of(stated(model, answer))), "")
        wrong += [(form.label, why)] if why else []
    assert wrong == []
    assert refused == RANKED


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
#: Single forms say it themselves: `own`.
OWN_WAYS = ("BatchNormalization", "Bernoulli", "Cast", "Dropout", "LabelEncoder", "Pow", "Squeeze")


#: Operators, or forms, that newer operator sets write with operators that older ones do not have.
ONE_WAY = ("Scan-8-lengths", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


def onnxruntime_differs(oracle: ChildOracle, model: Model, form: Form, wanted: list[Any]) -> str:
    """Empty where onnxruntime gives what is wanted.  Raises Refused where it does not run the model."""
    found, rounded = oracle.run(model, form.feeds), replace(form, ulps=0)  # sums in another order, more roundings
    return next(filter(None, (same(a, b, rounded) for a, b in zip(found, wanted, strict=True))), "")


@pytest.mark.slow
@pytest.mark.parametrize(("target", "least"), [(28, 0), (21, 2900), (13, 2700), (9, 2300), (7, 2100), (1, 900)])
def test_the_converted_model_is_valid_and_others_agree(oracle, target, least) -> None:
    """By the rules of hwflow and of onnx, where the original is; onnxruntime, where it runs it; and back again."""
    wrong, ran = [], 0
    for form in convertible():
        expected = [np.asarray(a) if isinstance(a, np.generic) else a for a in _answer(oracle, form)]
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
            if why and form.op not in OWN_WAYS and not form.own:
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
