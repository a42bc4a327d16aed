"""What the inference of types finds: operands that do not fit, and stated types that the operators contradict.

The facts are those of `hwflow.onnx.inference`: GR-12, GR-16, GR-21, SH-08, SH-09, and the types of ND-05.
"""

from __future__ import annotations

from collections.abc import Iterator

from hwflow_base.errors import HwflowError

from hwflow.onnx.container.document import Document
from hwflow.onnx.container.reader import read_model
from hwflow.onnx.errors import LimitError
from hwflow.onnx.inference.infer_types import infer_types
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Model
from hwflow.onnx.rules.finding import AGAIN, Finding, error


def inferred_types(source: Model | Document, limits: Limits) -> Iterator[Finding]:
    """Of a model without errors of another kind.  What is beyond the limits, or cannot be read, is one error."""
    try:
        model = read_model(source) if isinstance(source, Document) else source
        yield from infer_types(model, limits=limits).findings
    except HwflowError as problem:
        rule = "LM-02" if isinstance(problem, LimitError) else "GR-16"  # the reader refuses types stated in two ways
        yield error(rule, problem.where or "graph", problem.why, problem.remedy or AGAIN)
