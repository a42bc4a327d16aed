"""Operators of ai.onnx.ml: tensors that were lists, and labels that were numbers from 0 on."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.downward.narrow import narrow, newer
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps
from hwflow.onnx.model import Attribute

#: How lists of each element type are called.
_LISTS = {"int64": "int64s", "float32": "floats", "object": "strings"}
_DEFAULTS = {"int64": "default_int64", "float32": "default_float", "object": "default_string"}


def _lists(site: NodeConversion) -> None:
    """LabelEncoder below 4 has no tensors."""
    site.require_types()
    attributes = dict[str, Attribute]()
    for name, value in site.node.attributes.items():
        part, _, kind = name.partition("_")
        if kind != "tensor":
            attributes[name] = value
            continue
        assert isinstance(value, np.ndarray)
        names = _DEFAULTS if part == "default" else _LISTS
        if value.dtype.name not in names:
            raise newer(site, f"attribute '{name}' of {value.dtype}")
        items = tuple(value.reshape(-1).tolist())
        if part == "default":
            attributes[names[value.dtype.name]] = items[0]
        else:
            attributes[f"{part}_{names[value.dtype.name]}"] = items
    narrow(site, attributes=attributes)


def _classes(site: NodeConversion) -> None:
    """LabelEncoder 1: texts, whose numbers are their places."""
    texts, numbers = site.attribute("keys_strings"), site.attribute("values_int64s")
    if texts is None:
        texts, numbers = site.attribute("values_strings"), site.attribute("keys_int64s")
    if texts is None or numbers is None or tuple(numbers) != tuple(range(len(texts))):
        raise newer(site, "keys and values other than texts and their places")
    defaults = {name: site.attribute(name) for name in ("default_string", "default_int64")}
    narrow(site, attributes={"classes_strings": tuple(texts), **defaults})


def _tree_lists(site: NodeConversion) -> None:
    """Trees below version 3 have lists of floats."""
    attributes = dict[str, Attribute]()
    for name, value in site.node.attributes.items():
        if not name.endswith("_as_tensor"):
            attributes[name] = value
            continue
        assert isinstance(value, np.ndarray)
        if value.dtype != np.float32:
            raise newer(site, f"attribute '{name}' of {value.dtype}")
        attributes[name.removesuffix("_as_tensor")] = tuple(value.reshape(-1).tolist())
    narrow(site, attributes=attributes)


STEPS: Steps = {
    "LabelEncoder": {2: _classes, 4: _lists},
    "TreeEnsembleClassifier": {3: _tree_lists},
    "TreeEnsembleRegressor": {3: _tree_lists},
}
