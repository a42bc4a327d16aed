"""Post-training quantization: from a float model to a QDQ model.

    FLOAT_PASSES -> ranges of values on calibration data -> integer weights -> QuantizeLinear and DequantizeLinear nodes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwflow.onnx import simplify
from hwflow.onnx.model import Array, Model
from hwflow.onnx.rewrite.passes import Pass
from hwflow.quantize.calibration import ranges as calibrate
from hwflow.quantize.calibration.ranges import Progress
from hwflow.quantize.passes.affine import fold_affine
from hwflow.quantize.passes.insert import insert_quantizers, points
from hwflow.quantize.passes.normalise import matrix_to_gemm, max_pool_last, raise_opset
from hwflow.quantize.settings import QuantizationSettings

__all__ = ["FLOAT_PASSES", "PostTraining", "to_qdq"]

#: What a float model goes through before its ranges are measured, in order.
FLOAT_PASSES: tuple[Pass, ...] = (
    Pass("raise-opset", "Write operators as operator set 13 does.", raise_opset),
    Pass("matrix-to-gemm", "Give products one form: Gemm with transB and bias, Conv with bias.", matrix_to_gemm),
    Pass("fold-affine", "Fold batch normalization, bias and scaling into the weights before them.", fold_affine),
    Pass("max-pool-last", "Move Relu and Clip in front of a MaxPool.", max_pool_last),
)


@dataclass(frozen=True)
class PostTraining:
    """A float model as a QDQ model.

    `twin` is the model in reals that `qdq` approximates; `sources` maps the activation tensors of `qdq`, integer and
    real, to the tensor of `twin` that has the same meaning.  `settings_text` is the YAML text with every choice made.
    """

    qdq: Model
    twin: Model
    sources: Mapping[str, str]
    settings_text: str


def to_qdq(
    model: Model,
    calibration: Mapping[str, Array] | None,
    settings: QuantizationSettings,
    notes: list[str],
    progress: Progress | None,
) -> PostTraining:
    """Quantize the float `model`, whose shapes are static.  What the user should know goes into `notes`.

    `calibration` maps each input to rows [n, *its shape]; None stands for made-up data.
    """
    for step in FLOAT_PASSES:
        model = step.run(model)
    model = simplify(model)
    if calibration is None:
        calibration = calibrate.synthetic(model)
        notes.append(
            f"no calibration data: ranges come from {calibrate.SYNTHETIC_ROWS} rows of normally distributed noise, "
            "and the accuracy will suffer; give real inputs with --data"
        )
    names = points(model)
    qdq = insert_quantizers(model, calibrate.ranges(model, calibration, names, progress))
    return PostTraining(qdq, model, _sources(model, qdq), "")


def _sources(twin: Model, qdq: Model) -> dict[str, str]:
    """Tensors of the same name, and what QuantizeLinear and DequantizeLinear made of them."""
    known = {value.name for value in twin.graph.inputs}.union(*(node.outputs for node in twin.graph.nodes))
    sources = {name: name for name in known if name}
    for node in qdq.graph.nodes:
        if node.op_type == "QuantizeLinear":
            raw = node.inputs[0]
            sources.setdefault(raw, raw.removesuffix("_unquantized"))
            sources[node.outputs[0]] = sources[raw]
        elif node.op_type == "DequantizeLinear" and node.inputs[0] in sources:
            sources[node.outputs[0]] = sources[node.inputs[0]]
    return sources
