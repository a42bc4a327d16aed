"""What values the inside of recurrent layers takes on calibration data: sums in front of gates, cells, hidden states.

They are no tensors of the model, so they are computed here, from what the node reads and gives.  The result stands in
the metadata of the quantized model, where the importer finds it; without it, bounds that always hold take its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import attribute, label_of
from hwflow.quantize.passes.recurrent import is_recurrent

__all__ = ["KEY", "Reach", "reaches", "reaches_in", "with_reaches"]

Floats = npt.NDArray[np.float64]

#: Of the model's metadata: a JSON object with the reaches of each recurrent node, by its name.
KEY = "hwflow.recurrent"


@dataclass(frozen=True)
class Reach:
    """The largest magnitudes inside of one recurrent layer; None where it has no such values, or they are not known.

    `gates` are the sums in front of gates, and their parts of the input and of the state before.
    """

    gates: float | None = None
    cell: float | None = None
    hidden: float | None = None

    def with_(self, other: Reach) -> Reach:
        """The larger of each."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return Reach(**{name: max((v for v in (a, b) if v is not None), default=None) for (name, a), b in pairs})


def reaches(model: Model, rows: Mapping[str, Array]) -> dict[str, Reach]:
    """The reach of every recurrent node of the float `model`, by its name, on `rows` [n, *input shape]."""
    nodes = [node for node in model.graph.nodes if is_recurrent(node)]
    if not nodes:
        return {}
    found = {label_of(node): Reach() for node in nodes}
    wanted = tuple(dict.fromkeys(name for node in nodes for name in (node.inputs[0], node.outputs[0], *node.inputs[5:7])
                                 if name and name not in model.graph.initializers))  # fmt: skip
    fed = {value.name for value in model.graph.inputs}
    for k in range(min(len(array) for array in rows.values())):
        row = {name: array[k] for name, array in rows.items()}
        values = evaluate(model, row, fetch=tuple(name for name in wanted if name not in fed))
        for node in nodes:
            found[label_of(node)] = found[label_of(node)].with_(_reach(node, model.graph, {**row, **values}))
    return found


def with_reaches(model: Model, found: Mapping[str, Reach]) -> Model:
    """`model` with what `reaches` found in its metadata."""
    if not found:
        return model
    known = {name: {k: v for k, v in asdict(reach).items() if v is not None} for name, reach in found.items()}
    return replace(model, metadata={**model.metadata, KEY: json.dumps(known)})


def reaches_in(metadata: Mapping[str, str]) -> dict[str, Reach]:
    """What `with_reaches` wrote into the metadata of a model.  HwflowError where somebody else did."""
    text = metadata.get(KEY, "{}")
    try:
        return {str(name): Reach(**{str(k): float(v) for k, v in reach.items()})
                for name, reach in json.loads(text).items()}  # fmt: skip
    except (ValueError, TypeError, AttributeError):
        raise HwflowError(
            f"the model's metadata '{KEY}' must be what hwflow wrote there, not {text[:60]!r}", "remove that entry"
        ) from None


def _reach(node: Node, graph: Graph, values: Mapping[str, Array]) -> Reach:
    """Of one row."""
    def read(place: int) -> Floats | None:
        name = node.inputs[place] if len(node.inputs) > place else ""
        found = graph.initializers.get(name, values.get(name)) if name else None
        return None if found is None else np.asarray(found, np.float64)

    x, w, r, y = read(0), read(1), read(2), np.asarray(values[node.outputs[0]], np.float64)
    assert x is not None
    assert w is not None
    assert r is not None
    b, h, c, p = read(3), read(5), read(6) if node.op_type == "LSTM" else None, read(7)
    found = Reach(hidden=float(np.abs(y).max()))
    for d in range(len(w)):
        backward = d == 1 or attribute(node, "direction", "forward") == "reverse"
        turn = slice(None, None, -1 if backward else 1)
        first = np.zeros(y.shape[-1]) if h is None else h[d, 0]
        before = np.concatenate([first[None], y[turn, d, 0][:-1]])
        biases = np.zeros((2, w.shape[1])) if b is None else b[d].reshape(2, -1)
        parts = x[turn, 0] @ w[d].T + biases[0], before @ r[d].T + biases[1]
        sums = parts[0] + parts[1]
        largest = max(float(np.abs(part).max()) for part in (*parts, parts[0] + biases[1], sums))
        found = found.with_(Reach(gates=largest, hidden=float(np.abs(first).max())))
        if node.op_type == "LSTM" and _usual(node):
            start = np.zeros(y.shape[-1]) if c is None else c[d, 0]
            peepholes = np.zeros((3, y.shape[-1])) if p is None else p[d].reshape(3, -1)
            found = found.with_(_cells(sums.reshape(len(sums), 4, -1), start, peepholes, node))
    return found


def _usual(node: Node) -> bool:
    """Whether the gates of an LSTM are sigmoids, and its cell is written through a tanh."""
    names = [str(name).lower() for name in cast("tuple[str, ...]", node.attributes.get("activations", ()))]
    return all(name == "sigmoid" if k % 3 == 0 else name == "tanh" for k, name in enumerate(names) if k % 3 < 2)


def _cells(sums: Floats, cell: Floats, peepholes: Floats, node: Node) -> Reach:
    """Of the cells of an LSTM, from the sums [steps, gates i o f c, hidden] in front of its gates."""
    largest, gates = np.abs(cell).max(), 0.0
    for i, _, f, g in sums:
        i, f = i + peepholes[0] * cell, f + peepholes[2] * cell
        gates = max(gates, np.abs(i).max(), np.abs(f).max())
        into = _sigmoid(i)
        kept = 1 - into if attribute(node, "input_forget", 0) else _sigmoid(f)
        cell = kept * cell + into * np.tanh(g)
        largest = max(largest, np.abs(cell).max())
    return Reach(gates=float(gates), cell=float(largest))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)
