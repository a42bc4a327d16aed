"""The first look at a model: everything that certainly cannot become hardware, all at once.

The advice is in terms of the framework that the model was exported from.  A piece of advice has a form for everybody,
and one for each framework in which it is a single call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.advice import FOREIGN, OPTIMIZED, STATIC, Advice
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import (
    AFFINE,
    HOST_ONLY,
    JOINS,
    KNOWN,
    LAYOUT,
    MATRIX,
    MOVES,
    NEVER_ON_HOST,
    QUANTIZERS,
    RESIZES,
    SELECTIONS,
    advice_on,
    named,
    row_of,
)
from hwflow.onnx.ops import find_operator
from hwflow.onnx.rewrite.fixed import Surroundings, data_inputs, suggestion
from hwflow.onnx.rewrite.passes import is_identity
from hwflow.onnx.rewrite.renaming import reads
from hwflow.onnx.traits import Trait
from hwflow.quantize.dialects.classical.rules import CLASSICAL_RULES
from hwflow.quantize.dialects.quantized_constants import is_small_float
from hwflow.quantize.graphs import (
    ancestors,
    attribute,
    consumers,
    dynamic_inputs,
    fixed_names,
    is_computed,
    is_embedding,
    moves,
    needs_host,
    on_host,
    producers,
)
from hwflow.quantize.problems import Problem

_OF_SHAPE = named(Trait.OF_SHAPE)

#: A larger model fits no board; a layer by layer report would take long.
MAX_NODES, MAX_PARAMETERS = 5_000, 50_000_000

#: Elements of the largest tensor: sixty-four channels of a picture of 512 x 512.  Calibrating what is larger takes
#: hours and more memory than there is, and so does playing its frames.
MAX_ELEMENTS = 1 << 24

#: How many of the first inputs of control flow must be constant for it to be written out.
_DECIDED = {"If": 1, "Loop": 2, "Scan": 0}

#: How the advice to cut the model in front of a node ends.
CUT = " and run the rest on the host"


def operators_without_hardware(model: Model) -> list[Problem]:
    """Nodes of a model as its file has it whose operator has no hardware; for a model that cannot be inferred.

    Nodes that compute with constants and shapes alone do not count: inference folds them.  Nor do operators that hwflow
    does not know at all, which the checker reports.
    """
    folded, made = set(model.graph.initializers), producers(model.graph)
    host = on_host(model.graph)
    problems = []
    for node in model.graph.nodes:
        if node.op_type in _OF_SHAPE or all(name in folded for name in node.inputs if name):
            folded.update(filter(None, node.outputs))
        elif host.intersection(node.outputs) or node.op_type in KNOWN | {"ConvTranspose"} or is_computed(node):
            continue
        elif (node.domain, node.op_type) in CLASSICAL_RULES:
            continue  # it gets another form, or is refused with a reason
        elif not node.domain and node.op_type in _DECIDED and not undecided(node, model):
            continue  # inference writes it out
        elif _reads_dynamic(node, made):
            continue
        elif find_operator(node.domain, node.op_type, model.opsets.get(node.domain, 0)):
            problems.append(_of_operator(node, model))
    return problems


def _of_operator(node: Node, model: Model) -> Problem:
    """The problem of a node whose operator has no hardware, and which the host does not run either."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    form = " in this form" if row_of(node.domain, node.op_type).layers else ""
    why = f"operator {operator} has no hardware{form}"
    if not node.domain and node.op_type in _DECIDED and (option := constant_option(undecided(node, model), model)):
        return Problem.of(node, "what decides it must be constant, not computed from the inputs", option)
    follower = _layer_behind(node, model.graph) if needs_host(node, model.graph) else None
    if follower is not None:
        why += f", and the host cannot run it because {follower.label} follows"
    static = advice_on(node.domain, node.op_type) is STATIC  # then what stands around it is dynamic, too
    return Problem.of(node, why, stand_in_for(node, model), cut=None if static else CUT)


