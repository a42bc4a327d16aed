"""When a golden model is wrong: its error is larger than what 8 bits do to the float model, found without hwflow.

Noise of 8 bits is in each tensor that becomes integers, and in weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hwflow_base.errors import HwflowError

from bench.quantization import runtime as onnxruntime_session
from hwflow import golden, onnx
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize import quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.invariants import TIE

#: Rows of each network; they calibrate it, too.
ROWS = 24

#: How much larger than in the worst draw of the noise of 8 bits an error may be, and how many are drawn: more where
#: few are too small, for where a number turns from one step to the next is rarely near.
FACTOR, DRAWS = 2.0, (4, 32)

#: The error, by the signal, that any may have: floats behind the last integers, computed in another order.
CLOSE = 1e-4


@dataclass
class Tally:
    """What became of many models."""

    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def judge(self, model: Model, refusals: tuple[str, ...]) -> None:
        """The golden model is no further from onnxruntime than 8 bits explain, or refused with one of `refusals`."""
        try:
            found = excess(model)
        except HwflowError as error:
            text = " ".join(str(error).split())
            known = next((why for why in refusals if why in text), None)
            if known is None or error.exit_code == 70:
                raise
            self.refused[known] += 1
            return
        assert found <= FACTOR, f"the error is {found:.1f} times the noise of 8 bits"
        self.right += 1


def excess(model: Model, settings: QuantizationSettings | None = None) -> float:
    """The error of the golden model, of the worst output, by that of the noise of 8 bits in its worst draw."""
    model = onnx.infer(model)
    rng = np.random.default_rng(11)
    rows = {v.name: rng.standard_normal((ROWS, *v.tensor.shape)).astype(np.float32) for v in model.graph.inputs
            if v.tensor is not None}  # fmt: skip
    expected = oracle(model, rows, [value.name for value in model.graph.outputs])
    found = golden.predict(quantize(model, rows, settings=settings), rows)
    least = np.inf
    for draws in DRAWS:
        noise = noise_of_8_bits(model, rows, draws)
        usual = {name: max([CLOSE, *(distance(value, drawn) for drawn in noise[name])])
                 for name, value in expected.items()}  # fmt: skip
        least = max(distance(value, found[name]) / usual[name] for name, value in expected.items())
        if least <= FACTOR:
            break
    return least


def distance(expected: np.ndarray, found: np.ndarray) -> float:
    """The error by the signal; infinite for another shape, and for what is no number."""
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    if expected.shape != found.shape or not np.isfinite(found).all():
        return np.inf
    error, signal = np.mean((expected - found) ** 2), np.mean(expected**2)
    return float(np.sqrt(error / max(signal, 1e-30)))


def oracle(model: Model, rows: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Tensors of a model by name, rows stacked: of onnxruntime without graph optimisation; of what it does not
    implement, hwflow's evaluation of the file."""
    constants, count = model.graph.initializers, len(next(iter(rows.values())))
    computed = [name for name in names if name not in constants]
    singles = [{name: array[k] for name, array in rows.items()} for k in range(count)]
    try:
        run = onnxruntime_session(with_unsigned_weights(model), computed)
        found = [run.run(None, row) for row in singles]
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) and "not implemented" not in str(error).lower():
            raise
        found = [list(onnx.evaluate(model, row, computed).values()) for row in singles]
    made = {name: np.stack(values) for name, values in zip(computed, zip(*found, strict=True), strict=True)}
    return made | {name: np.broadcast_to(constants[name], (count, *constants[name].shape))
                   for name in names if name in constants}  # fmt: skip


def with_unsigned_weights(model: Model) -> Model:
    """The same model, whose products of uint8 and constant int8 are those of uint8 and uint8.

    Where the processor has no VNNI instructions, onnxruntime's products with int8 saturate sums of two at 16 bits.
    """
    graph, made, nodes = model.graph, dict[str, Array](), list[Node]()
    for node in graph.nodes:
        if node.op_type in INTEGER_PRODUCTS:
            zero, *signed = (graph.initializers.get(node.inputs[place]) for place in (2, 3, 5))
            types = [part is not None and part.dtype for part in (zero, *signed)]
            if types == [np.uint8, np.int8, np.int8]:
                moved = {node.inputs[place]: f"{node.inputs[place]}.unsigned" for place in (3, 5)}
                made |= {new: (graph.initializers[old].astype(np.int16) + 128).astype(np.uint8)
                         for old, new in moved.items()}  # fmt: skip
                node = replace(node, inputs=tuple(moved.get(name, name) for name in node.inputs))
        nodes.append(node)
    return replace(model, graph=replace(graph, nodes=tuple(nodes), initializers={**graph.initializers, **made}))


#: Lower numbers only hide a score from a Softmax, and take no part in a range.
LOWEST = -32.0

