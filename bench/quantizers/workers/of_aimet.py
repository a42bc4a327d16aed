"""Quantize with aimet-onnx: simulated quantization of all tensors, a scale for each channel of weights.

`options`: `scheme`, how ranges are found (min_max or tf_enhanced); `method`, what is done to weights on the rows:
"" nothing, "seq_mse" their ranges one after another, "adaround" their rounding.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import aimet_onnx
import aimet_onnx.common.quantsim_config as configurations
import onnx
from aimet_onnx.common.defs import QuantScheme, qtype
from common import Answer, Job, each, work

CONFIGURATION = Path(configurations.__file__).parent / "default_config_per_channel.json"
#: Iterations that its documentation recommends: for weights of 8 bits, and of fewer.
ITERATIONS, ITERATIONS_OF_FEW = 10000, 15000
#: Kinds of operators with weights.
LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN")


def quantize(job: Job) -> Answer:
    rows = list(each(job.calibration))
    sim = aimet_onnx.QuantizationSimModel(
        onnx.load(str(job.model)), param_type=qtype.int(job.weights), activation_type=qtype.int(job.activations),
        quant_scheme=QuantScheme[job.options["scheme"]], config_file=str(CONFIGURATION),
        providers=["CPUExecutionProvider"], dummy_input=rows[0])
    if job.options["method"] == "seq_mse":
        aimet_onnx.apply_seq_mse(sim, rows)
    elif job.options["method"] == "adaround":
        aimet_onnx.apply_adaround(sim, rows, ITERATIONS if job.weights >= 8 else ITERATIONS_OF_FEW)
    sim.compute_encodings(rows)
    names = job.outputs + list(job.states.values())
    made = {output.name.removesuffix("_updated"): output.name for output in sim.session.get_outputs()}

    def infer(row):
        return dict(zip(names, sim.session.run([made[name] for name in names], row), strict=True))

    return Answer(infer, importlib.metadata.version("aimet-onnx"), left_in_float(sim))


def left_in_float(sim) -> tuple[str, ...]:
    """Kinds of operators with a constant that no enabled quantizer stands in front of."""
    graph = sim.model.model.graph
    floats = {tensor.name for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    left = set()
    for node in graph.node:
        if node.op_type in LAYERS:
            places = (1, 2) if node.op_type in ("GRU", "LSTM", "RNN") else (0, 1)
            sources = [node.input[k] for k in places]
            if not any(makers[s].op_type == "QcQuantizeOp" for s in sources if s in makers) or floats & set(sources):
                left.add(node.op_type)
    return tuple(sorted(left))


if __name__ == "__main__":
    work(quantize)
