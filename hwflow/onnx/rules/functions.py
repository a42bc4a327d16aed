"""Rules about the functions of a model: identity, recursion, size, signature, operator sets (FN)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error, lenient, quoted, warning
from hwflow.onnx.rules.nodes import Called, FunctionKey, calls, function_key, local_functions
from hwflow.onnx.schemas import canonical_domain, find_schema, versions_of

#: As in the official checker.
MAX_FUNCTIONS = 10_000
MAX_DEPTH = 100


def _name(key: FunctionKey) -> str:
    domain, name, overload = key
    return quoted(f"{domain or 'ai.onnx'}.{name}" + (f":{overload}" if overload else ""))


def function_signatures(document: Document) -> Iterator[Finding]:
    """Each function has an identity of its own, unique inputs and outputs that it computes, and its attributes once."""
    functions = document.proto.functions
    if len(functions) > MAX_FUNCTIONS:
        yield error("FN-03", "model", f"a model must have at most {MAX_FUNCTIONS} functions, not {len(functions)}")
    if functions and document.proto.ir_version < 8:
        message = f"functions must come with IR version 8 or later, not {document.proto.ir_version}; they are used"
        yield lenient("FN-11", "W-ir-too-old", "model", message, "raise ir_version")
    imported = {canonical_domain(entry.domain) for entry in document.proto.opset_import}
    seen: set[FunctionKey] = set()
    for function in functions:
        key = function_key(function)
        path = f"function {_name(key)}"
        if not function.name:
            yield error("FN-02", path, "a function must have a name, not an empty one")
        if key in seen:
            yield error("FN-02", path, "domain, name and overload must be those of one function, not of two")
        seen.add(key)
        if key[0] not in imported:
            message = f"operator set {quoted(key[0] or 'ai.onnx')} of the function must be imported, not missing"
            yield error("FN-06", path, message, "add it to opset_import of the model")
        yield from _signature(function, path)
        if _is_standard(document, function):
            message = "a function should not be named like a standard operator: the operator is used, not the function"
            yield warning("FN-10", "W-function-overrides", path, message, "rename the function")


def _is_standard(document: Document, function: pb.FunctionProto) -> bool:
    domain = canonical_domain(function.domain)
    return bool(versions_of(domain, function.name))


def _signature(function: pb.FunctionProto, path: str) -> Iterator[Finding]:
    for what, names in (("input", function.input), ("output", function.output)):
        counts = Counter(names)
        for name, count in counts.items():
            if not name:
                yield error("FN-04", path, f"an {what} of a function must have a name, not an empty one")
            elif count > 1:
                yield error("FN-04", path, f"{what} {quoted(name)} must be there once, not {count} times")
    written = {name for node in function.node for name in node.output} | set(function.input)
    for name in function.output:
        if name and name not in written:
            yield error("FN-05", path, f"output {quoted(name)} must be written by a node, not undefined")
    plain, defaults = Counter(function.attribute), Counter(a.name for a in function.attribute_proto)
    for name, count in (plain + defaults).items():
        if plain[name] and defaults[name]:
            message = f"attribute {quoted(name)} must be in one list, not in `attribute` and in `attribute_proto`"
            yield error("FN-08", path, message, "keep it in attribute_proto, with its default")
        elif count > 1:
            yield error("FN-08", path, f"attribute {quoted(name)} must be there once, not {count} times")


def _callees(document: Document) -> dict[FunctionKey, Counter[FunctionKey]]:
    """How often each function's body, graphs in it included, calls each function."""
    callees: dict[FunctionKey, Counter[FunctionKey]] = {key: Counter() for key in local_functions(document)}
    for called in calls(document):
        outermost = called.place.scope.outermost.proto
        if called.function is not None and isinstance(outermost, pb.FunctionProto):
            callees[function_key(outermost)][function_key(called.function)] += 1
    return callees


def function_graph(document: Document) -> Iterator[Finding]:
    """No function calls itself through others; chains and what inlining would make of them are bounded."""
    if not document.proto.functions:
        return
    callees = _callees(document)
    order, cycles = _sorted(callees)
    for cycle in cycles:
        text = " -> ".join(map(_name, [*cycle[:10], cycle[0]]))
        yield error("FN-03", f"function {_name(cycle[0])}", f"a function must not call itself, not as {text} do")
    if cycles:
        return
    depth: dict[FunctionKey, int] = {}
    for key in order:
        depth[key] = 1 + max((depth[callee] for callee in callees[key]), default=0)
    if order and (deepest := max(order, key=depth.__getitem__)) and depth[deepest] > MAX_DEPTH:
        message = f"functions must call each other at most {MAX_DEPTH} deep, not {depth[deepest]}"
        yield error("FN-03", f"function {_name(deepest)}", message, "inline some of them before the export")
        return
    yield from _expansion(document, callees, order)