def _reads_dynamic(node: Node, made: Mapping[str, Node]) -> bool:
    """Whether a product reads what a DynamicQuantizeLinear makes, which is a problem itself; once is enough."""
    makers = (made.get(name) for name in node.inputs)
    return Trait.QOPERATOR in row_of(node.domain, node.op_type).traits and any(
        maker is not None and maker.op_type == "DynamicQuantizeLinear" for maker in makers)


def undecided(node: Node, model: Model) -> list[str]:
    """What decides how the If or the loop `node` goes on, as far as it depends on inputs."""
    graph = model.graph
    inputs, made = {value.name for value in graph.inputs}, producers(graph)
    return [name for name in node.inputs[:_DECIDED[node.op_type]] if name in inputs or (name in made and any(
        inputs.intersection(reads(step)) for step in ancestors(graph, [name])))]


def constant_option(names: Iterable[str], model: Model) -> str:
    """The remedy for `names`, which must be constants and depend on inputs that may never change; empty where they
    depend on data."""
    graph = model.graph
    data = data_inputs(graph.nodes, graph.inputs, graph.initializers)
    option = suggestion(names, Surroundings(graph.nodes, graph.inputs, graph.initializers, data))
    return f"if the input never changes, give {option}" if option else ""


def _layer_behind(node: Node, graph: Graph) -> Node | None:
    """The first layer that reads what comes of `node`."""
    reached = set(node.outputs)
    for other in graph.nodes:
        if other is node or not reached.intersection(other.inputs):
            continue
        reached.update(other.outputs)
        if other.op_type in NEVER_ON_HOST or is_computed(other):
            return other
    return None


def require_small_model(graph: Graph) -> None:
    """HwflowError for a far too large model, before hours of work: no board holds more than 500 000 weights."""
    nodes, parameters = len(graph.nodes), sum(array.size for array in graph.initializers.values())
    if nodes > MAX_NODES or parameters > MAX_PARAMETERS:
        raise HwflowError(
            f"a model that becomes hardware must have at most {MAX_NODES} nodes and {MAX_PARAMETERS} parameters, "
            f"not {nodes} and {parameters}", "choose a smaller model"
        )


def require_small_frames(graph: Graph) -> None:
    """Raise HwflowError for a tensor of the inferred `graph` that nobody could wait for."""
    for name in (value for node in graph.nodes for value in (*node.inputs, *node.outputs)):
        kind = graph.tensor_type(name) if name and name not in graph.initializers else None
        if kind is not None and kind.shape is not None and kind.is_static:
            size = math.prod(int(dim) for dim in kind.shape if dim is not None)
            if size > MAX_ELEMENTS:
                raise HwflowError(
                    f"a tensor of a model that becomes hardware must have at most {MAX_ELEMENTS} elements, and "
                    f"'{name}' {list(kind.shape)} has {size}", "scale the images down, or cut them into parts")


def unsupported(model: Model) -> list[Problem]:
    """Problems of single nodes and tensors, in the order of the graph."""
    graph = model.graph
    host = on_host(graph)
    weights = fixed_names(graph)
    problems = [*_bad_constants(model)]
    for node in graph.nodes:
        if node.outputs[0] in weights:
            problems.extend(_of_constant(node, graph))
            continue
        problems.extend(_of_node(node, model, host, weights))
    return problems


def _of_constant(node: Node, graph: Graph) -> Iterator[Problem]:
    """Problems of a node that only depends on constants, and that constant folding has left."""
    if node.op_type == "DequantizeLinear" and graph.initializers[node.inputs[1]].ndim > 1:
        yield Problem.of(
            node, "constants must have one scale per tensor or axis, not per block", BLOCKS.general
        )
    elif node.op_type != "DequantizeLinear" and node.op_type not in LAYOUT:
        yield Problem.of(
            node,
            "computes with constants alone, which the quantizer cannot fold",
            "fold it into the constants before the model is quantized",
        )


