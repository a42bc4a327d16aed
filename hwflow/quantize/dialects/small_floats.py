"""Weights in float8 or float4 become constants in float32, which calibration then makes integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Array, Model
from hwflow.quantize.graphs import apply


def is_small_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether `dtype` is a float of 8 bits or fewer."""
    return dtype.name.startswith(("float8", "float6", "float4"))


def small_floats_to_float32(model: Model) -> Model:
    """A DequantizeLinear of such a constant is its result: numbers of a few bits with an exponent are no integers."""
    constants, nodes = dict[str, Array](model.graph.initializers), []
    for node in model.graph.nodes:
        names = [name for name in node.inputs if name]
        if (node.op_type == "DequantizeLinear" and not node.domain and all(name in constants for name in names)
                and is_small_float(constants[names[0]].dtype)):
            value = apply(node, model.opsets, {name: constants[name] for name in names})
            constants[node.outputs[0]] = value
        else:
            nodes.append(node)
    if len(nodes) == len(model.graph.nodes):
        return model
    return infer(replace(model, graph=replace(model.graph, nodes=tuple(nodes), initializers=constants)))
