"""Random models with recurrent layers: any cell, direction, function, layout and strength of weights, one or several
behind each other, and behind each of them nodes that move, join, pool or scale its elements.

`recurrent_network` with `standard` writes the same network with layout 0, which is all that onnxruntime has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Array, Model
from tests.strategies.drawing import Walk

F = np.float32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
#: The functions of candidates and of an LSTM's cell, with alpha and beta drawn between these.
FUNCTIONS: dict[str, tuple[tuple[float, float], ...]] = {
    "Tanh": (), "Sigmoid": (), "Softsign": (), "Relu": (), "Softplus": (), "HardSigmoid": ((0.04, 0.6), (0.2, 0.8)),
    "LeakyRelu": ((-0.5, 0.5),), "Elu": ((0.3, 2.0),),
}
#: Those without an end, behind which no weights may be so strong that states explode.
ENDLESS = ("Relu", "Softplus", "LeakyRelu", "Elu")


class Network(Walk):
    """A network under construction: `x` is its last tensor, of this `shape`; `story` says what was drawn."""

    def __init__(self, rng: Any, standard: bool) -> None:
        super().__init__(rng, "recurrent")
        self.standard, self.x, self.story = standard, "", list[str]()
        self.shape: tuple[int, ...] = ()

    def constant(self, name: str, value: Array) -> str:
        return self.b.constant(self.new(name), value)

    def ints(self, *values: int) -> str:
        return self.constant("ints", np.array(values, np.int64))

    def node(self, op: str, *rest: str, **attributes: Any) -> None:
        self.x = self.b.node(op, self.x, *rest, **attributes)
        self.story.append(op)

    def reshape(self, *shape: int) -> None:
        self.node("Reshape", self.ints(*shape))
        self.shape = shape

    def transpose(self, *perm: int) -> None:
        self.node("Transpose", perm=perm)
        self.shape = tuple(self.shape[k] for k in perm)


def recurrent_network(rng: Any, standard: bool = False) -> tuple[Model, str]:
    """The model, and what it consists of."""
    net = Network(rng, standard)
    steps, inputs = int(rng.choice([1, 2, 3, 5, 8, 13, 21])), int(rng.integers(1, 9))
    net.x, net.shape = net.b.input("x", F, (1, steps, inputs)), (1, steps, inputs)
    layers = int(rng.choice([1, 2, 3], p=[0.55, 0.35, 0.1]))
    for k in range(layers):
        layer(net, k)
        for _ in range(int(rng.integers(0, 4 if k == layers - 1 else 2))):
            chain(net, k == layers - 1)
    head(net)
    return onnx.infer(net.b.model(opset=17)), " ".join(net.story)


def functions(net: Network, op: str) -> tuple[list[str], dict[str, list[float]]]:
    """The names of one direction, and their parameters; the usual ones mostly."""
    places = {"RNN": 1, "GRU": 1, "LSTM": 2}[op]
    gate = [] if op == "RNN" else ["HardSigmoid" if net.chance(0.2) else "Sigmoid"]
    names = gate + [str(net.rng.choice(list(FUNCTIONS))) if net.chance(0.4) else "Tanh" for _ in range(places)]
    drawn: dict[str, list[float]] = {"activation_alpha": [], "activation_beta": []}
    for name in names:
        for key, ends in zip(drawn, FUNCTIONS[name], strict=False):
            drawn[key].append(round(float(net.rng.uniform(*ends)), 3))
    return names, drawn


def layer(net: Network, number: int) -> None:
    """A recurrent layer over [1, steps, features], which gives such a tensor; of the last states, one step."""
    rng, op = net.rng, str(net.rng.choice(list(GATES)))
    _, steps, inputs = net.shape
    hidden, direction = int(rng.integers(1, 11)), str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 1 + (direction == "bidirectional")
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    names, drawn = zip(*(functions(net, op) for _ in range(directions)), strict=True)
    flat = [name for part in names for name in part]
    if net.chance(0.6):
        attributes["activations"] = flat
        attributes.update({key: values for key in drawn[0] if (values := [v for part in drawn for v in part[key]])})
    else:
        flat = ["Tanh"]
    endless = any(name in ENDLESS for name in flat)
    if net.chance(0.15):
        attributes["clip"] = float(rng.uniform(0.5, 4))
    if op == "GRU" and net.chance(0.5):
        attributes["linear_before_reset"] = 1
    strength = rng.choice([0.3, 0.8] if endless else [0.3, 1.0, 2.0, 4.0])
    operands = weights(net, op, (directions, hidden, inputs), float(strength))
    batch_first, whole = net.chance(0.25) and not net.standard, net.chance(0.5)
    operands += states(net, op, (directions, hidden), batch_first)
    if batch_first:
        attributes["layout"] = 1
    else:
        net.transpose(1, 0, 2)
    y, last = f"y{number}", f"last{number}"
    net.b.nodes(op, net.x, *operands, outputs=(y, last), name=f"cell{number}", **attributes)
    net.story.append(f"{op}({direction} {steps}x{inputs}->{hidden} {flat} x{strength} layout {int(batch_first)})")
    if net.chance(0.25):
        net.x, net.shape = last, (1, directions, hidden) if batch_first else (directions, 1, hidden)
        if not batch_first:
            net.transpose(1, 0, 2)
        net.reshape(1, 1, directions * hidden)
        return
    net.x, net.shape = y, (1, steps, directions, hidden) if batch_first else (steps, directions, 1, hidden)
    if directions == 1 and not batch_first and whole:  # as torch writes one direction
        net.node("Squeeze", net.ints(1))
        net.shape = (steps, 1, hidden)
        net.transpose(1, 0, 2)
        return
    if not batch_first:  # and as it writes two
        net.transpose(2, 0, 1, 3)
    net.reshape(1, steps, directions * hidden)


def weights(net: Network, op: str, sizes: tuple[int, int, int], strength: float) -> list[str]:
    """W, R and B; the states count for `strength` times as much as usual."""
    directions, hidden, inputs = sizes
    rng, rows = net.rng, GATES[op] * hidden
    w = rng.normal(0, rng.choice([0.5, 1.2, 2.5]) / np.sqrt(inputs), (directions, rows, inputs)).astype(F)
    r = rng.normal(0, strength / np.sqrt(hidden), (directions, rows, hidden)).astype(F)
    b = rng.normal(0, rng.choice([0.1, 0.5]), (directions, 2 * rows)).astype(F)
    return [net.constant("w", w), net.constant("r", r), net.constant("b", b) if net.chance(0.8) else ""]


def states(net: Network, op: str, sizes: tuple[int, int], batch_first: bool) -> list[str]:
    """sequence_lens, and constant initial states."""
    directions, hidden = sizes
    found = [""]
    for size in (0.7, 2.0)[: 2 if op == "LSTM" else 1]:
        if not net.chance(0.4):
            return found if len(found) > 1 else []
        state = net.rng.normal(0, size, (directions, 1, hidden)).astype(F)
        found.append(net.constant("start", state.transpose(1, 0, 2).copy() if batch_first else state))
    return found


def chain(net: Network, last: bool) -> None:
    """One node on [1, steps, features] that moves, joins, pools or scales."""
    rng, (_, steps, features) = net.rng, net.shape
    kind = str(rng.choice(["turn", "cut", "twice", "flip", "relu", "leaky", "pool", "scale", "gather", "split", "pad"]))
    if kind == "turn" and last:
        net.transpose(0, 2, 1)
    elif kind == "cut" and steps > 1:
        first = int(rng.integers(0, steps - 1))
        net.node("Slice", net.ints(first), net.ints(steps), net.ints(1))
        net.shape = (1, steps - first, features)
    elif kind == "twice":
        other = net.b.node("LeakyRelu", net.x, alpha=0.25) if net.chance(0.5) else net.x
        net.node("Concat", other, axis=2)
        net.shape = (1, steps, 2 * features)
    elif kind == "flip" and steps > 1:
        net.node("Slice", net.ints(-1), net.ints(-steps - 1), net.ints(1), net.ints(-1))
    elif kind == "relu":
        net.node("Relu")
    elif kind == "leaky":
        net.node("LeakyRelu", alpha=0.2)
    elif kind == "pool" and steps > 1:
        net.transpose(0, 2, 1)
        net.node(str(rng.choice(["MaxPool", "AveragePool"])), kernel_shape=[2], strides=[1])
        net.shape = (1, features, steps - 1)
        net.transpose(0, 2, 1)
    elif kind == "scale":
        net.node("Mul", net.constant("factor", F(rng.uniform(0.3, 3))))
    elif kind == "gather":
        order = rng.permutation(features)
        net.node("Gather", net.ints(*order.tolist()), axis=2)
    elif kind == "split" and features > 1:
        one, two = (net.b.node("Slice", net.x, net.ints(a), net.ints(z), net.ints(2))
                    for a, z in ((0, features // 2), (features // 2, features)))
        net.x = net.b.node("Concat", two, net.b.node("Tanh", one) if net.chance(0.5) else one, axis=2)
        net.story.append("halves swapped")
    elif kind == "pad":
        net.node("Pad", net.ints(0, 1, 0, 0, 0, 1))
        net.shape = (1, steps + 1, features + 1)


def head(net: Network) -> None:
    """All elements, or the last step, into a dense layer; or the result as it is."""
    _, steps, features = net.shape
    if net.chance(0.15):
        net.b.output(net.x, F)
        return
    if net.chance(0.4):
        net.node("Gather", net.constant("at", np.array(-1, np.int64)), axis=1)
        net.shape, elements = (1, features), features
    else:
        elements = steps * features
        net.node("Flatten", axis=1)
    net.node("Gemm", net.constant("head", net.rng.normal(0, 1 / np.sqrt(elements), (elements, 4)).astype(F)))
    net.b.output(net.x, F)


def rows_for(model: Model, count: int, seed: int) -> dict[str, Array]:
    """Rows of different loudness."""
    (x,) = model.graph.inputs
    assert x.tensor is not None
    rng, shape = np.random.default_rng([32, seed]), tuple(int(n) for n in x.tensor.shape or ())  # type: ignore[arg-type]
    loud = rng.uniform(0.2, 1.5, (count, *(1,) * len(shape)))
    return {x.name: (loud * rng.normal(0, 1, (count, *shape))).astype(F)}
