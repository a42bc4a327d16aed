"""Models for the rules about the model, its operator sets, graphs and names (IR, VER, OS, GR, NM, TR)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, helper

from tests.onnx.rules.protos import BOOL, I64, F, graph, model, node, value, weight

Case = Callable[[], ModelProto]
#: By rule, and by what the model shows.
Cases = Mapping[str, Mapping[str, Case]]

W, V = weight("w"), weight("v")
C = value("c", BOOL, ())
ADD = node("Add", ("x", "w"))
CHAIN = (node(outputs=("a",)), node(inputs=("a",)))


def changed(change: Callable[[ModelProto], object], **parts: Any) -> ModelProto:
    """The usual model after a change."""
    proto = model(**parts)
    change(proto)
    return proto


def with_fields(**fields: object) -> Case:
    return lambda: changed(lambda proto: [setattr(proto, name, content) for name, content in fields.items()])


def without(field: str) -> Case:
    return lambda: changed(lambda proto: proto.ClearField(field))


def plain(*nodes: onnx.NodeProto, **parts: Any) -> Case:
    return lambda: model(*nodes, **parts)


def with_metadata(*entries: tuple[str, str]) -> Case:
    return lambda: changed(lambda proto: [proto.metadata_props.add(key=key, value=text) for key, text in entries])


def custom(domain: str = "com.other", op: str = "Fast", **more: Any) -> onnx.NodeProto:
    return node(op, domain=domain, **more)


def branch(*nodes: onnx.NodeProto, **parts: Any) -> onnx.GraphProto:
    return graph(*(nodes or (node(outputs=("t",)),)), **{"outputs": [value("t")], "name": "b", **parts})


def chosen(then: onnx.GraphProto, other: onnx.GraphProto | None = None, *more: onnx.NodeProto, **parts: Any) -> Case:
    """An If over c, whose other branch is a good one, and nodes behind it."""
    choice = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other or branch())
    return lambda: model(choice, *more, inputs=[value("x"), C], **parts)


def loop(inputs: tuple[str, str, str] = ("i", "k", "s"), ir: int = 8, **parts: Any) -> ModelProto:
    """A Loop whose body doubles s, twice."""
    body = graph(
        helper.make_node("Identity", [inputs[1]], ["go"]), node("Add", (inputs[2],) * 2, ("more",)),
        inputs=[value(inputs[0], I64, ()), value(inputs[1], BOOL, ()), value(inputs[2])],
        outputs=[value("go", BOOL, ()), value("more")], name="body", **parts)  # fmt: skip
    holder = helper.make_node("Loop", ["n", "true", "x"], ["y"], body=body)
    return model(holder, initializers=[weight("n", I64, (), [2]), weight("true", BOOL, (), [True])], ir=ir)


MODELS: Cases = {
    "IR-01": {"a good model": plain()},
    "IR-03": {
        "no IR version": without("ir_version"), "0": with_fields(ir_version=0), "negative": with_fields(ir_version=-1),
        "one too many": with_fields(ir_version=15), "far off": with_fields(ir_version=9999),
        **{f"known {ir}": plain(imports=() if ir < 3 else [("", 6)], ir=ir) for ir in range(1, 15)},
    },
    "VER-04": {"a semantic IR version": with_fields(ir_version=(1 << 48) + 2),
               "a semantic operator set": plain(custom(), imports=[("", 17), ("com.other", (1 << 48) + 1)])},
    "IR-05": {"an unknown operator set that no node uses": plain(imports=[("", 17), ("com.other", 3)]),
              "a known one may wait": plain(imports=[("", 17), ("ai.onnx.ml", 3)])},
    "IR-06": {"no operator set": plain(*CHAIN, imports=()), "of many nodes": plain(imports=[])},
    "IR-07": {
        **{f"implied in {ir}": plain(node(consumed_inputs=[0]), imports=(), ir=ir) for ir in (1, 2)},
        **{f"imported in {ir}": plain(node(consumed_inputs=[0]), opset=1, ir=ir) for ir in (1, 2)},
        "an operator that came later": plain(node("HardSwish"), imports=(), ir=1),
        "an import that was not there yet": plain(ir=1),
    },
    "IR-08": {text[:6]: with_fields(producer_name=text, producer_version=text, doc_string=text)
              for text in ("# *Markdown*", "<script>alert(1)</script>", "line\nline\x00\x1b[31m", "ü" * 1000)},
    "IR-22": {"control characters in a message": plain(node(inputs=("a\x1b[31m\n",)))},
    "IR-10": {f"model version {number}": with_fields(model_version=number)
              for number in (-(1 << 63), -1, 0, 5, 281483566645593, (1 << 63) - 1)},
    "IR-11": {"no graph": without("graph"),
              "an empty graph": lambda: changed(lambda p: (p.ClearField("graph"), p.graph.SetInParent()))},
    "IR-12": {"keys": with_metadata(("a", "1"), ("b", "1")), "a key twice": with_metadata(("a", "1"), ("a", "2")),
              "an empty key": with_metadata(("a", "1"), ("", "1"))},
    "IR-14": {"a training algorithm": lambda: changed(
        lambda p: p.training_info.add().algorithm.CopyFrom(graph(name="step")))},
    "IR-17": {"values of every kind": lambda: model(inputs=[value("x"), *(
        helper.make_value_info(f"v{k}", kind) for k, kind in enumerate((
            helper.make_sequence_type_proto(value("e").type), helper.make_optional_type_proto(value("e").type),
            helper.make_map_type_proto(I64, value("e").type), helper.make_sparse_tensor_type_proto(F, [2]))))])},
    "IR-18": {"an operator of others": plain(custom(), imports=[("", 17), ("com.other", 3)]),
              "and nothing else": plain(custom(), imports=[("com.other", 1)])},
    "OS-04": {"a domain with a space": plain(custom("Acme Inc"), imports=[("", 17), ("Acme Inc", 1)]),
              "a good one": plain(custom("org.others"), imports=[("", 17), ("org.others", 1)])},
    "OS-05": {
        **{f"version {version}": plain(opset=version) for version in (0, -1, 29, 9999, 1 << 40)},
        "of the machine learning set": plain(imports=[("", 17), ("ai.onnx.ml", 6)]),
        "of another set": plain(custom(), imports=[("", 17), ("com.other", 1 << 31)]),
        "of a function": lambda: model(
            custom("com.acme", "Body"), imports=[("", 17), ("com.acme", 1)], functions=[helper.make_function(
                "com.acme", "Body", ["x"], ["y"], [node()], [helper.make_opsetid("", 99)])]),
        **{f"known {version}": plain(node("Tanh"), opset=version, ir=14) for version in range(1, 29)},
    },
    "VER-12": {"an import without a version": lambda: changed(lambda p: p.opset_import[0].ClearField("version"))},
    "OS-06": {
        "imported by one name, used by the other": plain(node(domain=""), imports=[("ai.onnx", 17)]),
        "and the other way round": plain(node(domain="ai.onnx"), imports=[("", 17)]),
        "one name": plain(node(domain="ai.onnx"), imports=[("ai.onnx", 17)]),
        "imported by both": plain(imports=[("", 17), ("ai.onnx", 17)]),
    },
    "OS-07": {"two versions": plain(imports=[("", 17), ("", 13)]), "twice": plain(imports=[("", 17), ("", 17)])},
    "OS-08": {
        **{op: plain(node(op)) for op in ("Reluu", "relu", "Zzzzz", "LinearRegressor", "Swish", "Gelu")},
        "a set that is not imported": plain(custom()),
        "but for another one": plain(imports=[("com.microsoft", 1)]),
        **{f"a quantization tool forgets {domain}": plain(
            node("BipolarQuant", ("x", "s"), domain=domain), inputs=[value("x"), value("s", shape=())])
           for domain in ("qonnx.custom_op.general", "onnx.brevitas")},
    },
    "OS-10": {
        **{f"Upsample in {opset}": plain(
            node("Upsample", ("x", "s")), inputs=[value("x", shape=(1, 1, 2, 2)), value("s", shape=(4,))],
            outputs=[value("y", shape=(None,) * 4)], opset=opset) for opset in (9, 10)},
        **{f"GroupNormalization, which came back, in {opset}": plain(
            node("GroupNormalization", ("x", "s", "b"), num_groups=2), opset=opset,
            inputs=[value("x", shape=(1, 4, 2)), value("s", shape=(4,)), value("b", shape=(4,))],
            outputs=[value("y", shape=(1, 4, 2))]) for opset in (18, 21)},
    },
    "OS-11": {op: plain(node(op)) for op in (
        "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
        "ParametricSoftplus", "Scale", "ScaledTanh")},
    "VER-18": {"older than its operator set": plain(opset=17, ir=4), "as old": plain(opset=17, ir=8),
               "newer": plain(opset=9, ir=14)},
    "VER-07": {f"operator set {opset} in IR version {ir}": plain(opset=opset, ir=ir)
               for ir in (3, 8, 14) for opset in (7, 13, 21)},
}  # fmt: skip


def inside(where: str, inner: onnx.NodeProto) -> ModelProto:
    """A model with the node in a subgraph, a function or a training graph."""
    part = graph(inner, outputs=[value("y")], name="inner")
    if where == "subgraph":
        holder = helper.make_node("If", ["c"], ["y"], then_branch=part, else_branch=part)
        return model(holder, inputs=[value("x"), C])
    if where == "function":
        body = helper.make_function("com.acme", "Body", ["x"], ["y"], [inner], [helper.make_opsetid("", 17)])
        return model(custom("com.acme", "Body"), imports=[("", 17), ("com.acme", 1)], functions=[body])
    proto = model()
    proto.training_info.add().algorithm.CopyFrom(part)
    proto.training_info[0].algorithm.node[0].output[0] = proto.training_info[0].algorithm.output[0].name = "z"
    return proto


EVERYWHERE: Cases = {"OS-14": {
    f"{op} in a {where}": lambda where=where, op=op: inside(where, node(op))  # type: ignore[misc]
    for op in ("Relu", "Foo") for where in ("subgraph", "function", "training")}}  # fmt: skip

CYCLE = (node(outputs=("a",), name="first"), node("Add", ("a", "d"), ("b",), name="second"),
         node(inputs=("b",), outputs=("c",), name="third"), node(inputs=("c",), outputs=("d",)),
         node(inputs=("d",), name="last"))  # fmt: skip
TWO_CYCLES = (
    node("Add", ("b", "x"), ("a",)), node(inputs=("a",), outputs=("b",)),
    node("Add", ("d", "late"), ("c",)), node(inputs=("c",), outputs=("d",)),
    node(outputs=("late",)), node("Add", ("b", "d")),
)  # fmt: skip
RING = [node(inputs=(f"v{(i - 1) % 10_000}",), outputs=(f"v{i}",)) for i in range(10_000)]
UNSORTED = (node(inputs=("a",), outputs=("t",)), node(outputs=("a",)))
THREE = (node(outputs=("a",)), node(outputs=("b",)), node("Add", ("a", "b")))


def sparse(name: str) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(weight(name, numbers=[1.0], dims=[1]), weight("", I64, [1], [0]), [2])


def stated(where: str, *values: onnx.ValueInfoProto, sparsely: bool = False) -> ModelProto:
    """An initializer w, of which something is stated."""
    proto = model(ADD, initializers=[] if sparsely else [W])
    if sparsely:
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(W, weight("", I64, (2,), [0, 1]), [2]))
    getattr(proto.graph, where).extend(values)
    return proto


def inner_value(*values: onnx.ValueInfoProto) -> Case:
    return lambda: changed(lambda p: (p.graph.node.extend([node(outputs=("a",)), node("Neg", ("a",), ("b",))]),
                                      p.graph.value_info.extend(values)))  # fmt: skip


def typed(where: str, part: str, content: object = None) -> Case:
    """A field of the tensor type of the input or the output replaced, or cleared with None."""
    def make() -> ModelProto:
        proto = model()
        found = getattr(proto.graph, where)[0].type.tensor_type
        found.ClearField(part) if content is None else setattr(found, part, content)
        return proto

    return make


def untyped(where: str) -> Case:
    return lambda: changed(lambda p: getattr(p.graph, where)[0].ClearField("type"))


SHAPES: Mapping[str, onnx.ValueInfoProto] = {
    "int8[2]": value("w", TensorProto.INT8), "float[3]": value("w", shape=(3,)), "rank 2": value("w", shape=(2, "n")),
    "int8 of any rank": value("w", TensorProto.INT8, None),
    "a sequence": helper.make_tensor_sequence_value_info("w", 1, [2]),
}  # fmt: skip
BY_INPUT = {"inputs": [value("x"), value("w"), value("v")], "initializers": [W, V, weight("u")]}
SUM = node("Sum", ("x", "w", "v", "u"))

GRAPHS: Cases = {
    "GR-01": {
        "a cycle": plain(*CYCLE), "a node that reads what it writes": plain(node(inputs=("y",), name="n")),
        "two cycles, and what is only unsorted": plain(*TWO_CYCLES),
        "ten thousand nodes": plain(*RING, outputs=[value("v0")]),
        **{f"sorted {order}": plain(*(THREE[i] for i in order)) for order in permutations(range(3))},
        "two nodes": plain(node("Add", ("x", "b"), ("a",)), node(inputs=("a",), outputs=("b",)), node(inputs=("b",))),
    },
    "ND-06": {"a sum with itself": plain(node("Add", ("x", "y")))},
    "GR-02": {"no name": plain(name=""), "in a subgraph": chosen(branch(name=""))},
    "GR-03": {"neither input nor output": plain(node(inputs=(), outputs=()), node()),
              "names left out": plain(node(inputs=("",), outputs=("",)), node()),
              "no input": plain(helper.make_node("Constant", [], ["y"], value_floats=[1.0, 2.0])),
              "no output": plain(node(), node(outputs=()))},
    "GR-05": {"sorted": plain(node(outputs=("a",), name="m"), node(inputs=("a",), name="n"))},
    "GR-04": {"unsorted": plain(node(inputs=("a",), name="n"), node(outputs=("a",), name="m")),
              "in a subgraph": chosen(branch(*UNSORTED))},
    "GR-06": {f"initializers {order}": plain(node("Sum", ("a", "b", "c", "x")), initializers=[weight(n) for n in order])
              for order in permutations("abc")},
    "GR-09": {"weights that may be overridden": plain(SUM, **BY_INPUT),
              "as IR version 3 has them": plain(SUM, ir=3, opset=8, **BY_INPUT)},
    "GR-10": {"a constant in IR version 3": plain(ADD, initializers=[W], ir=3, opset=8),
              "that is an input": plain(ADD, initializers=[W], ir=3, opset=8, inputs=[value("x"), value("w")]),
              "in IR version 4": plain(ADD, initializers=[W], ir=4, opset=9)},
    "GR-11": {
        "two": plain(node("Sum", ("x", "v", "w")), initializers=[V, W]),
        "one twice": plain(node("Sum", ("x", "v", "w")), initializers=[V, W, V]),
        "none": plain(node("Sum", ("x", "v", "w")), initializers=[V, W, weight("")]),
        "as a sparse one": lambda: changed(lambda p: (p.graph.initializer.extend([V, W]),
                                                      p.graph.sparse_initializer.append(sparse("w")))),
    },
    "GR-12": {
        **{f"{shown} as {where}{' of a sparse one' * how}": lambda where=where, entry=entry, how=how: stated(
            where, entry, sparsely=how)  # type: ignore[misc]
           for where in ("input", "output", "value_info") for shown, entry in SHAPES.items() for how in (False, True)},
        **{f"a sparse type, {shape}": lambda shape=shape: stated(  # type: ignore[misc]
            "value_info", helper.make_sparse_tensor_value_info("w", F, shape), sparsely=True)
           for shape in ((2,), ("n",), None)},
        **{f"open, {shape}": lambda shape=shape: stated("value_info", value("w", shape=shape))  # type: ignore[misc]
           for shape in ((2,), ("n",), (-1,), None)},
        "another type as an input": plain(ADD, inputs=[value("x"), value("w", I64)], initializers=[W]),
    },
    "GR-13": {"a value that no output needs": plain(node(), node("Neg", ("x",), ("z",)))},
    "GR-14": {
        "a misspelled output": plain(node(outputs=("result",)), outputs=[value("resultt")]),
        "nothing like it": plain(outputs=[value("nowhere")]),
        "an input": plain(outputs=[value("y"), value("x")]),
        "an initializer": plain(outputs=[value("w")], initializers=[W]),
        "twice": plain(outputs=[value("y"), value("y")]),
    },
    "GR-15": {"one input twice": plain(inputs=[value("x"), value("x")]),
              "no name": plain(inputs=[value("x"), value("")])},
    "GR-16": {"a type": inner_value(value("a")), "twice": inner_value(value("a"), value("a")),
              "of an unknown value": inner_value(value("a"), value("q")),
              "another one": inner_value(value("a", shape=(3,)))},
    "GR-17": {
        **{f"an {where} without a type": untyped(where) for where in ("input", "output")},
        **{f"an {where} of an undefined element type": typed(where, "elem_type", 0) for where in ("input", "output")},
        "an output without a name": lambda: changed(lambda p: setattr(p.graph.output[0], "name", "")),
    },
    "GR-18": {
        **{f"an {where} without a rank": typed(where, "shape") for where in ("input", "output")},
        "an open dim": plain(inputs=[value("x", shape=(None,))], outputs=[value("y", shape=(None,))]),
        "a scalar": plain(inputs=[value("x", shape=())], outputs=[value("y", shape=())]),
    },
    "GR-19": {"a subgraph without types": chosen(branch(*CHAIN[:1], node(inputs=("a",), outputs=("t",)), outputs=[
        onnx.ValueInfoProto(name="t")]))},
    "GR-20": {"a subgraph's output without a name": chosen(branch(outputs=[onnx.ValueInfoProto()]))},
    "GR-21": {"another shape": plain(outputs=[value("y", shape=(3,))]),
              "another type": plain(outputs=[value("y", I64)]), "Shape": plain(node("Shape")),
              "Cast": plain(node("Cast", to=I64))},
    "GR-22": {"a description": lambda: changed(lambda p: setattr(p.graph, "doc_string", "what it does"))},
    "GR-23": {"no nodes": lambda: changed(lambda p: p.graph.ClearField("node"), outputs=[value("x")]),
              "no outputs": plain(outputs=[])},
}  # fmt: skip

HIDDEN = {name: branch(node(outputs=(name,)), node(outputs=("t",))) for name in ("c", "x")}
INNER = (node(outputs=("inner",)), node(inputs=("inner",), outputs=("t",)))
DEEP = helper.make_node("If", ["c"], ["u"], then_branch=branch(), else_branch=branch())


def site(source: str, use: str) -> ModelProto:
    """A value v of an input, an initializer or a node, which a node reads, or which is an output."""
    proto = model()
    places = {"input": proto.graph.input, "initializer": proto.graph.initializer, "node": proto.graph.node}
    places[source].append({"input": value("v"), "initializer": V, "node": node(outputs=("v",))}[source])
    proto.graph.output.append(value("v")) if use == "output" else proto.graph.node.append(node("Neg", ("v",), ("z",)))
    return proto


NAMES: Cases = {
    "NM-01": {
        **{f"name {name!r}": plain(node(outputs=(name,)), node(inputs=(name,)))
           for name in ("/conv1/Conv_output_0", "x.1", "123", "in:0", "größe", "a b", "a\x00b", "-")},
        "every kind of name": plain(node("Add", ("0", "1"), name="2"), inputs=[value("0")], initializers=[weight("1")],
                                    name="3"),
        "good ones": plain(node(outputs=("_a1",), name="B_2"), node(inputs=("_a1",))),
    },
    "NM-02": {"a node, the graph, an operator, an attribute and a dim named like values": plain(
        node("LeakyRelu", outputs=("Relu",), name="x", alpha=0.5), node(inputs=("Relu",), name="alpha"), name="x",
        inputs=[value("x", shape=("x", "y"))], outputs=[value("y", shape=("x", "y"))])},
    "NM-03": {
        "two nodes": plain(node(outputs=("a",), name="n"), node(inputs=("a",), name="n")),
        "in two graphs": chosen(branch(node(outputs=("t",), name="n")), branch(node(outputs=("t",), name="n"))),
        "none": plain(*CHAIN),
    },
    "NM-04": {f"an {source} that a {use} reads": lambda source=source, use=use: site(source, use)  # type: ignore[misc]
              for source in ("input", "initializer", "node") for use in ("node", "output")},
    "NM-05": {"an input and a node": plain(node(outputs=("x",)), node()),
              "an initializer and a node": plain(node(outputs=("w",)), node(), initializers=[W]),
              "an initializer is the default of an input": plain(
                  ADD, inputs=[value("x"), value("w")], initializers=[W])},
    "NM-06": {"two nodes": plain(node(name="m"), node(name="n")),
              "one node": plain(node("Split", outputs=("y", "y"), name="n"), opset=13),
              "an empty name is no value": plain(node("Dropout", outputs=("y", "")))},
    "NM-07": {
        **{f"a node that hides {name}": chosen(inner) for name, inner in HIDDEN.items()},
        "what is written later is not seen": chosen(
            branch(node(outputs=("z",)), node(inputs=("z",), outputs=("t",))), None, node(outputs=("z",))),
    },
    "NM-08": {"a loop": loop, "an input that hides": lambda: loop(inputs=("i", "k", "x")),
              "an initializer that hides": chosen(branch(initializers=[weight("x", numbers=[5, 6])]))},
    "NM-09": {"both branches": chosen(branch(*INNER), branch(*INNER)),
              "a name that is read outside": chosen(branch(*INNER), None, node(inputs=("inner",), outputs=("z",))),
              "or in the other branch": chosen(branch(*INNER), branch(INNER[1]))},
    "NM-10": {
        "outer values": lambda: model(
            node("Neg", outputs=("a",)), helper.make_node("If", ["c"], ["y"], else_branch=branch(), then_branch=branch(
                node("Sum", ("a", "x", "w"), ("t",)))), inputs=[value("x"), C], initializers=[W]),
        "too late": chosen(branch(node(inputs=("z",), outputs=("t",))), None, node(outputs=("z",))),
        "its own": chosen(branch(node(inputs=("y",), outputs=("t",)))),
        "two levels out": chosen(branch(DEEP, outputs=[value("u")])),
    },
    "NM-11": {"an initializer of an input": lambda: loop(initializers=[weight("s")]),
              "in IR version 3": lambda: loop(initializers=[weight("s")], ir=3),
              "in a branch": chosen(branch(
                  node(inputs=("w",), outputs=("t",)), inputs=[value("w")], initializers=[W]))},
    "NM-12": {"an output from outside": chosen(branch(node(outputs=("u",)), outputs=[value("x")])),
              "a copy": chosen(branch(helper.make_node("Identity", ["x"], ["t"])))},
    "NM-13": {"an output that a node reads": plain(
        node("Neg", outputs=("z",)), node(inputs=("z",)), outputs=[value("z"), value("y")])},
    "NM-14": {
        **{f"an undefined {name}": plain(node(outputs=("hidden_1",)), node(outputs=("hidden_2",)),
                                         node(inputs=(name,), name="n"))
           for name in ("hiden_1", "nothing_like_it", "X")},
        "an input that is left out is no name": plain(node("Clip", ("x", "", ""))),
        "a million letters": plain(node(inputs=("a" * 1_000_000,))),
    },
    "ND-07": {"beside a value": plain(node("Add", ("x", "nowhere")))},
}  # fmt: skip

Bindings = Sequence[tuple[str, str]]


def training(
    initialization: Bindings = (("w", "w0"),), update: Bindings = (("w", "w1"),), *, lacks: str = "", count: int = 1,
    algorithm: onnx.NodeProto | None = None, more: Sequence[onnx.NodeProto] = (), reads: str = "w",
) -> ModelProto:  # fmt: skip
    """y = x * w; the initialization computes w0, the algorithm w1 and its own state v1 from y, w and v."""
    proto = model(node("Mul", ("x", reads)), *more, initializers=[W])
    info = proto.training_info.add()
    info.initialization.CopyFrom(
        graph(node("RandomNormal", (), ("w0",), shape=[2]), outputs=[value("w0")], name="init"))
    info.algorithm.CopyFrom(graph(
        algorithm or node("Sub", ("w", "y"), ("w1",)), node("Add", ("v", "v"), ("v1",)),
        outputs=[value("w1"), value("v1")], initializers=[V], name="step"))  # fmt: skip
    for bound, entries in ((info.initialization_binding, initialization), (info.update_binding, update)):
        for key, name in entries:
            bound.add(key=key, value=name)
    if lacks:
        info.ClearField(lacks)
    for _ in range(1, count):
        proto.training_info.add().CopyFrom(proto.training_info[0])
    return proto


def algorithm(*nodes: onnx.NodeProto, output: str = "t") -> Case:
    """Behind a main graph with the inner value h."""
    step = graph(*nodes, outputs=[value(output)], name="step")
    return lambda: changed(lambda p: (p.graph.node.append(node(outputs=("h",))),
                                      p.training_info.add().algorithm.CopyFrom(step)))  # fmt: skip


def trains(*arguments: Any, **options: Any) -> Case:
    return lambda: training(*arguments, **options)


READS_H = node(inputs=("h",), outputs=("t",))
TRAINING: Cases = {
    "TR-01": {"all of it": trains((("w", "w0"), ("v", "w0")), (("w", "w1"), ("v", "v1")))},
    "TR-02": {f"a state {name}": trains(((name, "w0"),)) for name in ("nowhere", "x", "w1", "v")},
    "TR-03": {f"an initial value {name!r}": trains((("w", name),)) for name in ("w1", "w", "")},
    "TR-04": {"initialized twice": trains((("w", "w0"), ("w", "w0"))),
              "updated twice": trains((("w", "w0"),), (("w", "w1"), ("w", "v1"))), "by two": trains(count=2)},
    "TR-05": {"no initialization": trains(lacks="initialization"), "nor bindings": trains((), lacks="initialization")},
    "TR-06": {**{f"{key} by {name}": trains((("w", "w0"),), ((key, name),))
                 for key, name in (("w", "w0"), ("nowhere", "w1"), ("w", "y"))},
              "no algorithm": trains(lacks="algorithm")},
    "TR-09": {
        "an unknown value": trains(algorithm=node("Sub", ("w", "nowhere"), ("w1",))),
        "the main graph reads the algorithm": trains(reads="v"),
        "types of the main graph": trains(
            algorithm=node("Sub", ("w", "s"), ("w1",)), more=[node("Shape", outputs=("s",))]),
        "a value of the main graph": algorithm(READS_H), "a name of the main graph": algorithm(READS_H, node()),
        "an undefined value": algorithm(node(inputs=("z",), outputs=("t",))),
        "an output of the main graph": algorithm(node(outputs=("t",)), output="h"),
        "a value of the algorithm in the main graph": lambda: changed(lambda p: (
            p.graph.node.append(node(inputs=("t",), outputs=("z",))),
            p.training_info.add().algorithm.CopyFrom(graph(node(outputs=("t",)), outputs=[value("t")])))),
    },
}  # fmt: skip

CASES: Cases = {**MODELS, **EVERYWHERE, **GRAPHS, **NAMES, **TRAINING}
