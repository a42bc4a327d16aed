"""What to change where a part of a model has no hardware: in terms of the framework that the model was exported from.

A piece of advice has a form for everybody, and one for each framework in which it is a single call.
"""

from __future__ import annotations

from hwflow.onnx.advice import FOREIGN, OPTIMIZED, Advice
from hwflow.onnx.model import Model, Node
from hwflow.onnx.operators import row_of

INFERENCE = Advice(
    "export the model for inference",
    torch="call model.eval() before torch.onnx.export",
    tensorflow="give tf2onnx a model whose layers are called with training=False",
)
PARAMETERS = Advice(
    "export the model with constant parameters (fixed shapes, fixed limits)",
    torch="call torch.onnx.export without dynamic_axes and dynamic_shapes, so that sizes are constant",
    tensorflow="give tf2onnx fixed sizes (--inputs NAME:0[1,224,224,3])",
)
LIMITS = Advice(
    "export the model with constant parameters (fixed shapes, fixed limits)",
    torch="torch.minimum(torch.maximum(x, low), high) in place of torch.clamp, whose limits are computed",
    tensorflow="tf.minimum(tf.maximum(x, low), high) in place of tf.clip_by_value, whose limits are computed",
)
WEIGHTS = Advice(
    "export the model for inference with its weights as initializers",
    torch="call torch.nn.utils.parametrize.remove_parametrizations and model.eval() before torch.onnx.export",
    tensorflow="freeze the model before tf2onnx reads it (a SavedModel is frozen)",
)
NEAREST = Advice(
    "export the model with nearest, or with a ConvTranspose of fixed weights that interpolates",
    torch="torch.nn.Upsample(mode='nearest') in its place, or a torch.nn.ConvTranspose2d of fixed weights that "
    "interpolates",
    tensorflow="UpSampling2D(interpolation='nearest') in its place, or a Conv2DTranspose of fixed weights that "
    "interpolates",
)
INTEGERS = Advice(
    "quantize activations to int8 or uint8, or leave their quantizers out: then calibration data decide"
)
BLOCKS = Advice("quantize per channel (onnxruntime.quantization.quantize_static with per_channel=True)")


def of_operator(node: Node, model: Model) -> str:
    """What stands in for an operator without hardware; empty where nothing does, and the model can only be cut."""
    advice = row_of(node.domain, node.op_type).advice
    if advice is None and node.domain == "com.microsoft":
        advice = OPTIMIZED
    elif advice is None and node.domain not in ("", "ai.onnx.ml"):
        advice = FOREIGN
    return "" if advice is None else advice.to(model)
