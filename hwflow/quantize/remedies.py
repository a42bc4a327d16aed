"""What to change where a part of a model has no hardware: in terms of the framework that the model was exported from.

A piece of advice has a form for everybody, and one for each framework in which it is a single call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwflow.onnx.model import Model, Node

__all__ = ["BLOCKS", "INFERENCE", "INTEGERS", "LIMITS", "NEAREST", "PARAMETERS", "WEIGHTS", "Advice", "of_operator"]


@dataclass(frozen=True)
class Advice:
    """`general`, or what the users of PyTorch, TensorFlow (tf2onnx) and scikit-learn (skl2onnx) call."""

    general: str
    torch: str = ""
    tensorflow: str = ""
    sklearn: str = ""

    def to(self, model: Model) -> str:
        """For whoever exported `model`, by its producer."""
        producer = model.producer_name.lower()
        found = next((getattr(self, name) for part, name in _PRODUCERS.items() if part in producer), "")
        return found or self.general


#: A part of the name of a producer, to the framework.
_PRODUCERS: Mapping[str, str] = {
    "torch": "torch", "tf2onnx": "tensorflow", "keras": "tensorflow", "tensorflow": "tensorflow",
    "skl2onnx": "sklearn", "onnxmltools": "sklearn",
}  # fmt: skip

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

_STATIC = Advice("quantize the model statically: onnxruntime.quantization.quantize_static in place of quantize_dynamic")
_RANDOM = Advice("make the random numbers an input of the model")
_ROUNDS = Advice(
    "write out its rounds",
    torch="torch.onnx.export(..., dynamo=True) writes out the rounds of a loop whose number of rounds is fixed",
    tensorflow="build the layer with unroll=True, or use tf.keras.layers.LSTM or GRU, which become one operator",
)
_SCATTER = Advice(
    "put the parts together with Concat", torch="torch.cat of the parts in place of an assignment to a slice",
    tensorflow="tf.concat of the parts in place of tf.tensor_scatter_nd_update",
)  # fmt: skip
_GRID = Advice(
    "resample on the host, in front of the model", torch="torch.nn.Upsample(mode='nearest') in place of grid_sample"
)
_OPTIMIZED = Advice(
    "an optimizer of onnxruntime wrote it: take the file from before, or save it again with "
    "SessionOptions.graph_optimization_level = ORT_DISABLE_ALL"
)
_FOREIGN = Advice(
    "write it with operators of ONNX", torch="torch.onnx.export(..., dynamo=True), which writes operators of ONNX"
)

_OPERATORS: Mapping[str, Advice] = {
    "LRN": Advice(
        "train the model with BatchNormalization in its place",
        torch="train the model with torch.nn.BatchNorm2d in place of torch.nn.LocalResponseNorm",
        tensorflow="train the model with BatchNormalization in place of local_response_normalization",
    ),
    "LpPool": Advice(
        "write it, for p = 2, as Sqrt of the AveragePool of x * x, times the root of the window's size",
        torch="(F.avg_pool2d(x * x, k) * k * k).sqrt() in place of torch.nn.LPPool2d(2, k)",
    ),
    "CumSum": Advice(
        "write it as a product with a triangle of ones",
        torch="x @ torch.ones(n, n).triu() in place of torch.cumsum(x, -1)",
        tensorflow="x @ tf.linalg.band_part(tf.ones([n, n]), 0, -1) in place of tf.cumsum(x, -1)",
    ),
    "Einsum": Advice(
        "write it as MatMul and Transpose", torch="torch.matmul in place of torch.einsum",
        tensorflow="tf.matmul in place of tf.einsum",
    ),
    "If": Advice(
        "give it a constant condition, or compute both branches and choose with Where",
        torch="torch.where between the results of both branches, or torch.onnx.export(..., dynamo=True) where the "
        "condition depends on sizes alone",
        tensorflow="tf.where between the results of both branches in place of tf.cond",
    ),
    "MaxUnpool": Advice(
        "use nearest upsampling in its place",
        torch="torch.nn.Upsample(mode='nearest') in place of torch.nn.MaxUnpool2d",
    ),
    "DeformConv": Advice(
        "train the model with Conv in its place",
        torch="train the model with torch.nn.Conv2d in place of torchvision.ops.DeformConv2d",
    ),
    "DynamicQuantizeLinear": _STATIC,
    "DynamicQuantizeMatMul": _STATIC,
    **dict.fromkeys(("Loop", "Scan"), _ROUNDS),
    **dict.fromkeys(("GridSample", "AffineGrid"), _GRID),
    **dict.fromkeys(("ScatterND", "ScatterElements", "Scatter"), _SCATTER),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM
    ),
}  # fmt: skip


def of_operator(node: Node, model: Model) -> str:
    """What stands in for an operator without hardware; empty where nothing does, and the model can only be cut."""
    advice = _OPERATORS.get(node.op_type) if node.domain in ("", "com.microsoft") else None
    if advice is None and node.domain == "com.microsoft":
        advice = _OPTIMIZED
    elif advice is None and node.domain not in ("", "ai.onnx.ml"):
        advice = _FOREIGN
    return "" if advice is None else advice.to(model)
