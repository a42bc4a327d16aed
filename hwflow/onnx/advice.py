"""Advice for operators without hardware: what to change, in terms of the framework that exported the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwflow.onnx.model import Model


@dataclass(frozen=True)
class Advice:
    """`general`, or what the users of PyTorch, TensorFlow (tf2onnx), and scikit-learn and its like (skl2onnx,
    OnnxMLTools, CatBoost) call.
    """

    general: str
    torch: str = ""
    tensorflow: str = ""
    sklearn: str = ""

    def to(self, model: Model) -> str:
        """The form for whoever exported `model`, by its producer."""
        return self.for_producer(model.producer_name)

    def for_producer(self, name: str) -> str:
        """The form for the exporter `name`."""
        producer = name.lower()
        framework = next((name for part, name in _PRODUCERS.items() if part in producer), "general")
        return getattr(self, framework) or self.general


#: A part of the name of a producer, to the framework.
_PRODUCERS: Mapping[str, str] = {
    "torch": "torch", "tf2onnx": "tensorflow", "keras": "tensorflow", "tensorflow": "tensorflow",
    "skl2onnx": "sklearn", "onnxmltools": "sklearn", "catboost": "sklearn",
}  # fmt: skip

LOCAL_RESPONSE = Advice(
    "train the model with BatchNormalization in its place",
    torch="train the model with torch.nn.BatchNorm2d in place of torch.nn.LocalResponseNorm",
    tensorflow="train the model with BatchNormalization in place of local_response_normalization",
)
POOL_BY_NORM = Advice(
    "write it, for p = 2, as Sqrt of the AveragePool of x * x, times the root of the window's size",
    torch="(F.avg_pool2d(x * x, k) * k * k).sqrt() in place of torch.nn.LPPool2d(2, k)",
)
RUNNING_SUM = Advice(
    "write it as a product with a triangle of ones",
    torch="x @ torch.ones(n, n).triu() in place of torch.cumsum(x, -1)",
    tensorflow="x @ tf.linalg.band_part(tf.ones([n, n]), 0, -1) in place of tf.cumsum(x, -1)",
)
PRODUCTS = Advice(
    "write it as MatMul and Transpose", torch="torch.matmul in place of torch.einsum",
    tensorflow="tf.matmul in place of tf.einsum",
)  # fmt: skip
BRANCHES = Advice(
    "only an If whose condition is constant is seen through: compute both branches and choose with Where",
    torch="only a condition that is constant or of sizes alone is seen through: torch.where between the results of "
    "both branches in place of torch.cond or a Python if of tensors",
    tensorflow="only a constant condition is seen through: tf.where between the results of both branches in place of "
    "tf.cond",
)
UNPOOLING = Advice(
    "use nearest upsampling in its place", torch="torch.nn.Upsample(mode='nearest') in place of torch.nn.MaxUnpool2d"
)
DEFORMED = Advice(
    "train the model with Conv in its place",
    torch="train the model with torch.nn.Conv2d in place of torchvision.ops.DeformConv2d",
)
STATIC = Advice(
    "give hwflow the float model, or quantize it statically: onnxruntime.quantization.quantize_static in place of "
    "quantize_dynamic"
)
RANDOM = Advice("make the random numbers an input of the model")
ROUNDS = Advice(
    "only a loop with a constant number of rounds is seen through: let neither its limit nor its condition depend on "
    "the data",
    torch="only a loop with a constant number of rounds is seen through: a range of fixed size in place of a while "
    "loop, or torch.nn.LSTM, GRU or RNN, which become one operator",
    tensorflow="only a loop with a constant number of rounds is seen through: fix the number of steps in the input's "
    "shape (tf2onnx with --inputs NAME:0[1,STEPS,FEATURES]), or use tf.keras.layers.LSTM or GRU",
)
SCATTER = Advice(
    "write at constant places without a reduction, or one row of a state at a position that is an input",
    torch="only constant places and rows of a state are seen through: torch.cat of the parts, or torch.where with a "
    "mask, in place of an assignment to computed places",
    tensorflow="only constant places and rows of a state are seen through: tf.concat of the parts, or tf.where with a "
    "mask, in place of tf.tensor_scatter_nd_update",
)
REST = Advice(
    "what is left of one power of two, counted towards zero (fmod=1, by 1 or 0.5), has hardware; else "
    "x - by * Floor(x / by), which counts from below",
    torch="torch.fmod(x, 1.0), or another single power of two; else x - by * torch.floor(x / by), which counts from "
    "below",
    tensorflow="x - by * tf.floor(x / by), which counts from below",
)
GRID = Advice(
    "resample on the host, in front of the model", torch="torch.nn.Upsample(mode='nearest') in place of grid_sample"
)
#: For results whose size the data decide.
SIZES_OF_DATA = Advice(
    "hardware needs static shapes; choose with a mask in place of a list of places (torch.where in place of x[mask]), "
    "which keeps the size",
    torch="hardware needs static shapes; choose with a mask in place of a list of places (torch.where in place of "
    "x[mask]), which keeps the size",
    tensorflow="hardware needs static shapes; choose with a mask in place of a list of places (tf.where in place of "
    "tf.boolean_mask), which keeps the size",
    sklearn="hardware needs results of one size: do this step before the model, and leave it out of the pipeline",
)
#: For sizes and places that the model computes.
COMPUTED_SIZES = Advice(
    "hardware needs static shapes; export with fixed sizes (torch.onnx.export without dynamic_axes and "
    "dynamic_shapes, tf2onnx with --inputs NAME:0[1,224,224,3])",
    torch="hardware needs static shapes; export with fixed sizes (torch.onnx.export without dynamic_axes and "
    "dynamic_shapes)",
    tensorflow="hardware needs static shapes; export with fixed sizes (tf2onnx with --inputs NAME:0[1,224,224,3])",
    sklearn="hardware needs static shapes: do this step before the model, and leave it out of the pipeline",
)
#: For operators that hwflow does not know.
UNKNOWN = Advice(
    "export the model with operators of ONNX alone, as torch.onnx.export(..., dynamo=True) does",
    tensorflow="export the model with operators of ONNX alone",
    sklearn="export the model with operators of ONNX and ai.onnx.ml alone: do this step before the model",
)
#: For operators of com.microsoft that have no advice of their own.
OPTIMIZED = Advice(
    "an optimizer of onnxruntime wrote it: take the file from before, or save it again with "
    "SessionOptions.graph_optimization_level = ORT_DISABLE_ALL"
)
#: For operators of other domains.
FOREIGN = Advice(
    "write it with operators of ONNX", torch="torch.onnx.export(..., dynamo=True), which writes operators of ONNX"
)
