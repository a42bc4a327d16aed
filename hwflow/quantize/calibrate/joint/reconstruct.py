"""Joint reconstruction: all integer weights of a network together, so that it computes what the float model does.

A layer alone cannot know what integers in front of it and behind it lose.  Here the whole network computes with
integers, weights and activations, and the error of its results says in which direction each weight, scale and bias
should go.  A weight is held as a real number beside its integer, and moves until another integer is nearer; rounding
counts as if it did nothing (Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons", 2013).
Steps are those of Adam (Kingma and Ba, 2015), shorter and shorter.  No labels are read.  What the network is shown are
mixtures of two rows (Zhang et al., "mixup", 2018), for which the float model has an answer, too: few rows say more that
way.

Every fourth row is held back.  What has the smallest error on those is kept, where nothing is better the beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.onnx.model import Array, Model
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.joint.derivatives import Stack
from hwflow.quantize.calibrate.joint.network import Network, network_of
from hwflow.quantize.calibrate.tune import Tuned, tune
from hwflow.quantize.graphs import with_graph
from hwflow.quantize.settings import QuantizationSettings, WeightRounding

#: Part of all steps that become longer instead of shorter, first of all.
_WARM = 0.05

#: Rows of one step, and bytes that its tensors may take; which rows are held back; how often these are asked.
_BATCH, _BYTES, _HELD, _CHECKS = 32, 1 << 29, 4, 10

#: How often a step holds all tensors, windows and slopes included.
_COPIES = 10

#: The share of the noise that may be left at most: few rows do not tell less apart.
_GAIN = 0.9

#: A row that is held back and three that are not.
LEAST_ROWS = 4


@dataclass
class _Adam:
    """The mean of slopes, and of their squares, of everything that changes."""

    means: dict[tuple[str, str], Stack] = field(default_factory=dict)
    squares: dict[tuple[str, str], Stack] = field(default_factory=dict)

    def move(self, key: tuple[str, str], slope: Stack, count: int) -> Stack:
        """How far to go, at most about 1, in step `count` (1 for the first)."""
        mean = self.means[key] = np.float32(0.9) * self.means.get(key, np.float32(0)) + np.float32(0.1) * slope
        square = np.float32(0.99) * self.squares.get(key, np.float32(0)) + np.float32(0.01) * slope * slope
        self.squares[key] = square
        return mean / np.float32(1 - 0.9**count) / (np.sqrt(square / np.float32(1 - 0.99**count)) + np.float32(1e-12))


@dataclass(frozen=True)
class _Rows:
    """Calibration rows as the inputs of a network: `own` are shown to it, the others are `held` back and judge."""

    stacks: Mapping[str, Stack]
    own: Sequence[int]
    batch: int

    @staticmethod
    def of(network: Network, rows: Mapping[str, Array]) -> _Rows:
        stacks = {name: np.ascontiguousarray(np.moveaxis(np.asarray(rows[name], np.float32), 0, -1))
                  for name in network.inputs}
        own = _shown(rows)
        one = network.real_values({name: stack[..., :1] for name, stack in stacks.items()})
        fitting = _BYTES // (_COPIES * sum(value.nbytes for value in one.values()))
        return _Rows(stacks, own, int(np.clip(fitting, 1, min(_BATCH, len(own)))))

    @property
    def some(self) -> dict[str, Stack]:
        """As many rows as one step takes."""
        return {name: stack[..., self.own[: self.batch]] for name, stack in self.stacks.items()}

    def error(self, network: Network) -> float:
        """The noise of the results on the rows that are held back."""
        held = {name: stack[..., _HELD - 1 :: _HELD] for name, stack in self.stacks.items()}
        return network.error(held, self.batch)

    def mixed(self, generator: np.random.Generator) -> dict[str, Stack]:
        """Mixtures of pairs of rows, in any shares."""
        one, other = (generator.permutation(self.own)[: self.batch] for _ in range(2))
        shares = generator.random(self.batch).astype(np.float32)
        return {name: stack[..., one] * shares + stack[..., other] * (1 - shares)
                for name, stack in self.stacks.items()}


def _fit(network: Network, rows: _Rows, steps: int) -> tuple[float, float]:
    """Change what may change in `network`; the error on the rows held back, before and after."""
    network.measure(rows.some)
    generator, adam = np.random.default_rng(0), _Adam()
    first = least = rows.error(network)
    best = network.state()
    for count in range(1, steps + 1):
        slopes = network.slopes(rows.mixed(generator))
        moves = {key: adam.move(key, slope, count) for key, slope in slopes.items()}
        share = 0.5 * (1 + np.cos(np.pi * (count - 1) / steps)) * min(1.0, count / (_WARM * steps))
        network.move(moves, float(share))
        if count * _CHECKS // steps > (count - 1) * _CHECKS // steps:
            error = rows.error(network)
            if error < least:
                least, best = error, network.state()
    network.restore(best)
    return first, least


def _shown(rows: Mapping[str, Array]) -> list[int]:
    """The numbers of the rows that are not held back."""
    return [k for k in range(min(map(len, rows.values()))) if k % _HELD != _HELD - 1]


def learned_ranges(
    model: Model,
    activations: Mapping[str, ActivationForm],
    settings: QuantizationSettings,
    rows: Mapping[str, Array],
    names: Collection[str],
    notes: list[str],
) -> dict[str, float]:
    """By what to multiply the ranges of the tensors `names` so that the results of the network come nearest.

    Weights change with them, and are thrown away: they are tuned again for the new ranges.  Tensors behind an operator
    without a derivative keep their ranges.  `notes` gets what came of it.
    """
    if min(map(len, rows.values())) < LEAST_ROWS:
        notes.append(f"learning ranges takes at least {LEAST_ROWS} calibration rows: they are as automatic means")
        return dict.fromkeys(names, 1.0)
    start = tune(model, activations, settings, rows)
    network = network_of(model, activations, start, start.weights, names)
    if not network.widths:
        return dict.fromkeys(names, 1.0)
    judge = _Rows.of(network, rows)
    before, _ = _fit(network, judge, settings.joint_steps)
    forms = network.forms_now()
    again = tune(model, forms, settings, rows)
    after = judge.error(network_of(model, forms, again, (), ()))
    wins = after < _GAIN * before
    notes.append(f"learned ranges: signal to noise on held-back calibration rows {_decibels(before)} before, "
                 f"{_decibels(after)} after" + ("" if wins else ": ranges are as automatic means"))
    return {name: float(np.exp(network.widths[name])) if wins and name in network.widths else 1.0 for name in names}


def reconstruct(
    model: Model,
    activations: Mapping[str, ActivationForm],
    settings: QuantizationSettings,
    tuned: Tuned,
    rows: Mapping[str, Array],
    notes: list[str],
) -> Tuned:
    """`tuned` with other integers, scales and biases in the layers of `model` whose rounding is joint.

    `rows` maps each input to calibration rows [n, *its shape].  Biases change where they are corrected.  Where the rows
    held back do not show a tenth less noise than with `tuned`, which has seen them, `tuned` is the result.  The same
    data and settings give the same result.  `notes` gets what came of it, and which layers stand behind an operator
    without a derivative and stay as they are.
    """
    joint = [label for label, own in tuned.settings.items()
             if own.rounding is WeightRounding.JOINT and label in tuned.weights]
    if not joint:
        return tuned
    if min(map(len, rows.values())) < LEAST_ROWS:
        notes.append(f"joint rounding takes at least {LEAST_ROWS} calibration rows: weights are rounded adaptively")
        return tuned
    network = network_of(model, activations, tuned, joint, ())
    reached = [label for label, layer in network.layers.items() if layer.changes]
    left = [label for label in joint if label not in reached]
    if left:
        notes.append(f"joint rounding does not reach {_some(left)}, behind an operator whose derivative is not known: "
                     "rounded adaptively")
    if not reached:
        return tuned
    before, after = _fit(network, _Rows.of(network, rows), settings.joint_steps)
    notes.append(f"joint rounding: signal to noise on held-back calibration rows {_decibels(before)} before, "
                 f"{_decibels(after)} after" + ("" if after < _GAIN * before else ": weights are rounded adaptively"))
    return _with_layers(tuned, network) if after < _GAIN * before else tuned


def _with_layers(tuned: Tuned, network: Network) -> Tuned:
    """`tuned` with the layers of `network` that change."""
    constants, weights = dict[str, Array](), dict(tuned.weights)
    for label, layer in network.layers.items():
        if layer.changes:
            weights[label] = layer.made
        if "bias" in layer.changes:
            constants[layer.node.inputs[2]] = layer.bias
    return replace(tuned, model=with_graph(tuned.model, tuned.model.graph.nodes, constants), weights=weights)


def _some(labels: Sequence[str]) -> str:
    return ", ".join(f"'{label}'" for label in labels[:3]) + (f" and {len(labels) - 3} more" if labels[3:] else "")


def _decibels(share: float) -> str:
    return f"{-10 * np.log10(share):.1f} dB" if share > 0 else "no noise"
