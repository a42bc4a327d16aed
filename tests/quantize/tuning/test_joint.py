"""Weights and ranges of a whole network together: derivatives, what they give, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx as reference
import pytest
from onnx.reference import ReferenceEvaluator

import hwflow
from hwflow import HwflowError, onnx
from hwflow.onnx.build import Builder
from hwflow.quantize.calibrate.activations import activation_form
from hwflow.quantize.calibrate.joint import reconstruct as joint
from hwflow.quantize.calibrate.joint.derivatives import ahead, back, rounded, step_of
from hwflow.quantize.calibrate.points import points
from hwflow.quantize.calibrate.tune import tune
from hwflow.quantize.post_training import finish, prepare
from hwflow.quantize.settings import (
    ActivationSettings,
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)
from hwflow.quantize.settings_file import settings_from_yaml
from tests.quantize.tuning.networks import depthwise_network
from tests.quantize.tuning.test_tune import noise

RNG = np.random.default_rng(5)


def constant(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


X = (1, 4, 6, 5)
CASES = {
    "conv": ("Conv", [X], [constant(6, 4, 3, 2), constant(6)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "dilated": ("Conv", [X], [constant(2, 4, 2, 2), constant(2)], {"dilations": [3, 2]}),
    "grouped": ("Conv", [X], [constant(6, 2, 3, 3), constant(6)], {"group": 2, "auto_pad": "SAME_LOWER"}),
    "depthwise": ("Conv", [X], [constant(4, 1, 3, 3), constant(4)], {"group": 4, "pads": [1, 1, 1, 1]}),
    "row": ("Conv", [(2, 3, 7)], [constant(5, 3, 3), constant(5)], {"strides": [2]}),
    "gemm": ("Gemm", [(3, 5)], [constant(4, 5), constant(4)], {"transB": 1}),
    "max": ("MaxPool", [X], [], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "average": ("AveragePool", [X], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average with pads": ("AveragePool", [X], [], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0],
                                                   "count_include_pad": 1}),
    "whole": ("GlobalAveragePool", [X], [], {}),
    "mean": ("ReduceMean", [(1, 3, 4)], [], {"axes": [1], "keepdims": 0}),
    "matmul": ("MatMul", [(2, 3, 4), (4, 5)], [], {}),
    "softmax": ("Softmax", [(1, 3, 4)], [], {"axis": 1}),
    "layer norm": ("LayerNormalization", [(1, 3, 6)], [constant(6), constant(6)], {}),
    "add": ("Add", [(1, 3, 4), (1, 3, 1)], [], {}),
    "sub": ("Sub", [(4,), (2, 3, 4)], [], {}),
    "mul": ("Mul", [(1, 3, 4), (3, 4)], [], {}),
    "square": ("Mul", [(3, 4)], "same", {}),
    "factor": ("Mul", [(1, 3, 4)], [constant(3, 1)], {}),
    "relu": ("Relu", [(3, 4)], [], {}),
    "sigmoid": ("Sigmoid", [(3, 4)], [], {}),
    "slopes": ("PRelu", [(1, 3, 4)], [np.abs(constant(3, 1))], {}),
    "clip": ("Clip", [(3, 4)], [np.float32(-0.5), np.float32(0.5)], {}),
    "transpose": ("Transpose", [(2, 3, 4)], [], {"perm": [2, 0, 1]}),
    "reshape": ("Reshape", [(2, 3, 4)], [ints(4, -1)], {}),
    "concat": ("Concat", [(2, 3), (2, 1)], [], {"axis": 1}),
    "slice": ("Slice", [(5, 4)], [ints(3, 0), ints(0, 4), ints(0, 1), ints(-2, 3)], {}),
    "pad": ("Pad", [(2, 3)], [ints(1, 0, 0, 2), np.float32(0.25)], {}),
    "expand": ("Expand", [(3, 1)], [ints(2, 3, 4)], {}),
    "gather": ("Gather", [(4, 2)], [ints(3, 0, 3)], {"axis": 0}),
}


def network_of_one(op, shapes, constants, attributes):
    """A model of one node, the same in float64 for the reference, and its operands in the order of the node."""
    b, names = Builder("one"), [f"x{k}" for k in range(len(shapes))]
    for name, shape in zip(names, shapes, strict=True):
        b.input(name, np.float32, shape)
    extra = [names[0]] if constants == "same" else [b.constant(f"c{k}", c) for k, c in enumerate(constants)]
    b.output(b.node(op, *names, *extra, name="node", output="y", **attributes), np.float32)
    fixed = {} if constants == "same" else {f"c{k}": np.asarray(c) for k, c in enumerate(constants)}
    node = reference.helper.make_node(op, [*names, *extra], ["y"], **attributes)
    return onnx.infer(b.model(opset=17)), node, names, fixed


def by_reference(node, values):
    """The result of `node` in float64."""
    wide = {name: v.astype(np.float64) if v.dtype.kind == "f" else v for name, v in values.items()}
    inputs = [reference.helper.make_tensor_value_info(
        name, reference.TensorProto.DOUBLE if v.dtype.kind == "f" else reference.TensorProto.INT64, v.shape)
        for name, v in wide.items()]  # fmt: skip
    output = reference.helper.make_tensor_value_info("y", reference.TensorProto.DOUBLE, None)
    graph = reference.helper.make_graph([node], "one", inputs, [output])
    model = reference.helper.make_model(graph, opset_imports=[reference.helper.make_opsetid("", 17)], ir_version=8)
    return ReferenceEvaluator(model).run(None, wide)[0]


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_reference(case):
    """Along a direction of all operands, by differences of onnx's own evaluation in float64."""
    model, node, names, fixed = network_of_one(*CASES[case])
    step = step_of(model.graph.nodes[0], model)
    assert step is not None
    operands = {name: fixed[name] if name in fixed else constant(*shape, 3)
                for name, shape in zip(step.operands, [*CASES[case][1], None, None], strict=False)}
    directions = {name: constant(*value.shape) for name, value in operands.items()}
    result, pull = step.rule([operands[name] for name in step.operands])
    slopes = constant(*result.shape)
    found = sum(float((part * directions[name]).sum())
                for name, part in zip(step.operands, pull(slopes), strict=True) if part is not None)
    wanted, size = 0.0, 1e-6
    for k in range(3):
        ends = []
        for sign in (1, -1):
            moved = {name: value + sign * size * np.float64(directions[name]) for name, value in operands.items()}
            row = {name: value[..., k] if name in names else value for name, value in moved.items()}
            ends.append(by_reference(node, {**row, **{name: c for name, c in fixed.items() if name not in row}}))
        here = by_reference(node, {**{n: v[..., k] if n in names else v for n, v in operands.items()},
                                   **{n: c for n, c in fixed.items() if n not in operands}})
        np.testing.assert_allclose(result[..., k], here, rtol=1e-4, atol=1e-5)
        wanted += float((slopes[..., k] * (ends[0] - ends[1]) / (2 * size)).sum())
    assert found == pytest.approx(wanted, rel=2e-3, abs=2e-3)


