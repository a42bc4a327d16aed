"""The float models that are quantized: one ONNX file and one data file for all tools.

What is written is the model of the file with static shapes, in an operator set that every tool reads, and cut in front
of a final Softmax: a score of 0.999 for one class and nearly 0 for all others says little about noise.  Outputs that
are labels are left out, they have no noise; states go on from row to row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import yaml
from hwflow_base.errors import HwflowError

import hwflow
from hwflow import onnx
from hwflow.data.dataset import CALIBRATION_ROWS, Dataset
from hwflow.onnx.model import Array, Model
from hwflow.onnx.run.sequences import state_pairs, with_state_rows

#: The smallest operator set of a model that tools get: QuantizeLinear has channels since.
OPSET = 13
#: Tensors in front of an output that are tried as its scores.
NEAR = 12
#: What operators have in their names in a file that is quantized, and those that are no network.
QUANTIZED, TREES = ("Quant", "QLinear", "Integer"), "TreeEnsemble"
#: What the prepared file may differ from the outputs that the data file states, of the largest of them.
EQUAL = 1e-3


@dataclass(frozen=True)
class Subject:
    """A float model for all tools: `folder` has model.onnx and data.npz (docs/data-files.md).

    `outputs` are quantities; `scores` are those of them that are scores of classes along their last axis.  `states`
    maps inputs to the outputs that are their next values.  `sha256` is of both files.
    """

    name: str
    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scores: tuple[str, ...]
    states: Mapping[str, str]
    sha256: str

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def data(self) -> Path:
        return self.folder / "data.npz"


def float_models(models: Path) -> Iterator[str]:
    """Of a folder of third-party models the names of those that are float networks."""
    for entry in yaml.safe_load((models / "manifest.yaml").read_text())["models"]:
        operators = " ".join(entry["ops"])
        if not any(word in operators for word in (*QUANTIZED, TREES)):
            yield entry["id"]


def prepared(models: Path, name: str, folder: Path) -> Subject:
    """Write the files of a model below `folder`, or find them there."""
    entry = next(e for e in yaml.safe_load((models / "manifest.yaml").read_text())["models"] if e["id"] == name)
    place = folder / name
    facts = place / "subject.json"
    source = {"of": entry["sha256"], "data": entry["data_sha256"], "by": file_hash(Path(__file__))}
    if facts.is_file() and (kept := json.loads(facts.read_text())).pop("source") == source:
        lists = {key: tuple(kept[key]) for key in ("inputs", "outputs", "scores")}
        return Subject(**kept | lists | {"folder": place})
    place.mkdir(parents=True, exist_ok=True)
    subject = _write(models / entry["file"], models / entry["data"], name, place)
    facts.write_text(json.dumps(asdict(subject) | {"folder": str(place), "source": source}))
    return subject


def _write(file: Path, data: Path, name: str, place: Path) -> Subject:
    model = hwflow.load(file, data=data)
    rows = hwflow.read_data(data, model)
    states = dict(state_pairs(model))
    cut, scores = in_front_of_softmax(model)
    if rows.labels is not None:
        scores = (cut.graph.outputs[0].name,)
    if model.opsets[""] < OPSET:
        cut = onnx.convert_opset(cut, OPSET)
    onnx.save(cut, place / "model.onnx")
    arrays = split(rows, model)
    np.savez(place / "data.npz", allow_pickle=False, **arrays)
    _require_same(model, cut, rows)
    np.savez(place / "float.npz", allow_pickle=False, **float_outputs(place / "model.onnx", arrays, states))
    outputs = tuple(value.name for value in cut.graph.outputs if value.name not in states.values())
    digest = hashlib.sha256((place / "model.onnx").read_bytes() + (place / "data.npz").read_bytes()).hexdigest()
    inputs = tuple(value.name for value in cut.graph.inputs)
    return Subject(name, place, inputs, outputs, scores, states, digest)


def in_front_of_softmax(model: Model) -> tuple[Model, tuple[str, ...]]:
    """The model without Softmax at its ends, however that is written, and without labels; which outputs are scores."""
    ends, scores = list[str](), list[str]()
    for value in model.graph.outputs:
        if value.tensor is None or value.tensor.dtype.kind != "f":
            continue
        before = scores_of(model, value.name)
        ends.append(before or value.name)
        scores += [before] if before else []
    return onnx.extract(model, outputs=ends), tuple(scores)


def scores_of(model: Model, output: str) -> str | None:
    """The tensor of which `output` is the Softmax along its last axis; None where there is none.

    It is looked for by numbers: what computes the output from a tensor near it must give on random ones what a Softmax
    gives.
    """
    makers = {name: node for node in model.graph.nodes for name in node.outputs}
    seen, todo = list[str](), [output]
    while todo and len(seen) < NEAR:
        name = todo.pop(0)
        if name in makers and name not in seen:
            seen.append(name)
            todo += makers[name].inputs
    for name in reversed(seen[1:]):  # the same scores less their largest one have the same Softmax
        try:
            part = onnx.extract(model, inputs=[name], outputs=[output])
        except HwflowError:  # the output depends on other tensors, too
            continue
        shape = part.graph.inputs[0].tensor.shape
        given = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        powers = np.exp(given - given.max(-1, keepdims=True))
        made = onnx.evaluate(part, {name: given})[output]
        if made.shape == given.shape and np.allclose(made, powers / powers.sum(-1, keepdims=True), atol=1e-5):
            return name
    return None


def split(rows: Dataset, model: Model) -> dict[str, Array]:
    """The arrays of a data file whose calibration rows are not those of the test; states are what the float model made.

    Where the file has none of its own, the first half of its rows (100 at most) calibrates and the rest tests.
    """
    inputs, calibration = with_state_rows(model, rows.inputs), with_state_rows(model, rows.calibration)
    first = min(CALIBRATION_ROWS, rows.rows // 2) if rows.calibration_is_input else 0
    calibration = {name: array[:first] for name, array in inputs.items()} if first else calibration
    arrays = {f"calib_{name}": array for name, array in calibration.items()}
    arrays |= {f"in_{name}": array[first:] for name, array in inputs.items()}
    arrays |= {} if rows.labels is None else {"labels": rows.labels[first:]}
    return {name.replace("/", "_"): array for name, array in arrays.items()}


def _require_same(model: Model, cut: Model, rows: Dataset) -> None:
    """The prepared file must compute what the file computes: AssertionError where onnxruntime says other."""
    row = {name: array[0] for name, array in rows.inputs.items()}
    row |= {v.name: np.zeros(v.tensor.shape, v.tensor.dtype) for v in model.graph.inputs if v.name not in row}
    names = [value.name for value in cut.graph.outputs]
    whole = onnx.evaluate(model, row, names)
    made = ort.InferenceSession(onnx.dumps(cut)).run(names, {v.name: row[v.name] for v in cut.graph.inputs})
    for name, array in zip(names, made, strict=True):
        assert np.abs(array - whole[name]).max() <= EQUAL * np.abs(whole[name]).max(), name


def float_outputs(file: Path, arrays: Mapping[str, Array], states: Mapping[str, str]) -> dict[str, Array]:
    """What the float model gives for the test rows [n, *shape], by onnxruntime; names as in a data file."""
    session = ort.InferenceSession(str(file))
    inputs, outputs = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))
    rows = {name: arrays[f"in_{name.replace('/', '_')}"] for name in inputs}
    known = {name: np.zeros_like(rows[name][0]) for name in states}
    made = []
    for k in range(min(map(len, rows.values()))):
        found = dict(zip(outputs, session.run(outputs, {n: a[k] for n, a in rows.items()} | known), strict=True))
        known = {name: found[output] for name, output in states.items()}
        made.append(found)
    return {name.replace("/", "_"): np.stack([found[name] for found in made]) for name in outputs}


def file_hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
