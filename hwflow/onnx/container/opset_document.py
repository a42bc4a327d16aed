"""Operator set documents: the operators of one domain and version as a file of its own, so that others can read them.

ONNX defines the document (its IR.md, "Operator Sets") and nothing that is known reads or writes it; here it publishes a
domain of one's own.  A document names its operators; what their inputs and attributes are it says in words, or by a
function of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError
from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx import operators_pb2
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.reader import MAX_IR_VERSION, read_functions
from hwflow.onnx.container.writer import write_functions
from hwflow.onnx.errors import FormatError, InvalidModel
from hwflow.onnx.model import Function
from hwflow.onnx.schemas import canonical_domain, versions_of
from hwflow.onnx.types import text

MAGIC = "ONNXOPSET"

#: Versions of operator sets are int64 in a file; no real one needs more than an int32.
_MAX_VERSION = (1 << 31) - 1


@dataclass(frozen=True)
class OperatorEntry:
    """One operator: its name, and the version of the operator set that brought it in this form.

    A stable operator never changes in later versions, an experimental one may.
    """

    name: str
    since: int
    stable: bool = False
    doc_string: str = ""


@dataclass(frozen=True)
class OperatorSet:
    """A document.  `ir_version`, `prerelease` and `build_metadata` are the version of the format, as SemVer has it.

    `functions` are the bodies of operators that are defined by other operators.
    """

    domain: str
    version: int
    operators: tuple[OperatorEntry, ...] = ()
    functions: tuple[Function, ...] = ()
    ir_version: int = MAX_IR_VERSION
    prerelease: str = ""
    build_metadata: str = ""
    doc_string: str = ""
    extra: bytes = field(default=b"", compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int]:
        """The key by which models refer to it."""
        return self.domain, self.version


def load_operator_set(path: str | os.PathLike[str]) -> OperatorSet:
    """Read a document from a file.  Raises as `read_operator_set`, with the path in front."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise HwflowError(f"{path}: cannot be read ({error.strerror})", "check the path") from None
    return read_operator_set(data, str(path))


def read_operator_set(data: bytes, name: str = "the operator set") -> OperatorSet:
    """Read a document from bytes; `name` stands for the file in messages.

    Raises FormatError for what is no such document, InvalidModel for one that breaks the rules: an unknown version of
    the format, a version of the set that is no positive int32, operators of another version or twice, no domain.
    """
    proto = operators_pb2.OperatorSetProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        proto.Clear()
    if proto.magic != MAGIC:
        raise FormatError(f"{name}: must be an operator set document with the magic {MAGIC}, not another file")
    try:
        operator_set = _operator_set(proto)
        _check(operator_set)
    except HwflowError as error:
        raise error.at(name) from None
    return operator_set


def _operator_set(proto: operators_pb2.OperatorSetProto) -> OperatorSet:
    entries = (
        OperatorEntry(text(o.op_type), o.since_version, o.status == pb.STABLE, text(o.doc_string))
        for o in proto.operator
    )
    return OperatorSet(
        domain=canonical_domain(text(proto.domain)),
        version=proto.opset_version,
        operators=tuple(entries),
        functions=read_functions(proto.functions, Document(pb.ModelProto())),
        ir_version=proto.ir_version,
        prerelease=text(proto.ir_version_prerelease),
        build_metadata=text(proto.ir_build_metadata),
        doc_string=text(proto.doc_string),
        extra=_unknown(proto),
    )


def _unknown(proto: operators_pb2.OperatorSetProto) -> bytes:
    """Fields of the document itself that the format definition does not know."""
    rest = operators_pb2.OperatorSetProto()
    rest.CopyFrom(proto)
    for descriptor, _ in rest.ListFields():
        rest.ClearField(descriptor.name)
    return rest.SerializeToString()


def _check(operator_set: OperatorSet) -> None:
    if not 1 <= operator_set.ir_version <= MAX_IR_VERSION:
        raise InvalidModel(
            f"the IR version must be 1 to {MAX_IR_VERSION}, not {operator_set.ir_version}", "update hwflow")
    if not 1 <= operator_set.version <= _MAX_VERSION:
        raise InvalidModel(
            f"the version of an operator set must be 1 to {_MAX_VERSION}, not {operator_set.version}", "count from 1"
        )
    if not operator_set.domain and any(not versions_of("", entry.name) for entry in operator_set.operators):
        raise InvalidModel("an operator set must name its domain, not ONNX's own", "give it a reverse-DNS name")
    seen: set[str] = set()
    for entry in operator_set.operators:
        if not entry.name or entry.name in seen:
            raise InvalidModel(f"each operator must have a name of its own, not '{entry.name}'", "rename it")
        if not 1 <= entry.since <= operator_set.version:
            raise InvalidModel(
                f"operator '{entry.name}' must be since version 1 to {operator_set.version}, not {entry.since}",
                "correct it"
            )
        seen.add(entry.name)


def require_distinct(sets: Iterable[OperatorSet]) -> None:
    """Raise InvalidModel where two documents define the same version of a domain."""
    seen: set[tuple[str, int]] = set()
    for operator_set in sets:
        if operator_set.key in seen:
            domain = operator_set.domain or "ai.onnx"
            raise InvalidModel(
                f"version {operator_set.version} of '{domain}' must be defined once, not twice", "remove one")
        seen.add(operator_set.key)


def write_operator_set(operator_set: OperatorSet) -> bytes:
    """The bytes of a document.  Raises InvalidModel for one that breaks the rules."""
    _check(operator_set)
    proto = operators_pb2.OperatorSetProto(
        magic=MAGIC,
        ir_version=operator_set.ir_version,
        ir_version_prerelease=operator_set.prerelease or None,
        ir_build_metadata=operator_set.build_metadata or None,
        domain=operator_set.domain,
        opset_version=operator_set.version,
        doc_string=operator_set.doc_string or None,
        functions=write_functions(operator_set.functions, operator_set.ir_version),
    )
    for entry in operator_set.operators:
        proto.operator.add(
            op_type=entry.name,
            since_version=entry.since,
            status=pb.STABLE if entry.stable else pb.EXPERIMENTAL,
            doc_string=entry.doc_string or None,
        )
    proto.MergeFromString(operator_set.extra)
    return proto.SerializeToString(deterministic=True)
