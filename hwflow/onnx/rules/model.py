"""The model as a whole: versions, metadata, texts that are UTF-8, and training information (TR).

That an algorithm continues the main graph, so that its nodes may read everything there, is a matter of scopes and is
checked with those (rules NM).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from functools import cache

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, Rule, error, lenient, quoted, warning
from hwflow.onnx.rules.walk import initializer_names
from hwflow.onnx.versioning.numbers import NEWEST_IR, is_plain, version_text

_REVERSE_DNS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+", re.ASCII)


def is_reverse_dns(domain: str) -> bool:
    """Whether a domain reads like "com.acme"."""
    return _REVERSE_DNS.fullmatch(domain) is not None


def ir_version(document: Document) -> Iterator[Finding]:
    """IR-03, VER-04: the file says for which version of the format it is written, and that one is known."""
    proto = document.proto
    remedy = "export it with a version of ONNX that is known here, or update hwflow"
    if not proto.HasField("ir_version"):
        yield error("IR-03", "model", f"the IR version must be given (1 to {NEWEST_IR}), not left out")
    elif proto.ir_version > 0 and not is_plain(proto.ir_version):
        text = f"the IR version must be a plain number, not the semantic version {version_text(proto.ir_version)}"
        yield error("VER-04", "model", text, remedy)
    elif not 1 <= proto.ir_version <= NEWEST_IR:
        yield error("IR-03", "model", f"the IR version must be 1 to {NEWEST_IR}, not {proto.ir_version}", remedy)


def has_graph(document: Document) -> Iterator[Finding]:
    """IR-11: there is something to execute."""
    if not document.proto.HasField("graph"):
        yield error("IR-11", "model", "the model must have a graph, not none")


def domain_given(document: Document) -> Iterator[Finding]:
    """IR-09: the domain tells models of different makers apart."""
    domain = document.proto.domain
    if not is_reverse_dns(domain):
        text = f"the domain of the model must be a reverse-DNS name like com.acme, not {quoted(domain)}"
        yield lenient("IR-09", "W-model-domain", "model", text, "set ModelProto.domain")


def metadata_distinct(document: Document) -> Iterator[Finding]:
    """IR-12: metadata is a map."""
    seen: set[str] = set()
    for index, entry in enumerate(document.proto.metadata_props):
        path = f"model/metadata_props[{index}]"
        if not entry.key:
            text = "the key of a metadata property must be a name, not empty"
            yield warning("IR-12", "W-metadata-key", path, text, "name it or leave it out")
        if entry.key in seen:
            text = f"metadata property {quoted(entry.key)} must be there once, not twice"
            yield error("IR-12", path, text, "remove one of them")
        seen.add(entry.key)


def training_told(document: Document) -> Iterator[Finding]:
    """IR-14: training information does not matter to inference."""
    if count := len(document.proto.training_info):
        text = f"inference uses the graph only, not the {count} training algorithm{'s' * (count > 1)} of the file"
        yield warning("IR-14", "W-training-ignored", "model", text, "nothing to do; training has calls of its own")


class _Content(enum.Enum):
    """Contents of a field."""

    TEXT = enum.auto()
    MESSAGE = enum.auto()
    OTHER = enum.auto()


@cache
def _kind(field: FieldDescriptor) -> tuple[_Content, bool]:
    """And whether it is a list of that."""
    kinds = {FieldDescriptor.TYPE_STRING: _Content.TEXT, FieldDescriptor.TYPE_MESSAGE: _Content.MESSAGE}
    is_list = field.is_repeated  # a property that types-protobuf does not know
    return kinds.get(field.type, _Content.OTHER), bool(is_list)


def texts_readable(document: Document) -> Iterator[Finding]:
    """TY-03: each name and description is UTF-8 text."""
    waiting: list[Message] = [document.proto]
    while waiting:
        message = waiting.pop()
        for field, value in message.ListFields():
            kind, is_list = _kind(field)
            if kind is _Content.TEXT:
                for text in value if is_list else (value,):
                    if type(text) is bytes:
                        yield _finding(message, field.name, text)
            elif kind is _Content.MESSAGE:
                waiting.extend(value if is_list else (value,))


def _finding(message: Message, name: str, value: bytes) -> Finding:
    text = f"names must be UTF-8 text, not {value[:40]!r}"
    return error("TY-03", f"{message.DESCRIPTOR.name}.{name}", text, "the file is damaged, export the model again")


RULES: tuple[Rule, ...] = (
    ir_version, has_graph, domain_given, metadata_distinct, training_told,
)


_REMEDY = "correct the binding"


def bindings(document: Document) -> Iterator[Finding]:
    """A binding maps a state variable, once, to an output of the graph that computes its value."""
    main = set(initializer_names(document.proto.graph))
    main_outputs = {value.name for value in document.proto.graph.output}
    updated: dict[str, int] = {}
    for index, training in enumerate(document.proto.training_info):
        path = f"training_info[{index}]"
        variables = main | set(initializer_names(training.algorithm))
        yield from _initialization(training, variables, f"{path}/initialization_binding")
        yield from _update(training, variables, main_outputs, f"{path}/update_binding")
        for key in {entry.key: None for entry in training.update_binding}:
            if key in updated:
                message = f"{quoted(key)} must be updated by one algorithm, not by training_info[{updated[key]}] too"
                yield error("TR-04", f"{path}/update_binding", message, _REMEDY)
            updated.setdefault(key, index)


def _keys(entries: Iterable[pb.StringStringEntryProto], variables: set[str], rule: str, path: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for entry in entries:
        if entry.key in seen:
            yield error("TR-04", path, f"{quoted(entry.key)} must be bound once, not twice", _REMEDY)
        seen.add(entry.key)
        if entry.key not in variables:
            message = f"{quoted(entry.key)} must be an initializer of the main graph or of the algorithm, not unknown"
            yield error(rule, path, message, _REMEDY)


def _initialization(training: pb.TrainingInfoProto, variables: set[str], path: str) -> Iterator[Finding]:
    entries = training.initialization_binding
    yield from _keys(entries, variables, "TR-02", path)
    if entries and not training.HasField("initialization"):
        yield error("TR-05", path, "an initialization must be given for the bindings, not left out", _REMEDY)
        return
    outputs = {value.name for value in training.initialization.output}
    for entry in entries:
        if entry.value not in outputs:
            message = (
                f"{quoted(entry.key)} must be bound to an output of the initialization, not to {quoted(entry.value)}"
            )
            yield error("TR-03", path, message, _REMEDY)


def _update(
    training: pb.TrainingInfoProto, variables: set[str], main_outputs: set[str], path: str
) -> Iterator[Finding]:
    yield from _keys(training.update_binding, variables, "TR-06", path)
    outputs = main_outputs | {value.name for value in training.algorithm.output}
    for entry in training.update_binding:
        if entry.value not in outputs:
            message = f"{quoted(entry.key)} must be bound to an output of the algorithm, not to {quoted(entry.value)}"
            yield error("TR-06", path, message, _REMEDY)
