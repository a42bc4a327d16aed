"""Rules about operator sets, and whether each node's operator is in one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.ops import find_operator
from hwflow.onnx.rules.finding import AGAIN, Finding, Nearest, Rule, error, lenient, quoted, warning
from hwflow.onnx.rules.model import is_reverse_dns
from hwflow.onnx.rules.walk import NodePlace, nodes, scopes
from hwflow.onnx.schemas import NEWEST, SCHEMAS, Schema, canonical_domain, find_schema, removed_at, versions_of
from hwflow.onnx.versioning.numbers import is_plain, least_ir

#: Operator sets that the ONNX specification itself defines.
STANDARD = frozenset({"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})

#: Quantization tools of these domains write nodes without importing the operator set.
_UNIMPORTED = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})

#: Experimental operators of the first releases, taken away since.
_EXPERIMENTAL = frozenset({
    "ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler",
    "ParametricSoftplus", "Scale", "ScaledTanh",
})  # fmt: skip

_INT32 = 1 << 31

_REPLACE = "the file is valid; to run it here, replace the operator before the export, or cut the model in front of it"


def _shown(domain: str) -> str:
    return quoted(domain or "ai.onnx")


def _imports(document: Document) -> Iterator[tuple[str, Iterable[pb.OperatorSetIdProto]]]:
    yield "", document.proto.opset_import
    for scope in scopes(document):
        if isinstance(scope.proto, pb.FunctionProto):
            yield f"{scope.path}/", scope.proto.opset_import


def opsets_given(document: Document) -> Iterator[Finding]:
    """IR-06, IR-07: operator sets are imported by name; before IR version 3 there was only the default one."""
    proto = document.proto
    ir = proto.ir_version if proto.HasField("ir_version") else 3
    if 1 <= ir < 3:
        if proto.opset_import:
            text = f"a model of IR version {ir} must import no operator set, not {len(proto.opset_import)}"
            yield lenient("IR-07", "W-ir1-opset", "model", text, "state IR version 3 or later")
        else:
            text = f"IR version {ir} names no operator set; the operators are read as those of version 1 of ai.onnx"
            yield warning("IR-07", "W-implied-opset", "model", text,
                          "where they are newer, state IR version 3 or later and the version")
    elif not proto.opset_import:
        newest = NEWEST[""]
        text = "the model must import an operator set, not none"
        yield error("IR-06", "model", text, f"add opset_import of version 1 to {newest}")


def versions_exist(document: Document) -> Iterator[Finding]:
    """OS-05, VER-04, VER-12: each import has a version, and one of those that exist."""
    for prefix, imports in _imports(document):
        for entry in imports:
            path = f"{prefix}opset_import {_shown(canonical_domain(entry.domain))}"
            if not entry.HasField("version"):
                yield error("VER-12", path, "the version must be given, not left out")
            elif entry.version >= 1 and not is_plain(entry.version):
                yield error("VER-04", path, f"the version must be a plain number below 2**32, not {entry.version}")
            else:
                yield from _version_exists(path, canonical_domain(entry.domain), entry.version)


def _version_exists(path: str, domain: str, version: int) -> Iterator[Finding]:
    newest = NEWEST[domain] if domain in STANDARD else _INT32 - 1
    if not 1 <= version <= newest:
        allowed = f"1 to {newest}" if domain in STANDARD else "1 or more and an int32"
        remedy = "convert it with onnx.version_converter, or update hwflow" if version > newest else AGAIN
        yield error("OS-05", path, f"the version must be {allowed}, not {version}", remedy)


def imported_once(document: Document) -> Iterator[Finding]:
    """OS-06, OS-07: one version of a domain, under one of its names."""
    for prefix, imports in _imports(document):
        seen: dict[str, tuple[str, int]] = {}
        for entry in imports:
            domain = canonical_domain(entry.domain)
            path = f"{prefix}opset_import {_shown(domain)}"
            if domain not in seen:
                seen[domain] = entry.domain, entry.version
                continue
            name, version = seen[domain]
            if version != entry.version:
                text = f"operator set {_shown(domain)} must have one version, not {version} and {entry.version}"
                yield error("OS-07", path, text)
            elif name != entry.domain:
                yield warning("OS-06", "W-domain-alias", path, "the default operator set must have one name, not two")
            else:
                text = f"operator set {_shown(domain)} must be imported once, not twice"
                yield lenient("OS-07", "W-opset-twice", path, text, "remove one of them")


def names_not_mixed(document: Document) -> Iterator[Finding]:
    """OS-06: imports and nodes write the default operator set in one way."""
    written = {entry.domain for entry in document.proto.opset_import}
    if not written & {"", "ai.onnx"}:
        return
    in_graphs = (place for place in nodes(document) if place.scope.outermost.kind != "function")
    mixed = Counter(place.proto.domain for place in in_graphs if place.proto.domain not in written)
    for domain in [name for name in ("", "ai.onnx") if name in mixed]:
        other = "" if domain else "ai.onnx"
        text = f"the default operator set must be written in one way, not {quoted(other)} where it is imported "
        text += f"and {quoted(domain)} in {mixed[domain]} nodes"
        yield warning("OS-06", "W-domain-alias", "model", text, "write '' everywhere; both mean the same")


def domains_used(document: Document) -> Iterator[Finding]:
    """IR-05, OS-04: imports of other makers' operator sets are used, and named like them."""
    proto = document.proto
    used = {place.domain for place in nodes(document)} | {canonical_domain(f.domain) for f in proto.functions}
    for domain in dict.fromkeys(canonical_domain(entry.domain) for entry in proto.opset_import):
        path = f"opset_import {_shown(domain)}"
        if domain not in used and domain not in NEWEST:
            text = "an operator set that hwflow does not know must be used by a node, not only imported"
            yield warning("IR-05", "W-opset-unused", path, text, "remove the import")
        if domain not in NEWEST and not is_reverse_dns(domain):
            text = f"the domain must be a reverse-DNS name like com.acme, not {quoted(domain)}"
            yield warning("OS-04", "W-opset-domain", path, text, "rename it where the operator set is defined")


