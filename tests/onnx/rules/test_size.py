"""Very large files: the rules take time that is linear in the size of the file."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from tests.onnx.rules.protos import document, errors, graph, model, node, value, weight


@pytest.mark.rule("GR-01", "GR-11", "NM-14")
@pytest.mark.parametrize("kind", ["chain", "undefined", "reversed", "initializers", "subgraphs"])
def test_time_is_linear(kind: str) -> None:
    """Thousands of anything are judged in less than a second; quadratic time would take minutes."""
    count = 400 if kind == "subgraphs" else 4_000
    chain = [node(inputs=(f"v{i}",), outputs=(f"v{i + 1}",)) for i in range(count)]
    inputs, outputs = [value("v0")], [value(f"v{count}")]
    match kind:
        case "chain":
            proto, expected = model(*chain, inputs=inputs, outputs=outputs), 0
        case "undefined":
            many = [node(inputs=(f"u{i}",), outputs=(f"v{i}",)) for i in range(count)]
            proto, expected = model(*many, outputs=[value("v0")]), 101
        case "reversed":
            proto, expected = model(*reversed(chain), inputs=inputs, outputs=outputs), 9  # one finding for the rest
        case "initializers":
            proto, expected = model(initializers=[weight("w")] * count), 101
        case "subgraphs":
            inner = graph(node(outputs=("t",)), outputs=[value("t")])
            many = [
                helper.make_node("If", ["c"], [f"y{i}"], then_branch=inner, else_branch=inner) for i in range(count)
            ]
            proto, expected = (
                model(*many, inputs=[value("x"), value("c", TensorProto.BOOL, ())], outputs=[value("y0")]),
                0,
            )
    found = errors(proto)
    assert len(found) == expected
    assert document(proto).proto.ByteSize() > 10_000