def _sorted(
    callees: Mapping[FunctionKey, Mapping[FunctionKey, int]],
) -> tuple[list[FunctionKey], list[list[FunctionKey]]]:
    """The functions, callees first, and the first cycle that each search meets.  Iterative: chains may be long."""
    order: list[FunctionKey] = []
    cycles: list[list[FunctionKey]] = []
    state: dict[FunctionKey, int] = {}  # 1: on the way, 2: done
    for start in callees:
        if start in state:
            continue
        state[start] = 1
        way = [(start, iter(callees[start]))]
        while way:
            key, waiting = way[-1]
            following = next(waiting, None)
            if following is None:
                state[key] = 2
                order.append(key)
                way.pop()
            elif following not in state:
                state[following] = 1
                way.append((following, iter(callees[following])))
            elif state[following] == 1 and len(cycles) < 10:
                at = next(i for i, (k, _) in enumerate(way) if k == following)
                cycles.append([k for k, _ in way[at:]])
    return order, cycles


def _expansion(
    document: Document, callees: Mapping[FunctionKey, Mapping[FunctionKey, int]], order: list[FunctionKey]
) -> Iterator[Finding]:
    """How many nodes the main graph has once all functions are inlined.  Counted, not made."""
    own: Counter[FunctionKey] = Counter()
    main = 0
    used: Counter[FunctionKey] = Counter()
    for called in calls(document):
        outermost = called.place.scope.outermost.proto
        if isinstance(outermost, pb.FunctionProto):
            own[function_key(outermost)] += 1
        else:
            main += 1
            if called.function is not None:
                used[function_key(called.function)] += 1
    most = document.limits.nodes
    size: dict[FunctionKey, int] = {}
    for key in order:  # capped, so that the numbers stay small
        inside = sum(count * size[callee] for callee, count in callees[key].items())
        size[key] = min(own[key] + inside, most + 1)
    total = main + sum(count * size[key] for key, count in used.items())
    if total > most:
        message = f"nodes must be at most {most:,} after inlining of all functions, not more"
        yield error("FN-12", "model", message, "if you trust the model, raise it with --limit nodes=NUMBER")
    elif total > (most := document.limits.inlined_nodes):
        message = f"inlined_nodes should be at most {most:,}, not {total:,} as inlining of all functions would make"
        remedy = "if you trust the model and inline it, raise it with --limit inlined_nodes=NUMBER"
        yield warning("FN-12", "W-functions-large", "model", message, remedy)


def function_calls(document: Document) -> Iterator[Finding]:
    """A call passes what the function takes; a body refers to attributes of its own function only."""
    functions = local_functions(document)
    if not functions:
        return
    known: dict[FunctionKey, set[str]] = {
        key: {*f.attribute, *(a.name for a in f.attribute_proto)} for key, f in functions.items()
    }
    overloads: dict[tuple[str, str], list[str]] = {}
    for domain, name, overload in functions:
        overloads.setdefault((domain, name), []).append(overload)
    for called in calls(document):
        key = called.place.domain, called.proto.op_type
        if called.function is not None:
            yield from _call(called, called.function, known[function_key(called.function)])
        elif called.schema is None and key in overloads:
            listed = ", ".join(map(quoted, sorted(overloads[key])[:10]))
            message = f"the overload must be one of {listed}, not {quoted(called.proto.overload)}"
            yield error("FN-09", called.place.path, message)
        outermost = called.place.scope.outermost.proto
        if isinstance(outermost, pb.FunctionProto):
            yield from _references(called, known[function_key(outermost)])


def _call(called: Called, function: pb.FunctionProto, known: set[str]) -> Iterator[Finding]:
    node, path = called.proto, called.place.path
    for what, count, most in (
        ("inputs", len(node.input), len(function.input)),
        ("outputs", len(node.output), len(function.output)),
    ):
        if count > most:
            yield error("FN-09", path, f"the number of {what} must be at most {most} as the function has, not {count}")
    for attribute in node.attribute:
        if attribute.name and attribute.name not in known:
            listed = ", ".join(map(quoted, sorted(known)[:10])) or "none"
            message = f"the attributes must be among those of the function ({listed}), not {quoted(attribute.name)}"
            yield lenient("FN-08", "W-function-attribute", path, f"{message}; it is ignored")


def _references(called: Called, known: set[str]) -> Iterator[Finding]:
    for attribute in called.proto.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in known:
            message = f"{quoted(attribute.ref_attr_name)} must be an attribute of the function, not unknown"
            yield error("FN-04", f"{called.place.path}/attribute {quoted(attribute.name)}", message)


def function_opsets(document: Document) -> Iterator[Finding]:
    """Where model and function import different versions of an operator set, the function's operators are the same."""
    imported = {canonical_domain(entry.domain): entry.version for entry in document.proto.opset_import}
    for called in calls(document) if document.proto.functions else ():
        place, schema = called.place, called.schema
        if schema is None or place.scope.outermost.kind != "function" or place.domain not in imported:
            continue
        version = imported[place.domain]
        if version != place.opset and find_schema(place.domain, schema.name, version) is not schema:
            message = (
                f"{schema.name} must mean the same in operator sets {place.opset} (of the function) and {version} "
                f"(of the model), not change in between"
            )
            yield error("FN-07", place.path, message, "import the same version in both")


RULES = (function_signatures, function_graph, function_calls, function_opsets)