def test_what_is_not_understood_has_no_step():
    b = Builder("one")
    x = b.input("x", np.float32, (3, 1, 4))
    weights = [b.constant("w", constant(1, 6, 4)), b.constant("r", constant(1, 6, 2))]
    b.output(b.node("GRU", x, *weights, output="y", hidden_size=2), np.float32)
    model = onnx.infer(b.model(opset=13))
    assert step_of(model.graph.nodes[0], model) is None


def test_rounding_counts_as_nothing_inside_of_the_range():
    form = activation_form(-1, 1, 3)
    values = np.array([[-3.0, -0.2, 0.4, 5.0]], np.float32)
    reals, inside = rounded(values, form)
    np.testing.assert_array_equal(reals, form.reals(form.integers(values)).astype(np.float32))
    assert inside.tolist() == [[False, True, True, False]]
    model, *_ = network_of_one("Relu", [(1,)], [], {})
    values = {"x0": np.array([[-3.0, 0.2, 0.4, 5.0]], np.float32)}
    found = back(ahead([step_of(model.graph.nodes[0], model)], values, {"y": form}), {"y": np.ones((1, 4), np.float32)})
    assert found["x0"].tolist() == [[0, 1, 1, 0]]


@pytest.fixture(scope="module")
def case():
    net = depthwise_network()
    model, rows, unseen = net.model(), net.rows(48), net.rows(64)
    seen = {p.tensor: [onnx.evaluate(model, {"input": row}, (p.tensor,))[p.tensor] for row in rows["input"]]
            for p in points(model)}
    activations = {name: activation_form(float(np.min(v)), float(np.max(v)), 4) for name, v in seen.items()}
    return model, activations, rows, unseen


def settings_for(bits, steps=200, **weights):
    layer = LayerSettings(WeightSettings(bits, rounding=WeightRounding.JOINT, **weights), ActivationSettings(4))
    return QuantizationSettings(layer, joint_steps=steps)


def reconstructed(case, settings, notes=None, count=48):
    model, activations, rows, _ = case
    few = {"input": rows["input"][:count]}
    tuned = tune(model, activations, settings, few)
    return tuned, joint.reconstruct(model, activations, settings, tuned, few, [] if notes is None else notes)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_rows_held_back_show_less_noise_or_nothing_changes(case, bits):
    model, activations, rows, _ = case
    held, notes = {"input": rows["input"][3::4]}, []
    before, after = reconstructed(case, settings_for(bits), notes)
    ends = noise(before, model, activations, held), noise(after, model, activations, held)
    assert ends[1] < 0.91 * ends[0] or after is before
    limit = 2 ** (bits - 1) - 1
    for name, form in after.weights.items():
        assert form.integers.shape == before.weights[name].integers.shape
        assert np.abs(form.integers).max() <= limit
        assert form.scales.dtype == np.float32
        assert (form.scales > 0).all()
    (note,) = notes
    assert note.startswith("joint rounding: signal to noise on held-back calibration rows ")


