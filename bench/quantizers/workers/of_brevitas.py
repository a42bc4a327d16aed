"""Quantize with Brevitas, by way of onnx2torch: Brevitas itself takes modules of torch and no ONNX files.

The steps and their numbers are those of its own example of quantization after training
(`brevitas_examples.imagenet_classification.ptq`): equalization, statistics of the rows, bias correction.  `options`:
`method`, what is done to weights besides: "" nothing, "gptq" their rounding, one after another.
"""

from __future__ import annotations

import importlib.metadata

import onnx2torch
import torch
from brevitas.graph.quantize import preprocess_for_quantize
from brevitas_examples.imagenet_classification.ptq import ptq_common
from common import Answer, Job, NotThere, each, work
from onnxruntime.quantization.shape_inference import quant_pre_process

BIAS_BITS, PERCENTILE = 32, 99.999
#: How networks are prepared: as in the example, else with what keeps their outputs.
PREPARATIONS = {"": {"equalize_iters": 20},
                "with Relu6 as it is": {"equalize_iters": 20, "relu6_to_relu": False},
                "with Relu6 as it is, not equalized": {"equalize_iters": 0, "relu6_to_relu": False}}
LAYERS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Linear)
#: What outputs of the prepared network may differ, of the largest.
EQUAL = 1e-3


def quantize(job: Job) -> Answer:
    if job.states or len(job.calibration) != 1:
        raise NotThere("its example is for networks of one input without states")
    model = as_module(job)
    rows = batches(model, [torch.tensor(next(iter(row.values()))) for row in each(job.calibration)])
    model, said = ready_for_brevitas(job, model, rows)
    model = ptq_common.quantize_model(
        model, backend="fx", weight_bit_width=job.weights, act_bit_width=job.activations, bias_bit_width=BIAS_BITS,
        layerwise_first_last_bit_width=job.weights, weight_quant_granularity="per_channel",
        act_quant_percentile=PERCENTILE, act_quant_type=job.options["activations"], scale_factor_type="float_scale",
        quant_format="int").eval()
    with torch.no_grad():
        model(rows[0][0])
    ptq_common.calibrate(rows, model)
    if job.options["method"] == "gptq":
        ptq_common.apply_gptq(rows, model, act_order=False, create_weight_orig=True, use_quant_activations=True)
    ptq_common.apply_bias_correction(rows, model)

    def infer(row):
        with torch.no_grad():
            made = model(torch.tensor(next(iter(row.values()))))
        made = made if isinstance(made, tuple | list) else (made,)
        return {name: value.numpy() for name, value in zip(job.outputs, made, strict=True)}

    return Answer(infer, importlib.metadata.version("brevitas"), left_in_float(model), said)


def batches(model, rows):
    """All rows as one batch, since Brevitas takes statistics of batches and the mean of these; where the model works on
    one row alone, row by row."""
    whole = torch.cat(rows)
    try:
        with torch.no_grad():
            same = torch.allclose(first_of(model(whole)), torch.cat([first_of(model(row)) for row in rows]), atol=1e-3)
    except RuntimeError:
        same = False
    return [(whole, None)] if same else [(row, None) for row in rows]


def first_of(made):
    return made[0] if isinstance(made, tuple | list) else made


def ready_for_brevitas(job, model, rows):
    """Prepared by Brevitas, as far as the network still computes the same afterwards: what was left out is said."""
    with torch.no_grad():
        before = first_of(model(rows[0][0]))
        for said, options in PREPARATIONS.items():
            ready = preprocess_for_quantize(as_module(job), equalize_merge_bias=True, **options)
            apart = (first_of(ready(rows[0][0])) - before).abs().max()
            if apart <= EQUAL * before.abs().max():
                return ready, said
    raise NotThere("its preparation changes what the network computes")


def as_module(job: Job) -> torch.nn.Module:
    """onnxruntime writes products with a bias as Gemm, which onnx2torch makes a Linear of, which Brevitas quantizes."""
    ready = job.folder / "ready.onnx"
    quant_pre_process(str(job.model), str(ready), skip_symbolic_shape=True)
    try:
        model = onnx2torch.convert(str(ready)).eval()
    except NotImplementedError as error:
        raise NotThere(f"onnx2torch: {str(error).splitlines()[0]}") from None
    for part in model.modules():
        size = getattr(part, "kernel_size", None)
        if isinstance(part, torch.nn.AvgPool2d) and isinstance(size, list) and len(set(size)) == 1:
            part.kernel_size = size[0]  # Brevitas wants a number
    return model


def left_in_float(model) -> tuple[str, ...]:
    """Kinds of modules with weights that are not quantized."""
    parts = dict(model.named_modules())
    left = {type(part).__name__ for part in parts.values()
            if isinstance(part, LAYERS) and not hasattr(part, "weight_quant")}
    products = {"MatMul" for node in model.graph.nodes if node.op == "call_module"
                and "MatMul" in type(parts[node.target]).__name__
                and any(source.op == "get_attr" for source in node.all_input_nodes)}
    return tuple(sorted(left | products))


if __name__ == "__main__":
    work(quantize)
