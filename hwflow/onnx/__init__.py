"""The ONNX system: read, check, infer, simplify and evaluate models.

    model = hwflow.onnx.load("model.onnx")
    findings = hwflow.onnx.check(model)
    model = hwflow.onnx.simplify(hwflow.onnx.infer(model))
    outputs = hwflow.onnx.evaluate(model, {"input": x})

`infer` finds static shapes and refuses a model without them; `infer_types` also handles symbolic sizes.  `extract` cuts
a part out of a model.  `hwflow.onnx.build` makes models in code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.later import lazy_names

if TYPE_CHECKING:
    from hwflow.onnx.checker import check, require_valid
    from hwflow.onnx.container.document import Document
    from hwflow.onnx.container.files import dumps, load, loads, read, save
    from hwflow.onnx.conversion import convert_opset
    from hwflow.onnx.inference.infer_types import Types, infer_types
    from hwflow.onnx.inference.static import infer
    from hwflow.onnx.limits import Limits
    from hwflow.onnx.model import Array, Attribute, Dim, Graph, Model, Node, TensorType, Value
    from hwflow.onnx.rewrite.extract import extract
    from hwflow.onnx.rewrite.inline import inline_functions
    from hwflow.onnx.rewrite.passes import PASSES, Pass, simplify
    from hwflow.onnx.rules.finding import Finding, Severity
    from hwflow.onnx.run.evaluate import Program, evaluate, evaluate_nodes, prepare
    from hwflow.onnx.run.trainer import Trainer

__all__ = [
    "PASSES",
    "Array",
    "Attribute",
    "Dim",
    "Document",
    "Finding",
    "Graph",
    "Limits",
    "Model",
    "Node",
    "Pass",
    "Program",
    "Severity",
    "TensorType",
    "Trainer",
    "Types",
    "Value",
    "check",
    "convert_opset",
    "dumps",
    "evaluate",
    "evaluate_nodes",
    "extract",
    "infer",
    "infer_types",
    "inline_functions",
    "load",
    "loads",
    "prepare",
    "read",
    "require_valid",
    "save",
    "simplify",
]

__getattr__, __dir__ = lazy_names(__name__, {
    "checker": ("check", "require_valid"),
    "container.document": ("Document",),
    "container.files": ("dumps", "load", "loads", "read", "save"),
    "conversion": ("convert_opset",),
    "inference": ("Types", "infer_types"),
    "inference.static": ("infer",),
    "limits": ("Limits",),
    "model": ("Array", "Attribute", "Dim", "Graph", "Model", "Node", "TensorType", "Value"),
    "rewrite.extract": ("extract",),
    "rewrite.inline": ("inline_functions",),
    "rewrite.passes": ("PASSES", "Pass", "simplify"),
    "rules.finding": ("Finding", "Severity"),
    "run.evaluate": ("Program", "evaluate", "evaluate_nodes", "prepare"),
    "run.trainer": ("Trainer",),
})