def _of_node(node: Node, model: Model, host: set[str], weights: set[str]) -> Iterator[Problem]:
    """Problems of a node that computes: its operator has no hardware, or not in this form."""
    graph = model.graph
    if (node.domain or node.op_type not in KNOWN) and host.intersection(node.outputs):
        return
    if is_computed(node) or (node.domain, node.op_type) in CLASSICAL_RULES:
        return  # its handler says what it cannot do
    if node.domain or node.op_type not in KNOWN:
        yield _of_operator(node, model)
        return
    if is_embedding(node, graph):
        return
    if node.op_type in MOVES and not moves(node, graph) and not host.intersection(node.outputs):
        yield _of_move(node, model)
        return
    if node.op_type == "BatchNormalization" and _trains(node):
        why = "normalizes with the statistics of the batch, as in training"
        yield Problem.of(node, why, INFERENCE.to(model))
        return
    if node.op_type == "Dropout" and not is_identity(node, model):
        yield Problem.of(node, "drops elements at random, as in training", INFERENCE.to(model))
        return
    if (small := _small_float(node, graph)) and (node.op_type in QUANTIZERS or not host.intersection(node.outputs)):
        why = f"makes activations {small}, and hardware computes with integers"
        yield Problem.of(node, why, INTEGERS.to(model))
        return
    computed = list(_of_inputs(node, model, weights, host))
    yield from computed
    if not computed and node.op_type in HOST_ONLY and not host.intersection(node.outputs):
        yield Problem.of(
            node,
            f"{node.op_type} runs on the host, but layers after it need hardware",
            "remove it, or end the model with it and run the rest as a model of its own",
        )


def _of_inputs(node: Node, model: Model, weights: set[str], host: set[str]) -> Iterator[Problem]:
    """Problems of a node that computes what must be constant: weights, scales, limits."""
    graph = model.graph
    dynamic = [name for name in dynamic_inputs(node, graph) if name not in weights]
    if node.op_type in MATRIX:
        late = [name for name in node.inputs[1:] if name and name not in weights]
        of_two = node.op_type in ("MatMul", "Gemm") and dynamic[:2] == list(node.inputs[:2]) and late == dynamic[1:2]
        if late and not of_two:
            yield Problem.of(
                node,
                f"weights and bias must be constants, not computed ('{late[0]}')",
                WEIGHTS.to(model),
            )
        elif node.op_type == "Gemm" and node.attributes.get("transA") and not of_two:
            why = "transA has no hardware where alpha or beta scale quantized weights"
            yield Problem.of(node, why, "export the model with the batch as the first axis")
    elif node.op_type in QUANTIZERS and any(name not in weights for name in node.inputs[1:] if name):
        yield Problem.of(node, "scale and zero point must be constants", "quantize the model statically")
    elif len(dynamic) > 1 and node.op_type not in AFFINE | SELECTIONS | JOINS and not host.intersection(node.outputs):
        yield Problem.of(
            node,
            f"all inputs but the first must be constants, not computed ('{dynamic[1]}')",
            constant_option(dynamic[1:], model) or (LIMITS if node.op_type == "Clip" else PARAMETERS).to(model),
        )


def _small_float(node: Node, graph: Graph) -> str:
    """The type of the result where it is a float of 8 bits or fewer, which only a quantizer or Cast makes."""
    kind = graph.tensor_type(node.outputs[0])
    return kind.dtype.name if kind is not None and is_small_float(kind.dtype) else ""


def _trains(node: Node) -> bool:
    """Whether a BatchNormalization computes statistics: by `training_mode`, before version 14 by its other outputs."""
    return bool(node.attributes.get("training_mode")) or any(node.outputs[1:])


def _of_move(node: Node, model: Model) -> Problem:
    """The problem of a node that would only move elements if its numbers were other ones."""
    mode = attribute(node, "mode", "nearest")
    if node.op_type in RESIZES and mode != "nearest":
        return Problem.of(
            node,
            f"between layers only the modes 'nearest' and 'linear' have hardware, not '{mode}'",
            LINEAR.to(model),
        )
    late = [name for name in dynamic_inputs(node, model.graph) if name != node.inputs[0]] or list(node.inputs[:1])
    return Problem.of(
        node,
        f"all inputs but the first must be constants, not computed ('{late[0]}')",
        constant_option(late, model) or (CHOSEN if node.op_type in _CHOOSING else PARAMETERS).to(model),
    )


