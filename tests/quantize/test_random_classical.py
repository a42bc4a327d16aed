"""Random tree models against onnxruntime: labels, scores and maps, with missing and infinite features."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow import golden
from hwflow.data.given import dataset_of
from hwflow.onnx.run.missing import missing_taken
from hwflow.quantize import quantize
from tests.random_cases import seeds
from tests.strategies.classical import ClassicalCase, random_case
from tests.strategies.drawing import search

#: Random cases in a block, which is a test.
BLOCK = 20
#: What may be refused: targets that not every tree votes for have no least or greatest vote.
REFUSED = ("with aggregate_function",)


def expected(case: ClassicalCase) -> list[np.ndarray]:
    """onnxruntime's outputs, [n, ...] each; maps as arrays in the order of the node's labels."""
    session = onnxruntime.InferenceSession(hwflow.onnx.dumps(case.model), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, {"x": case.x[:, 0]})
    last = case.model.graph.nodes[-1]
    if last.op_type == "ZipMap":
        keys = last.attributes.get("classlabels_strings") or last.attributes["classlabels_int64s"]
        found[-1] = np.array([[row[key] for key in keys] for row in found[-1]])
    return found


def differences(case: ClassicalCase) -> str:
    """What the integers say that onnxruntime does not; empty where nothing is, "refused" where hwflow says why."""
    model = hwflow.onnx.infer(case.model)
    rows = dataset_of({"x": case.x}, model.graph.inputs, model.graph.outputs, missing_taken(model.graph)).inputs
    try:
        quantized = quantize(model, rows)
    except HwflowError as error:
        return "refused" if any(reason in str(error) for reason in REFUSED) else f"{case.description}: {error}"
    *labels, scores = expected(case)
    made = golden.predict(quantized, rows)
    *found, integers = (made[value.name].reshape(len(case.x), -1) for value in quantized.epilogue.graph.outputs)
    (layer,) = quantized.graph.layers
    constants = quantized.epilogue.graph.initializers
    scale = max(float(value) for name, value in constants.items() if name.endswith(".scale"))
    bound = len(layer.roots) * scale + 2e-5 * (1 + np.abs(scores))  # a function of the sums may be steep
    if "PROBIT" in case.description:
        bound = bound * 100
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(integers - scores) <= bound) | (integers == scores))
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        return f"{case.description}: row {row}, {case.x[row]}: {integers[row]} in place of {scores[row]}"
    for names, mine in zip(labels, found, strict=True):
        if integers.shape[1] > 1:
            best = np.sort(scores, axis=1)
            clear = best[:, -1] - best[:, -2] > 2 * np.max(bound)
        else:
            clear = np.ones(len(scores), bool)
        if (mine.ravel() != names.ravel())[clear].any():
            row = int(np.flatnonzero((mine.ravel() != names.ravel()) & clear)[0])
            return f"{case.description}: row {row}: {mine[row]} in place of {names[row]}"
    return ""


@seeds(quick=[0], slow=range(1, 25), name="block")
def test_trees_are_those_of_onnxruntime(block: int) -> None:
    """No internal error, nothing wrong, and hardly anything refused."""
    told: list[str] = []

    def check(case: ClassicalCase) -> None:
        told.append(differences(case))
        assert told[-1] in ("", "refused"), told[-1]

    search(random_case, check, range(BLOCK * block, BLOCK * (block + 1)))
    assert told.count("refused") <= BLOCK // 5
