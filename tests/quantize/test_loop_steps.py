"""The steps of recurrent layers, one by one, against ONNX's formulas: what is right is inside, what is broken not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hwflow.layers.recurrent import Recurrent
from hwflow.onnx import evaluate
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from hwflow.quantize.checks import imported_layers as imported
from hwflow.quantize.checks import meaning as telling_rows
from hwflow.quantize.checks.meaning import MeaningChanged
from hwflow.quantize.checks.recurrent_steps import Formulas
from tests.quantize.recurrent_models import sequence
from tests.quantize.test_recurrent import rows_of

CELLS = [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {}),
         ("LSTM", {"activations": ["HardSigmoid", "Relu", "Softsign"], "clip": 3.0}),
         ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [-0.4]})]  # fmt: skip


def strong(model: Model, factor: float) -> Model:
    """With states that count so many times as much: what one step rounds grows from step to step."""
    model.graph.initializers["R"][...] *= factor  # type: ignore[index]
    return model


@pytest.mark.quick(3)
@pytest.mark.parametrize(("op", "attributes"), CELLS)
def test_real_steps_are_inside(op: str, attributes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """What ONNX gives for a step from any state, without rounding, is in the narrow bounds of that step."""
    model, seen = sequence(op, "all", steps=12, **attributes), list[Formulas]()
    problem = Formulas.problem
    monkeypatch.setattr(telling_rows, "_at_the_ends", lambda data: [])  # beyond which sums saturate
    monkeypatch.setattr(Formulas, "problem", lambda self, states: seen.append(self) or problem(self, states))
    quantize(model, rows_of(model, 12))
    (formulas,) = seen
    layer, constants, rng = formulas.layer, model.graph.initializers, np.random.default_rng(0)
    real = replace(formulas, weights=replace(formulas.weights, w=constants["W"][0], r=constants["R"][0]))
    count = formulas.x.shape[0] * formulas.x.shape[1]
    states = [rng.uniform(-0.5, 0.5, (1, count, layer.hidden)).astype(np.float32) for _ in formulas.start]
    b = Builder("one step of each sequence")
    names = [b.constant(f"c{k}", array) for k, array in enumerate((
        formulas.x.reshape(1, count, -1).astype(np.float32), constants["W"], constants["R"], constants["B"], *states))]
    made = b.nodes(op, *names[:4], "", *names[4:], outputs=("", "h", "c")[: 1 + len(states)],
                   **formulas.node.attributes)  # fmt: skip
    after = [array[0] for array in evaluate(b.model(), {}, fetch=made[1:]).values()]
    for bounds, wanted in zip(real._after([state[0] for state in states], after), after, strict=True):
        assert (bounds.low <= wanted).all()
        assert (wanted <= bounds.high).all()
        assert np.max(bounds.high - bounds.low) < 2.0**-4


@pytest.mark.quick(3)
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("form", ["both", "reverse"])
def test_strong_loops_are_no_mistake(op: str, form: str) -> None:
    """What they round goes on, by more than any share of the range; each step is right."""
    model = strong(sequence(op, form, steps=30), 3)
    quantize(model, rows_of(model, 30))


def shifted(table: Array) -> Array:
    """By eight entries, of 2048."""
    return np.roll(table, 8)


def turned(weights: Array) -> Array:
    """Gates in another order."""
    return np.roll(weights, len(weights) // 4, axis=0)


BROKEN: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "gates": ("gate_table", shifted), "candidates": ("candidate_table", lambda t: t // 64 * 63),
    "shown": ("output_table", lambda t: t // 2), "order": ("hidden_weights", turned),
    "start": ("initial", lambda s: s + 900), "a weight": ("hidden_weights", lambda w: np.where(w == w.max(), -w, w)),
}  # fmt: skip


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_a_broken_loop_is_caught(op: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    field, mistake = BROKEN[name]
    if (op, name) == ("GRU", "shown"):
        pytest.skip("a GRU has no cell state to show")
    model = sequence(op, "both")
    run = imported._Walk.run

    def broken(self: imported._Walk, layer: Recurrent) -> None:
        run(self, replace(layer, **{field: mistake(getattr(layer, field))}) if layer.kind == "recurrent" else layer)

    monkeypatch.setattr(imported._Walk, "run", broken)
    message = rf"layer '\w+' \(recurrent\) of 'cell' \({op}\) steps (to a|from another) (hidden|cell) state"
    with pytest.raises(MeaningChanged, match=message) as raised:
        quantize(model, rows_of(model, 10))
    assert raised.value.exit_code == 70
