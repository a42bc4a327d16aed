"""Rules about what a node passes to its operator: number of operands, those left out, those computed (ND, VA, OP)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error, lenient, quoted
from hwflow.onnx.rules.signatures import Called, attribute_of, calls
from hwflow.onnx.rules.walk import NodePlace, nodes
from hwflow.onnx.schemas import ANY, Option, Parameter


def operators_named(document: Document) -> Iterator[Finding]:
    """Each node names its operator."""
    for place in nodes(document):
        if not place.op_type:
            yield error("ND-03", place.path, "a node must name its operator in op_type, not leave it empty")


def operands(document: Document) -> Iterator[Finding]:
    """Each node has as many inputs and outputs as its operator takes, and leaves out optional ones only."""
    for called in calls(document):
        schema = called.schema
        if schema is None:
            continue
        place = called.place
        if _complete(place.inputs, schema.input_limits) and _complete(place.outputs, schema.output_limits):
            continue
        yield from _operands("input", place.inputs, schema.inputs, schema.input_limits, place)
        yield from _operands("output", place.outputs, schema.outputs, schema.output_limits, place)


def _complete(names: Sequence[str], limits: tuple[int, int]) -> bool:
    """Whether the number is right and none is left out; so it is with nearly all nodes."""
    return limits[0] <= len(names) <= limits[1] and "" not in names


def limits_text(limits: tuple[int, int]) -> str:
    """As "2", "1 to 3", "1 or more"."""
    low, high = limits
    if high == ANY:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def _operands(
    what: str, names: Sequence[str], parameters: tuple[Parameter, ...], limits: tuple[int, int], place: NodePlace
) -> Iterator[Finding]:
    count = len(names)
    if not limits[0] <= count <= limits[1]:
        variadic = bool(parameters) and parameters[-1].option is Option.VARIADIC
        rule = "VA-02" if variadic else "OP-02" if count > limits[1] and not names[count - 1] else "ND-05"
        yield error(rule, place.path, f"the number of {what}s must be {limits_text(limits)}, not {count}")
        return
    for index, parameter in enumerate(parameters[:count]):
        if parameter.option is Option.SINGLE and not names[index]:
            message = f"{what} {index} ({parameter.name}) must be given, not left out"
            yield error("OP-03", place.path, message)
        elif parameter.option is Option.VARIADIC and what == "input":
            empty = next((i for i in range(index, count) if not names[i]), None)
            if empty is not None:
                message = f"{what} {empty} ({parameter.name}) must have a name, because it is variadic, not be left out"
                yield lenient("VA-02", "W-variadic-empty", place.path, message)


def outputs_computed(document: Document) -> Iterator[Finding]:
    """A node names no output that its operator does not compute as the attributes stand.

    From the texts of BatchNormalization (until 6 and from 14 on) and Dropout (until 6): in test mode there is only Y.
    """
    for called in calls(document):
        if called.schema is None or called.schema.domain or len(called.place.outputs) < 2:
            continue
        mode = _test_mode(called)
        if mode is None:
            continue
        for index, name in enumerate(called.place.outputs):
            if index and name:
                message = f"output {index} {quoted(name)} must not be named because {mode}: it is not computed"
                yield error("OP-05", called.place.path, message, "remove the name, or export the model for training")
                break


def _test_mode(called: Called) -> str | None:
    """The reason why a node computes its first output only; None where it computes all."""
    schema = called.schema
    assert schema is not None
    if schema.name == "BatchNormalization" and schema.since >= 14:
        attribute = attribute_of(called.proto, "training_mode")
        referred = attribute is None and any(a.name == "training_mode" for a in called.proto.attribute)
        return None if referred or (attribute is not None and attribute.i) else "training_mode is 0"
    if schema.name in ("BatchNormalization", "Dropout") and schema.since < 7:
        attribute = attribute_of(called.proto, "is_test")
        return "is_test is not 0" if attribute is not None and attribute.i else None
    return None


RULES = (operators_named, operands, outputs_computed)