#: What chooses elements by numbers.
_CHOOSING = frozenset({"Gather", "GatherElements", "GatherND"})
#: What adds or chooses infinities as masks have them.
_MASKING = frozenset({"Add", "Sub", "Where", "Max", "Min"})


def _bad_constants(model: Model) -> Iterator[Problem]:
    """Infinite weights; the ONNX checker has refused NaN and bad scales before."""
    graph = model.graph
    read = consumers(graph)
    for name, value in graph.initializers.items():
        if name not in read or value.dtype.kind != "f" or {node.op_type for node in read[name]} <= {"Clip"}:
            continue
        bad = np.argwhere(~np.isfinite(value))
        if len(bad):
            users = " and ".join(node.label for node in read[name][:2])
            where = [int(k) for k in bad[0]]
            is_limit = {node.op_type for node in read[name]} <= _MASKING and not np.isnan(value).any()
            what, remedy = ("a mask", MASKED) if is_limit else ("weights", TRAINED)
            why = f"{what} must be finite, not {value[tuple(where)]} at {where} ({len(bad)} such entries; in {users})"
            yield Problem.of_tensor(name, why, remedy.to(model))


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
CHOSEN = Advice(
    "numbers that an input decides choose rows of a constant table alone: multiply by a matrix of 0 and 1 that is an "
    "input (MatMul), or make the numbers constants",
    torch="numbers that an input decides choose rows of a constant table alone: a product with a matrix of 0 and 1 "
    "that is an input in place of x[index], or an index that is a buffer of the module",
    tensorflow="numbers that an input decides choose rows of a constant table alone: tf.matmul with a matrix of 0 and "
    "1 that is an input in place of tf.gather, or constant indices",
)
LIMITS = Advice(
    "export the model with constant parameters (fixed shapes, fixed limits)",
    torch="torch.minimum(torch.maximum(x, low), high) in place of torch.clamp, whose limits are computed",
    tensorflow="tf.minimum(tf.maximum(x, low), high) in place of tf.clip_by_value, whose limits are computed",
)
TRAINED = Advice("train or export the model again")
MASKED = Advice(
    "only before a Softmax may it be infinite: write the least number that the tensor has in its place, as -100",
    torch="only before a softmax may it be infinite: masked_fill or torch.where with the least number that the tensor "
    "has, as -100, in place of float('-inf')",
    tensorflow="only before a softmax may it be infinite: tf.where with the least number that the tensor has, as "
    "-100, in place of -inf",
)
WEIGHTS = Advice(
    "export the model for inference with its weights as initializers",
    torch="call torch.nn.utils.parametrize.remove_parametrizations and model.eval() before torch.onnx.export",
    tensorflow="freeze the model before tf2onnx reads it (a SavedModel is frozen)",
)
LINEAR = Advice(
    "export the model with linear or nearest",
    torch="torch.nn.Upsample(mode='bilinear') or mode='nearest' in its place",
    tensorflow="UpSampling2D(interpolation='bilinear') or 'nearest' in its place",
)
INTEGERS = Advice(
    "quantize activations to int8 or uint8, or leave their quantizers out: then calibration data decide"
)
BLOCKS = Advice("quantize per channel (onnxruntime.quantization.quantize_static with per_channel=True)")


def stand_in_for(node: Node, model: Model) -> str:
    """Advice on what stands in for an operator without hardware; empty where nothing does, and the model can only be
    cut.
    """
    advice = advice_on(node.domain, node.op_type)
    if advice is None and node.domain == "com.microsoft":
        advice = OPTIMIZED
    elif advice is None and node.domain not in ("", "ai.onnx.ml"):
        advice = FOREIGN
    return "" if advice is None else advice.to(model)
