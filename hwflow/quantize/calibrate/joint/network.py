"""A network that computes with integers, its noise, and how what may change should change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.onnx.model import Model
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.joint.derivatives import Stack, Step, ahead, back, rounded, step_of
from hwflow.quantize.calibrate.joint.latent import Latent
from hwflow.quantize.calibrate.tune import Tuned
from hwflow.quantize.graphs import ancestors, is_layer, label_of

#: How far the first steps go: weights in steps of their scale, biases as a share of the layer's results, scales of
#: weights and ranges of activations as a share of themselves.
RATES = {"values": 0.005, "bias": 0.003, "growth": 0.001, "ranges": 0.005}

#: What the errors of all tensors between count together, beside those of the results: they tell more than few rows do.
INNER = 1.0


@dataclass
class Network:
    """The part of a model that has derivatives: `steps` in order, `targets` its results, with the sizes of both.

    `layers` are its weights, by label, and `forms` its activations, those of `learned` times exp(`widths`).
    """

    steps: tuple[Step, ...]
    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    inner: tuple[str, ...]
    real: Mapping[str, Stack]
    layers: Mapping[str, Latent]
    forms: Mapping[str, ActivationForm]
    learned: Collection[str] = ()
    widths: dict[str, Stack] = field(default_factory=dict)
    power: dict[str, float] = field(default_factory=dict)

    def real_values(self, rows: Mapping[str, Stack]) -> dict[str, Stack]:
        values = {**rows, **self.real}
        ahead(self.steps, values, {})
        return values

    def measure(self, rows: Mapping[str, Stack]) -> None:
        """Find the sizes of tensors on `rows`."""
        real = self.real_values(rows)
        self.power = {name: float(np.square(real[name]).mean()) or 1.0 for name in (*self.targets, *self.inner)}
        for layer in self.layers.values():
            layer.unit = float(np.sqrt(np.square(real[layer.node.outputs[0]]).mean()))

    def forms_now(self) -> dict[str, ActivationForm]:
        return {name: replace(form, scale=np.float32(form.scale * np.exp(self.widths[name])))
                if name in self.widths else form for name, form in self.forms.items()}  # fmt: skip

    def constants(self) -> dict[str, Stack]:
        reals = {_weights_of(label): layer.integers * layer.steps for label, layer in self.layers.items()}
        return reals | {_bias_of(label): layer.bias for label, layer in self.layers.items()}

    def error(self, rows: Mapping[str, Stack], batch: int) -> float:
        """The noise of the results of `rows` as a share of their power, the mean over all of them."""
        forms, constants, total, power = self.forms_now(), self.constants(), 0.0, 0.0
        shares = dict.fromkeys(self.targets, (0.0, 0.0))
        for part in parts(rows, batch):
            values = {name: rounded(x, forms[name])[0] if name in forms else x for name, x in part.items()} | constants
            ahead(self.steps, values, forms)
            real = self.real_values(part)
            for name, (total, power) in shares.items():
                wrong = np.square(values[name] - real[name], dtype=np.float64).sum()
                shares[name] = total + wrong, power + np.square(real[name], dtype=np.float64).sum()
        return float(np.mean([total / power if power else total for total, power in shares.values()]))

    def slopes(self, rows: Mapping[str, Stack]) -> dict[tuple[str, str], Stack]:
        """The slopes of the error of `rows` by everything that changes."""
        forms, real, raw = self.forms_now(), self.real_values(rows), dict(rows)
        values = {name: rounded(x, forms[name])[0] if name in forms else x for name, x in rows.items()}
        values |= self.constants()
        used = ahead(self.steps, values, forms, raw)
        found: dict[str, Stack] = {}
        for name in self.targets:
            found[name] = self._slope_of_error(name, values, real)
        for name in self.inner:
            found[name] = self._slope_of_error(name, values, real) * np.float32(INNER / len(self.inner))
        back(used, found)
        result = dict[tuple[str, str], Stack]()
        for label, layer in self.layers.items():
            if layer.changes and _weights_of(label) in found:
                own = layer.slopes(found[_weights_of(label)], found[_bias_of(label)])
                result |= {(label, what): own[what] for what in layer.changes}
        for name in self.learned:
            if name in found:
                result[name, "ranges"] = _slope_of_range(found[name], values[name], raw[name], forms[name])
        return result

    def _slope_of_error(self, name: str, values: Mapping[str, Stack], real: Mapping[str, Stack]) -> Stack:
        difference = values[name] - real[name]
        return difference * np.float32(2 / (self.power[name] * difference.size))

    def move(self, moves: Mapping[tuple[str, str], Stack], share: float) -> None:
        for (label, what), far in moves.items():
            if what == "ranges":
                self.widths[label] = np.asarray(self.widths[label] - np.float32(share * RATES[what]) * far, np.float32)
                continue
            layer = self.layers[label]
            rate = RATES[what] * (layer.unit if what == "bias" else 1.0)
            setattr(layer, what, getattr(layer, what) - np.float32(share * rate) * far)
            layer.bound()

    def state(self) -> dict[tuple[str, str], Stack]:
        kept = {(label, what): getattr(layer, what) for label, layer in self.layers.items() for what in layer.changes}
        return kept | {(name, "ranges"): width for name, width in self.widths.items()}

    def restore(self, state: Mapping[tuple[str, str], Stack]) -> None:
        for (label, what), value in state.items():
            if what == "ranges":
                self.widths[label] = value
            else:
                setattr(self.layers[label], what, value)


def _slope_of_range(slopes: Stack, values: Stack, raw: Stack, form: ActivationForm) -> Stack:
    """The slope by the logarithm of a range's width (Esser et al., "Learned Step Size Quantization", 2020)."""
    _, inside = rounded(raw, form)
    return np.asarray((slopes * np.where(inside, values - raw, values)).sum(), np.float32)