@pytest.mark.parametrize("choices", [
    {"bits": 1}, {"bits": 3, "per_channel": False}, {"bits": 3, "bias_correction": False}
])
def test_the_same_data_give_the_same_result_and_keep_the_form(case, choices):
    first, second = (reconstructed(case, settings_for(steps=20, **choices))[1] for _ in range(2))
    assert first.weights == second.weights
    old, new = first.model.graph.initializers, second.model.graph.initializers
    assert all(np.array_equal(old[name], new[name]) for name in old)
    for form in first.weights.values():
        assert choices["bits"] > 1 or (np.abs(form.integers) == 1).all()
        assert choices.get("per_channel", True) or len(np.unique(form.scales)) == 1
    assert choices.get("bias_correction", True) or new.keys() == case[0].graph.initializers.keys()


def test_nothing_better_leaves_what_was_there(case, monkeypatch):
    far = dict.fromkeys(("values", "bias", "growth"), 9.0)
    monkeypatch.setattr("hwflow.quantize.calibrate.joint.network.RATES", far)
    notes = []
    before, after = reconstructed(case, settings_for(4, 10), notes)
    assert after is before
    assert notes[0].endswith("weights are rounded adaptively")


def test_few_rows_and_other_layers_stay_as_they_are(case):
    notes = []
    before, after = reconstructed(case, settings_for(2), notes, count=3)
    assert after is before
    assert notes == ["joint rounding takes at least 4 calibration rows: weights are rounded adaptively"]
    one = settings_for(2, 10)
    layers = {"conv1": LayerSettings(WeightSettings(8), ActivationSettings(4))}
    before, after = reconstructed(case, QuantizationSettings(one.default, layers, joint_steps=10))
    assert np.array_equal(before.weights["conv1"].integers, after.weights["conv1"].integers)


def test_layers_behind_what_has_no_derivative_are_named():
    b, notes = Builder("net"), []
    x = b.input("input", np.float32, (3, 1, 4))
    weights = [b.constant("w", constant(1, 6, 4)), b.constant("r", constant(1, 6, 2))]
    y = b.node("Reshape", b.node("GRU", x, *weights, hidden_size=2, name="gru"), b.constant("s", ints(3, 2)))
    b.output(b.node("Gemm", y, b.constant("v", constant(5, 2)), b.constant("c", constant(5)), transB=1, name="out"),
             np.float32)
    model = onnx.infer(b.model(opset=13))
    made = prepare(model, {"input": constant(8, 3, 1, 4)}, QuantizationSettings(), [])
    finish(made, QuantizationSettings(LayerSettings(WeightSettings(3, rounding=WeightRounding.JOINT))), notes)
    assert notes[-1] == ("joint rounding does not reach 'out', behind an operator whose derivative is not known: "
                         "rounded adaptively")


def test_learned_ranges_win_and_their_settings_make_the_same_model(case):
    model, _, rows, unseen = case
    rows = {"input": np.concatenate([8 * rows["input"][:1], rows["input"]])}  # one row far outside of all others
    prepared, errors = prepare(model, rows, QuantizationSettings(), []), []
    wanted = [onnx.evaluate(model, {"input": row}) for row in unseen["input"]]
    for method in (RangeMethod.AUTO, RangeMethod.LEARNED):
        layer = LayerSettings(WeightSettings(6, rounding=WeightRounding.JOINT), ActivationSettings(7, method=method))
        made = finish(prepared, QuantizationSettings(layer, joint_steps=100), notes := [])
        found = [onnx.evaluate(made.qdq, {"input": row}) for row in unseen["input"]]
        errors.append(sum(np.square(a[name] - b[name]).sum() for a, b in zip(wanted, found, strict=True) for name in a))
    assert errors[1] < 0.8 * errors[0], notes
    again = finish(prepared, settings_from_yaml(made.settings_text, "file", model), [])
    assert again.settings_text == made.settings_text
    assert all(np.array_equal(again.qdq.graph.initializers[name], array)
               for name, array in made.qdq.graph.initializers.items())


@pytest.mark.parametrize(("layer", "message"), [
    (LayerSettings(WeightSettings(rounding=WeightRounding.JOINT)),
     "settings: layers/conv1/weights/rounding must be nearest or auto without calibration data, not joint; give real "
     "inputs with --data"),
    (LayerSettings(output=ActivationSettings(method=RangeMethod.LEARNED)),
     "settings: a range must not be learned without calibration data; give real inputs with --data, or take another "
     "method"),
])
def test_both_take_data(case, layer, message):
    with pytest.raises(HwflowError) as caught:
        hwflow.quantize_model(case[0], None, settings=QuantizationSettings(layer))
    assert str(caught.value) == message
