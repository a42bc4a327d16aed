"""The catalogue of operators against what the quantizer does with each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import hwflow.quantize
from hwflow.layers import KINDS
from hwflow.onnx import infer
from hwflow.onnx.build import Builder
from hwflow.onnx.operators import COMPUTED, HOST_ONLY, KNOWN, NEVER_ON_HOST
from hwflow.onnx.ops import OPERATORS
from hwflow.onnx.schemas.schema import SCHEMAS
from hwflow.onnx.traits import FUSED
from hwflow.quantize import quantize
from hwflow.quantize.dialects.standard import RULES
from hwflow.quantize.importer.kinds import HANDLERS
from hwflow.quantize.settings import QuantizationSettings
from hwflow.stages.kinds import hardware_problems
from tests.quantize.catalogue_cases import CASES, MS
from tests.quantize.invariants import check_meaning
from tests.quantize.rewrites import rows_for
from tools.operator_support import CATALOGUE, host

#: In hardware only on demand, at the end of a model.
RANKINGS = {("", "ArgMax"), ("", "ArgMin"), ("", "TopK")}
#: Only of older operator sets than the cases have.
OLD = {("", "Scatter"), ("", "Upsample")}
#: Operators that are refused whatever their parameters, or run on the host.
REFUSED = {("", "DynamicQuantizeLinear"), *((MS, name) for name in ("DynamicQuantizeMatMul", "QLinearSoftmax"))}
#: What it writes for the host around classical models, or finds there.
FOR_HOST = {"And", "ArrayFeatureExtractor", "Det", "FeatureVectorizer", "Imputer", "IsNaN", "ReduceSum", "Scaler",
            "ZipMap"}
#: What the quantizer reads besides: constants, shapes, and what chooses rows of a table.
FOLDED = {"CastLike", "Shape", "Size", "Constant", "OneHot"}


def test_every_operator_that_the_quantizer_names_is_there() -> None:
    """Each string in its source that is an operator's name, but for the advice on those that it does not know."""
    names = {name for _, name in SCHEMAS}
    found = set()
    for file in Path(hwflow.quantize.__path__[0]).rglob("*.py"):
        if file.name == "remedies.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
                found.add(node.value)
    listed = {name for _, name in CATALOGUE}
    elsewhere = HOST_ONLY | NEVER_ON_HOST | FOLDED | FOR_HOST | {name for _, name in REFUSED} | {"FloatQuant"}
    assert found - listed - elsewhere == set()


def test_every_known_operator_and_every_dialect_is_there() -> None:
    known = {("", name) for name in KNOWN - HOST_ONLY} | RANKINGS
    refused = REFUSED | {key for key in RULES if key[1] == "FloatQuant"}
    assert set(CATALOGUE) >= known
    assert set(CATALOGUE) >= set(RULES) - refused
    assert set(CATALOGUE).isdisjoint(refused)


def test_every_operator_with_a_layer_of_its_own_has_a_handler() -> None:
    assert set(HANDLERS) >= COMPUTED
    assert set(HANDLERS) <= set(CATALOGUE)


def test_what_is_listed_exists() -> None:
    assert set(CATALOGUE) - set(OPERATORS) == set()
    kinds = {kind.kind for kind in KINDS} | {FUSED}
    assert all(entry.layers and kinds.issuperset(entry.layers) for entry in CATALOGUE.values())


def test_everything_listed_has_a_case() -> None:
    assert set(CATALOGUE) - set(CASES) == RANKINGS | OLD
    assert set(CASES) <= set(CATALOGUE)


@pytest.mark.quick(70)
@pytest.mark.parametrize(("domain", "op_type"), CASES, ids=[f"{d}.{o}" for d, o in CASES])
def test_it_becomes_what_is_listed(domain: str, op_type: str) -> None:
    """And each layer computes what its kind means."""
    entry = CATALOGUE[domain, op_type]
    seen = set()
    for case in CASES[domain, op_type]:
        model = case.model()
        nodes = [node for node in model.graph.nodes if (node.domain, node.op_type) == (domain, op_type)]
        assert nodes
        made = quantize(model)
        assert hardware_problems(made.graph) == ()
        check_meaning(made, rows_for(model, 2))
        programs = (made.prologue, made.epilogue)
        on_host = {(n.op_type, name) for program in programs for n in program.graph.nodes for name in n.outputs}
        if op_type not in ("QuantizeLinear", "DequantizeLinear"):  # the first and the last one are the host's
            assert on_host.isdisjoint((op_type, node.outputs[0]) for node in nodes)
        seen |= {layer.kind for layer in made.graph.layers}
    own = set(entry.layers) - {FUSED}
    assert not own or FUSED in entry.layers or own & seen, seen


@pytest.mark.parametrize(("domain", "op_type"), sorted(RANKINGS))
def test_rankings_are_layers_on_demand(domain: str, op_type: str) -> None:
    b = Builder()
    x = b.node("Gemm", b.input("x", np.float32, (1, 6)), b.constant("w", np.eye(6, dtype=np.float32)), name="fc")
    constants = [b.constant("k", np.array([2]))] if op_type == "TopK" else []
    outputs = b.nodes(op_type, x, *constants, outputs=["v", "i"] if op_type == "TopK" else ["i"], axis=1)
    for name in outputs:
        b.output(name)
    model = infer(b.model(opset=20))
    assert "top_k" not in {layer.kind for layer in quantize(model).graph.layers}
    made = quantize(model, settings=QuantizationSettings(hardware_argmax=True))
    assert "top_k" in {layer.kind for layer in made.graph.layers}
    assert hardware_problems(made.graph) == ()


@pytest.mark.parametrize(
    ("domain", "op_type", "before", "after"),
    [("", "Softmax", True, True), ("", "GRU", False, False), ("", "LayerNormalization", True, True),
     ("ai.onnx.ml", "Scaler", True, True), ("ai.onnx.ml", "TreeEnsembleClassifier", False, False),
     ("", "Conv", False, False), ("", "Relu", False, True), ("", "Transpose", True, True),
     ("com.microsoft", "QGemm", False, False), ("com.microsoft", "QLinearSoftmax", False, True)],
)  # fmt: skip
def test_the_host(domain: str, op_type: str, before: bool, after: bool) -> None:
    assert (host(domain, op_type).before, host(domain, op_type).after) == (before, after)