#: What an element is computed from alone; of a quantizer behind it there is one rounding, behind both.
FUNCTIONS = ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh")
#: What takes elements as they are, so that integers stay integers.
MOVES = ("Transpose", "Flatten", "Reshape", "MaxPool", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Identity")
#: Operators with weights, which stand behind their first input.
PRODUCTS = ("MatMul", "Gemm", "Conv")
#: Products of integers: inputs 2, 3 and 5 are the first zero point, the weights and their zero point.
INTEGER_PRODUCTS = ("QLinearMatMul", "QLinearConv", "QGemm")


def noise_of_8_bits(model: Model, rows: Mapping[str, Array], draws: int) -> dict[str, Array]:
    """Each output of so many draws [draws, rows, ...]: to each element of a tensor that a runtime of integers rounds,
    up to half a step of 8 bits is added at random, in each row anew; and to each weight.  To what the file's own
    quantizers round, as much as float32 may be off: it decides between two steps where a number is in their middle."""
    graph, rng, count = model.graph, np.random.default_rng(12), len(next(iter(rows.values())))
    places, weights = rounded(graph), float_weights(graph)
    ties = {name: TIE * step for name, step in steps(graph).items() if name not in places}
    every = (*places, *weights, *ties)
    values = {**rows, **oracle(model, rows, [name for name in every if name not in rows])}
    halves = {**{name: half_a_step(values[name]) for name in every}, **ties}
    changed, found = with_noise(model, every), []
    for _ in range(draws):
        added = {}
        for name, half in halves.items():
            shape = values[name].shape
            drawn = rng.uniform(-half, half, shape[1:] if name in weights else shape).astype(np.float32)
            added[f"{name}.noise"] = np.broadcast_to(drawn, (count, *shape[1:]))
        found.append(oracle(changed, {**rows, **added}, [value.name for value in graph.outputs]))
    return {name: np.stack([draw[name] for draw in found]) for name in found[0]}


def half_a_step(values: Array) -> float:
    seen = np.nan_to_num(np.maximum(values, LOWEST).astype(np.float64), nan=0.0)
    return float(max(seen.max(), 0) - min(seen.min(), 0)) / 255 / 2


def rounded(graph: Graph) -> list[str]:
    """The float tensors, inputs among them, which a file does not say the integers of."""
    settled, readers = set[str](), dict[str, list[Node]]()
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
        if node.op_type == "DequantizeLinear" or (node.op_type in MOVES and node.inputs[0] in settled):
            settled.update(node.outputs)
    ends = {value.name for value in graph.outputs}

    def is_rounded_behind(name: str) -> bool:
        return name not in ends and all(
            reader.op_type == "QuantizeLinear"
            or (reader.op_type in (*FUNCTIONS, *MOVES) and is_rounded_behind(reader.outputs[0]))
            for reader in readers.get(name, ())
        )

    every = [*(value.name for value in graph.inputs), *(name for node in graph.nodes for name in node.outputs if name)]
    return [name for name in every if is_float(graph, name) and name not in settled and not is_rounded_behind(name)]


def is_float(graph: Graph, name: str) -> bool:
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype == np.float32


def steps(graph: Graph) -> dict[str, float]:
    """Of one tensor that a QuantizeLinear reads, the step."""
    nodes = [node for node in graph.nodes if node.op_type == "QuantizeLinear" and is_float(graph, node.inputs[0])]
    read = {node.inputs[0]: graph.initializers.get(node.inputs[1]) for node in nodes}
    return {name: float(np.min(scale)) for name, scale in read.items() if scale is not None}


def float_weights(graph: Graph) -> list[str]:
    """The weights of products that the file has as floats, of 32 bits or of 8."""
    made = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.op_type == "DequantizeLinear"}
    read = dict.fromkeys(name for node in graph.nodes if node.op_type in PRODUCTS for name in node.inputs[:2])
    numbers = {name: graph.initializers.get(made.get(name, name)) for name in read}
    return [name for name, value in numbers.items() if value is not None and value.dtype.name.startswith("float")]


def with_noise(model: Model, places: Sequence[str]) -> Model:
    """`model` with an input NAME.noise for each of `places`, which is added there."""
    graph, wanted = model.graph, set(places)
    entries = [Value(f"{name}.noise", TensorType(np.dtype(np.float32), None)) for name in places]
    given = (*(value.name for value in graph.inputs), *graph.initializers)
    fed = {name: f"{name}.noisy" for name in dict.fromkeys(given) if name in wanted}
    nodes = [Node("Add", (name, f"{name}.noise"), (noisy,)) for name, noisy in fed.items()]
    for node in graph.nodes:
        renamed = {name: f"{name}.exact" for name in node.outputs if name in wanted}
        nodes.append(replace(node, inputs=tuple(fed.get(name, name) for name in node.inputs),
                             outputs=tuple(renamed.get(name, name) for name in node.outputs)))  # fmt: skip
        nodes += [Node("Add", (exact, f"{name}.noise"), (name,)) for name, exact in renamed.items()]
    return replace(model, graph=replace(graph, nodes=tuple(nodes), inputs=(*graph.inputs, *entries)))
