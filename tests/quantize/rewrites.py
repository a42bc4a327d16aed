"""Models as text, before and after a pass of the quantizer: the cases of rewrites.txt.

A case is a title, the pass and the operator set, and where the model becomes hardware the kinds of its layers; the
graph before in ONNX's own text (onnx.parser), whose inputs are those whose names begin with x, while other ones are
constants, random from their shape; and what the pass writes: a line for each node, in which small integer constants
are themselves and others their shapes, and results have numbers, for passes make up names.

Cases of float_models.txt have a title, the operator set and the kinds of layers, and no pass.  The title "each of A, B"
stands for a case of every operator that it names, which is EACH in the text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx.parser

from hwflow import onnx as hwonnx
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.rewrite.passes import Pass
from hwflow.quantize import post_training, quantization
from tests.quantize.models import session

#: How the title of a text for several operators begins.
EACH_OF = "each of "
FILE, FLOAT = (Path(__file__).with_name(name) for name in ("rewrites.txt", "float_models.txt"))


@dataclass(frozen=True)
class Rewrite:
    """`kinds` is empty where the model is no hardware."""

    title: str
    step: str
    opset: int
    kinds: str
    before: str
    after: str

    def __str__(self) -> str:
        head = " | ".join([self.title, self.step, str(self.opset), *([self.kinds] if self.kinds else [])])
        return f"=== {head}\n{self.before}\n---\n{self.after}\n"

    def model(self) -> Model:
        return model_of(self.before, self.opset)


def read(text: str) -> Rewrite:
    head, _, body = text.partition("\n")
    before, _, after = body.partition("\n---\n")
    title, step, opset, *kinds = (part.strip() for part in head.split("|"))
    return Rewrite(title, step, int(opset), "".join(kinds), before.strip(), after.strip())


@dataclass(frozen=True)
class FloatModel:
    title: str
    opset: int
    kinds: str
    text: str

    def __str__(self) -> str:
        return f"=== {self.title} | {self.opset} | {self.kinds}\n{self.text}\n"

    def model(self) -> Model:
        return model_of(self.text, self.opset)

    def cases(self) -> list[FloatModel]:
        if not self.title.startswith(EACH_OF):
            return [self]
        return [replace(self, title=name, text=self.text.replace("EACH", name))
                for name in self.title.removeprefix(EACH_OF).split(", ")]  # fmt: skip


def blocks(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("=== ")[1:]


@cache
def cases() -> dict[str, Rewrite]:
    return {case.title: case for case in map(read, blocks(FILE))}


def float_texts() -> list[FloatModel]:
    """The texts of float_models.txt; one may stand for several cases."""
    found = [text.partition("\n") for text in blocks(FLOAT)]
    heads = [[part.strip() for part in head.split("|")] for head, _, _ in found]
    return [FloatModel(title, int(opset), kinds, text.strip())
            for (title, opset, kinds), (_, _, text) in zip(heads, found, strict=True)]  # fmt: skip


@cache
def float_models() -> dict[str, FloatModel]:
    return {case.title: case for text in float_texts() for case in text.cases()}


def every_pass() -> dict[str, Pass]:
    """All passes of the quantizer by their names."""
    groups = (quantization.PASSES, quantization.DIALECT_PASSES, quantization.QDQ_PASSES, post_training.FLOAT_PASSES,
              post_training.PASSES, (post_training.EQUALIZE, post_training.BEFORE_RANKINGS))  # fmt: skip
    return {step.name: step for group in groups for step in group}


def constant(value: Value) -> Array:
    """Positive numbers where the name begins with p; whole numbers where the type is one of integers."""
    assert value.tensor is not None
    shape = tuple(int(size) for size in value.tensor.shape or ())  # type: ignore[arg-type]
    rng, dtype = np.random.default_rng([len(shape), *shape]), value.tensor.dtype
    made = rng.normal(0, 0.5, shape) if dtype.kind == "f" else rng.integers(-100, 100, shape)
    made = 0.5 + np.abs(made) if value.name.startswith("p") else made
    return np.asarray(made, dtype)


def model_of(text: str, opset: int = 13) -> Model:
    graph = onnx.parser.parse_graph(f"text {text}")
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    proto = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model = hwonnx.loads(proto.SerializeToString())
    inputs = tuple(value for value in model.graph.inputs if value.name.startswith("x"))
    weights = {value.name: constant(value) for value in model.graph.inputs if value not in inputs}
    nodes = tuple(replace(node, name=node.name or f"{node.op_type.lower()}{k}")
                  for k, node in enumerate(model.graph.nodes))  # fmt: skip
    graph_of = replace(model.graph, nodes=nodes, inputs=inputs, initializers={**model.graph.initializers, **weights})
    return hwonnx.infer(replace(model, graph=graph_of))


def text_of(model: Model) -> str:
    graph, names = model.graph, {value.name: value.name for value in model.graph.inputs}
    names |= {name: str(array.tolist()) if array.size <= 8 and array.dtype.kind != "f" else
              f"{'' if array.dtype.kind == 'f' else array.dtype}[{','.join(map(str, array.shape))}]"
              for name, array in graph.initializers.items()}  # fmt: skip
    lines = []
    for node in graph.nodes:
        names |= {name: f"%{len(lines)}" + (f".{k}" if k else "") for k, name in enumerate(node.outputs)}
        attributes = ", ".join(f"{key}={value}" for key, value in sorted(node.attributes.items()))
        inputs = ", ".join(names.get(name, name) for name in node.inputs)
        lines.append(f"%{len(lines)} = {node.op_type}{f'<{attributes}>' if attributes else ''}({inputs})")
    return "\n".join([*lines, "-> " + ", ".join(names[value.name] for value in graph.outputs)])


def rows_for(model: Model, count: int) -> dict[str, Array]:
    rng, rows = np.random.default_rng(count), {}
    for value in model.graph.inputs:
        assert value.tensor is not None
        shape, dtype = (count, *(value.tensor.shape or ())), value.tensor.dtype
        rows[value.name] = (rng.normal(0, 1, shape) if dtype.kind == "f" else rng.integers(0, 4, shape)).astype(dtype)
    return rows


def computed(model: Model, rows: dict[str, Array]) -> list[Array]:
    """onnxruntime's outputs, rows stacked; what it does not have, hwflow evaluates."""
    names, count = [value.name for value in model.graph.outputs], len(next(iter(rows.values())))
    singles = [{name: array[k] for name, array in rows.items()} for k in range(count)]
    if any(node.attributes.get("layout") for node in model.graph.nodes):
        made = [list(hwonnx.evaluate(model, row, names).values()) for row in singles]
    else:
        run = session(model)
        made = [run.run(names, row) for row in singles]
    return [np.stack(each) for each in zip(*made, strict=True)]


def rewritten(case: Rewrite) -> str:
    """What the pass writes, which computes what was there before."""
    model = case.model()
    made, rows = every_pass()[case.step].run(model), rows_for(model, 3)
    for expected, found in zip(computed(model, rows), computed(made, rows), strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return text_of(hwonnx.infer(made))