def format_new_enough(document: Document) -> Iterator[Finding]:
    """VER-18: an operator set came with a version of the file format."""
    proto = document.proto
    for entry in proto.opset_import:
        domain = canonical_domain(entry.domain)
        least = least_ir(domain, entry.version)
        if least is not None and entry.version >= 1 and 1 <= proto.ir_version < least and proto.ir_version >= 3:
            text = f"the IR version must be {least} or later for this operator set, not {proto.ir_version}"
            path = f"opset_import {_shown(domain)} version {entry.version}"
            yield warning("VER-18", "W-ir-too-old", path, text, f"state IR version {least}")


def operators_known(document: Document) -> Iterator[Finding]:
    """IR-18, IR-19, OS-08, OS-10, OS-11, OS-14: each node calls an operator of an imported set, wherever it stands."""
    functions = {(canonical_domain(f.domain), f.name) for f in document.proto.functions}
    nearest, fine = Nearest(), set[tuple[str, str, int | None]]()
    for place in nodes(document):
        domain, name, opset = place.domain, place.op_type, place.opset
        if not name or (domain, name) in functions or (domain, name, opset) in fine:
            continue  # an empty name and the call of a function have rules of their own
        if opset is None and domain in _UNIMPORTED:
            text = f"operator set {_shown(domain)} must be imported, not missing"
            yield lenient("OS-08", "W-opset-missing", place.path, text, "add it to opset_import")
            opset = NEWEST[domain]
        if opset is not None:
            findings = list(_operator(place, opset, nearest))
            yield from findings
            if not findings and place.opset is not None:
                fine.add((domain, name, opset))
        elif place.scope.opsets:  # else opsets_given says it once for all nodes
            text = f"operator set {_shown(domain)} must be imported, not missing"
            yield error("OS-08", place.path, text, "add it to opset_import")


def _operator(place: NodePlace, opset: int, nearest: Nearest) -> Iterator[Finding]:
    schema = find_schema(place.domain, place.proto.op_type, opset)
    if schema is None:
        yield _unknown(place, opset, nearest)
    elif schema.deprecated:
        yield error("OS-10", place.path, *_removed(schema, opset))
    else:
        if schema.experimental:
            yield _experimental(place.path)
        if find_operator(schema.domain, schema.name, opset) is None:
            text = f"the operator must be one that hwflow evaluates, not {schema.identifier}"
            yield warning("IR-19", "W-not-evaluated", place.path, text, _REPLACE)


def _unknown(place: NodePlace, opset: int, nearest: Nearest) -> Finding:
    domain, name = place.domain, place.proto.op_type
    full = quoted(f"{domain}.{name}" if domain else name)
    if versions := versions_of(domain, name):
        text = f"the operator must exist in operator set {opset}, not only from {versions[0].since} on"
        return error("OS-08", place.path, text, f"export the model with opset {versions[0].since} or later")
    if domain not in STANDARD:
        text = f"the operator must be one that hwflow knows, not {full}"
        return warning("IR-18", "W-custom-operator", place.path, text, _REPLACE)
    if not domain and name in _EXPERIMENTAL:
        return _experimental(place.path)
    guess = nearest.guess(name, (op for d, op in SCHEMAS if d == domain))
    other = next((d for d, op in SCHEMAS if op == name and d in STANDARD), None)
    if other is not None:
        guess = f"perhaps that of {_shown(other)} is meant, else "
    text = f"the operator must be one of operator set {_shown(domain)}, not {full}"
    return error("OS-08", place.path, text, f"{guess}replace it in the model before the export")


def _experimental(path: str) -> Finding:
    text = "the operator must be a stable one, not experimental"
    return warning("OS-11", "W-experimental", path, text, "replace it: no release promises what it does")


def _removed(schema: Schema, opset: int) -> tuple[str, str]:
    at, versions = removed_at(schema), versions_of(schema.domain, schema.name)
    text = f"the operator must exist in operator set {opset}, not be removed since {at}"
    if again := next((other.since for other in versions if other.since > opset and not other.deprecated), None):
        return text, f"export the model with opset {again} or later, which have it again"
    return text, f"export the model with another operator, or with an opset below {at}"


RULES: tuple[Rule, ...] = (
    opsets_given,
    versions_exist,
    imported_once,
    names_not_mixed,
    domains_used,
    format_new_enough,
    operators_known,
)
