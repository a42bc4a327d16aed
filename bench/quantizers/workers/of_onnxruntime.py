"""Quantize with onnxruntime.quantization: static, QuantizeLinear and DequantizeLinear, a scale for each channel.

`options`: `method`, the calibration: MinMax, Entropy or Percentile.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime as ort
from common import Answer, Job, Rows, each, work
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

TYPES = {4: QuantType.QInt4, 8: QuantType.QInt8, 16: QuantType.QInt16}
#: Operators with weights, and the inputs that are.
WEIGHTS = {"Conv": (1,), "ConvTranspose": (1,), "Gemm": (1,), "MatMul": (0, 1), "GRU": (1, 2), "LSTM": (1, 2),
           "RNN": (1, 2), "LinearClassifier": (), "LinearRegressor": ()}


class Reader(CalibrationDataReader):
    def __init__(self, rows: Rows) -> None:
        self.rows = each(rows)

    def get_next(self) -> Rows | None:
        return next(self.rows, None)


def quantize(job: Job) -> Answer:
    made = job.folder / "quantized.onnx"
    said = static(job, made)
    return Answer(runner(made, job.outputs + list(job.states.values())), ort.__version__, left_in_float(made), said)


def static(job: Job, made: Path) -> str:
    """Prepare the model as the documentation recommends, and quantize it; what had to be left out is said.

    The optimization of `quant_pre_process` can make a bias of two dimensions, on which onnxruntime 1.31 then fails,
    while it quantizes or when it runs what it made.
    """
    ready, said = job.folder / "ready.onnx", ""
    for skip in (False, True):
        quant_pre_process(str(job.model), str(ready), skip_symbolic_shape=True, skip_optimization=skip)
        try:
            quantize_static(str(ready), str(made), Reader(job.calibration), quant_format=QuantFormat.QDQ,
                            per_channel=True, activation_type=TYPES[job.activations], weight_type=TYPES[job.weights],
                            calibrate_method=CalibrationMethod[job.options["method"]])
            runner(made, job.outputs)(next(each(job.calibration)))
        except Exception:
            if skip:
                raise
            said = "without the optimization before it, with which it fails"
        else:
            break
    return said


def runner(file, outputs):
    """The model as its file has it: onnxruntime's own fusions would compute with other roundings."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(file), options)
    return lambda row: dict(zip(outputs, session.run(outputs, row), strict=True))


def left_in_float(file) -> tuple[str, ...]:
    """Kinds of operators that compute with weights that are not dequantized integers."""
    graph = onnx.load(str(file)).graph
    floats = {tensor.name for tensor in graph.initializer}
    constants = floats | {node.output[0] for node in graph.node if node.op_type == "Constant"}
    left = set()
    for node in graph.node:
        places = WEIGHTS.get(node.op_type)
        if places is not None and (not places or any(node.input[k] in constants for k in places)):
            left.add(node.op_type)
    return tuple(sorted(left))


if __name__ == "__main__":
    work(quantize)