def _weights_of(label: str) -> str:
    return f"{label}\0weights"


def _bias_of(label: str) -> str:
    return f"{label}\0bias"


def parts(rows: Mapping[str, Stack], size: int) -> Iterator[dict[str, Stack]]:
    count = next(iter(rows.values())).shape[-1]
    for start in range(0, count, size):
        yield {name: array[..., start : start + size] for name, array in rows.items()}


def network_of(
    model: Model, forms: Mapping[str, ActivationForm], tuned: Tuned, joint: Collection[str], learned: Collection[str]
) -> Network:
    """The network up to the first nodes without a rule; `joint` are the labels of layers that change."""
    constants, changed = model.graph.initializers, dict(zip(model.graph.nodes, tuned.model.graph.nodes, strict=True))
    there = {value.name for value in model.graph.inputs}
    steps, layers, real, outside = list[Step](), dict[str, Latent](), dict[str, Stack](), set[str]()
    nodes = ancestors(model.graph, forms)
    for node in nodes:
        names = [name for name in node.inputs if name and name not in constants]
        step = step_of(node, model) if there.issuperset(names) else None
        if step is None:
            outside.update(names)
            continue
        there.add(step.output)
        if is_layer(node, constants):
            label, (weights, bias) = label_of(node), (constants[name] for name in node.inputs[1:3])
            own = tuned.model.graph.initializers[changed[node].inputs[2]]
            settings = tuned.settings[label] if label in joint else None
            layers[label] = Latent.of(changed[node], tuned.weights[label], weights, own, settings)
            step = replace(step, operands=(step.operands[0], _weights_of(label), _bias_of(label)))
            real |= {_weights_of(label): np.asarray(weights, np.float32), _bias_of(label): np.asarray(bias, np.float32)}
        steps.append(step)
    read = {name for step in steps for name in step.operands}
    targets = tuple(step.output for step in steps if step.output not in read or step.output in outside)
    inputs = tuple(value.name for value in model.graph.inputs if value.name in read)
    able = [name for name in learned if name in there and name in forms and not forms[name].format.bipolar]
    inner = tuple(step.output for step in steps if step.output in forms and step.output not in targets)
    return Network(tuple(steps), targets, inputs, inner, real, layers, forms, able,
                    {name: np.zeros((), np.float32) for name in able})
