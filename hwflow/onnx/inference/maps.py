"""Maps at the end of a model, as classifiers have them: the array of their values, and the names of its columns.

Hardware has tensors alone.  A ZipMap gives for each row a map from the names of classes to their scores; with static
shapes it becomes an Identity of the scores, and the names of the classes stand in the model's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Model, Node
from hwflow.onnx.ops.base import Call, Known
from hwflow.onnx.ops.ml.common import as_rows, class_labels

#: Of the model's metadata: a JSON object with the names of the columns of each output that is a map in the file.
KEY = "hwflow.classes"

#: The names of the columns of an output: texts or integers.
Classes: TypeAlias = tuple[str | int, ...]


def class_names(model: Model) -> dict[str, Classes]:
    """The names of the classes of each output that is a sequence of maps in the file of `model`, by output."""
    text = model.metadata.get(KEY, "{}")
    try:
        by_output = {name: tuple(classes) for name, classes in json.loads(text).items() if isinstance(classes, list)}
    except (ValueError, AttributeError):
        by_output = {"": (None,)}
    if not all(isinstance(class_name, str | int) for classes in by_output.values() for class_name in classes):
        raise HwflowError(
            f"the model's metadata '{KEY}' must be a JSON object of a list of names for each output, not "
            f"{text[:60]!r}", "remove that entry; hwflow reads the names of classes from ZipMap")
    outputs = {value.name for value in model.graph.outputs}
    return {name: classes for name, classes in by_output.items() if name in outputs}


def with_classes(model: Model, by_output: Mapping[str, Classes]) -> Model:
    """`model` with names of classes in its metadata, besides those that it has."""
    outputs = {value.name for value in model.graph.outputs}
    mine = {name: list(classes) for name, classes in by_output.items() if name in outputs}
    if not mine:
        return model
    return replace(model, metadata={**model.metadata, KEY: json.dumps({**class_names(model), **mine})})


#: The operator set of the Identity that stands for a ZipMap, where the file imports none.
_STANDARD_SET = 13


def with_standard_set(model: Model) -> Model:
    """`model` with an operator set of ONNX besides ai.onnx.ml, where it has a ZipMap: CatBoost's files import none."""
    if "" in model.opsets or all(node.op_type != "ZipMap" for node in model.graph.nodes):
        return model
    return replace(model, opsets={"": _STANDARD_SET, **model.opsets})


class Maps:
    """The sequences of maps on the way through a graph: the names of the classes of each."""

    def __init__(self) -> None:
        self.classes: dict[str, Classes] = {}

    def as_tensors(self, call: Call, known: Mapping[str, Known]) -> Node | None:
        """The node on tensors that stands for the node of `call`; None where no map has to do with it."""
        node = call.node
        if (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap"):
            self.classes[node.outputs[0]] = _columns(call, known[node.inputs[0]])
            return Node("Identity", node.inputs[:1], node.outputs[:1], {}, node.name)
        for name in self.classes.keys() & set(node.inputs):
            raise call.error(f"a sequence of maps ('{name}') must be a result of the model, not read by {node.op_type}",
                             "end the model with it, or read the tensor in front of ZipMap")
        return None


def _columns(call: Call, x: Known) -> Classes:
    """The names of the columns of `x`, one for each and no two alike."""
    labels: Classes = tuple(class_labels(call, "classlabels_int64s").tolist())
    _, columns = as_rows(call, x)
    if len(labels) != columns:
        raise call.error(f"there must be a label for each of {columns} columns, not {len(labels)}",
                         "export the model again")
    if len(set(labels)) < len(labels):
        raise call.error(f"the labels must differ, not be {', '.join(map(str, labels[:8]))}", "export the model again")
    return labels
