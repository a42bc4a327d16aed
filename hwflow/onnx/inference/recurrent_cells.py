"""What a round of a loop is, by its values: a step of an RNN, GRU or LSTM with these weights.

The functions in it (Sigmoid, Tanh, ...) are cut: what they give are inputs, what they read are outputs.  What is left
is affine in the input and the state, so unit vectors find its weights, whatever nodes compute it.  Which function is
which gate is tried; `recurrent_loops` compares each candidate with the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Attribute, Graph, Model, Node, TensorType, Value
from hwflow.onnx.ops.base import Known
from hwflow.onnx.run.evaluate import evaluate

Floats = npt.NDArray[np.float64]

#: The functions that recurrent operators have, and their parameters with ONNX's defaults.
FUNCTIONS: Mapping[str, Mapping[str, float]] = {
    "Sigmoid": {}, "Tanh": {}, "Relu": {}, "Softsign": {}, "Softplus": {}, "LeakyRelu": {"alpha": 0.01},
    "Elu": {"alpha": 1.0}, "ThresholdedRelu": {"alpha": 1.0}, "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
}
#: Elements of input and state together, beyond which no weights are looked for.
_MOST = 4096
#: What counts as the same sum.
_ERROR = 1e-4


@dataclass(frozen=True)
class Cell:
    """A recurrent node without its sequence: its operator, attributes and weights, [1, gates * h, i or h] and
    [1, 2 * gates * h]; `states` are the places of h and c among the carried values."""

    op: str
    hidden: int
    attributes: Mapping[str, Attribute]
    w: Floats
    r: Floats
    b: Floats
    states: tuple[int, ...]


@dataclass(frozen=True)
class _Gate:
    """One function of as many elements as the state has: part number `part` of what node number `act` computes."""

    act: int
    part: int


@dataclass(frozen=True)
class _Sums:
    """What a gate reads: w @ x + wb and r @ h + rb, of the first without, of the second with what other gates give."""

    w: Floats
    r: Floats
    wb: Floats
    rb: Floats

    def negated(self) -> _Sums:
        return _Sums(-self.w, -self.r, -self.wb, -self.rb)


class Step:
    """A round: `nodes` of the tensors `xs` and `states`, with `known` types and constants."""

    def __init__(self, nodes: Sequence[Node], xs: Sequence[str], states: Sequence[str], known: Mapping[str, Known],
                 opsets: Mapping[str, int]) -> None:
        self.acts = [n for n in nodes if n.op_type in FUNCTIONS and not n.domain and known[n.outputs[0]].value is None]
        self.nodes, self.xs, self.states, self.known = list(nodes), list(xs), list(states), known
        rest = [node for node in nodes if all(node is not act for act in self.acts)]
        fed = [*xs, *states, *(act.outputs[0] for act in self.acts)]
        constants = {name: array for node in rest for name in node.inputs
                     if name and (array := known[name].value) is not None}
        wanted = dict.fromkeys(act.inputs[0] for act in self.acts)
        values = tuple(Value(name, TensorType(known[name].dtype, known[name].shape)) for name in fed)
        graph = Graph("round", tuple(rest), values, tuple(Value(name, None) for name in wanted), constants)
        self._model = Model(graph, 10, opsets)

    def size(self, name: str) -> int:
        return int(np.prod(self.known[name].shape))

    @property
    def inputs(self) -> int:
        """Elements of the input."""
        return sum(map(self.size, self.xs))

    def sums(self, x: Floats, states: Sequence[Floats], acts: Sequence[Floats]) -> list[Floats]:
        """What each function reads, for an input, states, and what each function gives."""
        feeds: dict[str, Array] = {}
        at = 0
        for name in self.xs:
            feeds[name] = self._tensor(name, x[at:at + self.size(name)])
            at += self.size(name)
        named = zip([*self.states, *(act.outputs[0] for act in self.acts)], [*states, *acts], strict=True)
        feeds.update({name: self._tensor(name, values) for name, values in named})
        results = evaluate(self._model, feeds)
        return [np.asarray(results[act.inputs[0]], np.float64).ravel() for act in self.acts]

    def _tensor(self, name: str, values: Floats) -> Array:
        known = self.known[name]
        return values.reshape(known.shape).astype(known.dtype)


def cells_of(step: Step) -> Iterator[Cell]:
    """The cells that the step may be, for each way to say which state is h, and which function is which gate."""
    hidden = step.size(step.states[0])
    sizes = [step.size(act.outputs[0]) for act in step.acts]
    fits = hidden > 0 and all(step.size(name) == hidden for name in step.states) and step.inputs > 0
    if not fits or any(size % hidden for size in sizes) or step.inputs + hidden > _MOST:
        return
    gates = [_Gate(act, part) for act, size in enumerate(sizes) for part in range(size // hidden)]
    wanted = {1: (1, 3), 2: (5,)}.get(len(step.states), ())
    if len(gates) not in wanted:
        return
    for order in permutations(range(len(step.states))):
        probe = _Probe(step, hidden, order)
        early = [gate for gate in gates if probe.is_early(gate)]
        late = [gate for gate in gates if gate not in early]
        match len(step.states), len(early), len(late):
            case 1, 1, 0:
                yield probe.cell("RNN", early, [probe.of(early[0])])
            case 1, 2, 1:
                yield from _grus(probe, early, late[0])
            case 2, 4, 1:
                yield from _lstms(probe, early, late[0])
            case _:
                pass


def _grus(probe: _Probe, early: list[_Gate], late: _Gate) -> Iterator[Cell]:
    """Either function may be z, which may be what is kept or what is new, and r may be multiplied before or after."""
    candidate = probe.of(late)
    for z, r in permutations(early):
        if probe.function(z) == probe.function(r):
            for sums in (probe.of(z), probe.of(z).negated()):
                for after in (1, 0):
                    yield probe.cell("GRU", [z, late], [sums, probe.of(r), candidate], linear_before_reset=after)


def _lstms(probe: _Probe, early: list[_Gate], late: _Gate) -> Iterator[Cell]:
    for i, o, f, c in permutations(early):
        if probe.function(i) == probe.function(o) == probe.function(f):
            yield probe.cell("LSTM", [i, c, late], [probe.of(gate) for gate in (i, o, f, c)])


class _Probe:
    """Finds sums by evaluating the step for unit vectors; `order` are the places of h and c among its states."""

    def __init__(self, step: Step, hidden: int, order: tuple[int, ...]) -> None:
        self.step, self.hidden, self.order = step, hidden, order
        self._sums: dict[_Gate, _Sums] = {}
        rng = np.random.default_rng(0)
        x, h = rng.standard_normal(step.inputs), rng.standard_normal(hidden)
        self._draws = [self._at(x, h, rng.standard_normal(hidden), rng) for _ in range(2)]
        zero, nothing = np.zeros(hidden), np.zeros(step.inputs)
        self._w = [self._at(unit, zero, zero, 0.0) for unit in (nothing, *np.eye(step.inputs))]
        self._r = [self._at(nothing, unit, zero, 1.0) for unit in (zero, *np.eye(hidden))]

    def _at(self, x: Floats, h: Floats, c: Floats, acts: float | np.random.Generator) -> list[Floats]:
        states = [np.zeros(self.hidden)] * len(self.order)
        for place, values in zip(self.order, (h, c), strict=False):
            states[place] = values
        given = [np.full(self.step.size(act.outputs[0]), acts) if isinstance(acts, float) else
                 acts.standard_normal(self.step.size(act.outputs[0])) for act in self.step.acts]
        return self.step.sums(x, states, given)

    def _part(self, values: list[Floats], gate: _Gate) -> Floats:
        return values[gate.act][gate.part * self.hidden:(gate.part + 1) * self.hidden]

    def is_early(self, gate: _Gate) -> bool:
        """Whether what the gate reads depends on the input and h alone."""
        a, b = (self._part(draw, gate) for draw in self._draws)
        return bool(np.abs(a - b).max() <= _ERROR * max(np.abs(a).max(), 1e-3))

    def of(self, gate: _Gate) -> _Sums:
        """The sums of a gate."""
        if gate not in self._sums:
            w, r = (np.stack([self._part(values, gate) for values in found], axis=1) for found in (self._w, self._r))
            self._sums[gate] = _Sums(w[:, 1:] - w[:, :1], r[:, 1:] - r[:, :1], w[:, 0], r[:, 0] - w[:, 0])
        return self._sums[gate]

    def function(self, gate: _Gate) -> tuple[str, tuple[float, ...]]:
        """The function of a gate, and its parameters."""
        node = self.step.acts[gate.act]
        values = (node.attributes.get(key, default) for key, default in FUNCTIONS[node.op_type].items())
        return node.op_type, tuple(float(value) for value in values if isinstance(value, float | int))

    def cell(self, op: str, gates: list[_Gate], sums: list[_Sums], **attributes: int) -> Cell:
        """A cell whose functions are those of `gates`, and whose weights are `sums` in ONNX's order."""
        functions = [self.function(gate) for gate in gates]
        names = tuple(name for name, _ in functions)
        own: dict[str, Attribute] = {"hidden_size": self.hidden, **attributes, "activations": names}
        for place, key in enumerate(("activation_alpha", "activation_beta")):
            values = tuple(parameters[place] for _, parameters in functions if len(parameters) > place)
            own.update({key: values} if values else {})
        w, r = (np.concatenate([getattr(each, key) for each in sums])[None] for key in ("w", "r"))
        b = np.concatenate([*(each.wb for each in sums), *(each.rb for each in sums)])[None]
        return Cell(op, self.hidden, own, w, r, b, self.order)
